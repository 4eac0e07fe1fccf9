"""Questions to a registered model, asked through MLflow alone; also run where there is no lexloom.

python asked.py TRACKING_URI QUESTIONS.json ANSWERS.json REFERENCE,... [BLOCKED ...]
"""

from __future__ import annotations

import json
import os
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}


class Blocked(MetaPathFinder):
    """Nothing of that name can be imported."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in self.names:
            raise ImportError(f"{name} is not here")


def main() -> None:
    uri, questions, answers, references, *blocked = sys.argv[1:]
    os.environ |= QUIET
    sys.meta_path.insert(0, Blocked(set(blocked)))
    for name in ("models", "tasks", "pipelines"):
        try:
            __import__(name)
        except ImportError:
            continue
        raise SystemExit(f"{name} can be imported here: {sys.modules[name]}")
    import mlflow.pyfunc

    mlflow.set_tracking_uri(uri)
    places = list(sys.path)
    report = {}
    for reference in references.split(","):
        model = mlflow.pyfunc.load_model(reference)
        found = []
        for rows, params in json.loads(Path(questions).read_text("utf-8")):
            try:
                found.append(model.predict(rows, params=params).to_dict(orient="list"))
            except mlflow.exceptions.MlflowException as error:
                found.append({"refused": error.message})
        report[reference] = {"answers": found, "torch": "torch" in sys.modules}
    assert sys.path == places
    Path(answers).write_text(json.dumps(report), "utf-8")


if __name__ == "__main__":
    main()
