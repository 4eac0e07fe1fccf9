from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models import ngram, nplm, rnnlm, spelling_lm, word2vec
from models.families import FamilyConfig
from models.mixture import Mixture, mixed
from models.text import Sentences
from tasks.artifacts import Artifact
from tasks.corpus import Corpus, CorpusConfig, build_corpus
from tasks.errors import ConfigError, InputError
from tasks.evaluation import EvaluationConfig, evaluate_model, incomparable, read_scores
from tasks.mix import mix_models
from tasks.models import TextPipeline, read_model
from tasks.prepare import prepare
from tasks.runner import Runner
from tasks.sources import Source
from tasks.split import Fractions
from tasks.store import Store
from tasks.train import TRAIN, Train


class World:
    """A corpus in a store and models by name."""

    def __init__(self, folder: Path) -> None:
        random = np.random.default_rng(2)
        words = ["the", "a", "cat", "dog", "king", "sees", "finds", "river", "fish"]
        lines = [" ".join(random.choice(words, random.integers(2, 8))) for _ in range(400)]
        (folder / "text.txt").write_text("\n".join(lines))
        self.runner = Runner(Store(str(folder / "store"), folder / "cache"))
        source = Source(paths=(str(folder / "text.txt"),))
        config = CorpusConfig(
            name="small", train=source, split=Fractions(valid=0.2, test=0.2), deduplicate=False
        )
        self.corpus: Corpus = build_corpus(self.runner, config)

    def train(self, config: FamilyConfig) -> Artifact:
        pipeline = TextPipeline(self.corpus.config.normalize, self.corpus.config.tokenize)
        inputs = prepare(self.runner, self.corpus, config)
        return self.runner.run(TRAIN, inputs, Train(config, pipeline))

    def mixture(self, artifact: Artifact) -> Mixture:
        model = read_model(self.runner.store.reader(artifact))
        assert isinstance(model, Mixture)
        return model


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def parts(world: World) -> dict[str, Artifact]:
    neural = nplm.Config(embedding=4, hidden=4, epochs=1, batch_size=32, min_count=1, max_size=None)
    return {
        "one": world.train(ngram.Config(order=1, min_count=1)),
        "three": world.train(ngram.Config(order=3, min_count=1)),
        "neural": world.train(neural),
    }


def said(model: Mixture) -> Sentences:
    return Sentences.of(model.vocabulary, [["the", "cat", "zebra"], [], ["river"]])


def test_fitted_weights_are_the_best_on_the_held_out_text(
    world: World, parts: dict[str, Artifact]
) -> None:
    heldout = world.corpus.tokens["valid"]
    artifact = mix_models(world.runner, parts, heldout=heldout)
    model = world.mixture(artifact)
    stats = world.runner.store.manifest(artifact).stats
    assert sum(model.config.weights) == pytest.approx(1)
    assert [stats[f"weight.{name}"] for name in parts] == list(model.config.weights)
    alone = [float(stats[f"heldout_perplexity.{name}"]) for name in parts]
    fitted = float(stats["heldout_perplexity.mixture"])
    assert fitted <= min(alone) + 1e-9
    # What the step says is what evaluation finds on the same text.
    scored = evaluate_model(
        world.runner, artifact, world.corpus, EvaluationConfig(splits=("valid",)), "mixture"
    )
    found = {s.name: s.value for s in read_scores(world.runner.store.reader(scored))}
    assert found["perplexity.valid"] == pytest.approx(fitted, rel=1e-6)
    scores = np.stack([part.log_prob(said(model)) for part in model.parts])
    expected = mixed(scores, np.array(model.config.weights))
    np.testing.assert_array_equal(model.log_prob(said(model)), expected)
    again = mix_models(world.runner, parts, heldout=heldout)
    assert again == artifact


def test_a_mixture_of_a_mixture_is_one_of_its_parts(
    world: World, parts: dict[str, Artifact]
) -> None:
    one, three, neural = parts.values()
    inner = mix_models(world.runner, {"a": one, "b": three}, weights=(0.25, 0.75))
    outer = world.mixture(mix_models(world.runner, {"in": inner, "c": neural}, weights=(0.4, 0.6)))
    assert outer.config.weights == pytest.approx((0.1, 0.3, 0.6))
    assert outer.config.names == ("in: a", "in: b", "c")
    assert outer.config.contents == (one.content, three.content, neural.content)
    flat = world.mixture(
        mix_models(world.runner, {"x": one, "y": three, "z": neural}, weights=(0.1, 0.3, 0.6))
    )
    np.testing.assert_allclose(outer.log_prob(said(outer)), flat.log_prob(said(flat)), rtol=1e-12)


def test_a_text_of_unknown_words_says_nothing_of_weights(
    world: World, parts: dict[str, Artifact], tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_text("gnat wasp\nmoth gnat\n")
    source = Source(paths=(str(tmp_path / "text.txt"),))
    config = CorpusConfig(name="other", train=source, split=Fractions(valid=0, test=0))
    heldout = build_corpus(world.runner, config).tokens["train"]
    with pytest.raises(InputError, match="no word of the vocabulary"):
        mix_models(world.runner, dict([*parts.items()][:2]), heldout=heldout)


def test_what_reads_on_is_fitted_as_it_is_evaluated(
    world: World, parts: dict[str, Artifact]
) -> None:
    """A state that is kept over sentences, beside n-grams that begin anew with each."""
    config = rnnlm.Config(units=6, embedding=6, epochs=1, batch_size=4, min_count=1, max_size=None)
    mixed_up = {"three": parts["three"], "recurrent": world.train(config)}
    artifact = mix_models(world.runner, mixed_up, heldout=world.corpus.tokens["valid"])
    assert world.mixture(artifact).reads_on
    scored = evaluate_model(
        world.runner, artifact, world.corpus, EvaluationConfig(splits=("valid",)), "mixture"
    )
    found = {s.name: s.value for s in read_scores(world.runner.store.reader(scored))}
    stats = world.runner.store.manifest(artifact).stats
    assert found["perplexity.valid"] == pytest.approx(
        float(stats["heldout_perplexity.mixture"]), rel=1e-6
    )


def test_what_cannot_be_mixed(world: World, parts: dict[str, Artifact]) -> None:
    one, three, _ = parts.values()
    run = world.runner
    with pytest.raises(ConfigError, match="the same model as a"):
        mix_models(run, {"a": one, "b": one}, weights=(0.5, 0.5))
    with pytest.raises(ConfigError, match="1 model makes no mixture"):
        mix_models(run, {"a": one}, weights=(1.0,))
    with pytest.raises(ConfigError, match=r"sum to 1, not to 0\.9"):
        mix_models(run, {"a": one, "b": three}, weights=(0.5, 0.4))
    tiny = {"char_units": 3, "char_embedding": 3, "units": 4, "min_count": 1, "epochs": 1}
    spelling = [world.train(spelling_lm.Config(speller=n, **tiny)) for n in (3, 4)]  # type: ignore[arg-type]
    for other in (one, spelling[1]):
        with pytest.raises(InputError, match="it spells words out"):
            mix_models(run, {"a": other, "b": spelling[0]}, weights=(0.5, 0.5))
    vectors = world.train(word2vec.Config(dim=4, epochs=1, min_count=1))
    with pytest.raises(InputError, match="no probability of text"):
        mix_models(run, {"a": one, "b": vectors}, weights=(0.5, 0.5))
    backward = world.train(
        rnnlm.Config(
            units=4, embedding=4, direction="backward", epochs=1, min_count=1, max_size=None
        )
    )
    with pytest.raises(InputError, match="it reads right to left and a left to right"):
        mix_models(run, {"a": one, "b": backward}, weights=(0.5, 0.5))
    fewer = world.train(ngram.Config(order=2, min_count=1, max_size=5))
    with pytest.raises(InputError, match=r"its vocabulary \(8 entries\) is not that of a \(12\)"):
        mix_models(run, {"a": one, "b": fewer}, weights=(0.5, 0.5))


def test_a_model_that_reads_backward_is_never_ranked_with_or_mixed_into_one_that_does_not(
    world: World, parts: dict[str, Artifact]
) -> None:
    small = rnnlm.Config(units=4, embedding=4, epochs=1, batch_size=8, min_count=1, max_size=None)
    made = {d: world.train(replace(small, direction=d)) for d in ("forward", "backward")}
    scores = []
    for artifact in made.values():
        config = EvaluationConfig(similarity=(), analogy=())
        found = evaluate_model(world.runner, artifact, world.corpus, config, "small")
        scores.append(read_scores(world.runner.store.reader(found))[0])
    assert "right to left" in scores[1].policy
    assert incomparable(*scores) == "they read in different directions"
    with pytest.raises(InputError, match="right to left and forward left to right"):
        mix_models(world.runner, made, weights=(0.5, 0.5))
