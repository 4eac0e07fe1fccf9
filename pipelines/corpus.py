"""The flow that makes a corpus and stops there."""

from __future__ import annotations

from typing import Annotated

from prefect import flow
from prefect.artifacts import create_table_artifact
from pydantic import Field

from pipelines.flow import concluding, effect, job, show_card
from pipelines.recipes import resolve
from tasks.corpus import Corpus


@flow(
    name="corpus",
    description="Ingest, normalize, deduplicate, split and tokenize a corpus, and count it.",
    persist_result=False,
)
def corpus(
    recipe: Annotated[str, Field(min_length=1)] = "sample",
    overrides: list[str] = [],  # noqa: B006
) -> Corpus:
    """Ingest, normalize, deduplicate, split and tokenize a corpus, and count it.

    Args:
        recipe: A recipe by name, or the full path of a YAML file on the worker's machine
        overrides: Changes of the form a.b=c, such as corpus.normalize.lowercase=true
    """

    def run() -> Corpus:
        work = job(resolve(recipe, overrides=overrides))
        made = work.corpus()
        show_card(made, effect("publish card", lambda: work.publish_card(made)))
        rows = [{"stage": stage, **stats} for stage, stats in made.stats.items()]
        create_table_artifact(rows, key=f"corpus-{made.config.name}".lower().replace("_", "-"))
        return made

    return concluding(run)  # type: ignore[return-value]
