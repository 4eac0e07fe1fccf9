"""The autograd loop: its schedule, its stops, its ranks, and that a kill leaves no trace in it."""

from __future__ import annotations

import itertools
import math
import multiprocessing.context
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from models import awd_lstm, rnnlm
from models.family import Inputs, Plan, Schedule
from models.nplm import Config, Nplm
from models.text import Tokens
from tasks.errors import TrainingError
from tasks.store import Store
from tasks.training.checkpoint import Checkpoints
from tasks.training.learn import learn
from tasks.training.optimizer import optimizer_of, rate_at, scale_gradients, starts_to_average
from tasks.training.ranks import Place
from tasks.training.tracker import Silent
from tests.tasks.training.trainee import (
    AVERAGING,
    CARRYING,
    CONFIG,
    MASKED,
    RECIPE,
    Trainee,
    context_of,
    small_inputs,
    weights_hash,
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Told:
    """A tracker that remembers."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, Mapping[str, float]]] = []

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self.steps.append((step, metrics))

    def all(self, name: str) -> list[float]:
        return [metrics[name] for _, metrics in self.steps if name in metrics]


def train(
    store: Store, config: Config = CONFIG, inputs: Inputs | None = None, told: Told | None = None
) -> tuple[Nplm, Mapping[str, float | int | str]]:
    inputs = inputs or small_inputs()
    model = config.build(inputs, seed=1)
    return model, learn(model, inputs, 1, context_of(store), told or Silent())


def heldout_loss(model: Nplm, inputs: Inputs) -> float:
    (part,) = inputs.tokens("heldout").under(model.vocabulary)
    return float(-model.log_prob(part).mean())


# --- one rank ---------------------------------------------------------------------------------


def test_it_tells_how_far_it_is_in_the_text_and_in_the_held_out_text(store: Store) -> None:
    inputs, seen = small_inputs(), list[tuple[int, int, str]]()
    context = replace(context_of(store), progress=lambda *event: seen.append(event))
    model = replace(CONFIG, epochs=2).build(inputs, seed=1)
    learn(model, inputs, 1, context, Silent())
    n, held = model.n_batches(inputs), model.n_batches(inputs, "heldout")
    units = [unit for _, _, unit in seen]
    assert units == (["tokens"] * (n - 1) + ["held-out batches"] * held + ["tokens"]) * 2
    told = [event[:2] for event in seen if event[2] == "held-out batches"]
    assert told == [(i, held) for i in range(held)] * 2
    done, total, _ = seen[-1]
    assert done == total == 2 * (inputs.tokens().n_tokens + inputs.tokens().n_sentences)


def test_it_learns_and_tells_how(store: Store) -> None:
    told, inputs = Told(), small_inputs()
    untrained = heldout_loss(CONFIG.build(inputs, seed=1), inputs)
    model, report = train(store, replace(CONFIG, epochs=8, learning_rate=0.02), told=told)
    assert heldout_loss(model, inputs) < untrained - 0.2
    per_epoch = inputs.tokens().n_tokens + inputs.tokens().n_sentences
    assert report["tokens"] == 8 * per_epoch
    assert report["steps"] == 8 * -(-per_epoch // CONFIG.batch_size) == told.steps[-1][0]
    assert report["epochs"] == 8
    assert report["precision"] == "float32"
    steps = [step for step, _ in told.steps]
    assert steps == sorted(set(steps))
    assert len(told.all("heldout_perplexity")) == 8
    assert all(rate > 0 for rate in told.all("tokens_per_second"))
    # The first loss is near that of the words' frequencies, where the bias begins.
    assert 1.5 < told.all("loss")[0] < 2.6
    assert report["train_loss"] == told.all("loss")[-1]


def test_the_same_seed_gives_the_same_bits_and_another_does_not(tmp_path: Path) -> None:
    def run(name: str, seed: int) -> str:
        inputs = small_inputs()
        model = CONFIG.build(inputs, seed=1)
        store = Store(str(tmp_path / name), tmp_path)
        learn(model, inputs, seed, context_of(store), Silent())
        return weights_hash(model)

    assert run("a", 1) == run("b", 1) != run("c", 2)


def test_the_rate_rises_once_and_falls_to_the_floor() -> None:
    schedule = Schedule(epochs=1, learning_rate=0.5, warmup=0.1, floor=0.2)
    rates = [rate_at(step, 100, schedule) for step in range(100)]
    assert rates[:10] == pytest.approx([0.05 * (i + 1) for i in range(10)])
    assert rates[10] == 0.5
    assert all(a > b for a, b in itertools.pairwise(rates[10:]))
    assert rates[-1] == pytest.approx(0.1 + 0.4 / 90)
    assert rate_at(0, 1, Schedule(epochs=1, learning_rate=0.5)) == 0.5


def test_the_rate_of_the_paper() -> None:
    schedule = Schedule(epochs=1, learning_rate=0.001, decay=0.01)
    assert rate_at(0, 50, schedule) == 0.001
    assert rate_at(49, 50, schedule) == pytest.approx(0.001 / 1.49)
    # It knows no end: the rate of a step is the same however many there are.
    assert rate_at(49, 5000, schedule) == rate_at(49, 50, schedule)


def test_the_slanted_triangle_of_ulmfit() -> None:
    """Section 3.2 with T = 400, cut_frac = 0.1, ratio = 32; rising rates come a step earlier."""
    schedule = Schedule(epochs=1, learning_rate=0.01, warmup=0.1, start=1 / 32, floor=1 / 32)

    def published(t: int) -> float:
        cut = 40
        p = t / cut if t < cut else 1 - (t - cut) / (cut * (1 / 0.1 - 1))
        return 0.01 * (1 + p * (32 - 1)) / 32

    rates = [rate_at(t, 400, schedule) for t in range(400)]
    assert rates[:40] == pytest.approx([published(t + 1) for t in range(40)])
    assert rates[40:] == pytest.approx([published(t) for t in range(40, 400)])


def test_one_cycle_is_the_same_bent_to_a_cosine() -> None:
    schedule = Schedule(1, 1.0, warmup=0.25, start=0.04, floor=0.0, shape="cosine")
    rates = [rate_at(t, 400, schedule) for t in range(400)]
    turning = torch.optim.lr_scheduler.CosineAnnealingLR
    optimizer = torch.optim.SGD([torch.zeros(1)], 1.0)
    falling = turning(optimizer, 300)
    for rate in rates[100:]:
        assert rate == pytest.approx(falling.get_last_lr()[0])
        optimizer.step()
        falling.step()
    assert rates[49] == pytest.approx(0.04 + 0.96 / 2)
    assert rates[99] == 1.0


def test_averaging_begins_as_published() -> None:
    """Algorithm 1 of Merity et al.: above the best of the evaluations before the last n."""
    schedule = Schedule(1, 1.0, average=2)
    losses = [5.0, 4.0, 4.5, 4.2, 3.9, 3.8, 4.1, 4.2]
    for t in range(len(losses)):
        published = t > 2 and losses[t] > min(losses[: t - 2])
        assert starts_to_average(losses[: t + 1], schedule) == published
    assert starts_to_average(losses, schedule)
    assert not starts_to_average(losses[:6], schedule)
    assert not starts_to_average([1.0, 2.0, 3.0, 4.0], Schedule(1, 1.0))


def test_averaged_weights_are_evaluated_and_kept(store: Store) -> None:
    """Against the published algorithm in plain loops."""
    inputs = small_inputs()
    config = replace(
        AVERAGING, optimizer="sgd", learning_rate=20.0, weight_decay=1e-4, average=2, clip=2.0
    )
    told = Told()
    context = context_of(store)
    model = config.build(inputs, seed=1)
    learn(model, inputs, 1, context, told)

    slow = config.build(inputs, seed=1)
    parameters = list(slow.parameters())
    seen, mean, n, began, best = list[float](), list[torch.Tensor](), 0, False, {}
    for epoch in range(config.epochs):
        carried: tuple[torch.Tensor, ...] = ()
        slow.train()
        for batch in slow.batches(inputs, Plan(1, epoch)):
            output = slow(batch, *carried)
            carried = output.carried
            slow.zero_grad()
            (output.objective / output.n_scored).backward()
            torch.nn.utils.clip_grad_norm_(parameters, 2.0)
            with torch.no_grad():
                for p in parameters:
                    assert p.grad is not None
                    p -= 20.0 * output.rate * (p.grad + 1e-4 * (p if p.dim() > 1 else 0))
                if began:
                    n += 1
                    mean = [
                        p.clone() if n == 1 else m + (p - m) / n
                        for m, p in zip(mean or parameters, parameters, strict=True)
                    ]
        asked = config.build(inputs, seed=1)
        with torch.no_grad():
            for ours, p in zip(asked.parameters(), mean or parameters, strict=True):
                ours.copy_(p)
        seen.append(heldout_of(asked, inputs))
        if seen[-1] == min(seen):
            best = asked.state()
        began = began or (epoch > 2 and seen[-1] > min(seen[: epoch - 2]))
    assert n > 4
    assert seen[-1] == min(seen)  # what is kept is an average
    assert np.log(told.all("heldout_perplexity")) == pytest.approx(seen, abs=1e-4)
    for name, array in model.state().items():
        np.testing.assert_allclose(array, best[name], atol=2e-4)


def heldout_of(model: awd_lstm.AwdLstm, inputs: Inputs) -> float:
    """Nats a token, as the loop reads held-out text."""
    total, scored, carried = 0.0, 0, tuple[torch.Tensor, ...]()
    with torch.inference_mode():
        for batch in model.eval().batches(inputs, Plan(1, role="heldout")):
            output = model(batch, *carried)
            carried = output.carried
            total, scored = total + float(output.nll_sum), scored + output.n_scored
    return total / scored


@pytest.mark.parametrize(
    "config", [replace(CARRYING, epochs=1), replace(AVERAGING, epochs=1, average=0)]
)
def test_training_and_heldout_perplexity_are_one_estimate(
    config: rnnlm.Config | awd_lstm.Config, store: Store
) -> None:
    """Of the same text by the same weights they are equal, whatever else the objective has."""
    inputs, told = small_inputs(), Told()
    inputs = Inputs({**inputs.values, "heldout": inputs.values["train"]})
    config = replace(config, learning_rate=1e-12, weight_decay=0)
    learn(config.build(inputs, seed=1), inputs, 1, context_of(store), told)
    n = len(told.steps)
    assert n > 3
    model = config.build(inputs, seed=1)
    sizes, carried = [], tuple[torch.Tensor, ...]()
    for batch in model.batches(inputs, Plan(1)):
        output = model(batch, *carried)
        carried = output.carried
        sizes.append(output.n_scored)
    trained = float(np.average(told.all("loss"), weights=sizes))
    assert math.exp(trained) == pytest.approx(told.all("heldout_perplexity")[0], rel=1e-5)


@pytest.mark.parametrize("config", [CARRYING, replace(AVERAGING, batch_size=12)])
def test_parts_of_a_batch_carry_each_its_own_state(
    config: rnnlm.Config | awd_lstm.Config, tmp_path: Path
) -> None:
    inputs, found = small_inputs(), []
    for accumulate in (1, 3):
        model = replace(config, accumulate=accumulate).build(inputs, seed=1)
        store = Store(str(tmp_path / f"{accumulate}"), tmp_path)
        learn(model, inputs, 1, context_of(store), Silent())
        found.append(model.state())
    for name, array in found[0].items():
        np.testing.assert_allclose(found[1][name], array, atol=1e-4)


def test_a_sampled_loss_is_never_called_a_likelihood(store: Store) -> None:
    told = Told()
    config = replace(CONFIG, objective="importance-sampling", noise=6, epochs=6, learning_rate=0.02)
    inputs = small_inputs()
    untrained = heldout_loss(config.build(inputs, seed=1), inputs)
    model, report = train(store, config, inputs, told)
    assert "train_sampled_loss" in report
    assert "train_loss" not in report
    assert told.all("sampled_loss")
    assert not told.all("loss")
    # What is held out is scored by the full softmax all the same.
    assert heldout_loss(model, inputs) < untrained - 0.1
    expected = math.exp(heldout_loss(model, inputs))
    assert report["heldout_perplexity"] == pytest.approx(expected, rel=1e-6)


def test_a_batch_larger_than_the_text_is_the_text(store: Store) -> None:
    _, report = train(store, replace(CONFIG, batch_size=10**6))
    assert report["steps"] == CONFIG.epochs


def test_the_loss_is_summed_in_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    # In 32 bits a sum of 2**27 takes no notice of a 3 that is added to it.
    monkeypatch.setattr("torch.distributed.all_reduce", lambda sums: sums.add_(3.0))
    assert Place(torch.device("cpu"), 0, 2).total(2.0**27) == [134217731.0]


def test_held_out_text_that_could_choose_nothing_is_refused(store: Store) -> None:
    inputs, config = small_inputs(), replace(CARRYING, stride=1, batch_size=4, patience=1)
    held = inputs.tokens("heldout")
    with pytest.raises(TrainingError, match=f"the held-out text .{held.n_tokens} tokens"):
        train(store, replace(config, steps=held.n_tokens + held.n_sentences + 1), inputs)
    assert not Checkpoints(store, RECIPE).begun


def test_the_averages_of_a_patient_training_are_taken(store: Store) -> None:
    """With the least patience that there may be, averages began before it ended."""
    ended = 0
    for rate in (0.05, 0.1, 0.2, 0.3):
        config = replace(AVERAGING, average=2, patience=4, epochs=30, learning_rate=rate)
        own = Store(f"{store.url}-{rate}", store.cache)
        inputs = small_inputs()
        learn(config.build(inputs, seed=1), inputs, 1, context_of(own), Silent())
        final = Checkpoints(own, RECIPE).newest()
        assert final is not None
        if final.standing.epoch < 30:
            ended += 1
            assert final.standing.averages_from is not None
            assert final.standing.averages_from < final.standing.step
    assert ended


def test_time_is_that_of_all_sessions(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations and checkpoints included; of a killed one up to its last checkpoint."""
    clock = itertools.count()
    ticking = SimpleNamespace(perf_counter=lambda: float(next(clock)))
    monkeypatch.setattr("tasks.training.learn.time", ticking)

    def seconds(store: Store, stop: int = 0) -> float:
        inputs, told = small_inputs(), itertools.count(1)

        def progress(done: int, total: int, unit: str) -> None:
            if unit == "tokens" and next(told) == stop:
                raise KeyboardInterrupt

        context = replace(context_of(store, checkpoint_seconds=0.0), progress=progress)
        model = replace(CONFIG, epochs=3).build(inputs, seed=1)
        return float(learn(model, inputs, 1, context, Silent())["training_seconds"])

    calm = seconds(Store(f"{store.url}-calm", store.cache))
    with pytest.raises(KeyboardInterrupt):
        seconds(store, stop=20)
    assert seconds(store) == pytest.approx(calm, abs=10) != pytest.approx(0, abs=100)


def test_patience_ends_it_and_the_best_weights_are_kept(store: Store) -> None:
    inputs, told = small_inputs(sentences=12), Told()
    config = replace(CONFIG, epochs=40, patience=2, learning_rate=0.05, batch_size=16)
    model, report = train(store, config, inputs, told)
    seen = told.all("heldout_perplexity")
    best = int(np.argmin(seen))
    assert len(seen) == best + 1 + 2 < 40
    assert report["heldout_perplexity"] == seen[best] < seen[-1]
    assert math.exp(heldout_loss(model, inputs)) == pytest.approx(seen[best], rel=1e-6)
    per_epoch = -(-(inputs.tokens().n_tokens + inputs.tokens().n_sentences) // 16)
    assert report["best_step"] == (best + 1) * per_epoch


def test_without_heldout_text_the_last_weights_stay(store: Store) -> None:
    inputs = small_inputs()
    inputs = Inputs({**inputs.values, "heldout": Tokens([])})
    model, report = train(store, inputs=inputs)
    assert "heldout_perplexity" not in report
    saved = Checkpoints(store, RECIPE).at(int(report["steps"])).weights
    assert all((saved[name] == array).all() for name, array in model.state().items())


def test_nothing_to_train_on_is_an_error(store: Store) -> None:
    inputs = Inputs({**small_inputs().values, "train": Tokens([])})
    with pytest.raises(TrainingError, match="the training text is empty"):
        train(store, inputs=inputs)


@pytest.mark.parametrize("heldout", [True, False])
def test_a_single_step_at_an_absurd_rate_is_no_training(store: Store, heldout: bool) -> None:
    """No loss is seen after it, and the weights are finite; their products are not."""
    inputs = small_inputs()
    if not heldout:
        inputs = Inputs({k: v for k, v in inputs.values.items() if k != "heldout"})
    config = replace(CARRYING, learning_rate=1e30, epochs=1, steps=10**6, accumulate=1, warmup=0.0)
    model = config.build(inputs, seed=1)
    assert model.n_batches(inputs) == 1
    with pytest.raises(TrainingError, match="not finite"):
        learn(model, inputs, 1, context_of(store), Silent())


def test_a_loss_that_is_not_finite_stops_it_and_names_the_last_good_checkpoint(
    store: Store,
) -> None:
    config = replace(CONFIG, optimizer="sgd", learning_rate=1e30, clip=0.0, warmup=0.0)
    with pytest.raises(TrainingError) as caught:
        train(store, config)
    step = caught.value.where
    assert step.startswith("step ")
    assert 1 <= int(step.removeprefix("step ")) <= 5
    good = Checkpoints(store, RECIPE).newest()
    assert good is not None
    assert Checkpoints(store, RECIPE).where(good.standing.step) in caught.value.remedy
    assert all(np.isfinite(array).all() for array in good.weights.values())


def test_clipping_and_accumulation_keep_the_direction(store: Store) -> None:
    inputs = small_inputs()
    model = CONFIG.build(inputs, seed=1)
    optimizer = optimizer_of(model)
    (batch, *_) = model.batches(inputs, Plan(seed=1))
    model(batch).objective.backward()
    before = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    norm = scale_gradients(optimizer, 1 / 32, 0.01)
    after = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    assert norm == pytest.approx(float(before.norm()) / 32, rel=1e-5)
    assert norm > 0.01
    assert float(after.norm()) == pytest.approx(0.01, rel=1e-5)
    torch.testing.assert_close(after / after.norm(), before / before.norm())

    one, _ = train(store)
    elsewhere = Store(f"{store.url}-other", store.cache)
    four, _ = train(elsewhere, replace(CONFIG, accumulate=4))
    for name, array in one.state().items():
        np.testing.assert_allclose(four.state()[name], array, atol=2e-5)


def test_a_finished_training_is_not_repeated_and_leaves_the_process_as_it_was(
    store: Store,
) -> None:
    threads, numbers = torch.get_num_threads(), torch.get_rng_state()
    first, told = Told(), Told()
    model, report = train(store, told=first)
    again, same = train(store, told=told)
    assert weights_hash(again) == weights_hash(model)
    assert same == report
    assert told.steps == first.steps
    assert torch.get_num_threads() == threads
    assert (torch.get_rng_state() == numbers).all()


# --- kills ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def forks() -> multiprocessing.context.ForkServerContext:
    """Processes that have imported everything before they begin."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.tasks.training.trainee"])
    return context


Forks = multiprocessing.context.ForkServerContext


def run(forks: Forks, *trainees: Trainee) -> list[int | None]:
    """Train in a process each, at once; how they ended."""
    processes = [forks.Process(target=trainee.train) for trainee in trainees]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    return [process.exitcode for process in processes]


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        replace(CONFIG, objective="nce", noise=7, log_normalizer="learned", dropout=0.3),
        replace(CARRYING, dropout=0.3),
        replace(CARRYING, precision="bfloat16", epochs=1),
    ],
    ids=["softmax", "nce", "carrying", "bfloat16"],
)
def test_a_killed_training_ends_as_if_it_had_not_been(
    config: Config | rnnlm.Config, tmp_path: Path, forks: Forks
) -> None:
    calm, killed = Trainee(tmp_path, "calm", config), Trainee(tmp_path, "killed", config)
    assert run(forks, calm) == [0]
    # With a checkpoint after every step, one event in seven is a step and the others are parts and
    # manifests of checkpoints.
    kills = [random.randrange(6, 36) for _ in range(3)]
    for kill in kills:
        assert run(forks, replace(killed, kill=kill)) == [-9]
    assert run(forks, killed) == [0]
    assert calm.out.read_text() == killed.out.read_text(), kills
    assert calm.log.read() == killed.log.read(), kills


# --- several ranks ----------------------------------------------------------------------------


def ranks(trainee: Trainee, world: int) -> list[Trainee]:
    """The processes of a training on several ranks."""
    meet = trainee.folder / f"{trainee.name}-{random.random()}"
    return [replace(trainee, rank=rank, world=world, meet=meet) for rank in range(world)]


def test_two_ranks_step_along_the_gradient_of_the_global_batch(
    tmp_path: Path, forks: Forks
) -> None:
    inputs = small_inputs()
    total = inputs.tokens().n_tokens + inputs.tokens().n_sentences
    # One step of plain descent at rate 1: the weights move by the gradient itself.
    descent = replace(CONFIG, optimizer="sgd", learning_rate=1.0, warmup=0.0, weight_decay=0.0)
    config = replace(descent, clip=0.0, epochs=1, batch_size=total)
    model = config.build(inputs, seed=1)
    (batch,) = model.batches(inputs, Plan(seed=1))
    (model(batch).objective / total).backward()
    two = ranks(Trainee(tmp_path, "two", config), 2)
    assert run(forks, *two) == [0, 0]
    assert two[0].out.read_text() == two[1].out.read_text()
    after = Checkpoints(two[0].store, RECIPE).at(1).weights
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        step = parameter.detach().numpy() - after[name]
        np.testing.assert_allclose(step, parameter.grad.numpy(), atol=1e-6)


def test_three_ranks_end_alike_whether_killed_or_not(tmp_path: Path, forks: Forks) -> None:
    inputs = small_inputs()
    total = inputs.tokens().n_tokens + inputs.tokens().n_sentences
    # The last batch of an epoch has a single example: two ranks go without. The model is wide
    # enough for several gradient buffers, whose layout decides how three numbers are added.
    size = next(size for size in range(40, total) if total % size == 1)
    wide = replace(CONFIG, context=16, embedding=64, hidden=512, learning_rate=1e-3)
    config = replace(wide, batch_size=size, accumulate=2)
    calm, killed = Trainee(tmp_path, "calm", config), Trainee(tmp_path, "killed", config)
    assert run(forks, *ranks(calm, 3)) == [0, 0, 0]
    # The first rank also writes checkpoints, the others only take steps.
    first, second, third = ranks(killed, 3)
    if random.random() < 0.5:
        first = replace(first, kill=random.randrange(8, 40))
    else:
        third = replace(third, kill=random.randrange(2, 10))
    assert -9 in run(forks, first, second, third)
    assert run(forks, *ranks(killed, 3)) == [0, 0, 0]
    outputs = [trainee.out.read_text() for one in (calm, killed) for trainee in ranks(one, 3)]
    assert len(set(outputs)) == 1, (first, third)
    assert calm.log.read() == killed.log.read(), (first, third)


@pytest.mark.parametrize("world", [1, 2])
def test_averages_and_masks_survive_a_kill(world: int, tmp_path: Path, forks: Forks) -> None:
    calm, killed = Trainee(tmp_path, "calm", MASKED), Trainee(tmp_path, "killed", MASKED)
    assert set(run(forks, *ranks(calm, world))) == {0}
    end = Checkpoints(calm.store, RECIPE).newest()
    assert end is not None
    first = end.standing.averages_from
    assert first is not None
    assert first + 4 < end.standing.step
    # One event in seven is a step, and averages are of the steps behind ``first``.
    one, *others = ranks(killed, world)
    kill = 7 * random.randrange(first + 1, end.standing.step - 1) + random.randrange(7)
    assert -9 in run(forks, replace(one, kill=kill), *others)
    half = Checkpoints(killed.store, RECIPE).newest()
    assert half is not None
    assert half.standing.step < end.standing.step
    assert set(run(forks, *ranks(killed, world))) == {0}
    outputs = {one.out.read_text() for each in (calm, killed) for one in ranks(each, world)}
    assert len(outputs) == 1, kill
    assert calm.log.read() == killed.log.read(), kill


@pytest.mark.parametrize(
    "config", [CONFIG, CARRYING, AVERAGING], ids=["nplm", "carrying", "averaging"]
)
def test_another_number_of_ranks_goes_on_where_one_was_killed(
    config: Config | rnnlm.Config | awd_lstm.Config, tmp_path: Path, forks: Forks
) -> None:
    calm, killed = Trainee(tmp_path, "calm", config), Trainee(tmp_path, "killed", config)
    assert run(forks, calm, replace(killed, kill=random.randrange(6, 36))) == [0, -9]
    two = ranks(killed, 2)
    assert run(forks, *two) == [0, 0]
    assert two[0].out.read_text() == two[1].out.read_text()
    expected, found = (Checkpoints(one.store, RECIPE).newest() for one in (calm, killed))
    assert expected is not None
    assert found is not None
    assert found.standing.world == 2
    assert found.standing.scored == expected.standing.scored
    for name, array in expected.weights.items():
        np.testing.assert_allclose(found.weights[name], array, atol=1e-5)
