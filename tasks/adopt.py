"""A registered or pulled model as an artifact of a store, so that steps can be made of it."""

from __future__ import annotations

import shutil

from tasks.artifacts import Artifact, Manifest, recipe_of
from tasks.export.native import FILES
from tasks.lineage import step_names
from tasks.registry import OpenedModel
from tasks.store import Store, Writer

ADOPT = "adopt"


def adopt(store: Store, opened: OpenedModel) -> Artifact:
    """The artifact of the kind "model" with the files of a model that was opened.

    It is what trained the model, if the store has that. Otherwise (the model was pulled, or trained
    over another store) its files are copied in. Either way its content is that of the model.
    """
    content, recipe = str(opened.about.get("content", "")), str(opened.about.get("recipe", ""))
    for step in step_names(store):
        found = store.find(step, recipe) if recipe in store.files.names(step) else None
        if found and found.content == content:
            return found.handle()
    source = Artifact("model", "model", recipe, content)
    recipe = recipe_of(ADOPT, 1, None, {"model": source})
    with store.lease(ADOPT, recipe):
        if found := store.find(ADOPT, recipe):
            return found.handle()
        store.discard(ADOPT, recipe)
        out = Writer(store, ADOPT, recipe)
        for name in FILES:
            with out.path(name) as path:
                shutil.copyfile(opened.folder / name, path)
        origin = {"params": {"reference": opened.reference}, "inputs": {}}
        return store.commit(Manifest("model", ADOPT, 1, recipe, out.parts, {}, origin)).handle()
