"""What MLflow serves answers as lexloom does, where no module of lexloom can be imported."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow.pyfunc
import pandas as pd
import pytest

from models.class_ngram import Config as ClassNgramConfig
from models.fasttext import Config as FasttextConfig
from models.glove import Config as GloveConfig
from models.ngram import Config as NgramConfig
from models.nplm import Config as NplmConfig
from models.ppmi import Config as PpmiConfig
from models.word2vec import Config as Word2vecConfig
from tasks.analyze import Analyze
from tasks.joining import Joining
from tasks.models import TextPipeline
from tasks.normalize import Normalize
from tasks.registry import open_model, register
from tasks.store import Store
from tasks.tokenize import Tokenize, tokenize_text
from tests.tasks.export.questions import answers, difference, questions
from tests.tasks.trained import train_small

ABSENT = ["models", "tasks", "pipelines", "numba", "regex", "safetensors", "prefect", "ray"]
CONFIGS = [
    NgramConfig(order=4, min_count=1),
    ClassNgramConfig(order=3, classes=4, min_count=1),
    Word2vecConfig(dim=9, min_count=1),
    FasttextConfig(dim=6, buckets=300, min_count=1),
    GloveConfig(dim=6, min_count=1),
    PpmiConfig(dim=6, min_count=1),
    NplmConfig(
        embedding=7, hidden=6, min_count=1, direct=True
    ),  # the last: its torch stays in the process
]


def test_answers_without_lexloom(store: Store, tracking_uri: str, workshop: Path) -> None:
    names = [f"served-{config.family}" for config in CONFIGS]
    for name, config in zip(names, CONFIGS, strict=True):
        model = train_small(store, config)
        register(store, model, name, tracking_uri=tracking_uri, scores=[], tags={})
    (workshop / "questions.json").write_text(json.dumps(questions()))
    references = [f"models:/{name}@challenger" for name in names]
    subprocess.run(
        [
            *(sys.executable, str(Path(__file__).with_name("asked.py")), tracking_uri),
            *("questions.json", "answers.json", ",".join(references), *ABSENT),
        ],
        check=True,
        cwd=workshop,
    )
    report = json.loads((workshop / "answers.json").read_text())
    for reference, name in zip(references, names, strict=True):
        native = answers(open_model(f"{name}/1", tracking_uri).model)
        for found, expected in zip(report[reference]["answers"], native, strict=True):
            if expected is None:
                assert "has no word vectors" in found["refused"] or (
                    "gives no probability" in found["refused"]
                )
            else:
                assert difference(found, expected) < 1e-6
        assert report[reference]["torch"] == (name == "served-nplm")


def load(store: Store, uri: str, name: str, config: Any, text: TextPipeline) -> Any:
    model = train_small(store, config, text=text)
    register(store, model, name, tracking_uri=uri, scores=[], tags={})
    mlflow.set_tracking_uri(uri)
    return mlflow.pyfunc.load_model(f"models:/{name}@challenger")


def test_raw_text_where_the_pipeline_is_portable(store: Store, tracking_uri: str) -> None:
    config = NgramConfig(order=2, min_count=1)
    normalize = Normalize(lowercase=True, quotes=True, entities=True, digits="class")
    portable = TextPipeline(normalize, Tokenize("whitespace"))
    served = load(store, tracking_uri, "portable", config, portable)
    for text in ("The  Cat\u200b TURNS\u00ad .", "nai\u0308ve", "R&amp;D “7”", ""):
        tokens = served.unwrap_python_model().tokens(text)
        from tasks.normalize import normalize_text

        native = tokenize_text(normalize_text(text, normalize), portable.tokenize)
        assert tokens == (native[0] if native else [])
        by_text = served.predict([{"text": text}])
        by_tokens = served.predict([{"tokens": tokens}])
        assert by_text.equals(by_tokens)
    with pytest.raises(Exception, match="several lines"):
        served.predict([{"text": "one\ntwo"}])
    stemmed = TextPipeline(normalize, Tokenize("whitespace"), analyze=Analyze(words="porter"))
    repaired = TextPipeline(Normalize(mojibake=True), Tokenize("whitespace"))
    for name, text, problem in [("stemmed", stemmed, "stems"), ("repaired", repaired, "ftfy")]:
        with pytest.raises(Exception, match=f"{problem}.*give token lists"):
            load(store, tracking_uri, name, config, text).predict([{"text": "a b"}])
    words = TextPipeline(normalize, Tokenize("words"))
    with pytest.raises(Exception, match="scheme 'words', which takes lexloom: give token lists"):
        load(store, tracking_uri, "unportable", config, words).predict([{"text": "a b"}])
    phrases = replace(portable, phrases=Joining(((("the", "", "cat"),),)))
    served = load(store, tracking_uri, "joined", config, phrases)
    with pytest.raises(Exception, match="with its phrases joined, which takes lexloom: give token"):
        served.predict([{"text": "the cat"}])
    assert served.predict([{"tokens": ["the", "cat"]}])["unknown"].tolist() == [0]
    opened = open_model("joined/1", tracking_uri)
    assert opened.text.sentences("THE cat turns") == [["the_cat", "turns"]]


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"temperature": -1.0}, "temperature is a number from 0 on"),
        ({"top_k": 0}, "top-k is 1 or more words, not 0"),
        ({"top_p": 0.0}, "top-p is a share"),
        ({"length": 0}, "length is 1 or more"),
    ],
)
def test_text_is_not_made_in_ways_that_mean_nothing(
    params: dict[str, Any], problem: str, store: Store, tracking_uri: str
) -> None:
    text = TextPipeline(Normalize(), Tokenize("whitespace"))
    served = load(store, tracking_uri, "asked-text", NgramConfig(order=2, min_count=1), text)
    with pytest.raises(mlflow.exceptions.MlflowException, match=problem):
        served.predict([{"text": "the"}], params={"task": "generate", **params})
    greedy = {"task": "generate", "temperature": 0.0, "length": 5}
    one, two = served.predict([{"text": "the cat"}] * 2, greedy)["tokens"]
    assert one == two != []
    # Signatures let null through, and the letters of a string are no tokens.
    with pytest.raises(mlflow.exceptions.MlflowException, match="a list of strings in every row"):
        served.predict([{"tokens": None}], params={"task": "log_prob"})
    for nonsense in (None, math.nan, "the cat"):
        with pytest.raises(mlflow.exceptions.MlflowException, match="a list of strings in every"):
            served.unwrap_python_model().predict(
                None, pd.DataFrame({"tokens": [["the"], nonsense]}), {"task": "log_prob"}
            )


def test_what_makes_no_question_is_refused(store: Store, tracking_uri: str) -> None:
    text = TextPipeline(Normalize(), Tokenize())
    served = load(store, tracking_uri, "questions", Word2vecConfig(dim=4, min_count=1), text)
    two = {"word": ["cat", "river"], "other": ["cat"]}
    for rows, params, problem in [
        ([{"word": None}], {}, "'word' must hold a string in every row, not nothing as in row 1"),
        ([{"word": "cat"}, {"word": None}], {}, "not nothing as in row 2"),
        ([{"words": None}], {"task": "odd_one_out"}, "a list of strings in every row, not nothing"),
        ([{"word": "cat"}], {"k": -1}, "k, the number of answers, .* from 1 on, not -1"),
        ([{"word": "cat"}], {"k": 0}, "from 1 on, not 0"),
        (two, {"task": "similarity"}, "word, other must be equally long, and have 2, 1 rows"),
    ]:
        with pytest.raises(mlflow.exceptions.MlflowException, match=problem):
            served.predict(rows, params=params)
    model = served.unwrap_python_model()
    for ask in (model.neighbours, lambda word, k: model.analogy(word, "river", "cat", k)):
        with pytest.raises(mlflow.exceptions.MlflowException, match="from 1 on, not -1"):
            ask("cat", -1)
    holed = pd.DataFrame({"words": [["cat", None]]})  # MLflow itself makes "None" of it
    with pytest.raises(mlflow.exceptions.MlflowException, match="list of strings in every row"):
        model.predict(None, holed, {"task": "odd_one_out"})
    misnamed = pd.DataFrame({"prefix": ["the"]})
    with pytest.raises(mlflow.exceptions.MlflowException, match=r"no 'word' \(there is 'prefix'\)"):
        model.predict(None, misnamed)
    first = served.predict([{"word": "cat"}], params={"k": None})
    assert [len(found) for found in first["neighbours"]] == [10]
    rank = served.predict([{"word": "cat", "other": "the"}], {"task": "rank", "k": 0})
    assert rank["closer"].tolist() == [[]]

    ngram = load(store, tracking_uri, "text-questions", NgramConfig(order=2, min_count=1), text)
    model = ngram.unwrap_python_model()
    with pytest.raises(mlflow.exceptions.MlflowException, match=r"`tokens`.*neither .*'prefix'"):
        model.predict(None, misnamed, {"task": "generate"})
    with pytest.raises(mlflow.exceptions.MlflowException, match="column `tokens`, or sentences in"):
        ngram.predict([{"prefix": "the"}], params={"task": "generate"})
    with pytest.raises(mlflow.exceptions.MlflowException, match=r"there are log_prob, generate$"):
        ngram.predict([{"tokens": ["the"]}], params={"task": "colour"})
    assert "perplexity is" in model.__doc__
    assert not any(other in model.__doc__ for other in ("wmdistance", "fill_in", "senses"))


def test_the_ways_to_ask(store: Store, tracking_uri: str) -> None:
    served = load(
        store,
        tracking_uri,
        "asked",
        Word2vecConfig(dim=4, min_count=1),
        TextPipeline(Normalize(), Tokenize()),
    )
    rows = served.predict([{"word": "cat"}, {"word": "river"}], params={"k": 2})
    columns = served.predict({"word": ["cat", "river"]}, params={"k": 2})
    assert rows.equals(columns)
    assert [len(found) for found in rows["neighbours"]] == [2, 2]
    model = served.unwrap_python_model()
    best = model.neighbours("cat", 2)
    assert [word for word, _ in best] == rows["neighbours"][0]
    assert model.similarity("cat", best[0][0]) == pytest.approx(best[0][1], abs=1e-6)
    assert model.similarity("cat", "nowhere") is None
    similarity = {"task": "similarity"}
    for rows, params, problem in [
        ([{"word": "cat"}], {"task": "colour"}, "there is no task 'colour'; there are vectors"),
        (
            [{"word": "cat"}],
            {"vectors": "best"},
            "no best vectors: choose among own, input, output",
        ),
        ([{"expression": "cat river"}], {"task": "expression"}, "'cat river' is no sum of words"),
        ([{"word": "cat"}], {"task": "odd_one_out"}, "lists of strings in the columns words"),
        ([{"a": "cat"}], {"task": "analogy"}, "reads the columns a, b, c, and there is no 'b'"),
        ([{"word": "cat"}], {"task": "log_prob"}, "gives no probability of text"),
    ]:
        with pytest.raises(mlflow.exceptions.MlflowException, match=problem):
            served.predict(rows, params=params)
    for choice in ("input", "output", "sum"):
        found = served.predict([{"word": "cat"}], {"k": 2, "vectors": choice})["neighbours"]
        assert list(found[0]) == [
            w for w, _ in model.word_vectors(choice).most_similar(["cat"], k=2)
        ]
    gaps = served.predict([{"word": "cat", "other": w} for w in ("the", "nowhere")], similarity)
    assert gaps["similarity"].tolist()[1] is None
    assert gaps["unknown"].tolist() == [None, "nowhere"]
    told = model.__doc__
    assert "method       of analogies" in told
    assert not any(other in told for other in ("log_prob", "fill_in", "perplexity", "top_k"))
    example = served.input_example
    assert served.predict(example, params={"task": "neighbours", "k": 5}) is not None
