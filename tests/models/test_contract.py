"""The contract that every family keeps, one row a family.

Whoever adds a family adds its row to ``ROWS``: settings small enough to train in a second or two,
and what its model can do. Everything below then runs on it, through the real steps and loops.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from models import (
    awd_lstm,
    birnn,
    blend_lm,
    char_birnn,
    char_cnn,
    class_ngram,
    elmo,
    fasttext,
    glove,
    mixture,
    ngram,
    nplm,
    ppmi,
    rnnlm,
    spelling_lm,
    word2vec,
)
from models.capabilities import (
    EmbedsSentences,
    EmbedsTokens,
    EmbedsWords,
    FillsIn,
    Grows,
    LanguageModel,
    Predicts,
    Scores,
)
from models.examples import START
from models.families import FAMILIES, FamilyConfig
from models.family import (
    Fits,
    GrowingFamily,
    Inputs,
    Learns,
    Model,
    Plan,
    StepOutput,
    Sweeps,
    WantsCooccurrence,
    WantsNgrams,
    WantsTokens,
    WantsVocabulary,
)
from models.output import frequencies
from models.projected import Projected
from models.recurrent import Recurrent
from models.tables import choices, rows
from models.text import Sentences, TokenPartition, Tokens
from models.vocabulary import UNK, Vocabulary, select
from tasks.artifacts import Artifact, recipe_of
from tasks.corpus import Corpus, CorpusConfig, build_corpus
from tasks.errors import TrainingError
from tasks.evaluation import EvaluationConfig, evaluate_model, read_neighbours, read_scores
from tasks.mix import blend
from tasks.models import TextPipeline, capabilities, read_capabilities, read_model
from tasks.prepare import prepare
from tasks.runner import Runner
from tasks.sources import Source
from tasks.split import Fractions
from tasks.store import Store
from tasks.train import TRAIN, Train
from tasks.training.inputs import read_inputs


@dataclass(frozen=True)
class Row:
    config: FamilyConfig
    can: tuple[str, ...]
    open: bool = False  # a word that was never seen has a vector too
    means: tuple[str, ...] = ()  # tables in which a new word begins as the mean of the known ones
    both: bool = False  # it also gives the probability of text read from its end
    spells: bool = False  # it predicts any word by its spelling, not the words of a vocabulary


ROWS = (
    Row(ngram.Config(order=3, min_count=1), ("scores",)),
    Row(
        ngram.Config(order=3, min_count=1, smoothing="jelinek-mercer", prune=(0, 0, 1)),
        ("scores",),
    ),
    Row(class_ngram.Config(order=3, classes=6, min_count=1), ("scores",)),
    Row(word2vec.Config(dim=12, epochs=5, min_count=1, sample=0), ("embeds_words",)),
    Row(
        word2vec.Config(
            dim=12, epochs=5, min_count=1, sample=0,
            architecture="cbow", objective="hierarchical-softmax",
        ),
        ("embeds_words",),
    ),
    Row(
        fasttext.Config(dim=12, epochs=5, min_count=1, sample=0, buckets=500),
        ("embeds_words",),
        open=True,
    ),
    Row(nplm.Config(embedding=8, hidden=8, batch_size=64, min_count=1), ("embeds_words", "scores")),
    Row(
        nplm.Config(
            embedding=8, hidden=8, batch_size=64, min_count=1, tied=True, dropout=0.2,
            objective="nce", noise=20, log_normalizer="learned", boundary="document",
        ),
        ("embeds_words", "scores"),
    ),
    Row(
        rnnlm.Config(layers=2, units=8, embedding=6, batch_size=4, steps=9, min_count=1),
        ("embeds_words", "scores", "embeds_tokens", "embeds_sentences"),
    ),
    Row(
        rnnlm.Config(
            cell="gru", reset="before", units=8, embedding=8, tied=True, direction="both",
            batch_size=4, steps=9, min_count=1, boundary="sentence",
        ),
        ("embeds_words", "scores", "embeds_tokens", "embeds_sentences"),
        both=True,
    ),
    Row(
        awd_lstm.Config(
            layers=2, units=8, embedding=6, batch_size=2, steps=9, min_count=1, average=1,
            learning_rate=0.01,
        ),
        ("embeds_words", "scores"),
        means=("C",),
    ),
    Row(
        char_cnn.Config(
            char_embedding=4, widths=(1, 2, 3), filters=(4, 6, 8), highways=2, layers=1, units=8,
            batch_size=4, steps=9, min_count=1,
        ),
        ("embeds_words", "scores"),
        open=True,
    ),
    Row(
        elmo.Config(
            cells=16, units=8, char_embedding=4, widths=(1, 2, 3), filters=(4, 6, 8), highways=1,
            batch_size=4, steps=9, min_count=1, noise=20,
        ),
        ("embeds_words", "scores", "embeds_tokens", "embeds_sentences"),
        open=True,
        both=True,
    ),
    Row(
        birnn.Config(layers=2, units=8, embedding=8, batch_size=16, min_count=1, tied=True),
        ("embeds_words", "scores", "embeds_tokens", "embeds_sentences"),
    ),
    Row(
        birnn.Config(
            objective="mask", cell="gru", units=8, embedding=6, layers=2, batch_size=16,
            min_count=1, boundary="document", combine="sum", epochs=4,
        ),
        ("embeds_words", "fills_in", "embeds_tokens", "embeds_sentences"),
    ),
    Row(
        char_birnn.Config(units=6, embedding=5, layers=2, batch_size=16, min_count=1, epochs=3),
        ("embeds_words",),
        open=True,
    ),
    Row(
        blend_lm.Config(
            how="sum", dim=6, projection=True, char_units=4, char_embedding=3, units=8,
            batch_size=4, steps=9, min_count=1,
        ),
        ("embeds_words", "scores"),
        open=True,
    ),
    Row(
        spelling_lm.Config(
            char_units=4, char_embedding=3, units=8, speller=12, batch_size=4, steps=9, min_count=1,
        ),
        ("embeds_words", "scores"),
        open=True,
        spells=True,
    ),
    Row(glove.Config(dim=12, window=3, epochs=5, min_count=1), ("embeds_words",)),
    Row(ppmi.Config(dim=12, window=3, min_count=1), ("embeds_words",)),
)  # fmt: skip

STYLES = {"fits": Fits, "sweeps": Sweeps, "learns": Learns}
UNSEEN = "zebra"
ASKED = ["king", "cat", UNSEEN]
SAID = [["the", "king", "sees", UNSEEN], [], ["river"], [UNSEEN, UNSEEN, "fish", "."]]


def name(row: Row) -> str:
    return row.config.family


every = pytest.mark.parametrize("row", ROWS, ids=name)
scoring = pytest.mark.parametrize("row", [r for r in ROWS if "scores" in r.can], ids=name)
contextual = pytest.mark.parametrize("row", [r for r in ROWS if "embeds_tokens" in r.can], ids=name)
closed = pytest.mark.parametrize(
    "row", [r for r in ROWS if "scores" in r.can and not r.spells], ids=name
)
embedding = pytest.mark.parametrize("row", [r for r in ROWS if "embeds_words" in r.can], ids=name)


# --- a small world --------------------------------------------------------------------------


def small_text() -> list[str]:
    rng = np.random.default_rng(7)
    subjects, verbs = ["the king", "the queen", "a cat", "Émile"], ["sees", "finds", "loses"]
    objects = ["a fish .", "the river ,", "nothing !", "a cat and a bird ."]
    return [
        f"{rng.choice(subjects)} {rng.choice(verbs)} {rng.choice(objects)} word{rng.integers(40)}"
        for _ in range(300)
    ]


@dataclass(frozen=True)
class World:
    """A corpus in a store, and what has been trained on it."""

    runner: Runner
    corpus: Corpus

    def train(self, config: FamilyConfig, *, seed: int = 1, replicate: int = 0) -> Artifact:
        inputs = prepare(self.runner, self.corpus, config)
        return self.runner.run(TRAIN, inputs, Train(config, self.text, seed, replicate))

    @property
    def text(self) -> TextPipeline:
        return TextPipeline(self.corpus.config.normalize, self.corpus.config.tokenize)

    def model(self, row: Row) -> Model:
        return read_model(self.runner.store.reader(self.train(row.config)))


def make_world(folder: Path, lines: list[str]) -> World:
    text = folder / "text.txt"
    text.write_text("\n".join(lines), "utf-8")
    runner = Runner(Store(str(folder / "store"), folder / "cache"))
    source = Source(paths=(str(text),))
    config = CorpusConfig(name="small", train=source, split=Fractions(valid=0.1, test=0.1))
    return World(runner, build_corpus(runner, config))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), small_text())


# --- the table ------------------------------------------------------------------------------


def test_every_family_has_a_row() -> None:
    assert list(dict.fromkeys(type(row.config) for row in ROWS)) == list(FAMILIES)


@every
def test_config(row: Row) -> None:
    kind, union = type(row.config), TypeAdapter(FamilyConfig)
    assert dataclasses.is_dataclass(kind)
    assert kind.title
    assert kind.paper
    plain = {"family": row.config.family}
    assert union.validate_python(plain) == kind()  # every setting has a default
    assert union.validate_python(json.loads(union.dump_json(row.config))) == row.config
    with pytest.raises(ValidationError, match=r"min_cuont\n.*(Unexpected|not permitted)"):
        union.validate_python({**plain, "min_cuont": 3})
    settings = TypeAdapter(kind).json_schema()["properties"]
    for setting, schema in settings.items():
        if setting == "family":
            continue
        assert schema.get("description"), f"{setting} has no description for its form"
        for bound in [schema, *schema.get("anyOf", [])]:
            if "minimum" in bound or "exclusiveMinimum" in bound:
                lowest = bound.get("minimum", bound.get("exclusiveMinimum"))
                with pytest.raises(ValidationError):
                    union.validate_python({**plain, setting: lowest - 1})


@every
def test_wants(row: Row) -> None:
    wants = row.config.wants()
    assert isinstance(wants["vocabulary"], WantsVocabulary)
    kinds = WantsVocabulary | WantsTokens | WantsNgrams | WantsCooccurrence
    assert all(isinstance(want, kinds) for want in wants.values())
    assert len(wants) > 1


@every
def test_one_training_style_and_the_capabilities_of_the_row(row: Row, world: World) -> None:
    model = world.model(row)
    styles = {style for style, protocol in STYLES.items() if isinstance(model, protocol)}
    assert styles == {row.config.style}
    assert set(capabilities(model)) == set(row.can)
    artifact = world.train(row.config)
    assert read_capabilities(world.runner.store.reader(artifact)) == capabilities(model)


# --- training -------------------------------------------------------------------------------


@every
def test_same_seed_same_model_other_seed_another(row: Row, world: World) -> None:
    """In one thread; a replicate is a training of its own that shares nothing but its inputs."""
    first, again = world.train(row.config), world.train(row.config, replicate=1)
    assert first.recipe != again.recipe
    assert first.content == again.content
    other = world.train(row.config, seed=2)
    assert (other.content == first.content) == (row.config.style == "fits")


@every
def test_training_changes_the_model_and_reports_numbers(row: Row, world: World) -> None:
    store = world.runner.store
    made = prepare(world.runner, world.corpus, row.config)
    inputs = read_inputs(row.config, {role: store.reader(a) for role, a in made.items()})
    before, after = row.config.build(inputs, seed=1).state(), world.model(row).state()
    assert any(not np.array_equal(before[key], after[key]) for key in after)
    for key, array in after.items():
        assert array.dtype.kind in "iuf", key
        assert array.dtype.kind != "f" or np.isfinite(array).all(), key
    stats = store.manifest(world.train(row.config)).stats
    assert float(stats["training_seconds"]) >= 0
    assert all(math.isfinite(v) for v in stats.values() if isinstance(v, float))


@pytest.mark.parametrize("row", [r for r in ROWS if hasattr(r.config, "learning_rate")], ids=name)
def test_a_training_that_runs_away_is_stopped(row: Row, world: World) -> None:
    config = dataclasses.replace(row.config, learning_rate=1e30)
    with pytest.raises(TrainingError):
        world.train(config)
    params = Train(config, world.text)
    recipe = recipe_of("train", TRAIN.version, params, prepare(world.runner, world.corpus, config))
    assert world.runner.store.find("train", recipe) is None


@every
def test_a_vocabulary_without_words_is_refused(row: Row, world: World) -> None:
    with pytest.raises(TrainingError, match=r"min_count.*no word"):
        world.train(dataclasses.replace(row.config, min_count=100_000))


@every
def test_a_text_of_one_word_trains_or_is_refused(row: Row, tmp_path: Path) -> None:
    world = make_world(tmp_path, ["so"])
    with contextlib.suppress(TrainingError):
        state = world.model(row).state()
        assert all(np.isfinite(a).all() for a in state.values() if a.dtype.kind == "f")


# --- what learning is made of ---------------------------------------------------------------

learning = pytest.mark.parametrize("row", [r for r in ROWS if r.config.style == "learns"], ids=name)
# All of one length: streams of text then begin with a sentence, not amid one without its start.
TWENTY = """
the old king rules here
the queen loses her crown
a cat sleeps all day
birds sing in the morning
seven ships sail far away
wind moves the tall trees
rivers run to the sea
children play by the water
bread and salt are enough
he reads an old letter
she writes a long answer
nobody knows where it went
dogs bark at every stranger
snow covers all our fields
we drink tea at five
they build houses of stone
it rains since last week
my brother sells green apples
winter comes sooner each year
you never told me why
"""
WIDTHS = (
    "embedding", "hidden", "units", "cells", "dim", "char_embedding", "char_units", "speller",
)  # fmt: skip


def learner(config: Any, wider: int = 1, **changes: Any) -> tuple[Any, Inputs]:
    """A new model of a family that leaves nothing out at random, and its inputs: 20 sentences."""
    settings = {field.name for field in dataclasses.fields(config)}
    changes |= {n: 0.0 for n in settings if n == "weight_drop" or n.endswith("dropout")}
    changes |= {n: wider * getattr(config, n) for n in settings & set(WIDTHS)}
    config = dataclasses.replace(config, **{n: v for n, v in changes.items() if n in settings})
    said = [line.split() for line in TWENTY.split("\n") if line]
    types, counts = np.unique([word for sentence in said for word in sentence], return_counts=True)
    words = types.tolist()
    text = Sentences.of(Vocabulary((), tuple(words), counts), said)
    tokens = Tokens([TokenPartition(words, counts, text)])
    want = config.wants()["vocabulary"]
    vocabulary = select(
        words, counts, min_count=want.min_count, max_size=want.max_size, reserved=want.reserved
    )
    inputs = Inputs({"train": tokens, "heldout": tokens, "vocabulary": vocabulary})
    return config.build(inputs, seed=1), inputs


def read_through(model: Any, inputs: Inputs, plan: Plan) -> Iterator[StepOutput]:
    """What a model makes of each batch, going on from what the one before carried."""
    carried: tuple[torch.Tensor, ...] = ()
    for batch in model.batches(inputs, plan):
        output = model(batch, *carried)
        carried = output.carried
        yield output


def perplexity_of(model: Any, inputs: Inputs) -> float:
    """Of the text as held-out text is scored, of characters where these are what is restored."""
    model.eval()
    with torch.no_grad():
        outputs = list(read_through(model, inputs, Plan(1, role="heldout")))
    model.train()
    return math.exp(sum(float(o.nll_sum) for o in outputs) / sum(o.n_scored for o in outputs))


@learning
def test_twenty_sentences_are_learnt_by_heart(row: Row) -> None:
    """Only how a sentence begins is left over: of 20, 1.65 a word."""
    hides = {"masked": 0.3} if getattr(row.config, "objective", "") == "mask" else {}
    layers = 2 if isinstance(row.config, awd_lstm.Config) else 1  # the last is no wider than words
    model, inputs = learner(row.config, wider=4, layers=layers, batch_size=10, **hides)
    # Of the characters of short words more is left over.
    bound = 2.5 if isinstance(model, Scores | FillsIn) else 4.0
    reached = perplexity_of(model, inputs)
    assert reached > 15
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for epoch in range(200):
        for output in read_through(model, inputs, Plan(1, epoch)):
            optimizer.zero_grad()
            (output.objective / max(1, output.n_scored)).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        if epoch % 10 == 9 and (reached := perplexity_of(model, inputs)) < bound:
            break
    assert reached < bound
    text = next(iter(inputs.tokens().under(model.vocabulary)))
    if isinstance(model, Scores):
        assert math.exp(-model.log_prob(text).mean()) < 3
    if row.both:
        assert math.exp(-model.log_prob_backward(text).mean()) < 3
    if isinstance(model, FillsIn):
        assert math.exp(-model.masked_log_prob(text).mean()) < 3


@learning
def test_the_gradient_is_the_slope_of_the_loss(row: Row) -> None:
    """Along random directions: of each parameter alone, and of all together.

    What is drawn, noise or masks, is part of a batch, so that it is the same at both ends.
    """
    model, inputs = learner(row.config)
    model.double().train()
    first, *others = itertools.islice(model.batches(inputs, Plan(1)), 2)
    carried = model(first).carried
    batch = others[0] if others else first

    def objective() -> torch.Tensor:
        found: torch.Tensor = model(batch, *carried).objective
        return found

    objective().backward()  # type: ignore[no-untyped-call]
    random, step = torch.Generator().manual_seed(2), 1e-5
    parameters = dict(model.named_parameters())
    for some in [*([name] for name in parameters), list(parameters), list(parameters)]:
        ways = {
            name: torch.randn(parameters[name].shape, generator=random, dtype=torch.float64)
            for name in some
        }
        size = math.sqrt(sum(float((way**2).sum()) for way in ways.values()))
        slope = sum(float((parameters[n].grad * way).sum()) for n, way in ways.items()) / size
        ends = []
        with torch.no_grad():
            for sign in (1, -2):  # one step ahead, then one behind
                for n, way in ways.items():
                    parameters[n] += sign * step / size * way
                ends.append(float(objective()))
            for n, way in ways.items():
                parameters[n] += step / size * way
        numeric = (ends[0] - ends[1]) / (2 * step)
        assert slope == pytest.approx(numeric, rel=1e-5, abs=1e-7), some


@pytest.mark.parametrize("row", [r for r in ROWS if hasattr(r.config, "dropout")], ids=name)
def test_a_share_of_all_that_is_read_is_left_out_in_training_and_nothing_elsewhere(
    row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read by a recurrent layer, or by the softmax."""
    model, inputs = learner(row.config, wider=4, layers=2, combine="concatenation")
    model.config = dataclasses.replace(model.config, dropout=0.4)
    random, seen = torch.Generator().manual_seed(2), list[torch.Tensor]()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.2, generator=random)  # nothing is 0 by itself

    def seeing(function: Any) -> Any:
        def called(*given: Any, **named: Any) -> Any:
            seen.append(next(x for x in given if isinstance(x, torch.Tensor)))
            return function(*given, **named)

        return called

    softmax, family = getattr(model, "output", None), sys.modules[type(model).__module__]
    readers = [m for m in model.modules() if isinstance(m, Recurrent | Projected)]
    if isinstance(model, spelling_lm.SpellingLm):
        readers.remove(model.output.lstm)  # it spells what has been left out of already
    heads = [(softmax, "loss"), (family, "linear_cross_entropy"), (family, "sampled_loss")]
    for owner, function in [*((reader, "forward") for reader in readers), *heads]:
        if hasattr(owner, function):
            monkeypatch.setattr(owner, function, seeing(getattr(owner, function)))
    batch = next(iter(model.batches(inputs, Plan(1))))
    torch.manual_seed(1)
    model(batch)
    shares = [float((x == 0).float().mean()) for x in seen]
    whole = int(isinstance(model, char_cnn.CharLm))  # its first layer reads words as they are
    assert len(shares) > len(readers)
    assert shares == pytest.approx([0.0] * whole + [0.4] * (len(shares) - whole), abs=0.05)
    seen.clear()
    model.eval()(batch)
    assert all((x != 0).all() for x in seen)


@learning
def test_matrices_decay_and_biases_never_do(row: Row) -> None:
    """Nor does what a blend is made of, which has been learnt before."""
    model, _ = learner(row.config, weight_decay=0.3)
    decays = [(id(p), g["weight_decay"]) for g in model.parameter_groups() for p in g["params"]]
    parts = set(map(id, model._own())) if isinstance(model, blend_lm.BlendLm) else set()
    assert sorted(decays) == sorted(
        (id(p), 0.3 if p.dim() > 1 and id(p) not in parts else 0.0) for p in model.parameters()
    )


@pytest.mark.parametrize("power", [0.0, 1.5])
@pytest.mark.parametrize(
    "config",
    [nplm.Config(objective="nce"), rnnlm.Config(objective="nce"), elmo.Config()],
    ids=lambda config: config.family,
)
def test_noise_is_drawn_by_a_power_of_the_counts(config: Any, power: float) -> None:
    model, inputs = learner(config, noise=500, noise_power=power, min_count=1)
    *_, words, log_q, _ = next(iter(model.batches(inputs, Plan(1))))
    counts = frequencies(model.vocabulary, inputs.tokens()) + 1
    q = counts**power
    q[START] = 0
    q /= q.sum()
    np.testing.assert_allclose(log_q, np.log(q[words]), rtol=1e-5)
    assert counts[words].mean() == pytest.approx(q @ counts, rel=0.2)


# --- training that goes on ------------------------------------------------------------------

growing = pytest.mark.parametrize(
    "row", [r for r in ROWS if isinstance(r.config, GrowingFamily)], ids=name
)


@pytest.fixture(scope="module")
def later(world: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Another text in the same store: new words come, old ones are missing."""
    lines = [
        line.replace("nothing !", f"a {UNSEEN} .").replace("Émile", "an ounce")
        for line in small_text()
    ]
    text = tmp_path_factory.mktemp("later") / "later.txt"
    text.write_text("\n".join(reversed(lines)), "utf-8")
    config = CorpusConfig(name="later", train=Source(paths=(str(text),)))
    return World(world.runner, build_corpus(world.runner, config))


def go_on(later: World, config: FamilyConfig, base: Artifact, replicate: int = 0) -> Artifact:
    inputs = prepare(later.runner, later.corpus, config, base)
    return later.runner.run(TRAIN, inputs, Train(config, later.text, 1, replicate))


@growing
def test_what_a_base_knows_is_taken_over_bit_for_bit(row: Row, world: World, later: World) -> None:
    base, store = world.model(row), world.runner.store
    made = prepare(later.runner, later.corpus, row.config, world.train(row.config))
    inputs = read_inputs(row.config, {role: store.reader(a) for role, a in made.items()})
    fresh, model = (row.config.build(inputs, seed=3) for _ in range(2))
    assert isinstance(model, Grows)
    model.grow_from(base)
    vocabulary, known = model.vocabulary, base.vocabulary
    assert vocabulary.reserved == known.reserved
    assert {UNSEEN, "ounce", "Émile", "nothing"} <= set(vocabulary.words)
    rows = [vocabulary.entries.index(entry) for entry in known.entries]
    new = sorted(set(range(len(vocabulary))) - set(rows))
    assert len(new) >= 2
    for key, array in model.state().items():
        before, beyond = base.state()[key], len(array) - len(vocabulary)
        if array.shape == before.shape:
            assert np.array_equal(array, before), key
        elif beyond >= 0:  # a row an entry, and perhaps others beyond them
            tail = np.arange(len(vocabulary), len(array))
            assert np.array_equal(array[[*rows, *tail]], before), key
            if key in row.means:
                mean = before[len(known.reserved) :].mean(0)
                np.testing.assert_allclose(array[new], [mean] * len(new), rtol=1e-5, atol=1e-7)
            else:
                assert np.array_equal(array[new], fresh.state()[key][new]), key
        else:  # the nodes of a tree
            assert key == "nodes"
    assert isinstance(model, EmbedsWords)
    assert isinstance(base, EmbedsWords)
    assert np.array_equal(model.word_vectors(known.words), base.word_vectors(known.words))
    # Learning goes on from there: an old word that the new text lacks is as near as it was.
    counts = dict(zip(vocabulary.words, vocabulary.counts.tolist(), strict=True))
    old = dict(zip(known.words, known.counts.tolist(), strict=True))
    assert counts["Émile"] == old["Émile"]
    assert counts["the"] > old["the"]


@growing
def test_training_goes_on_and_leaves_its_base_alone(row: Row, world: World, later: World) -> None:
    store = world.runner.store
    base = world.train(row.config)
    files = {part.name: store.files.local(part).read_bytes() for part in store.reader(base).parts}
    grown = go_on(later, row.config, base)
    for part in store.reader(base).parts:
        assert store.files.local(part).read_bytes() == files[part.name], part.name
    model = read_model(store.reader(grown))
    assert isinstance(model, EmbedsWords)
    assert np.isfinite(model.word_vectors([*world.model(row).vocabulary.words, UNSEEN])).all()
    assert not np.array_equal(model.word_vectors(["king"]), world.model(row).word_vectors(["king"]))
    # A rerun is reused, a replicate is the same again, and another base makes another model.
    assert go_on(later, row.config, base) == grown
    assert later.runner.outcomes[-1].reused
    assert go_on(later, row.config, base, replicate=1).content == grown.content
    other = go_on(later, row.config, world.train(row.config, seed=2))
    assert other.recipe != grown.recipe
    assert other.content != grown.content
    assert later.train(row.config).content != grown.content
    inputs = store.manifest(grown).origin["inputs"]
    assert inputs["base"]["content"] == base.content


@every
def test_families_of_counts_do_not_grow(row: Row, world: World) -> None:
    can = isinstance(row.config, GrowingFamily)
    assert isinstance(world.model(row), Grows) == can
    assert not (can and row.config.style == "fits")
    if can:
        assert set(row.config.lasting) <= {field.name for field in dataclasses.fields(row.config)}


# --- a model in the store -------------------------------------------------------------------


def answers(model: Model) -> dict[str, np.ndarray]:
    """What a model says, seen and unseen."""
    found: dict[str, np.ndarray] = {}
    if isinstance(model, EmbedsWords):
        found["vectors"] = model.word_vectors(ASKED)
    if isinstance(model, Scores):
        found["log_prob"] = model.log_prob(Sentences.of(model.vocabulary, SAID))
    if isinstance(model, FillsIn):
        found["filled"] = model.masked_log_prob(Sentences.of(model.vocabulary, SAID))
    if isinstance(model, EmbedsTokens):
        vectors = model.token_vectors(Sentences.of(model.vocabulary, SAID))
        found |= dict(zip(model.layers, vectors, strict=True))
    if isinstance(model, EmbedsSentences):
        found["sentences"] = model.sentence_vectors(Sentences.of(model.vocabulary, SAID))
    return found


@every
def test_a_model_that_is_read_again_is_the_same(row: Row, world: World) -> None:
    model = world.model(row)
    restored = row.config.restore(model.vocabulary, model.state())
    assert restored.config == row.config
    assert restored.vocabulary.hash == model.vocabulary.hash
    assert restored.state().keys() == model.state().keys()
    for key, array in model.state().items():
        assert np.array_equal(restored.state()[key], array), key
    for key, array in answers(model).items():
        assert np.array_equal(answers(restored)[key], array, equal_nan=True), key


@every
def test_the_file_of_a_family_answers_alone(row: Row, world: World) -> None:
    """What is pulled is made of it: no numba, nothing of ours but models, nothing of the stack."""
    reader = world.runner.store.reader(world.train(row.config))
    paths = {
        n: str(reader.path(n)) for n in ("config.json", "vocabulary.json", "weights.safetensors")
    }
    program = f"""
import json, sys
for blocked in ("numba", "tasks", "pipelines", "ray", "mlflow", "prefect", "pyarrow"):
    sys.modules[blocked] = None
import numpy as np
from models import {row.config.family.replace("-", "_")} as family
from models.text import Sentences
from models.vocabulary import Vocabulary
from safetensors.numpy import load_file
config = family.Config(**json.load(open({paths["config.json"]!r}))["config"])
vocabulary = Vocabulary.from_json(json.load(open({paths["vocabulary.json"]!r}, encoding="utf-8")))
model = config.restore(vocabulary, load_file({paths["weights.safetensors"]!r}))
found = {{}}
if hasattr(model, "word_vectors"):
    found["vectors"] = model.word_vectors({ASKED}).tolist()
if hasattr(model, "log_prob"):
    found["log_prob"] = model.log_prob(Sentences.of(vocabulary, {SAID})).tolist()
if hasattr(model, "masked_log_prob"):
    found["filled"] = model.masked_log_prob(Sentences.of(vocabulary, {SAID})).tolist()
if hasattr(model, "token_vectors"):
    vectors = model.token_vectors(Sentences.of(vocabulary, {SAID}))
    found |= {{name: layer.tolist() for name, layer in zip(model.layers, vectors)}}
if hasattr(model, "sentence_vectors"):
    found["sentences"] = model.sentence_vectors(Sentences.of(vocabulary, {SAID})).tolist()
print(json.dumps(found))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    for key, array in answers(world.model(row)).items():
        np.testing.assert_allclose(np.array(found[key]), array, rtol=1e-6, atol=1e-6)


# --- what a model answers -------------------------------------------------------------------


@embedding
def test_its_rows_are_its_word_vectors_and_every_choice_has_all_words(
    row: Row, world: World
) -> None:
    model = world.model(row)
    words = model.vocabulary.words
    assert isinstance(model, EmbedsWords)
    np.testing.assert_array_equal(rows(model).at(slice(0, len(words))), model.word_vectors(words))
    for choice in choices(model):
        table = rows(model, choice)
        assert table.at(np.arange(len(words))).shape == table.shape
        assert len(table) == len(words)


@scoring
def test_log_prob_is_finite_for_unseen_words_contexts_and_empty_sentences(
    row: Row, world: World
) -> None:
    model = world.model(row)
    assert isinstance(model, Scores)
    text = [["river", "king", "!", "!"], [], [UNSEEN] * 9, [".", UNSEEN, "."], ["<s>", "</s>", UNK]]
    sentences = Sentences.of(model.vocabulary, text)
    scores = model.log_prob(sentences)
    assert scores.dtype == np.float64
    assert scores.shape == (len(sentences.ids) + len(text),)
    assert np.isfinite(scores).all()
    assert (scores < 0).all()
    assert model.log_prob(Sentences.of(model.vocabulary, [])).shape == (0,)


@scoring
def test_each_sentence_is_scored_alone(row: Row, world: World) -> None:
    model = world.model(row)
    assert isinstance(model, Scores)
    text = [["the", "king", "sees"], [UNSEEN], [], ["a", "cat", "finds", "nothing", "!"]]
    together = model.log_prob(Sentences.of(model.vocabulary, text))
    alone = [model.log_prob(Sentences.of(model.vocabulary, [sentence])) for sentence in text]
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=0, atol=1e-9)


@closed
def test_probabilities_sum_to_one_in_any_context(row: Row, world: World) -> None:
    """Over the words, <unk> and </s>; <s> is never predicted."""
    model = world.model(row)
    assert isinstance(model, Scores)
    words = [*model.vocabulary.words, UNSEEN]
    rng = np.random.default_rng(0)
    contexts = [[], [UNSEEN], *(list(rng.choice(words, n)) for n in (1, 2, 3, 4, 6))]
    for context in contexts:
        sentences = Sentences.of(model.vocabulary, [[*context, word] for word in words])
        scores = model.log_prob(sentences).reshape(len(words), len(context) + 2)
        end = model.log_prob(Sentences.of(model.vocabulary, [context]))[-1]
        total = np.exp(scores[:, len(context)]).sum() + np.exp(end)
        assert total == pytest.approx(1, abs=1e-6), context


@closed
def test_it_can_be_a_part_of_a_mixture(row: Row, world: World) -> None:
    model = world.model(row)
    assert isinstance(model, LanguageModel)
    half = blend([model, model], (0.5, 0.5), ("one", "other"), ("1", "2"))
    settings = TypeAdapter(mixture.Config).dump_json(half.config)
    again = (
        TypeAdapter(mixture.Config).validate_json(settings).restore(model.vocabulary, half.state())
    )
    said = Sentences.of(model.vocabulary, [["the", "king", "sees"], [UNSEEN], []])
    np.testing.assert_allclose(again.log_prob(said), model.log_prob(said), rtol=1e-9)


@closed
def test_a_text_grows_by_what_its_continuation_scores(row: Row, world: World) -> None:
    """Generation and scoring are of one model, side by side in a batch or alone."""
    model = world.model(row)
    assert isinstance(model, Predicts)
    begun = [[], ["the", "king"], [UNSEEN], ["a", "cat", "finds", "nothing", "!", "a"]]
    decoder = model.decoder(Sentences.of(model.vocabulary, begun))
    words = ["sees", UNSEEN, "the", "cat"]
    # A text grows by entries of the vocabulary, of which one stands for all unknown words.
    grown = [model.vocabulary.entries[i] for i in model.vocabulary.ids(words)]
    for length in range(3):
        log_probs = decoder.log_probs()
        assert log_probs.shape == (len(begun), len(model.vocabulary))
        assert np.isneginf(log_probs[:, model.vocabulary.reserved.index("<s>")]).all()
        np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1, atol=1e-6)
        for text, (found, context) in enumerate(zip(log_probs, begun, strict=True)):
            texts = [[*context, *grown[text : text + 1] * length, word] for word in words]
            scored = [model.log_prob(Sentences.of(model.vocabulary, [t]))[-2] for t in texts]
            np.testing.assert_allclose(found[model.vocabulary.ids(words)], scored, atol=1e-6)
        decoder.append(model.vocabulary.ids(words))


@embedding
def test_word_vectors(row: Row, world: World) -> None:
    model = world.model(row)
    assert isinstance(model, EmbedsWords)
    asked = ["cat", UNSEEN, "king", "cat", "<unk>", "<s>", "Cat"]
    vectors = model.word_vectors(asked)
    assert vectors.dtype == np.float32
    assert vectors.ndim == 2
    known = np.isfinite(vectors).all(axis=1)
    seen = [True, False, True, True, False, False, False]
    assert known.tolist() == [known or row.open for known in seen]
    assert np.isnan(vectors[~known]).all()
    assert np.array_equal(vectors[0], vectors[3])
    assert not np.array_equal(vectors[0], vectors[2])
    assert model.word_vectors([]).shape == (0, vectors.shape[1])
    each = np.concatenate([model.word_vectors([word]) for word in model.vocabulary.words])
    assert np.array_equal(model.word_vectors(model.vocabulary.words), each)


@contextual
def test_vectors_of_tokens_depend_on_their_text_and_on_nothing_beside_it(
    row: Row, world: World
) -> None:
    model = world.model(row)
    assert isinstance(model, EmbedsTokens)
    text = [["the", "king", "sees"], [UNSEEN], [], ["a", "king", "finds", "nothing", "!"]]
    layers = model.token_vectors(Sentences.of(model.vocabulary, text))
    assert [len(vectors) for vectors in layers] == [9] * len(model.layers)
    assert len(set(model.layers)) == len(model.layers)
    assert all(v.dtype == np.float32 and np.isfinite(v).all() for v in layers)
    alone = [model.token_vectors(Sentences.of(model.vocabulary, [s])) for s in text]
    for vectors, parts in zip(layers, zip(*alone, strict=True), strict=True):
        np.testing.assert_allclose(vectors, np.concatenate(parts), rtol=0, atol=1e-6)
    assert not np.allclose(layers[-1][1], layers[-1][5], atol=1e-4)  # one king, the other king
    nothing = model.token_vectors(Sentences.of(model.vocabulary, []))
    assert [v.shape for v in nothing] == [(0, v.shape[1]) for v in layers]


@contextual
def test_vectors_of_sentences(row: Row, world: World) -> None:
    model = world.model(row)
    assert isinstance(model, EmbedsSentences)
    text = [["the", "king", "sees"], [UNSEEN], [], ["sees", "the", "king"]]
    vectors = model.sentence_vectors(Sentences.of(model.vocabulary, text))
    assert vectors.dtype == np.float32
    assert vectors.ndim == 2
    assert np.isfinite(vectors).all()
    alone = [model.sentence_vectors(Sentences.of(model.vocabulary, [s])) for s in text]
    np.testing.assert_allclose(vectors, np.concatenate(alone), rtol=0, atol=1e-6)
    assert not np.allclose(vectors[0], vectors[3], atol=1e-4)
    nothing = model.sentence_vectors(Sentences.of(model.vocabulary, []))
    assert nothing.shape == (0, vectors.shape[1])


@every
def test_evaluation(row: Row, world: World, tmp_path: Path) -> None:
    """It answers the evaluators of its capabilities, is not changed, and says the same twice."""
    pairs, questions = tmp_path / "pairs.tsv", tmp_path / "questions.txt"
    words = ["king", "queen", "cat", "bird", "fish", "river"]
    rows = [f"{a}\t{b}\t{i}" for i, (a, b) in enumerate(itertools.permutations(words, 2))]
    pairs.write_text("\n".join([*rows, f"king\t{UNSEEN}\t1"]), "utf-8")
    asked = [" ".join(four) for four in itertools.islice(itertools.permutations(words, 4), 25)]
    questions.write_text("\n".join([": all", *asked, f"king queen cat {UNSEEN}", ""]), "utf-8")
    sets = {"similarity": (str(pairs),), "analogy": (str(questions),)}
    config = EvaluationConfig(splits=("valid", "test"), **sets)
    model = world.train(row.config)
    before = {key: array.copy() for key, array in world.model(row).state().items()}

    def evaluated(runner: Runner) -> Artifact:
        return evaluate_model(runner, model, world.corpus, config, row.config.family)

    artifact = evaluated(world.runner)
    scores = {score.name: score for score in read_scores(world.runner.store.reader(artifact))}
    expected: set[str] = set()
    if "scores" in row.can:
        expected |= {
            f"{n}.{s}" for n in ("perplexity", "bits_per_character") for s in config.splits
        }
        found = scores["perplexity.test"]
        if row.both:
            expected |= {f"perplexity_backward.{s}" for s in config.splits}
        assert found.value > 1
        assert row.spells or found.value < found.baselines[0].value
        # Training judges held-out text by the same full estimator.
        stats = world.runner.store.manifest(model).stats
        if "heldout_perplexity" in stats:
            found = scores["perplexity.valid"].value
            if row.both:  # the mean of both directions
                found = math.sqrt(found * scores["perplexity_backward.valid"].value)
            assert found == pytest.approx(float(stats["heldout_perplexity"]), rel=0.01)
    if "fills_in" in row.can:
        expected |= {f"pseudo_perplexity.{s}" for s in config.splits}
        pseudo = scores["pseudo_perplexity.test"]
        assert 1 < pseudo.value < pseudo.baselines[0].value
    if "embeds_words" in row.can:
        expected |= {"similarity.pairs", "analogy.questions", "analogy.questions.3cosmul"}
        pairs_scored = 31 if row.open else 30
        assert scores["similarity.pairs"].scored == pairs_scored
        assert scores["similarity.pairs"].total == 31
        assert (scores["analogy.questions"].scored, scores["analogy.questions"].total) == (25, 26)
        assert read_neighbours(world.runner.store.reader(artifact))
    assert set(scores) == expected
    assert all(score.value is not None and score.baselines for score in scores.values())
    assert all(np.array_equal(before[k], a) for k, a in world.model(row).state().items())
    # Once more, with what was found removed.
    world.runner.store.discard(artifact.step, artifact.recipe)
    assert evaluated(world.runner).content == artifact.content
    assert evaluated(world.runner) == artifact
    assert world.runner.outcomes[-1].reused
