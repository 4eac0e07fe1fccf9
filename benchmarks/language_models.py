"""Neural language models of words and of characters, and their mixtures with Kneser-Ney.

    python benchmarks/language_models.py TRAIN VALID TEST --name Brown --home DIR

Every row is a family of lexloom with the settings below, trained, evaluated and registered by
``lexloom run``; a row that the home has is not trained again. The texts have a sentence a line,
words between spaces; .gz will do. All rows predict the same words, those seen more than three times
in the training text, and read on over the ends of sentences but Kneser-Ney, which begins anew.
``--rows`` chooses rows, ``--scale`` multiplies the epochs. The base of the ratios is
interpolated modified Kneser-Ney of order 5, whose figures are KenLM's (it is always a row).

``char-cnn``, ``lstm-untied`` and ``lstm-tied`` have equally many weights (6.6 M with 14,114 words)
and passes: what a model gains that is fed with spelling, also of words that all the others know as
``<unk>`` only. ``lstm-untied`` is the shape of Kim et al. (2015), who do not tie.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common import machine, write
from pydantic import TypeAdapter

from models.families import FamilyConfig

BASE = "kneser-ney-5"
SHARED = {"min_count": 4, "max_size": None, "patience": 0}
STREAMS = {"batch_size": 20, "steps": 35, "learning_rate": 2e-3, **SHARED}
LSTM = {"family": "rnnlm", "cell": "lstm", "layers": 2, "dropout": 0.5, **STREAMS}
LAYER = {**LSTM, "layers": 1, "units": 400, "embedding": 400, "tied": True}
ROWS: Mapping[str, dict[str, Any]] = {
    BASE: {"family": "ngram", "order": 5, "min_count": 4},
    "lstm-tied": {**LSTM, "units": 336, "embedding": 336, "tied": True, "epochs": 5},
    "lstm-untied": {**LSTM, "units": 208, "embedding": 208, "epochs": 5},
    "char-cnn": {**STREAMS, "family": "char-cnn", "dropout": 0.5, "epochs": 5},
    "gru": {**LAYER, "cell": "gru", "epochs": 5},
    "elman": {**LAYER, "cell": "elman", "dropout": 0.4, "epochs": 5},
    "awd-lstm": {
        **SHARED,
        "family": "awd-lstm",
        "units": 400,
        "embedding": 320,
        "batch_size": 20,
        "epochs": 6,
    },
    "elmo": {
        **STREAMS,
        "family": "elmo",
        "cells": 512,
        "units": 128,
        "objective": "softmax",
        "epochs": 4,
    },
}
"""The settings of every row."""


def recipe(options: argparse.Namespace) -> dict[str, Any]:
    """The run as ``lexloom run`` reads it."""
    rows = {name: dict(ROWS[name]) for name in [BASE, *(r for r in options.rows if r != BASE)]}
    for row in rows.values():
        if "epochs" in row:
            row["epochs"] = max(1, round(row["epochs"] * options.scale))
    texts = {
        split: {"paths": [str(getattr(options, split).resolve())], "document": "file"}
        for split in ("train", "valid", "test")
    }
    return {
        "corpus": {
            "name": options.name.lower().replace(" ", "-"),
            **texts,
            "deduplicate": False,
            "tokenize": {"scheme": "whitespace"},
        },
        "families": rows,
        "mixtures": {f"{row}-and-{BASE}": {"parts": [row, BASE]} for row in rows if row != BASE},
        "evaluation": {"splits": ["valid", "test"], "similarity": [], "analogy": []},
    }


def run(options: argparse.Namespace) -> None:
    """Train, evaluate and report."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recipe.yaml"
        path.write_text(json.dumps(recipe(options)))
        command = [sys.executable, "-m", "pipelines.cli", "run", str(path), "--direct", "--json"]
        done = subprocess.run(
            [*command, "--home", str(options.home)], check=True, stdout=subprocess.PIPE
        )
    entries = {entry["name"]: entry for entry in json.loads(done.stdout)["leaderboard"]}
    name = options.name.lower().replace(" ", "-")
    write(f"language-models-{name}", report(entries, options), {"rows": entries})


def report(entries: Mapping[str, Any], options: argparse.Namespace) -> str:
    """The result as Markdown."""
    scores = {
        name: {score["name"]: score["value"] for score in entry["scores"]}
        for name, entry in entries.items()
    }
    base = scores[BASE]
    words = entries[BASE]["scores"][0]["details"]["vocabulary_entries"]
    lines = [
        f"# Language models on {options.name}",
        "",
        f"{machine()}, one seed. Perplexity; mixed: with {BASE}, weights fitted on the valid text; "
        f"ratios to {BASE}.",
        "",
        "| | weights | tokens read | minutes | valid | test | ratio | mixed valid | mixed test "
        "| ratio |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in (n for n in ROWS if n in entries):
        training = entries[name]["training"]
        shown = [scores[name], scores.get(f"{name}-and-{BASE}")]
        figures = [
            f"{s['perplexity.valid']:.1f} | {s['perplexity.test']:.1f} | "
            f"{s['perplexity.test'] / base['perplexity.test']:.3f}"
            if s
            else " | | "
            for s in shown
        ]
        config = TypeAdapter(FamilyConfig).validate_python(ROWS[name])
        weights = f"{config.n_weights(words) / 1e6:.2f} M" if name != BASE else ""
        lines.append(
            f"| {name} | {weights} "
            f"| {training['tokens']:,} | {training['training_seconds'] / 60:.1f} "
            f"| {figures[0]} | {figures[1]} |"
        )
    for name, found in scores.items():
        if "perplexity_backward.valid" in found:
            lines += [
                "",
                f"{name} read backward: {found['perplexity_backward.valid']:.1f} valid, "
                f"{found['perplexity_backward.test']:.1f} test.",
            ]
    return "\n".join([*lines, ""])


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for split in ("train", "valid", "test"):
        parser.add_argument(split, type=Path)
    parser.add_argument("--name", required=True, help="what the report calls the text")
    parser.add_argument("--home", type=Path, required=True, help="where models and texts are kept")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    parser.add_argument("--scale", type=float, default=1.0, help="of the epochs")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
