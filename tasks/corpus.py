"""The corpus: the chain of steps from sources to tokens and counts, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from pydantic import Field

from models.family import Split
from tasks.artifacts import Artifact, Stats, digest
from tasks.dedup import DEDUP, Deduplicate
from tasks.errors import InputError
from tasks.ingest import INGEST
from tasks.normalize import NORMALIZE, Normalize, NormalizeStep
from tasks.places import SAMPLE
from tasks.readers import Ingest
from tasks.sources import Source, import_source
from tasks.split import SPLIT, Fractions, Select
from tasks.step import Runner
from tasks.tokenize import TOKENIZE, Tokenize, TokenizeStep
from tasks.vocabulary import TYPES, Types

SPLITS: tuple[Split, ...] = ("train", "valid", "test")


@dataclass(frozen=True)
class CorpusConfig:
    """Everything that decides a corpus."""

    name: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$",
            max_length=64,
            description="Name of the corpus, and of its experiment in MLflow",
        ),
    ] = "sample"
    train: Annotated[Source, Field(description="The training text, or all of it")] = Source(  # noqa: RUF009 - frozen
        paths=(SAMPLE,), format="wikipedia"
    )
    valid: Annotated[Source | None, Field(description="Validation text, if supplied")] = None
    test: Annotated[Source | None, Field(description="Test text, if supplied")] = None
    normalize: Annotated[Normalize, Field(description="How text is normalized")] = Normalize()  # noqa: RUF009 - frozen
    deduplicate: Annotated[bool, Field(description="Keep one of equal documents")] = True
    split: Annotated[
        Fractions, Field(description="Shares cut out of the training text, if none is supplied")
    ] = Fractions()  # noqa: RUF009 - frozen
    tokenize: Annotated[Tokenize, Field(description="How text is tokenized")] = Tokenize()  # noqa: RUF009 - frozen

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


@dataclass(frozen=True)
class Corpus:
    """A finished corpus: handles, and the counts of every stage.

    Attributes:
        config: what decided it.
        tokens: the tokens of each split; a split may be empty, ``train`` never is.
        documents: the documents of each split.
        types: counts of every surface form of the training split.
        stats: counts by stage ("ingest train"): read, dropped by reason, kept, tokens.
    """

    config: CorpusConfig
    tokens: Mapping[Split, Artifact]
    documents: Mapping[Split, Artifact]
    types: Artifact
    stats: Mapping[str, Stats] = field(default_factory=dict)

    @property
    def content(self) -> str:
        """What the corpus is: a digest over the tokens of its splits."""
        return digest({split: tokens.content for split, tokens in self.tokens.items()})


def build_corpus(runner: Runner, config: CorpusConfig) -> Corpus:
    """Run every step from the sources to the tokens and the counts of the training split.

    With a validation or test text supplied, nothing is cut out of the training text; a split that
    is then still missing is empty.

    Raises:
        ConfigError: a source names nothing.
        InputError: a file is missing, no file matches, a source holds no usable document, or no
            document is left to train on.
    """
    stages: dict[str, Artifact] = {}
    train = _read(runner, config, config.train, "train", stages)
    supplied = {name: source for name, source in _supplied(config) if source is not None}
    selections: dict[Split, tuple[_Documents, Select]] = {}
    for name in SPLITS:
        if name in supplied:
            documents = _read(runner, config, supplied[name], name, stages, against=train)
            selections[name] = (documents, Select("all"))
        elif not supplied:
            selections[name] = (train, Select(name, config.split))
        else:
            selections[name] = (train, Select("all" if name == "train" else "none"))
    chosen: dict[Split, Artifact] = {}
    tokens: dict[Split, Artifact] = {}
    for name, (documents, select) in selections.items():
        over = {"documents": documents.normalized, "kept": documents.kept}
        chosen[name] = runner.map(SPLIT, over, select, label=name)
        step = TokenizeStep(config.tokenize)
        tokens[name] = runner.map(TOKENIZE, {"documents": chosen[name]}, step, label=name)
        stages |= {f"split {name}": chosen[name], f"tokenize {name}": tokens[name]}
    types = stages["types"] = runner.run(TYPES, {"tokens": tokens["train"]}, Types())
    stats = {name: runner.store.manifest(artifact).stats for name, artifact in stages.items()}
    if not stats["tokenize train"]["tokens"]:
        raise InputError(
            "no document is left to train on: all of them fell to validation and test",
            where=str(config.train),
            remedy="add documents (a line can be one), or lower split.valid and split.test",
        )
    return Corpus(config, tokens, chosen, types, stats)


@dataclass(frozen=True)
class _Documents:
    """The normalized documents of a source, and which of them deduplication kept."""

    normalized: Artifact
    kept: Artifact


def _supplied(config: CorpusConfig) -> list[tuple[Split, Source | None]]:
    return [("valid", config.valid), ("test", config.test)]


def _read(
    runner: Runner,
    config: CorpusConfig,
    source: Source,
    label: str,
    stages: dict[str, Artifact],
    *,
    against: _Documents | None = None,
) -> _Documents:
    """The documents of one source; ``against`` are those of the training text."""
    files = import_source(runner.store, source)
    raw = runner.map(INGEST, {"source": files}, Ingest.of(source), label=label)
    markup = config.normalize.markup
    if markup == "auto":
        markup = "wikitext" if source.format == "wikipedia" else "none"
    step = NormalizeStep(replace(config.normalize, markup=markup))
    normalized = runner.map(NORMALIZE, {"documents": raw}, step, label=label)
    _refuse_empty(runner, source, raw, normalized)
    inputs = {"documents": normalized} | ({"train": against.normalized} if against else {})
    kept = runner.run(DEDUP, inputs, Deduplicate(config.deduplicate), label=label)
    stages |= {f"ingest {label}": raw, f"normalize {label}": normalized, f"dedup {label}": kept}
    return _Documents(normalized, kept)


def _refuse_empty(runner: Runner, source: Source, raw: Artifact, normalized: Artifact) -> None:
    """Raises InputError if no document came through, saying what became of them."""
    read, kept = (runner.store.manifest(artifact).stats for artifact in (raw, normalized))
    if kept["kept"]:
        return
    dropped = Counter[str]()
    for stats in (read, kept):
        for key, count in stats.items():
            if key.startswith("dropped.") and isinstance(count, int) and count:
                dropped[key.removeprefix("dropped.")] += count
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
    raise InputError(
        f"the corpus is empty: {read['read']} records were read"
        + (f", all of them dropped ({reasons})" if reasons else ""),
        where=str(source),
        remedy="check the files, their format and their encoding",
    )
