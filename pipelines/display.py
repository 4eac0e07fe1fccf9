"""What the command line prints at the end: of a run, of the stack, of a promotion."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.console import span
from pipelines.job import RunResult
from pipelines.settings import Settings
from pipelines.stack import find
from tasks.leaderboard import leaderboard, leaderboard_json
from tasks.promotion import Promotion
from tasks.published import show_published


def show_result(
    out: Console,
    result: RunResult,
    settings: Settings,
    plan: Mapping[str, Any] | None = None,
    home: Path | None = None,
    *,
    direct: bool = False,
) -> None:
    """The leaderboard, where everything lies, how right a plan was, and what to try next.

    Args:
        out: prints it.
        result: of the run.
        settings: of the place.
        plan: how right it was.
        home: as it was named for this command alone, so that the next one needs it too.
        direct: it ran without Prefect, which then has nothing to show.
    """
    out.print(leaderboard(result.rows))
    if result.published:
        out.print(show_published(result.rows, result.published))
    for trained in result.trained:
        if trained.promotion.reasons:
            reasons = "; ".join(trained.promotion.reasons)
            out.print(
                f"{trained.promotion.name} did not become champion: {reasons}", style="yellow"
            )
    for row in result.rows:
        if warning := row.training.get("warning"):
            out.print(f"{row.name}: {warning}", style="yellow", highlight=False, markup=False)
    reused = sum(outcome.reused for outcome in result.outcomes)
    out.print(f"{span(result.seconds)}, {reused} of {len(result.outcomes)} steps reused")
    if plan:
        shares = [f"{plan[name]['foretold'] / max(plan[name]['took'], 1e-9):.2g}" for name in plan]
        about = [f"{share} times the {name}" for share, name in zip(shares, plan, strict=True)]
        out.print("the plan foretold " + ", ".join(about) + " that it took", highlight=False)
    out.print()
    places = {
        "report": result.report,
        "store": settings.store,
        "MLflow": models_page(settings.tracking_uri),
    }
    stack = find(settings.home)
    if stack:
        places["MLflow"] = models_page(stack.mlflow)
    if stack and not direct:
        places["Prefect"] = stack.prefect
    for name, place in places.items():
        out.print(f"{name:<8} {place}", soft_wrap=True, highlight=False)
    out.print("\n[bold]next[/]")
    at = f" --home {shlex.quote(str(home))}" if home else ""
    for command, remark in _next(result, is_up=stack is not None).items():
        out.print(f"  {command}{at}{remark}", soft_wrap=True, highlight=False, markup=False)


def models_page(mlflow: str) -> str:
    """Where to see the models of an MLflow: a page of its UI, or the database."""
    return f"{mlflow.rstrip('/')}/#/models" if mlflow.startswith("http") else mlflow


def _next(result: RunResult, *, is_up: bool) -> dict[str, str]:
    """Commands, each with a remark."""
    commands = {"lexloom models list": ""}
    for row in result.rows:
        if row.registered is None:
            continue
        champion = "champion" in row.registered.aliases
        version = "@champion" if champion else f"/{row.registered.version}"
        name = row.registered.name + version
        if any(score.unit == "spearman" for score in row.scores) and row.neighbours:
            word = shlex.quote(next(iter(row.neighbours)))
            commands[f"lexloom query neighbours {name} {word}"] = ""
            commands[f"lexloom pull {name} --format word2vec --out vectors.txt"] = ""
        elif any(score.unit == "perplexity" for score in row.scores):
            commands[f'lexloom query perplexity {name} "a sentence of your own"'] = ""
    if not is_up:
        commands["lexloom up"] = "  # Prefect and MLflow in the browser: schedule, rerun, compare"
    return commands


def result_json(result: RunResult, settings: Settings) -> dict[str, Any]:
    """A run as JSON."""
    return {
        "corpus": {"name": result.corpus.config.name, "content": result.corpus.content},
        "leaderboard": leaderboard_json(result.rows),
        "models": [
            {
                "name": trained.promotion.name,
                "version": trained.promotion.version,
                "champion": trained.promotion.champion,
                "promoted": trained.promotion.promoted,
                "refused": list(trained.promotion.reasons),
                "artifact": trained.model.to_json(),
            }
            for trained in result.trained
        ],
        "steps": [
            {
                "name": outcome.name,
                "reused": outcome.reused,
                "seconds": round(outcome.seconds, 3),
                "computed": outcome.computed,
                "total": outcome.total,
                "content": outcome.artifact.content,
            }
            for outcome in result.outcomes
        ],
        "report": str(result.report),
        "store": settings.store,
        "tracking_uri": settings.tracking_uri,
        "seconds": round(result.seconds, 3),
    }


def show_promotion(out: Console, promotion: Promotion) -> None:
    """What the gate decided."""
    if promotion.promoted:
        before = f" (before: version {promotion.previous})" if promotion.previous else ""
        out.print(f"{promotion.name}: version {promotion.champion} is champion{before}")
    else:
        reasons = "; ".join(promotion.reasons) or "it is champion already"
        out.print(f"{promotion.name}: version {promotion.version} was not promoted: {reasons}")
