"""A registered model for whoever pulled it: what MLflow serves, without lexloom.

Here this module is asked for nothing but the names of tasks. ``tasks.export.bundle`` cuts a file
out of it, together with the family and whatever else the model needs; that file needs MLflow and
numpy, and torch for neural families.
"""

from __future__ import annotations

import inspect
import json
import operator
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
                                       how many tokens the model does not know; perplexity is
                                       exp(-S / N), S the sum of ``log_prob`` over all rows, N
                                       the number of all tokens and sentence ends
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

    There are more ``params``:

    ===========  =================================================================================
    params       what they say, and what holds without them
    ===========  =================================================================================
    k            how many neighbours or answers (10)
    method       of analogies, "3cosadd" or "3cosmul" ("3cosadd")
    vectors      which of the model's vectors answer: "own", "input", "output", "sum",
                 "before-highway" or "after-highway" ("own")
    length       of generate: words to make at most (50)
    seed         of generate: row i depends on it and on i alone (1)
    temperature  of generate (1.0)
    top_k        of generate: only so many of the likeliest words (all)
    top_p        of generate: only the likeliest words with this share (1.0)
    unknown      of generate: whether ``<unk>`` may be made (False)
    layer        of token_vectors and senses: its name ("last")
    word         of senses: the word that is looked for
    ===========  =================================================================================

    An answer about a word that the model does not know is None; where a question has several words,
    ``unknown`` names the one that it does not know. ``tokens``, ``words`` and ``others`` are lists
    of strings; ``text``, one sentence as a string, is taken only where the text pipeline of the
    model can be repeated without lexloom.

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
        self.__doc__ = documented(tasks_of(self.model))

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
        vectors, k = self.word_vectors(), _number(k)
        return vectors.most_similar([word], k=k) if vectors.knows(word) else None

    def similarity(self, word: str, other: str) -> float | None:
        """The cosine of two words."""
        vectors = self.word_vectors()
        return vectors.similarity(word, other) if _all_known(vectors, [word, other]) else None

    def analogy(
        self, a: str, b: str, c: str, k: int = 10, method: Method = "3cosadd"
    ) -> Ranked | None:
        """The ``k`` best answers to "a is to b as c is to ?", with their scores."""
        vectors, k = self.word_vectors(), _number(k)
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
        params = {name: value for name, value in (params or {}).items() if value is not None}
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
            there = ", ".join(tasks_of(self.model))
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
        k = _number(params.get("k", 10), least=0 if question is QUESTIONS["rank"] else 1)
        method = params.get("method") or "3cosadd"
        if method not in ("3cosadd", "3cosmul"):
            raise _refusal(f"there is no method {method!r}; there are 3cosadd and 3cosmul")
        lists = question.columns[0] == "words"
        columns = (_lists if lists else _columns)(table, *question.columns)
        if len({len(column) for column in columns}) > 1:
            lengths = ", ".join(str(len(column)) for column in columns)
            names = ", ".join(question.columns)
            raise _refusal(f"the columns {names} must be equally long, and have {lengths} rows")
        found: list[tuple[Any, ...]] = []
        unknown: list[str | None] = []
        for row in zip(*columns, strict=True):
            unknown.append(None)
            try:
                found.append(question.ask(vectors, row, k, method))
            except UnknownWord as error:
                unknown[-1] = error.word
                found.append((None,) * len(question.answers))
            except ValueError as error:
                raise _refusal(str(error)) from None
        answers = [list(column) for column in zip(*found, strict=True)] or [[]] * len(
            question.answers
        )
        named = dict(zip(question.answers, answers, strict=True))
        if question.columns == ("word",):
            return {"word": columns[0], **named}
        return {**named, "unknown": unknown}

    def _sentences(self, table: pd.DataFrame) -> list[list[str]]:
        if "tokens" in table:
            return _lists(table, "tokens")[0]
        if "text" in table:
            return [self.tokens(text) for text in _columns(table, "text")[0]]
        raise _refusal(
            "this task reads token lists in the column `tokens`, or sentences in `text`, and there "
            f"is neither{_instead(table)}"
        )

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
            raise _refusal(f"{self._title} model has no vectors of tokens in their context")
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
            raise _refusal(f"{self._title} model has no vectors of sentences")
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
        layer, k = str(params.get("layer") or "last"), _number(params.get("k", 10))
        vectors = self.token_vectors([sentences[row] for row, _ in places], layer)
        if not places:
            return {name: [] for name in SENSES}
        own = np.stack([rows[at] for rows, (_, at) in zip(vectors, places, strict=True)])
        near, cosines = nearest_others(own, np.arange(len(own)), k)
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
            raise _refusal(f"{self._title} model fills in no hidden tokens")
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
                f"this task reads the columns {', '.join(names)}, and there is no {name!r}"
                f"{_instead(table)}: give a DataFrame, a dict of columns or a list of dicts"
            )
        cells = table[name].tolist()
        column = [v for cell in cells for v in (list(cell) if _is_list(cell) else [cell])]
        for row, value in enumerate(column, 1):
            if not isinstance(value, str):
                raise _refusal(
                    f"the column {name!r} must hold a string in every row, not {_shown(value)} as "
                    f"in row {row}"
                )
        columns.append(column)
    return columns


def _lists(table: pd.DataFrame, *names: str) -> list[list[list[str]]]:
    """The named columns of lists of strings."""
    for name in names:
        if name not in table:
            raise _refusal(
                f"this task reads lists of strings in the columns {', '.join(names)}, and there is "
                f"no {name!r}{_instead(table)}"
            )
        for row, cell in enumerate(table[name], 1):
            bad = [v for v in cell if not isinstance(v, str)] if _is_list(cell) else [cell]
            if bad:
                raise _refusal(
                    f"the column {name!r} must hold a list of strings in every row, not "
                    f"{_shown(bad[0])} as in row {row}"
                )
    return [[list(cell) for cell in table[name]] for name in names]


def _is_list(cell: Any) -> bool:
    return hasattr(cell, "__iter__") and not isinstance(cell, str)


def _shown(value: Any) -> str:
    """A value for people; pandas makes NaN of what is not there."""
    absent = value is None or (isinstance(value, float) and np.isnan(value))
    return "nothing" if absent else repr(value)


def _instead(table: pd.DataFrame) -> str:
    """Which columns there are, to be put behind those that are missing."""
    there = ", ".join(repr(str(name)) for name in table.columns)
    return f" (there is {there})" if there else ""


def _number(k: Any, least: int = 1) -> int:
    """How many answers are asked for."""
    try:
        number = operator.index(k)
    except TypeError:
        number = least - 1
    if number < least:
        raise _refusal(f"k, the number of answers, must be a whole number from {least} on, not {k}")
    return number


# --- what a model answers -------------------------------------------------------------------


def tasks_of(model: Any) -> tuple[str, ...]:
    """The tasks that a model answers."""
    able = {
        "log_prob": Scores,
        "generate": Predicts,
        "fill_in": FillsIn,
        "token_vectors": EmbedsTokens,
        "sentence_vectors": EmbedsSentences,
        "senses": EmbedsTokens,
    }
    about_words = tuple(QUESTIONS) if choices(model) else ()
    return (*about_words, *(task for task, needed in able.items() if isinstance(model, needed)))


PARAMS = {
    **dict.fromkeys(("k", "vectors"), ("neighbours",)),
    "method": ("analogy",),
    **dict.fromkeys(("length", "seed", "temperature", "top_k", "top_p", "unknown"), ("generate",)),
    **dict.fromkeys(("layer", "word"), ("token_vectors",)),
}
"""The tasks that parameters belong to, one of which a model has to answer."""


def documented(tasks: Sequence[str]) -> str:
    """The docstring of ``Pretrained`` without what a model that answers these tasks has no use for.

    Its tables name a task or a parameter at the beginning of a row.
    """
    lines, rulers, kept = [], 0, True
    for line in inspect.cleandoc(Pretrained.__doc__ or "").splitlines():
        rulers += line.startswith("==")
        if rulers % 3 != 2 or line.startswith("=="):
            kept = True
        elif not line.startswith(" "):
            name = line.split(" ")[0]
            kept = any(task in tasks for task in PARAMS.get(name, (name,)))
        if kept:
            lines.append(line)
    return "\n".join(lines)


def _refusal(problem: str) -> MlflowException:
    refusal: MlflowException = MlflowException.invalid_parameter_value(problem)
    return refusal


def serve(family: Any) -> None:
    """Make a model of this family what MLflow loads from the file."""
    set_model(Pretrained(family))
