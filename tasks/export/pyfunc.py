"""A model as MLflow saves and serves it: its files and the code that answers from them.

The code is a file (MLflow's "models from code") that is cut out of our own modules, the files are
JSON and safetensors. Nothing is pickled, and loading needs no lexloom.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.capabilities import EmbedsTokens, EmbedsWords, FillsIn, Predicts, Scores
from models.family import Family, Model
from tasks.export.bundle import bundle
from tasks.export.native import FILES, FOLDER_MANIFEST
from tasks.models import read_model

if TYPE_CHECKING:
    from mlflow.models import ModelSignature

CODE = "model.py"
REQUIREMENTS = ("mlflow", "numpy", "pandas", "pydantic")


def family_code(family: Family) -> str:
    """The one Python file that a model of a family is served from."""
    module = type(family).__module__
    return bundle(
        [module, "tasks.export.served"],
        docstring=f"""{family.title}: a model trained by lexloom.

{family.paper}

This file and the files beside it are the whole model. Load it with
``mlflow.pyfunc.load_model``; the class ``Pretrained`` below says what to ask it.
""",
        last="serve(Config)",
    )


def save_pyfunc(folder: Path, out: Path, mlflow_model: Any, about: Mapping[str, Any]) -> None:
    """Save a model in the native format as an MLflow model.

    Args:
        folder: the model in the native format.
        out: the folder to make.
        mlflow_model: the ``mlflow.models.Model`` that the folder describes.
        about: metadata to keep with it.
    """
    import mlflow.pyfunc

    model = read_model(folder)
    code = family_code(model.config)
    example = _example(model)
    requirements = [
        *REQUIREMENTS,
        *(["torch"] if re.search("^(import|from) torch", code, re.M) else []),
    ]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / CODE
        path.write_text(code, "utf-8")
        names = [*FILES, FOLDER_MANIFEST]
        mlflow.pyfunc.save_model(
            out,
            mlflow_model=mlflow_model,
            python_model=path,
            artifacts={Path(name).stem: str(folder / name) for name in names},
            signature=_signature(model),
            input_example=example,
            pip_requirements=[f"{name}=={_release(name)}" for name in requirements],
            metadata=dict(about),
        )


def usage(model: Model, name: str) -> str:
    """What a registry says about a model, in Markdown."""
    from tasks.export.served import tasks_of

    rows, params = _example(model)
    return f"""{model.config.title} ({model.config.paper})

It answers the tasks {", ".join(tasks_of(model))}; the last line says how each is asked.

```python
import mlflow.pyfunc

model = mlflow.pyfunc.load_model("models:/{name}@champion")
model.predict({rows!r}, params={params!r})
print(model.unwrap_python_model().__doc__)
```
"""


def _release(package: str) -> str:
    # A local version label ("2.13.0+cpu") names a build that no index has.
    return version(package).partition("+")[0]


def _signature(model: Model) -> ModelSignature:
    """What ``predict`` takes: the columns of every question that the model answers."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema, TensorSpec
    from mlflow.types.schema import Array, DataType

    string = DataType.string
    columns: list[ColSpec | TensorSpec] = []
    if isinstance(model, EmbedsWords):
        names = ("word", "other", "expression", "a", "b", "c", "d")
        columns += [ColSpec(string, name, required=False) for name in names]
        columns += [ColSpec(Array(string), name, required=False) for name in ("words", "others")]
    if isinstance(model, Scores | FillsIn | EmbedsTokens):
        columns.append(ColSpec(Array(string), "tokens", required=False))
        columns.append(ColSpec(string, "text", required=False))
    params = [
        ParamSpec("task", string, _task(model)),
        ParamSpec("k", DataType.long, 10),
        ParamSpec("method", string, "3cosadd"),
        ParamSpec("vectors", string, "own"),
    ]
    if isinstance(model, Predicts):
        params += [
            ParamSpec("length", DataType.long, 50),
            ParamSpec("seed", DataType.long, 1),
            ParamSpec("temperature", DataType.double, 1.0),
            ParamSpec("top_k", DataType.long, None),
            ParamSpec("top_p", DataType.double, 1.0),
            ParamSpec("unknown", DataType.boolean, False),
        ]
    if isinstance(model, EmbedsTokens):
        params += [ParamSpec("layer", string, "last"), ParamSpec("word", string, "")]
    return ModelSignature(inputs=Schema(columns), params=ParamSchema(params))


def _task(model: Model) -> str:
    return "neighbours" if isinstance(model, EmbedsWords) else "log_prob"


def _example(model: Model) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Two questions about frequent words, with parameters."""
    words = [*model.vocabulary.words[:2], "the"][:2]
    if isinstance(model, EmbedsWords):
        return [{"word": word} for word in words], {"task": "neighbours", "k": 5}
    return [{"tokens": [word]} for word in words], {"task": "log_prob"}
