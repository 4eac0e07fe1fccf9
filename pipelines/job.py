"""The main job: a corpus, every requested family, the leaderboard. Plain Python.

The Prefect flows and ``lexloom run --direct`` run these same functions; they differ in the
``Runner`` that they bring and in what they do around an effect.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Protocol, TypeVar

from models.families import FamilyConfig
from models.family import Family
from pipelines.config import RunConfig
from pipelines.settings import Settings
from tasks.artifacts import Artifact
from tasks.card import CARD_JSON, CARD_MARKDOWN, log_card, with_card
from tasks.continuing import Base, check_bases, continued, find_base, learnt_by
from tasks.corpus import Corpus, build_corpus
from tasks.errors import LexloomError
from tasks.evaluation import check_sets, evaluate_model, read_clusters, read_neighbours, read_scores
from tasks.evaluation.compare import spreads
from tasks.evaluation.forgetting import measure_forgetting, read_change
from tasks.leaderboard import Registered, Row
from tasks.mix import mix_models
from tasks.models import TextPipeline, read_capabilities, read_model
from tasks.prepare import prepare
from tasks.promotion import Promotion, beside_champion, promote
from tasks.published import Published
from tasks.registry import check_name, find_version, register
from tasks.report import write_report
from tasks.runner import Outcome, Runner
from tasks.step import Resources
from tasks.tracking import read_curves
from tasks.train import TRAIN, Train
from tasks.training.room import check_room
from tasks.versions import replicates
from tasks.wordmap import frequent_words_map

T = TypeVar("T")


class Effect(Protocol):
    """Runs what is no step (registration, the report): as it is, or as a task Prefect shows."""

    def __call__(self, name: str, action: Callable[[], T], /) -> T:
        """Run an action under a name, and return what it returns."""
        ...


def directly(_name: str, action: Callable[[], T], /) -> T:
    """Run an effect as it is."""
    return action()


@dataclass(frozen=True)
class Trained:
    """One model of a run, with what came of it.

    Attributes:
        name: in the config.
        model: its artifact.
        row: its line in the leaderboard.
        promotion: what the gate decided.
    """

    name: str
    model: Artifact
    row: Row
    promotion: Promotion


@dataclass(frozen=True)
class RunResult:
    """What came of a run.

    Attributes:
        corpus: what was read.
        trained: one a family, in the order of the config.
        report: the HTML file.
        card: of the corpus, as Markdown.
        outcomes: all steps, with whether they were reused.
        seconds: the run took.
        published: figures of a paper that stand beside its own.
    """

    corpus: Corpus
    trained: tuple[Trained, ...]
    report: Path
    card: Path
    outcomes: tuple[Outcome, ...]
    seconds: float
    published: Published | None = None

    @property
    def rows(self) -> tuple[Row, ...]:
        """The leaderboard."""
        return tuple(trained.row for trained in self.trained)


@dataclass(frozen=True)
class Job:
    """A run of a config at a place.

    Attributes:
        config: what to make.
        settings: where.
        runner: runs the steps.
        effect: runs what is not a step.
        labels: more tags for MLflow (the Prefect flow run).
    """

    config: RunConfig
    settings: Settings
    runner: Runner
    effect: Effect = directly
    labels: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse what the registry or the evaluation would refuse later, before anything starts.

        Raises:
            ConfigError: a name that cannot be registered, a base that nothing can go on from, or a
                model that is larger than the memory.
            InputError: an evaluation set or a base that cannot be found.
        """
        for name in [*self.config.families, *self.config.mixtures]:
            check_name(self.config.model_name(name))
        for name, family in self.config.families.items():
            if not self.settings.ray_address:  # else it is trained on another machine
                check_room(family, f"families.{name}")
        check_sets(self.config.evaluation)
        check_bases(self.config.corpus, self.config.families, self.bases)

    @cached_property
    def bases(self) -> Mapping[str, Base]:
        """What some of the trainings go on from; an alias is looked up once for the whole job."""
        uri, store = self.settings.tracking_uri, self.runner.store
        return {name: find_base(store, ref, uri) for name, ref in self.config.bases.items()}

    def family(self, name: str) -> FamilyConfig:
        """The settings of a family, with what it takes over from its base."""
        config, base = self.config.families[name], self.bases.get(name)
        return continued(config, base, f"families.{name}") if base else config

    def training(self, corpus: Corpus, name: str) -> tuple[dict[str, Artifact], Train]:
        """The inputs and the parameters of a training."""
        config, family, base = self.config, self.family(name), self.bases.get(name)
        text = TextPipeline(
            config.corpus.normalize, config.corpus.tokenize, analyze=config.corpus.analyze
        )
        inputs = prepare(self.runner, corpus, family, base.model if base else None)
        return inputs, Train(family, text, config.seed, config.replicate)

    def forgotten(self, model: Artifact, name: str) -> Artifact | None:
        """What a model that went on from another has forgotten; None where there are no vectors."""
        base, on = self.bases.get(name), self.config.evaluation
        able = read_capabilities(self.runner.store.reader(model))
        if base is None or "embeds_words" not in able:
            return None
        return measure_forgetting(self.runner, base.model, model, on, name)

    def run(self) -> RunResult:
        """The whole job."""
        began = time.monotonic()
        self.check()
        with self.runner.store.files.in_use():
            corpus = self.corpus()
            trained = [self.train(corpus, name) for name in self.config.families]
            for name in self.config.mixtures:
                trained.append(self.mix(corpus, name, trained))
            card = self.effect("publish card", lambda: self.publish_card(corpus))
            path = self.effect("report", lambda: self.report(corpus, trained))
        outcomes = tuple(self.runner.outcomes)
        seconds, published = time.monotonic() - began, self.config.published
        return RunResult(corpus, tuple(trained), path, card, outcomes, seconds, published)

    def corpus(self) -> Corpus:
        """The corpus with its card, read or found."""
        with self.runner.store.files.in_use():
            base = next(iter(self.bases.values()), None)
            given = learnt_by(self.runner, base) if base else {}
            return with_card(self.runner, build_corpus(self.runner, self.config.corpus, given))

    def publish_card(self, corpus: Corpus) -> Path:
        """Put the card of a corpus beside the reports, and into MLflow; returns the Markdown."""
        assert corpus.card is not None
        name, store = self.config.corpus.name, self.runner.store
        reader, folder = store.reader(corpus.card), self.settings.home / "reports"
        folder.mkdir(parents=True, exist_ok=True)
        for part in (CARD_JSON, CARD_MARKDOWN):
            path = folder / f"{name}-{part}"
            path.write_bytes(reader.path(part).read_bytes())
        log_card(store, corpus.card, name, self.settings.tracking_uri)
        return path

    def train(self, corpus: Corpus, name: str) -> Trained:
        """One family: inputs, model, scores, registration, gate."""
        config, family = self.config, self.family(name)
        parallel = family.style in ("learns", "sweeps")
        tags = self.tags(corpus, name)
        resources = Resources(
            threads=self.settings.threads,
            memory=int(self.settings.memory),
            workers=self.settings.workers if parallel else 1,
            gpus=self.settings.gpus if parallel else 0,
            tracking_uri=self.settings.tracking_uri,
            labels=tags,
        )
        inputs, params = self.training(corpus, name)
        with _located(f"families.{name}", f"families.{family.family}"):
            model = self.runner.run(
                TRAIN,
                inputs,
                params,
                label=name,
                resources=resources,
                # A distributed training starts Ray workers itself.
                in_driver=resources.workers > 1,
            )
        outcome = self.runner.outcomes[-1]
        scores = evaluate_model(self.runner, model, corpus, config.evaluation, name)
        forgotten = self.forgotten(model, name)
        trained = self.effect(
            f"register {name}", lambda: self.register(name, family, outcome, scores, tags)
        )
        if name in self.bases:
            change = read_change(self.runner.store.reader(forgotten)) if forgotten else None
            row = replace(trained.row, base=self.bases[name].reference, change=change)
            trained = replace(trained, row=row)
        return trained

    def mix(self, corpus: Corpus, name: str, trained: Sequence[Trained]) -> Trained:
        """A mixture of models that have been trained: weights, scores, registration, gate."""
        mixed = self.config.mixtures[name]
        models = {one.name: one.model for one in trained}
        with _located(f"mixtures.{name}", "mixture"):
            model = mix_models(
                self.runner,
                {part: models[part] for part in mixed.parts},
                weights=mixed.weights,
                heldout=corpus.tokens["valid"],
                label=name,
            )
        outcome = self.runner.outcomes[-1]
        scores = evaluate_model(self.runner, model, corpus, self.config.evaluation, name)
        tags = self.tags(corpus, name)
        family = read_model(self.runner.store.reader(model)).config
        return self.effect(
            f"register {name}", lambda: self.register(name, family, outcome, scores, tags)
        )

    def tags(self, corpus: Corpus, name: str) -> dict[str, str]:
        """What MLflow is told of where a model comes from."""
        return {
            "experiment": self.config.corpus.name,
            "name": self.config.model_name(name),
            "corpus": corpus.content,
            "git_commit": git_commit(),
            **({"base": self.bases[name].reference} if name in self.bases else {}),
            **self.labels,
        }

    def register(
        self, name: str, family: Family, trained: Outcome, scored: Artifact, tags: Mapping[str, str]
    ) -> Trained:
        """Register a model and hold it against the gate."""
        store, uri = self.runner.store, self.settings.tracking_uri
        reader = store.reader(scored)
        scores = read_scores(reader)
        registered = register(
            store,
            trained.artifact,
            self.config.model_name(name),
            tracking_uri=uri,
            scores=scores,
            tags=tags,
        )
        promotion = promote(
            registered.name, registered.version, tracking_uri=uri, gate=self.config.gate
        )
        version = find_version(f"{registered.name}/{registered.version}", uri)
        row = Row(
            family=family.family,
            name=name,
            title=family.title,
            paper=family.paper,
            training=trained.stats,
            scores=beside_champion(scores, promotion, uri),
            content=trained.artifact.content,
            reused=trained.reused,
            registered=Registered(version.name, version.version, version.aliases),
            curves=read_curves(uri, registered.run_id),
            neighbours=read_neighbours(reader),
            clusters=read_clusters(reader),
            spreads=spreads([one.scores for one in replicates(version, uri)]),
            words=frequent_words_map(read_model(store.reader(trained.artifact)), name),
        )
        return Trained(name, trained.artifact, row, promotion)

    def report(self, corpus: Corpus, trained: Sequence[Trained]) -> Path:
        """Write the report of the run."""
        name = self.config.corpus.name
        # A run of one family leaves the comparison of several as it is.
        (alone, *others) = [one.name for one in trained]
        file = f"{name}.html" if others else f"{name}-{alone}.html"
        path = self.settings.home / "reports" / file
        write_report(
            path,
            title=name,
            corpus=corpus,
            rows=[one.row for one in trained],
            outcomes=self.runner.outcomes,
            facts={
                "store": self.runner.store.url,
                "MLflow": self.settings.tracking_uri,
                "corpus card": str(path.with_name(f"{name}-{CARD_MARKDOWN}")),
                "git commit": git_commit(),
                **self.labels,
            },
            store=self.runner.store,
            published=self.config.published,
        )
        return path


@cache
def git_commit() -> str:
    """The commit of the lexloom that runs, with ``+`` if it was changed; empty if unknown."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        try:
            done = subprocess.run(
                ["git", "-C", str(here), *arguments],
                capture_output=True,
                text=True,
                timeout=10,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        return done.stdout.strip()

    commit = git("rev-parse", "HEAD")
    return commit + ("+" if commit and git("status", "--porcelain", "-uno") else "")


@contextmanager
def _located(place: str, known_as: str) -> Iterator[None]:
    """Errors name a place in the recipe: a step knows its family, and not what the recipe calls it.

    Args:
        place: such as "families.mine".
        known_as: what the step calls it, such as "families.ngram".
    """
    try:
        yield
    except LexloomError as error:
        if error.where.startswith(place):
            raise
        if error.where.startswith(known_as):
            where = place + error.where.removeprefix(known_as)
        else:
            where = f"{place}: {error.where}" if error.where else place
        raise type(error)(error.problem, where=where, remedy=error.remedy) from error
