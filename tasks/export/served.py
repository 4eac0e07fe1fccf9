"""A registered model for whoever pulled it: what MLflow serves, without lexloom.

Nobody imports this module. ``tasks.export.bundle`` cuts a file out of it, together with the family
and whatever else the model needs; that file needs MLflow and numpy, and torch for neural families.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext
from numpy.typing import NDArray
from pydantic import TypeAdapter

from models.family import EmbedsWords, Scores
from models.text import Sentences
from models.vectors import Matrix, analogy, neighbours, similarity, unit
from models.vocabulary import Vocabulary
from tasks.export.native import check_folder
from tasks.normalize import Normalize, normalize_line
from tasks.store import map_tensors

Ranked = list[tuple[str, float]]


class Pretrained(PythonModel):
    """A pulled model.

    ``predict`` takes a row a question (a DataFrame, a dict of columns, or a list of dicts) and
    gives a row an answer. ``params={"task": ...}`` says what is asked:

    ============  ==================  ======================================================
    task          columns             answer
    ============  ==================  ======================================================
    vectors       word                ``vector``
    neighbours    word                ``neighbours``, ``similarities``, best first
    similarity    word, other         ``similarity``, the cosine
    analogy       a, b, c             ``answers``, ``scores``: "a is to b as c is to ?"
    log_prob      tokens or text      ``log_probs`` of each token and of the sentence end,
                                      in nats, ``log_prob``, their sum, and ``unknown``,
                                      how many tokens the model does not know
    ============  ==================  ======================================================

    More ``params``: ``k``, how many neighbours or answers (10), and ``method`` of analogies,
    "3cosadd" or "3cosmul". An answer about a word that the model does not know is None. ``tokens``
    is a list of strings; ``text``, one sentence as a string, is taken only where the text pipeline
    of the model can be repeated without lexloom.

    ``unwrap_python_model()`` of the loaded model gives this object, whose methods answer the same
    questions one at a time.
    """

    def __init__(self, family: Any) -> None:
        self._family = family

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

    def vectors(self, words: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) float32; a row of NaN for a word that the model does not know."""
        return np.asarray(self._embeds.word_vectors(words), dtype=np.float32)

    def neighbours(self, word: str, k: int = 10) -> Ranked | None:
        """The ``k`` words nearest to a word by cosine, with their cosines."""
        vector = self.vectors([word])[0]
        if not np.isfinite(vector).all():
            return None
        return self._named(neighbours(self._units, vector, k, exclude=self._rows([word])))

    def similarity(self, word: str, other: str) -> float | None:
        """The cosine of two words."""
        first, second = self.vectors([word, other])
        cosine = float(similarity(first, second))
        return cosine if np.isfinite(cosine) else None

    def analogy(
        self, a: str, b: str, c: str, k: int = 10, method: Literal["3cosadd", "3cosmul"] = "3cosadd"
    ) -> Ranked | None:
        """The ``k`` best answers to "a is to b as c is to ?", with their scores."""
        _ = self._embeds
        rows = self._rows([a, b, c])
        if len(rows) < 3:
            return None
        return self._named(analogy(self._units, rows[0], rows[1], rows[2], k, method))

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
        tasks: dict[str, Callable[[pd.DataFrame, dict[str, Any]], dict[str, list[Any]]]] = {
            "vectors": self._vectors,
            "neighbours": self._neighbours,
            "similarity": self._similarities,
            "analogy": self._analogies,
            "log_prob": self._log_probs,
        }
        default = "neighbours" if isinstance(self.model, EmbedsWords) else "log_prob"
        task = params.get("task") or default
        if task not in tasks:
            raise _refusal(f"there is no task {task!r}; there are {', '.join(tasks)}")
        answers = tasks[task](model_input, params)
        # Left to itself, pandas makes NaN of None among numbers, which JSON does not know.
        return pd.DataFrame(
            {
                name: pd.Series(column, dtype="object" if None in column else None)
                for name, column in answers.items()
            }
        )

    def _vectors(self, table: pd.DataFrame, params: dict[str, Any]) -> dict[str, list[Any]]:
        _ = self._embeds
        (words,) = _columns(table, "word")
        rows = self.vectors(words)
        return {
            "word": words,
            "vector": [row.tolist() if np.isfinite(row).all() else None for row in rows],
        }

    def _neighbours(self, table: pd.DataFrame, params: dict[str, Any]) -> dict[str, list[Any]]:
        _ = self._embeds
        (words,) = _columns(table, "word")
        found = [self.neighbours(word, int(params.get("k", 10))) for word in words]
        return {"word": words, **_unzipped("neighbours", "similarities", found)}

    def _similarities(self, table: pd.DataFrame, params: dict[str, Any]) -> dict[str, list[Any]]:
        _ = self._embeds
        words, others = _columns(table, "word", "other")
        pairs = zip(words, others, strict=True)
        return {"similarity": [self.similarity(word, other) for word, other in pairs]}

    def _analogies(self, table: pd.DataFrame, params: dict[str, Any]) -> dict[str, list[Any]]:
        k, method = int(params.get("k", 10)), params.get("method", "3cosadd")
        if method not in ("3cosadd", "3cosmul"):
            raise _refusal(f"there is no method {method!r}; there are 3cosadd and 3cosmul")
        _ = self._embeds
        rows = zip(*_columns(table, "a", "b", "c"), strict=True)
        found = [self.analogy(a, b, c, k, method) for a, b, c in rows]
        return _unzipped("answers", "scores", found)

    def _log_probs(self, table: pd.DataFrame, params: dict[str, Any]) -> dict[str, list[Any]]:
        _ = self._scores
        if "tokens" in table:
            sentences = [list(tokens) for tokens in table["tokens"]]
        elif "text" in table:
            sentences = [self.tokens(text) for text in _columns(table, "text")[0]]
        else:
            raise _refusal("this task reads token lists in the column `tokens`")
        found = [self.log_prob(tokens) for tokens in sentences]
        known = [sum(token in self.vocabulary for token in tokens) for tokens in sentences]
        return {
            "log_prob": [float(row.sum()) for row in found],
            "log_probs": [row.tolist() for row in found],
            "unknown": [len(tokens) - n for tokens, n in zip(sentences, known, strict=True)],
        }

    # --- inside ---

    @property
    def _title(self) -> str:
        return str(self._family.title)

    @property
    def _embeds(self) -> EmbedsWords:
        if not isinstance(self.model, EmbedsWords):
            raise _refusal(f"a {self._title} model has no word vectors")
        return self.model

    @property
    def _scores(self) -> Scores:
        if not isinstance(self.model, Scores):
            raise _refusal(f"a {self._title} model gives no probability of text")
        return self.model

    @cached_property
    def _known(self) -> tuple[list[str], Matrix]:
        """The words that have a vector, with their vectors at length 1."""
        words = self.vocabulary.words
        table = self.vectors(words)
        known = np.flatnonzero(np.isfinite(table).all(axis=1))
        return [words[i] for i in known], unit(table[known])

    @property
    def _units(self) -> Matrix:
        return self._known[1]

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self._known[0])}

    def _rows(self, words: Sequence[str]) -> list[int]:
        return [self._positions[word] for word in words if word in self._positions]

    def _named(self, found: tuple[NDArray[np.int64], Matrix]) -> Ranked:
        words = self._known[0]
        return [(words[i], float(score)) for i, score in zip(*found, strict=True)]


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


def _unzipped(
    first: str, second: str, found: Sequence[Ranked | None]
) -> dict[str, list[list[str] | None] | list[list[float] | None]]:
    return {
        first: [None if row is None else [word for word, _ in row] for row in found],
        second: [None if row is None else [score for _, score in row] for row in found],
    }


def _refusal(problem: str) -> MlflowException:
    refusal: MlflowException = MlflowException.invalid_parameter_value(problem)
    return refusal


def serve(family: Any) -> None:
    """Make a model of this family what MLflow loads from the file."""
    set_model(Pretrained(family))
