"""A registered model for whoever pulled it: what MLflow serves, without lexloom.

Nobody imports this module. ``tasks.export.bundle`` cuts a file out of it, together with the family
and whatever else the model needs; that file needs MLflow and numpy, and torch for neural families.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext
from numpy.typing import NDArray
from pydantic import TypeAdapter

from models.capabilities import (
    EmbedsSentences,
    EmbedsTokens,
    EmbedsWords,
    FillsIn,
    Predicts,
    Scores,
    SpellsWords,
)
from models.expressions import signed_words
from models.family import with_article
from models.generation import Sampling, generate
from models.occurrences import chosen_layers, nearest_others
from models.tables import Choice, choices
from models.text import Sentences
from models.vectors import Method
from models.vocabulary import Vocabulary
from models.word_vectors import Ranked, UnknownWord, WordVectors
from tasks.export.native import check_folder
from tasks.normalize import Normalize, normalize_line
from tasks.store import map_tensors


class Pretrained(PythonModel):
    """A pulled model.

    ``predict`` takes a row a question (a DataFrame, a dict of columns, or a list of dicts) and
    gives a row an answer. ``params={"task": ...}`` says what is asked:

    =================  ==============  ===========================================================
    task               columns         answer
    =================  ==============  ===========================================================
    vectors            word            ``vector``
    neighbours         word            ``neighbours``, ``similarities``, best first
    expression         expression      the same of a signed sum, ``king - boy + girl``
    similarity         word, other     ``similarity``, the cosine
    analogy            a, b, c         ``answers``, ``scores``: "a is to b as c is to ?"
    offset_similarity  a, b, c, d      ``similarity`` of the ways from a to b and from c to d
    n_similarity       words, others   ``similarity`` of the means of two lists of words
    wmdistance         words, others   ``distance``, the word mover's
    odd_one_out        words           ``word`` of a list, and ``words``, ``similarities`` of all
    rank               word, other     ``rank`` of the other among the neighbours, and ``closer``
    log_prob           tokens or text  ``log_probs`` of each token and of the sentence end,
                                       in nats, ``log_prob``, their sum, and ``unknown``,
                                       how many tokens the model does not know
    generate           tokens or text  ``tokens`` that go on from these, ``ended``, whether the
                                       sentence did, and ``log_prob`` of what was made
    fill_in            tokens or text  ``log_probs`` of each token, hidden in turn and predicted
                                       from all others, in nats; no probability of the text
    token_vectors      tokens or text  ``vectors``, one for each token in its context
    sentence_vectors   tokens or text  ``vector``
    senses             tokens or text  a row for each occurrence of the ``word`` in all rows:
                                       ``row``, ``position``, and ``rows``, ``positions``,
                                       ``similarities`` of those most alike, best first
    =================  ==============  ===========================================================

    More ``params``: ``k``, how many neighbours or answers (10); ``method`` of analogies, "3cosadd"
    or "3cosmul"; ``vectors``, which of the model's vectors answer: "own", "input", "output", "sum",
    "before-highway" or "after-highway". Of generate: ``length`` (50), words to make at most;
    ``seed`` (1), row i depends on it and on i alone; ``temperature`` (1.0), ``top_k``, ``top_p``
    (1.0); ``unknown`` (False), whether ``<unk>`` may be made. Of token_vectors and
    senses: ``layer`` ("last"), by its name; of senses: ``word``.

    An answer about a word that the model does not know is None. ``tokens``, ``words`` and
    ``others`` are lists of strings; ``text``, one sentence as a string, is taken only where the
    text pipeline of the model can be repeated without lexloom.

    ``unwrap_python_model()`` of the loaded model gives this object, whose methods answer the same
    questions one at a time; ``word_vectors()`` has more.
    """

    def __init__(self, family: Any) -> None:
        self._family = family
        self._asked: dict[Choice, WordVectors] = {}

    def load_context(self, context: PythonModelContext) -> None:
        """Read the files of the model; none of them is a pickle."""
        folder = Path(context.artifacts["config"]).parent
        check_folder(folder)

        def read(name: str) -> Any:
            return json.loads((folder / name).read_bytes().decode("utf-8", "surrogatepass"))

        config = TypeAdapter(self._family).validate_python(read("config.json")["config"])
        self.vocabulary = Vocabulary.from_json(read("vocabulary.json"))
        self.model = config.restore(self.vocabulary, map_tensors(folder / "weights.safetensors"))
        self.text = read("text.json")

    # --- one question at a time ---

    def word_vectors(self, vectors: Choice = "own") -> WordVectors:
        """The word vectors, which answer all questions that gensim's ``KeyedVectors`` answer.

        Raises:
            MlflowException: the model has none, or not these.
        """
        there = choices(self.model)
        if not there:
            raise _refusal(f"{self._title} model has no word vectors")
        if vectors not in there:
            raise _refusal(
                f"{self._title} model has no {vectors} vectors: choose among {', '.join(there)}"
            )
        if vectors not in self._asked:
            self._asked[vectors] = WordVectors(self.model, vectors)
        return self._asked[vectors]

    def vectors(self, words: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) float32; a row of NaN for a word that the model does not know."""
        _ = self.word_vectors()
        return np.asarray(self.model.word_vectors(words), dtype=np.float32)

    def neighbours(self, word: str, k: int = 10) -> Ranked | None:
        """The ``k`` words nearest to a word by cosine, with their cosines."""
        vectors = self.word_vectors()
        return vectors.most_similar([word], k=k) if vectors.knows(word) else None

    def similarity(self, word: str, other: str) -> float | None:
        """The cosine of two words."""
        vectors = self.word_vectors()
        return vectors.similarity(word, other) if _all_known(vectors, [word, other]) else None

    def analogy(
        self, a: str, b: str, c: str, k: int = 10, method: Method = "3cosadd"
    ) -> Ranked | None:
        """The ``k`` best answers to "a is to b as c is to ?", with their scores."""
        vectors = self.word_vectors()
        if not _all_known(vectors, [a, b, c]):
            return None
        return vectors.analogy(a, b, c, k, method)

    def log_prob(self, tokens: Sequence[str]) -> NDArray[np.float64]:
        """(T + 1,) log-probabilities in nats of the tokens of a sentence and of its end."""
        sentences = Sentences.of(self.vocabulary, [list(tokens)])
        return np.asarray(self._scores.log_prob(sentences), dtype=np.float64)

    def tokens(self, text: str) -> list[str]:
        """The tokens of one sentence of raw text, as they were made for training.

        Raises:
            MlflowException: that takes more than this file has, or it is not one sentence.
        """
        scheme, settings = self.text["tokenize"]["scheme"], self.text["normalize"]
        if scheme != "whitespace" or self.text.get("phrases"):
            joined = " with its phrases joined" if self.text.get("phrases") else ""
            raise _refusal(
                f"this model reads text that was cut by the scheme {scheme!r}{joined}, which takes "
                "lexloom: give token lists in the column `tokens`"
            )
        analysis = {"sentences": "line", "words": "surface"} | self.text.get("analyze", {})
        if (analysis["sentences"], analysis["words"]) != ("line", "surface"):
            raise _refusal(
                "this model reads text whose sentences were split or whose words were reduced to "
                "stems or lemmas, which this file does not carry: give token lists in the column "
                "`tokens`"
            )
        if settings.get("mojibake"):
            raise _refusal(
                "this model reads text that ftfy has repaired, which this file does not carry: "
                "give token lists in the column `tokens`"
            )
        if len(text.splitlines()) > 1:
            raise _refusal("give one sentence a row: this text has several lines")
        return normalize_line(text, Normalize(**settings)).split()

    # --- many questions ---

    def predict(
        self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        """The answers to a table of questions; see the class."""
        params = params or {}
        default = "neighbours" if isinstance(self.model, EmbedsWords) else "log_prob"
        task = params.get("task") or default
        if task == "log_prob":
            answers = self._log_probs(model_input)
        elif task == "generate":
            answers = self._texts(model_input, params)
        elif task in CONTEXTUAL:
            answers = CONTEXTUAL[task](self, self._sentences(model_input), params)
        elif task in QUESTIONS:
            answers = self._about_words(QUESTIONS[task], model_input, params)
        else:
            there = ", ".join([*QUESTIONS, "log_prob", "generate", *CONTEXTUAL])
            raise _refusal(f"there is no task {task!r}; there are {there}")
        # Left to itself, pandas makes NaN of None among numbers, which JSON does not know.
        return pd.DataFrame(
            {
                name: pd.Series(column, dtype="object" if None in column else None)
                for name, column in answers.items()
            }
        )

    def _about_words(
        self, question: Question, table: pd.DataFrame, params: dict[str, Any]
    ) -> dict[str, list[Any]]:
        vectors = self.word_vectors(params.get("vectors") or "own")
        k, method = int(params.get("k", 10)), params.get("method") or "3cosadd"
        if method not in ("3cosadd", "3cosmul"):
            raise _refusal(f"there is no method {method!r}; there are 3cosadd and 3cosmul")
        lists = question.columns[0] == "words"
        columns = (_lists if lists else _columns)(table, *question.columns)
        found: list[tuple[Any, ...]] = []
        for row in zip(*columns, strict=True):
            try:
                found.append(question.ask(vectors, row, k, method))
            except UnknownWord:
                found.append((None,) * len(question.answers))
            except ValueError as error:
                raise _refusal(str(error)) from None
        answers = [list(column) for column in zip(*found, strict=True)] or [[]] * len(
            question.answers
        )
        echoed = {"word": columns[0]} if question.columns == ("word",) else {}
        return {**echoed, **dict(zip(question.answers, answers, strict=True))}

    def _sentences(self, table: pd.DataFrame) -> list[list[str]]:
        if "tokens" in table:
            rows = table["tokens"].tolist()
            if any(isinstance(row, str) or not hasattr(row, "__iter__") for row in rows):
                raise _refusal("`tokens` is a list of strings in every row")
            return [list(row) for row in rows]
        if "text" in table:
            return [self.tokens(text) for text in _columns(table, "text")[0]]
        raise _refusal("this task reads token lists in the column `tokens`")

    def _texts(self, table: pd.DataFrame, params: dict[str, Any]) -> dict[str, list[Any]]:
        model, entries = self._scores, self.vocabulary.entries
        if not isinstance(model, Predicts):
            raise _refusal(f"{self._title} model makes no text")
        top_k = params.get("top_k")
        try:
            how = Sampling(
                float(params.get("temperature", 1.0)),
                None if top_k is None else int(top_k),
                float(params.get("top_p", 1.0)),
                bool(params.get("unknown", False)),
            )
            found = generate(
                model,
                Sentences.of(self.vocabulary, self._sentences(table)),
                unknown=self.vocabulary.unknown,
                how=how,
                length=int(params.get("length", 50)),
                seed=int(params.get("seed", 1)),
            )
        except ValueError as error:
            raise _refusal(str(error)) from None
        return {
            "tokens": [[entries[id_] for id_ in text.ids] for text in found],
            "ended": [bool(text.ended) for text in found],
            "log_prob": [text.log_prob for text in found],
        }

    def _log_probs(self, table: pd.DataFrame) -> dict[str, list[Any]]:
        _ = self._scores
        sentences = self._sentences(table)
        found = [self.log_prob(tokens) for tokens in sentences]
        spells = isinstance(self.model, SpellsWords)  # then no word is unknown
        return {
            "log_prob": [float(row.sum()) for row in found],
            "log_probs": [row.tolist() for row in found],
            "unknown": [
                0 if spells else sum(token not in self.vocabulary for token in tokens)
                for tokens in sentences
            ],
        }

    # --- of tokens and sentences in their context ---

    def token_vectors(
        self, sentences: list[list[str]], layer: str = "last"
    ) -> list[NDArray[np.float32]]:
        """For each sentence (T, D), the vectors of its tokens, each sentence read alone."""
        if not isinstance(self.model, EmbedsTokens):
            raise _refusal(f"a {self._title} model has no vectors of tokens in their context")
        try:
            number, *more = chosen_layers(self.model.layers, [layer])
        except ValueError as error:
            raise _refusal(str(error)) from None
        if more:
            raise _refusal("name one layer")
        text = Sentences.of(self.vocabulary, sentences)
        found = np.asarray(self.model.token_vectors(text)[number], np.float32)
        return np.split(found, text.starts[1:-1])

    def _token_vectors(
        self, sentences: list[list[str]], params: dict[str, Any]
    ) -> dict[str, list[Any]]:
        found = self.token_vectors(sentences, str(params.get("layer") or "last"))
        return {"vectors": [vectors.tolist() for vectors in found]}

    def _sentence_vectors(
        self, sentences: list[list[str]], _params: dict[str, Any]
    ) -> dict[str, list[Any]]:
        if not isinstance(self.model, EmbedsSentences):
            raise _refusal(f"a {self._title} model has no vectors of sentences")
        found = self.model.sentence_vectors(Sentences.of(self.vocabulary, sentences))
        return {"vector": found.tolist()}

    def _senses(self, sentences: list[list[str]], params: dict[str, Any]) -> dict[str, list[Any]]:
        word = params.get("word")
        if not word:
            raise _refusal('this task looks for a word: params={"task": "senses", "word": ...}')
        places = [
            (row, position)
            for row, tokens in enumerate(sentences)
            for position, token in enumerate(tokens)
            if token == word
        ]
        layer = str(params.get("layer") or "last")
        vectors = self.token_vectors([sentences[row] for row, _ in places], layer)
        if not places:
            return {name: [] for name in SENSES}
        own = np.stack([rows[at] for rows, (_, at) in zip(vectors, places, strict=True)])
        near, cosines = nearest_others(own, np.arange(len(own)), int(params.get("k", 10)))
        columns = (
            [row for row, _ in places],
            [position for _, position in places],
            [[places[i][0] for i in others] for others in near.tolist()],
            [[places[i][1] for i in others] for others in near.tolist()],
            cosines.tolist(),
        )
        return dict(zip(SENSES, columns, strict=True))

    def _filled_in(
        self, sentences: list[list[str]], _params: dict[str, Any]
    ) -> dict[str, list[Any]]:
        if not isinstance(self.model, FillsIn):
            raise _refusal(f"a {self._title} model fills in no hidden tokens")
        text = Sentences.of(self.vocabulary, sentences)
        found = np.split(self.model.masked_log_prob(text), text.starts[1:-1])
        return {"log_probs": [row.tolist() for row in found]}

    # --- inside ---

    @property
    def _title(self) -> str:
        return with_article(str(self._family.title))

    @property
    def _scores(self) -> Scores:
        if not isinstance(self.model, Scores):
            raise _refusal(f"{self._title} model gives no probability of text")
        return self.model


SENSES = ("row", "position", "rows", "positions", "similarities")
CONTEXTUAL = {
    "fill_in": Pretrained._filled_in,
    "token_vectors": Pretrained._token_vectors,
    "sentence_vectors": Pretrained._sentence_vectors,
    "senses": Pretrained._senses,
}
"""Tasks over token lists, by the methods that answer them."""


# --- what can be asked of word vectors ------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """A task over word vectors.

    Attributes:
        columns: what it reads; lists of strings where they are called words, else strings.
        answers: the columns that it gives.
        ask: the answers to a row, from the row, k and the method of analogies.
    """

    columns: tuple[str, ...]
    answers: tuple[str, ...]
    ask: Callable[[WordVectors, tuple[Any, ...], int, Any], tuple[Any, ...]]


def _expression(vectors: WordVectors, text: str, k: int) -> Ranked:
    terms = signed_words(text, vectors.lists)
    return vectors.most_similar([word for _, word in terms], k=k, weights=[w for w, _ in terms])


def _odd_one_out(vectors: WordVectors, words: list[str]) -> tuple[Any, ...]:
    ranked = vectors.doesnt_match(words)
    return ranked[-1][0], *_unzipped(ranked)


def _rank(vectors: WordVectors, word: str, other: str, k: int) -> tuple[Any, ...]:
    closer = vectors.closer_than(word, other)
    return len(closer) + 1, closer[:k]


def _or_none(number: float) -> float | None:
    return number if np.isfinite(number) else None


def _unzipped(ranked: Ranked) -> tuple[list[str], list[float]]:
    return [word for word, _ in ranked], [score for _, score in ranked]


NEAREST = ("neighbours", "similarities")
QUESTIONS = {
    "vectors": Question(("word",), ("vector",), lambda v, row, k, m: (v.vectors(row)[0].tolist(),)),
    "neighbours": Question(
        ("word",), NEAREST, lambda v, row, k, m: _unzipped(v.most_similar(row, k=k))
    ),
    "expression": Question(
        ("expression",), NEAREST, lambda v, row, k, m: _unzipped(_expression(v, row[0], k))
    ),
    "similarity": Question(
        ("word", "other"), ("similarity",), lambda v, row, k, m: (v.similarity(*row),)
    ),
    "analogy": Question(
        ("a", "b", "c"),
        ("answers", "scores"),
        lambda v, row, k, m: _unzipped(v.analogy(row[0], row[1], row[2], k, m)),
    ),
    "offset_similarity": Question(
        ("a", "b", "c", "d"),
        ("similarity",),
        lambda v, row, k, m: (v.offset_similarity(row[:2], row[2:]),),
    ),
    "n_similarity": Question(
        ("words", "others"), ("similarity",), lambda v, row, k, m: (v.n_similarity(*row),)
    ),
    "wmdistance": Question(
        ("words", "others"), ("distance",), lambda v, row, k, m: (_or_none(v.wmdistance(*row)),)
    ),
    "odd_one_out": Question(
        ("words",), ("word", "words", "similarities"), lambda v, row, k, m: _odd_one_out(v, row[0])
    ),
    "rank": Question(
        ("word", "other"), ("rank", "closer"), lambda v, row, k, m: _rank(v, row[0], row[1], k)
    ),
}


def _all_known(vectors: WordVectors, words: Sequence[str]) -> bool:
    return all(vectors.knows(word) for word in words)


def _columns(table: pd.DataFrame, *names: str) -> list[list[str]]:
    """The named columns of strings; MLflow makes one row of lists out of a dict of columns."""
    columns = []
    for name in names:
        if name not in table:
            raise _refusal(
                f"this task reads the columns {', '.join(names)}, and there is no {name!r}: "
                "give a DataFrame, a dict of columns or a list of dicts"
            )
        cells = table[name].tolist()
        column = [v for cell in cells for v in ([cell] if isinstance(cell, str) else list(cell))]
        if not all(isinstance(value, str) for value in column):
            raise _refusal(f"the column {name!r} must hold a string in every row")
        columns.append(column)
    return columns


def _lists(table: pd.DataFrame, *names: str) -> list[list[list[str]]]:
    """The named columns of lists of strings."""
    for name in names:
        if name not in table:
            raise _refusal(
                f"this task reads lists of strings in the columns {', '.join(names)}, and there is "
                f"no {name!r}"
            )
    return [[list(cell) for cell in table[name]] for name in names]


def _refusal(problem: str) -> MlflowException:
    refusal: MlflowException = MlflowException.invalid_parameter_value(problem)
    return refusal


def serve(family: Any) -> None:
    """Make a model of this family what MLflow loads from the file."""
    set_model(Pretrained(family))
