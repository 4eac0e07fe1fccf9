"""What must stay in a store: registered models, those of MLflow's runs, what recipes would find."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipelines.config import RunConfig
from pipelines.plan import found_for
from pipelines.settings import Settings
from tasks.artifacts import Manifest
from tasks.lineage import Key
from tasks.registry import list_models
from tasks.tracking import trained_recipes


def roots(
    catalogue: Mapping[Key, Manifest], settings: Settings, configs: Iterable[RunConfig]
) -> set[Key]:
    """The artifacts of a store that must stay; what they were made from stays with them.

    Args:
        catalogue: of the store.
        settings: of the place.
        configs: of runs that shall find again what they made.

    Raises:
        ConnectionError: MLflow does not answer; nothing can be said to be superfluous then.
    """
    uri = settings.tracking_uri
    registered = {version.content for version in list_models(uri)}
    trained = trained_recipes(uri, settings.store)
    models = {
        key
        for key, manifest in catalogue.items()
        if manifest.kind == "model" and (key[1] in trained or manifest.content in registered)
    }
    kept = {catalogue[key].content for key in models}
    scores = {
        key
        for key, manifest in catalogue.items()
        if manifest.kind in ("scores", "forgetting")
        and any(given["content"] in kept for given in manifest.origin["inputs"].values())
    }
    found = {key for config in configs for key in found_for(config, settings)}
    return models | scores | found
