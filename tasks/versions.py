"""The versions of registered models: what they are called, how they are found.

A model is named ``NAME@ALIAS`` or ``NAME/VERSION``, with or without ``models:/`` before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.errors import ConfigError, InputError
from tasks.evaluation.score import Score
from tasks.mlflow_client import answering, connect

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

CHALLENGER, CHAMPION = "challenger", "champion"
CONTENT = "lexloom.content"
SCORES = "lexloom.scores"
SETTINGS = "lexloom.settings"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_REFERENCE = re.compile(rf"(?:models:/)?({_NAME.pattern})(?:@([A-Za-z0-9_-]+)|/([0-9]{{1,9}}))")


@dataclass(frozen=True)
class Version:
    """A version of a registered model.

    Attributes:
        name: of the registered model.
        version: its number.
        aliases: that point to it.
        family: the discriminator, "word2vec".
        content: the content hash of the model.
        vocabulary: the hash of its vocabulary.
        capabilities: what it can do, as in ``tasks.models.CAPABILITIES``.
        scores: what it is worth.
        created: when, in seconds since 1970.
        run_id: of the MLflow run that trained it.
        location: where its files lie, for MLflow.
        tags: everything else, without the prefix ``lexloom.``.
    """

    name: str
    version: int
    aliases: tuple[str, ...]
    family: str
    content: str
    vocabulary: str
    capabilities: tuple[str, ...]
    scores: tuple[Score, ...]
    created: float
    run_id: str
    location: str
    tags: Mapping[str, str]

    @property
    def reference(self) -> str:
        """What a person calls it, "NAME/3"."""
        return f"{self.name}/{self.version}"


def check_name(name: str) -> None:
    """Refuse a name that some registry or address would misread, before anything is trained.

    A name has 1 to 128 of the letters a-z and A-Z, digits, ``_`` and ``-``, and begins with a
    letter or digit.

    Raises:
        ConfigError: it has something else.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot be the name of a registered model",
            where="name",
            remedy="use letters a-z and A-Z, digits, - and _, a letter or digit first, "
            "and no more than 128 of them",
        )


def list_models(tracking_uri: str) -> list[Version]:
    """All versions that lexloom registered, by name and, within a name, newest first."""
    client = connect(tracking_uri)
    aliases = {model.name: model.aliases for model in _pages(client.search_registered_models)}
    found = [
        _version(client, one, aliases.get(one.name, {}))
        for one in _pages(client.search_model_versions)
        if CONTENT in one.tags
    ]
    return sorted(found, key=lambda one: (one.name, -one.version))


def _pages(search: Callable[..., Any]) -> Iterator[Any]:
    token = None
    while True:
        page = search(page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def find_version(reference: str, tracking_uri: str) -> Version:
    """The version that ``NAME@ALIAS`` or ``NAME/VERSION`` means, with or without ``models:/``.

    Raises:
        InputError: there is no such version.
        ConnectionError: MLflow does not answer.
    """
    from mlflow.exceptions import MlflowException

    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise InputError(
            "this is neither a registered model nor a folder that was pulled",
            where=reference,
            remedy="write NAME@champion, NAME/3 or the path of a folder",
        )
    name, alias, number = match.groups()
    client = connect(tracking_uri)
    try:
        with answering(tracking_uri):
            aliases = client.get_registered_model(name).aliases
            found = client.get_model_version(name, aliases.get(alias, "") if alias else number)
    except MlflowException:
        known = [one.reference for one in list_models(tracking_uri) if one.name == name]
        raise InputError(
            f"there is no {alias or f'version {number}'} of this model"
            if known
            else "there is no such registered model",
            where=reference,
            remedy=f"`lexloom models list` shows those at {tracking_uri}",
        ) from None
    if CONTENT not in found.tags:
        raise InputError("this model was not registered by lexloom", where=reference)
    return _version(client, found, aliases)


def replicates(version: Version, tracking_uri: str) -> list[Version]:
    """The versions that differ from one by their seed or replicate alone, itself among them.

    Raises:
        ConnectionError: MLflow does not answer.
    """
    settings = version.tags.get(SETTINGS.removeprefix("lexloom."))
    if settings is None:
        return [version]
    client = connect(tracking_uri)
    with answering(tracking_uri):
        wanted = f"name = '{version.name}' and tags.`{SETTINGS}` = '{settings}'"
        found = client.search_model_versions(wanted)
        return sorted((_version(client, one, {}) for one in found), key=lambda one: one.version)


def _version(client: MlflowClient, found: ModelVersion, aliases: Mapping[str, str]) -> Version:
    number = int(found.version)
    tags = {key.removeprefix("lexloom."): value for key, value in found.tags.items()}
    return Version(
        name=found.name,
        version=number,
        aliases=tuple(sorted(alias for alias, to in aliases.items() if int(to) == number)),
        family=tags["family"],
        content=tags["content"],
        vocabulary=tags["vocabulary"],
        capabilities=tuple(tags["capabilities"].split(",")),
        scores=tuple(Score.from_json(value) for value in json.loads(tags.get("scores", "[]"))),
        created=found.creation_timestamp / 1000,
        run_id=found.run_id or "",
        location=client.get_model_version_download_uri(found.name, str(number)),
        tags=tags,
    )
