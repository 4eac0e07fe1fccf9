"""The corpus: the chain of steps from sources to tokens and counts, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from pydantic import Field

from models.family import Split
from tasks.analyze import ANALYZE, Analyze, AnalyzeStep
from tasks.artifacts import Artifact, Stats, digest
from tasks.counted import counted
from tasks.dedup import DEDUP, Deduplicate
from tasks.errors import ConfigError, InputError
from tasks.filters import FILTER, Filters, FilterStep
from tasks.ingest import INGEST
from tasks.neardup import NEAR, SIGN, NearDuplicates
from tasks.normalize import NORMALIZE, Normalize, NormalizeStep
from tasks.phrases import Phrases, join_corpus
from tasks.places import SAMPLE
from tasks.readers import Ingest
from tasks.runner import Runner
from tasks.sources import Source, import_source
from tasks.split import SPLIT, Fractions, Select
from tasks.subwords import encode_corpus
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
    filters: Annotated[Filters, Field(description="Which documents are kept")] = Filters()  # noqa: RUF009 - frozen
    deduplicate: Annotated[bool, Field(description="Keep one of equal documents")] = True
    near_duplicates: Annotated[
        NearDuplicates | None,
        Field(description="Keep one of documents that say nearly the same; {} for the usual rule"),
    ] = None
    split: Annotated[
        Fractions, Field(description="Shares cut out of the training text, if none is supplied")
    ] = Fractions()  # noqa: RUF009 - frozen
    analyze: Annotated[
        Analyze, Field(description="What is a sentence, and which form of a word stands for it")
    ] = Analyze()  # noqa: RUF009 - frozen
    tokenize: Annotated[Tokenize, Field(description="How text is tokenized")] = Tokenize()  # noqa: RUF009 - frozen
    phrases: Annotated[
        Phrases | None, Field(description="Join neighbours such as new york into one token")
    ] = None

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


@dataclass(frozen=True)
class Corpus:
    """A finished corpus: handles, and the counts of every stage.

    Attributes:
        config: what decided it.
        tokens: the tokens of each split; a split may be empty, ``train`` never is.
        documents: the documents of each split.
        types: counts of every surface form of the training split.
        learnt: what was learnt from the training split to make tokens, by role: ``subwords``,
            or ``phrases 1`` and so on, one a pass.
        stats: counts by stage ("ingest train"): read, dropped by reason, kept, tokens.
        stages: the artifact of every stage.
        card: what people should know of it (``tasks.card``), once it is made.
    """

    config: CorpusConfig
    tokens: Mapping[Split, Artifact]
    documents: Mapping[Split, Artifact]
    types: Artifact
    stats: Mapping[str, Stats] = field(default_factory=dict)
    learnt: Mapping[str, Artifact] = field(default_factory=dict)
    stages: Mapping[str, Artifact] = field(default_factory=dict)
    card: Artifact | None = None

    @property
    def content(self) -> str:
        """What the corpus is: a digest over the tokens of its splits."""
        return digest({split: tokens.content for split, tokens in self.tokens.items()})


def build_corpus(
    runner: Runner, config: CorpusConfig, given: Mapping[str, Artifact] = {}
) -> Corpus:
    """Run every step from the sources to the tokens and the counts of the training split.

    What is ``given`` of ``Corpus.learnt`` is used as it is, and not learnt from this text.

    With a validation or test text supplied, nothing is cut out of the training text; a split that
    is then still missing is empty.

    Raises:
        ConfigError: a source names nothing; phrases of subwords; a segmenter is not installed.
        InputError: a file is missing, no file matches, a source holds no usable document, or no
            document is left to train on.
    """
    if config.phrases and config.tokenize.learns:
        raise ConfigError(
            f"phrases join words, and the scheme {config.tokenize.scheme!r} cuts them",
            where="corpus.phrases",
            remedy="leave it out, or tokenize by words",
        )
    first = TokenizeStep.of(config.tokenize)
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
        over = {"documents": documents.filtered, "kept": documents.kept}
        chosen[name] = stages[f"split {name}"] = runner.map(SPLIT, over, select, label=name)
        if config.analyze.enabled:
            analyze = AnalyzeStep.of(config.analyze)
            chosen[name] = runner.map(ANALYZE, {"documents": chosen[name]}, analyze, label=name)
            stages[f"analyze {name}"] = chosen[name]
        tokens[name] = runner.map(TOKENIZE, {"documents": chosen[name]}, first, label=name)
        stages[f"tokenize {name}"] = tokens[name]
    types = stages["types"] = runner.run(TYPES, {"tokens": tokens["train"]}, Types())
    _refuse_no_training_text(runner, config, stages)
    tokens, types, learnt = _learn(runner, config, tokens, types, given)
    stages |= learnt | {"types": types}
    for split in SPLITS if learnt else ():
        stages[f"units {split}"] = tokens[split]
    stats = {name: runner.store.manifest(artifact).stats for name, artifact in stages.items()}
    return Corpus(config, tokens, chosen, types, stats, learnt, stages)


def _learn(
    runner: Runner,
    config: CorpusConfig,
    tokens: dict[Split, Artifact],
    types: Artifact,
    given: Mapping[str, Artifact],
) -> tuple[dict[Split, Artifact], Artifact, dict[str, Artifact]]:
    """Tokens and types once subwords or phrases are learnt from the training split, and these."""
    if config.tokenize.learns:
        tokens, types, subwords = encode_corpus(
            runner, tokens, types, config.tokenize, given.get("subwords")
        )
        return tokens, types, {"subwords": subwords}
    if config.phrases:
        passes = [given[role] for role in sorted(given)]
        tokens, types, found = join_corpus(runner, tokens, types, config.phrases, passes)
        return tokens, types, {f"phrases {i}": phrases for i, phrases in enumerate(found, 1)}
    return tokens, types, {}


@dataclass(frozen=True)
class _Documents:
    """The documents of a source that came through the filters, and which of them are kept."""

    filtered: Artifact
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
    step = NormalizeStep.of(replace(config.normalize, markup=markup))
    normalized = runner.map(NORMALIZE, {"documents": raw}, step, label=label)
    stages |= {f"ingest {label}": raw, f"normalize {label}": normalized}
    filtered, seen = normalized, [raw, normalized]
    if config.filters.enabled:
        over = {"documents": normalized}
        filtered = runner.map(FILTER, over, FilterStep.of(config.filters), label=label)
        stages[f"filter {label}"] = filtered
        seen.append(filtered)
    _refuse_empty(runner, source, seen)
    inputs = {"documents": filtered} | ({"train": against.filtered} if against else {})
    kept = runner.run(DEDUP, inputs, Deduplicate(config.deduplicate), label=label)
    stages[f"dedup {label}"] = kept
    if near := config.near_duplicates:
        signatures = runner.map(SIGN, {"documents": filtered}, near, label=label)
        kept = runner.run(NEAR, {"kept": kept, "signatures": signatures}, near, label=label)
        stages[f"near {label}"] = kept
    return _Documents(filtered, kept)


def _refuse_no_training_text(
    runner: Runner, config: CorpusConfig, stages: Mapping[str, Artifact]
) -> None:
    if not runner.store.manifest(stages["tokenize train"]).stats["tokens"]:
        raise InputError(
            "no document is left to train on: all of them fell to validation and test",
            where=str(config.train),
            remedy="add documents (a line can be one), or lower split.valid and split.test",
        )


def _refuse_empty(runner: Runner, source: Source, stages: list[Artifact]) -> None:
    """Raises InputError if no document came through, saying what became of them."""
    counts = [runner.store.manifest(artifact).stats for artifact in stages]
    read = counts[0]
    if counts[-1]["kept"]:
        return
    dropped = Counter[str]()
    for stats in counts:
        for key, count in stats.items():
            if key.startswith("dropped.") and isinstance(count, int) and count:
                dropped[key.removeprefix("dropped.")] += count
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
    raise InputError(
        f"the corpus is empty: {counted(int(read['read']), 'records')} "
        + ("was read" if read["read"] == 1 else "were read")
        + (f", all of them dropped ({reasons})" if reasons else ""),
        where=str(source),
        remedy="check the files, their format and their encoding",
    )
