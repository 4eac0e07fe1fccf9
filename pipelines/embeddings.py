"""The main flow: a corpus, then every requested family, then the leaderboard."""

from __future__ import annotations

from typing import Annotated

from prefect import flow
from pydantic import Field

from pipelines.flow import concluding, job, show_result
from pipelines.job import RunResult
from pipelines.recipes import resolve


@flow(
    name="embeddings",
    description="Read a corpus, train and compare the families of a recipe, register the models.",
    persist_result=False,
)
def embeddings(
    recipe: Annotated[str, Field(min_length=1)] = "sample",
    data: str = "",
    families: list[str] = [],  # noqa: B006
    overrides: list[str] = [],  # noqa: B006
) -> RunResult:
    """Read a corpus, train and compare the families of a recipe, register the models.

    Args:
        recipe: A recipe by name, or the full path of a YAML file on the worker's machine
        data: Where the text of a recipe lies that does not bring its own, such as brown
        families: Train only these families; all that the recipe has if empty
        overrides: Changes of the form a.b=c, such as families.word2vec.dim=50
    """

    def run() -> RunResult:
        config = resolve(recipe, data=data, families=families, overrides=overrides)
        result = job(config).run()
        show_result(result)
        return result

    return concluding(run)  # type: ignore[return-value]
