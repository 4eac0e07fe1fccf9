"""What a run would do, before it does anything: its steps, what is cached, memory, disk and time.

The job itself is walked through, with a runner that looks steps up and computes none: a step that
is not in the store is imagined, and so is all that needs it. What a step will cost comes from a
sample of the corpus (``pipelines.sampling``) and from what a unit of work costs
(``pipelines.costs``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table

from pipelines.config import RunConfig
from pipelines.console import human, span
from pipelines.costs import (
    BASE,
    COMPILING,
    MEBI,
    PER_FAMILY,
    SERVERS,
    START_DIRECT,
    START_SERVERS,
    TRACKING,
    Cost,
    step_costs,
)
from pipelines.job import Job
from pipelines.sampling import take_sample
from pipelines.settings import Settings
from tasks.artifacts import Artifact, Manifest, Stats, recipe_of
from tasks.corpus import Corpus
from tasks.evaluation import evaluate_model
from tasks.runner import Runner
from tasks.step import Resources, Step
from tasks.store import Reader, Store
from tasks.train import TRAIN


@dataclass(frozen=True)
class Planned:
    """A step of a plan; one that is cached costs nothing."""

    name: str
    cached: bool
    cost: Cost


@dataclass(frozen=True)
class Plan:
    """What a run would do.

    Attributes:
        steps: in their order.
        tokens: of the training text, about.
        seconds: of a run with Prefect and Ray, on a quiet machine.
        seconds_direct: of a run with ``--direct``.
        memory: at its peak with Prefect and Ray, in bytes.
        memory_direct: with ``--direct``.
        disk: that the store and MLflow grow by, in bytes.
    """

    steps: tuple[Planned, ...]
    tokens: int
    seconds: float
    seconds_direct: float
    memory: int
    memory_direct: int
    disk: int

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON."""
        return asdict(self)


def make_plan(config: RunConfig, settings: Settings) -> Plan:
    """The plan of a run. It writes nothing to the store.

    Raises:
        ConfigError: what a run would refuse before it starts.
        InputError: a source cannot be read.
    """
    runner = _look(config, settings)
    costs = dict[str, Cost]()
    tokens = runner.tokens
    if not all(cached for _, cached in runner.seen):
        sample = take_sample(config.corpus)
        tokens = tokens or round(sample.n_tokens("train"))
        costs = step_costs(config, settings, sample)
    steps = tuple(
        Planned(name, cached, Cost() if cached else costs.get(name, Cost(0.1)))
        for name, cached in runner.seen
    )
    return _total(config, settings, steps, tokens)


def found_for(config: RunConfig, settings: Settings) -> list[tuple[str, str]]:
    """The artifacts that a run of a config would find in the store: step and recipe of each."""
    return _look(config, settings).found


def _look(config: RunConfig, settings: Settings) -> _Looker:
    """Walk through the job of a config without computing anything."""
    with tempfile.TemporaryDirectory() as folder:
        real = Store(settings.store, settings.home / "cache")
        runner = _Looker(_Imagined(folder, Path(folder), real))
        _walk(Job(config, settings, runner))
    return runner


def _total(config: RunConfig, settings: Settings, steps: tuple[Planned, ...], tokens: int) -> Plan:
    work = sum(step.cost.wall for step in steps)
    fixed = START_DIRECT + PER_FAMILY * len(config.families)
    trains = {step.name.removeprefix("train ") for step in steps if step.name.startswith("train ")}
    new = {
        family.family
        for name, family in config.families.items()
        if name in trains and any(s.name == f"train {name}" and not s.cached for s in steps)
    }
    if not any((settings.home / "numba").glob("*")):
        fixed += sum(COMPILING.get(family, 0.0) for family in new)
    peak = max((step.cost.memory for step in steps), default=0.0)
    disk = sum(step.cost.disk for step in steps)
    disk += TRACKING * bool(new)
    return Plan(
        steps=steps,
        tokens=tokens,
        seconds=fixed + START_SERVERS + work,
        # Without Ray partitions go one by one.
        seconds_direct=fixed
        + sum(
            step.cost.wall if step.name.startswith("train") else step.cost.seconds for step in steps
        ),
        memory=round(BASE + SERVERS + peak),
        memory_direct=round(BASE + peak),
        disk=round(disk),
    )


# --- walking through the job ----------------------------------------------------------------


class _Unknown(dict[str, int]):
    """The counts of a step that was not run: never zero, so that nothing is refused."""

    def __missing__(self, _key: str) -> int:
        return 1


@dataclass(frozen=True)
class _Imagined(Store):
    """A throw-away store that also finds what is in the real one, and what was imagined."""

    real: Store
    made: dict[str, Manifest] = field(default_factory=dict)

    def find(self, step: str, recipe: str) -> Manifest | None:
        """The manifest of a recipe, real or not."""
        return self.made.get(recipe) or self.real.find(step, recipe) or super().find(step, recipe)

    def reader(self, artifact: Artifact) -> Reader:
        """Access to the parts of what is really there, where they really lie."""
        if self.real.find(artifact.step, artifact.recipe):
            return self.real.reader(artifact)
        return super().reader(artifact)


@dataclass
class _Looker(Runner):
    """Looks every step up and runs none.

    Attributes:
        seen: the steps in their order, with whether they are in the store.
        tokens: of the training text, if that is in the store.
    """

    seen: list[tuple[str, bool]] = field(default_factory=list)
    tokens: int = 0
    found: list[tuple[str, str]] = field(default_factory=list)

    def run(
        self,
        step: Step[Any],
        inputs: Mapping[str, Artifact],
        params: Any,
        *,
        label: str = "",
        resources: Resources | None = None,
        in_driver: bool = False,
    ) -> Artifact:
        return self._look(step, step.name, inputs, params, label)

    def map(
        self,
        step: Step[Any],
        over: Mapping[str, Artifact],
        params: Any,
        *,
        whole: Mapping[str, Artifact] | None = None,
        label: str = "",
    ) -> Artifact:
        return self._look(step, f"{step.name}[]", {**over, **(whole or {})}, params, label)

    def _look(
        self, step: Step[Any], key: str, inputs: Mapping[str, Artifact], params: Any, label: str
    ) -> Artifact:
        assert isinstance(self.store, _Imagined)
        name = f"{step.name} {label}".strip()
        recipe = recipe_of(key, step.version, params, inputs)
        found = self.store.real.find(step.name, recipe)
        self.seen.append((name, found is not None))
        if found is None:
            stats: Stats = _Unknown()
            # Its content is made up from the recipe, so what needs it is not found either.
            found = Manifest(f"imagined {recipe}", step.name, step.version, recipe, (), stats)
            self.store.made[recipe] = found
            return found.handle()
        self.found.append((step.name, recipe))
        if name == "tokenize train":
            self.tokens = int(found.stats.get("tokens", 0))
        return found.handle()

    def holds(self, artifact: Artifact) -> bool:
        """Whether an artifact is really there."""
        return not artifact.kind.startswith("imagined")


def _walk(job: Job) -> None:
    job.check()
    corpus = job.corpus()
    for name in job.config.families:
        _walk_family(job, corpus, name)
    assert isinstance(job.runner, _Looker)
    for name in job.config.mixtures:
        # They are found by what their parts came to, which is not known before these are made.
        job.runner.seen += [(f"mix {name}", False), (f"evaluate {name}", False)]


def _walk_family(job: Job, corpus: Corpus, name: str) -> None:
    runner = job.runner
    assert isinstance(runner, _Looker)
    inputs, params = job.training(corpus, name)
    model = runner.run(TRAIN, inputs, params, label=name)
    if runner.holds(model):
        evaluate_model(runner, model, corpus, job.config.evaluation, name)
        job.forgotten(model, name)
    else:
        runner.seen.append((f"evaluate {name}", False))
        if name in job.bases:
            runner.seen.append((f"forgetting {name}", False))


# --- showing it -----------------------------------------------------------------------------


def show_plan(plan: Plan) -> Group:
    """The plan for a terminal."""
    table = Table(box=None)
    table.add_column("step")
    table.add_column("")
    for heading in ("time", "memory", "disk"):
        table.add_column(heading, justify="right")
    for step in plan.steps:
        cost = step.cost
        cells = (
            ("cached", "", "", "")
            if step.cached
            else ("to do", span(cost.wall), _bytes(cost.memory), _bytes(cost.disk))
        )
        table.add_row(step.name, *cells, style="dim" if step.cached else "")
    cached = sum(step.cached for step in plan.steps)
    return Group(
        table,
        "",
        f"{cached} of {len(plan.steps)} steps are cached",
        f"text    about {human(plan.tokens)} training tokens",
        f"time    about {span(plan.seconds)}, or {span(plan.seconds_direct)} with --direct",
        f"memory  about {_bytes(plan.memory)}, or {_bytes(plan.memory_direct)} with --direct",
        f"disk    about {_bytes(plan.disk)} more",
    )


def _bytes(number: float) -> str:
    return f"{number / 2**30:.1f} GB" if number >= 2**30 else f"{number / MEBI:.0f} MB"
