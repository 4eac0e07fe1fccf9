"""Registered models: one version for every distinct content under a name.

A model is registered in MLflow together with the code that answers from it (``tasks.export``).
Its version is known by its content: registering the same model again finds the version, whatever
was interrupted in between, and of two processes that register it at the same moment one does. Of
two stores that share an MLflow, the one that made its version later takes it back.

Tags of a version, each with the prefix ``lexloom.``:

    content       what the model is          recipe        how it was trained
    family        the discriminator          capabilities  what it can do, separated by commas
    vocabulary    the hash of its words      scores        its scores with everything about them
    version       of lexloom                 score.NAME    a score for people
    input.ROLE    what it was trained on
    settings      what it shares with those that differ by their seed alone

and one more for every label that ``register`` is given (``corpus``, ``git_commit``, ...). Aliases:
``challenger`` is the version registered last, ``champion`` the one that passed the gate last
(``tasks.promotion``).
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse
from urllib.request import url2pathname

from models.family import Model
from tasks.artifacts import Artifact, Manifest, canonical_json, digest
from tasks.errors import InputError
from tasks.evaluation.score import Score
from tasks.export.native import FILES, check_folder, is_model_folder, write_folder_manifest
from tasks.mlflow_client import answering, connect, experiment_id
from tasks.models import CONFIG, TextPipeline, capabilities, read_model, read_text_pipeline
from tasks.store import Store
from tasks.tracking import create_run, find_run, log_params, version
from tasks.versions import (
    CHALLENGER,
    CONTENT,
    SCORES,
    Version,
    check_name,
    find_version,
    list_models,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

__all__ = [
    "OpenedModel", "Registered", "Version", "check_name", "find_version", "list_models",
    "open_model", "register",
]  # fmt: skip

LONGEST_TAG = 100_000
"""Characters that MLflow takes in a tag of a version."""


@dataclass(frozen=True)
class Registered:
    """What a registration came to.

    Attributes:
        name: of the registered model.
        version: that has the model's content.
        reused: whether the version was there already.
        run_id: of the MLflow run that trained the model.
    """

    name: str
    version: int
    reused: bool
    run_id: str


@dataclass(frozen=True)
class OpenedModel:
    """A model that somebody named, ready to be asked.

    Attributes:
        model: the model.
        text: how raw text becomes its tokens.
        folder: its files, in the native format.
        reference: "NAME/3", or the folder.
        version: None for a folder that was pulled.
        about: what its manifest says.
    """

    model: Model
    text: TextPipeline
    folder: Path
    reference: str
    version: Version | None
    about: Mapping[str, Any]

    def goes_on_from(self, other: OpenedModel) -> bool:
        """Whether the training of this model went on from the other, as far as is known."""
        base = self.version.tags.get("input.base") if self.version else None
        return base is not None and base == other.about.get("content")


# --- registration ---------------------------------------------------------------------------


def register(
    store: Store,
    model: Artifact,
    name: str,
    *,
    tracking_uri: str,
    scores: Sequence[Score],
    tags: Mapping[str, str],
) -> Registered:
    """Register a model once under a name; a new version gets the alias ``challenger``.

    Args:
        store: that holds the model.
        model: an artifact of the kind "model".
        name: see ``check_name``.
        tracking_uri: of the MLflow.
        scores: what the model is worth; the version keeps the latest.
        tags: labels as in ``tasks.tracking``; ``experiment`` matters where the training was
            tracked elsewhere, and so has no run here.

    Raises:
        ConfigError: a name that cannot be registered.
        ConnectionError: MLflow does not answer.
    """
    check_name(name)
    client = connect(tracking_uri)
    manifest = store.manifest(model)
    claim = digest({"name": name, "content": model.content})
    with answering(tracking_uri), store.lease("registration", claim):
        run_id = _run(client, store, manifest, tags)
        found = _with_content(client, name, model.content)
        reused = found is not None
        if found is None:
            _add_version(client, store, manifest, name, run_id, tags)
            # Another store may have been first: its version is the one that counts.
            first, *later = _all_with_content(client, name, model.content)
            for extra in later:
                _delete(client, extra)
            found, reused = first, bool(later)
        number = int(found.version)
        _note_scores(client, found, run_id, scores, manifest)
        challenger = _alias(client, name, CHALLENGER)
        if challenger is None or challenger < number:
            client.set_registered_model_alias(name, CHALLENGER, str(number))
    return Registered(name, number, reused, run_id)


def _delete(client: MlflowClient, version: ModelVersion) -> None:
    """Delete a version, if nobody else was faster."""
    from mlflow.exceptions import MlflowException

    try:
        client.delete_model_version(version.name, str(version.version))
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise


def _run(client: MlflowClient, store: Store, manifest: Manifest, tags: Mapping[str, str]) -> str:
    """The run that trained a model; one is made up if it was tracked elsewhere or not at all."""
    everywhere = [str(e.experiment_id) for e in client.search_experiments()]
    if found := find_run(client, everywhere, manifest.recipe, store.url):
        return str(found.info.run_id)
    params = json.loads(canonical_json(manifest.origin["params"]))
    if "family" not in params:  # what was read from a file turned out when it was read
        params["family"] = store.reader(manifest.handle()).json(CONFIG)["config"]
    inputs = {role: Artifact(**value) for role, value in manifest.origin["inputs"].items()}
    experiment = experiment_id(
        client, tags.get("experiment", "lexloom"), tags.get("artifact_root", "")
    )
    run_id = create_run(client, experiment, manifest.recipe, store.url, params, inputs, tags)
    log_params(client, run_id, params)
    client.set_terminated(run_id, "FINISHED")
    return run_id


def _all_with_content(client: MlflowClient, name: str, content: str) -> list[ModelVersion]:
    found = client.search_model_versions(f"name = '{name}' and tags.`{CONTENT}` = '{content}'")
    return sorted(found, key=lambda version: int(version.version))


def _with_content(client: MlflowClient, name: str, content: str) -> ModelVersion | None:
    return next(iter(_all_with_content(client, name, content)), None)


def _alias(client: MlflowClient, name: str, alias: str) -> int | None:
    value = client.get_registered_model(name).aliases.get(alias)
    return None if value is None else int(value)


def _add_version(
    client: MlflowClient,
    store: Store,
    manifest: Manifest,
    name: str,
    run_id: str,
    tags: Mapping[str, str],
) -> None:
    """Upload a model and make a version of it; its tags come with it or not at all."""
    from mlflow.entities import LoggedModelOutput
    from mlflow.exceptions import MlflowException
    from mlflow.models import Model as SavedModel

    from tasks.export.pyfunc import save_pyfunc, usage

    reader = store.reader(manifest.handle())
    with tempfile.TemporaryDirectory(dir=store.files.scratch()) as scratch:
        native, saved = Path(scratch) / "native", Path(scratch) / "model"
        native.mkdir()
        for file in FILES:
            _link(reader.path(file), native / file)
        model = read_model(native)
        about = {
            "content": manifest.content,
            "recipe": manifest.recipe,
            "family": str(model.config.family),
            "capabilities": ",".join(capabilities(model)),
            "vocabulary": model.vocabulary.hash,
            "version": version(),
        }
        write_folder_manifest(native, about)
        experiment = client.get_run(run_id).info.experiment_id
        logged = client.create_logged_model(
            experiment, name, run_id, {CONTENT: manifest.content}, model_type=about["family"]
        )
        described = SavedModel(
            artifact_path=logged.artifact_location,
            run_id=run_id,
            model_uuid=logged.model_id,
            model_id=logged.model_id,
        )
        save_pyfunc(native, saved, described, about)
        client.log_model_artifacts(logged.model_id, str(saved))
    client.finalize_logged_model(logged.model_id, "READY")
    client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, step=0)])
    # Another version may be registered under the name at the same moment.
    with suppress(MlflowException):
        client.create_registered_model(name)
    lineage = {
        f"input.{role}": value["content"] for role, value in manifest.origin["inputs"].items()
    }
    lineage["settings"] = _settings(manifest)
    labels = {key: value for key, value in tags.items() if value}
    client.create_model_version(
        name,
        source=logged.artifact_location,
        run_id=run_id,
        model_id=logged.model_id,
        tags={f"lexloom.{k}": v for k, v in {**labels, **lineage, **about}.items()},
        description=usage(model, name),
    )


def _settings(manifest: Manifest) -> str:
    """The hash of all that a model was made of but its seed and its replicate."""
    params = {k: v for k, v in manifest.origin["params"].items() if k not in ("seed", "replicate")}
    inputs = {role: value["content"] for role, value in manifest.origin["inputs"].items()}
    return digest({"params": params, "inputs": inputs})


def _link(source: Path, target: Path) -> None:
    """The same file under another name, or a copy of it where there can be no such thing."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _note_scores(
    client: MlflowClient,
    found: ModelVersion,
    run_id: str,
    scores: Sequence[Score],
    manifest: Manifest,
) -> None:
    """Keep the scores with the version and, as metrics and as a file, with the run."""
    name, number = found.name, str(found.version)
    text = tag = _as_json(scores)
    if len(tag) > LONGEST_TAG:
        tag = _as_json([_shortened(score) for score in scores])
    if found.tags.get(SCORES) != tag:
        client.log_text(run_id, text, "scores.json")
        client.set_model_version_tag(name, number, SCORES, tag)
        shown = {
            f"lexloom.score.{score.name}": f"{score.shown} {score.range}".rstrip()
            for score in scores
        }
        for tag, figure in shown.items():
            client.set_model_version_tag(name, number, tag, figure)
        for tag in found.tags:
            if tag.startswith("lexloom.score.") and tag not in shown:
                client.delete_model_version_tag(name, number, tag)
    values = {s.name: s.value for s in scores if s.value is not None}
    values |= {
        f"training.{key}": float(value)
        for key, value in manifest.stats.items()
        if isinstance(value, int | float)
    }
    known = client.get_run(run_id).data.metrics
    for key, value in values.items():
        if known.get(key) != value:
            client.log_metric(run_id, key, value)


def _as_json(scores: Sequence[Score]) -> str:
    return json.dumps([score.to_json() for score in scores], ensure_ascii=False)


def _shortened(score: Score) -> Score:
    """A score without what it is by sections and bands."""
    parts = ("sections", "subsets", "bands")
    return replace(score, details={k: v for k, v in score.details.items() if k not in parts})


def open_model(reference: str, tracking_uri: str) -> OpenedModel:
    """The model under ``NAME@ALIAS`` or ``NAME/VERSION``, or in a folder that was pulled.

    Raises:
        InputError: there is none, or its files are not what was registered.
    """
    folder, found = Path(reference), None
    if not is_model_folder(folder):
        found = find_version(reference, tracking_uri)
        folder = _download(found, tracking_uri)
    about = check_folder(folder)
    if found and about.get("content") != found.content:
        raise InputError(
            "its files are those of another model",
            where=found.reference,
            remedy="register the model again",
        )
    return OpenedModel(
        model=read_model(folder),
        text=read_text_pipeline(folder),
        folder=folder,
        reference=found.reference if found else str(folder),
        version=found,
        about=about,
    )


def _download(found: Version, tracking_uri: str) -> Path:
    """A local folder with a version's files: they themselves where MLflow keeps them here."""
    import mlflow.artifacts

    source = f"{found.location.rstrip('/')}/artifacts"
    if source.startswith("file:"):
        return Path(url2pathname(urlparse(source).path))
    folder = tempfile.mkdtemp(prefix="lexloom-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with answering(tracking_uri):
        path = mlflow.artifacts.download_artifacts(
            source, dst_path=folder, tracking_uri=tracking_uri
        )
    return Path(path)
