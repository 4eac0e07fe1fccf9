from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import mlflow.pyfunc
import pytest

import models
from models.families import FAMILIES
from tasks.export import bundle as bundling
from tasks.export.bundle import BundleError, bundle
from tasks.export.pyfunc import family_code

Write = Callable[[Mapping[str, str]], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes modules that are found as ``models.<name>``."""
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(tmp_path)])

    def write(sources: Mapping[str, str]) -> None:
        bundling._parse.cache_clear()
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(textwrap.dedent(source), "utf-8")

    return write


def run(source: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = ModuleType("bundled")
    monkeypatch.setitem(sys.modules, "bundled", module)
    exec(compile(source, "bundled.py", "exec"), module.__dict__)
    return module


def test_what_is_needed_is_taken_as_it_stands(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        {
            "zz_words": '''
                """Words."""
                from __future__ import annotations
                import math
                import re
                from typing import TYPE_CHECKING
                if TYPE_CHECKING:
                    from torch import Tensor

                # Twice the usual.
                LIMIT = 2
                """At most so many."""
                UNUSED = re.compile("x")

                def half(x: float) -> float:
                    """Half of it."""  # a comment
                    return x / LIMIT

                def root(x: Tensor) -> float:
                    return math.sqrt(x)
            ''',
            "zz_model": """
                from __future__ import annotations
                from dataclasses import dataclass
                from models.zz_words import half

                @dataclass(frozen=True)
                class Config:
                    size: int = 3

                    def answer(self) -> float:
                        from models.kernels.zz import train
                        return half(self.size)

                    def half(self) -> float:
                        return half(self.size)
            """,
        }
    )
    source = bundle(["models.zz_model"], docstring="A model.", last="config = Config(5)")
    assert run(source, monkeypatch).config.half() == 2.5
    assert '# Twice the usual.\nLIMIT = 2\n"""At most so many."""' in source
    assert '"""Half of it."""  # a comment' in source
    assert source.startswith('"""A model.\n"""\n\nfrom __future__ import annotations\n')
    for absent in ("UNUSED", "import re", "math", "root", "from models."):
        assert absent not in source
    with pytest.raises(ImportError, match="kernels are not served"):
        run(source, monkeypatch).config.answer()
    whole = bundle(["models.zz_words"], docstring="Words.")
    assert "if TYPE_CHECKING:\n    from torch import Tensor" in whole


@pytest.mark.parametrize(
    ("sources", "problem"),
    [
        ({"a": "from models import zz_b\nX = zz_b.Y"}, "line 1: import the names of our modules"),
        ({"a": "import models.zz_b\nX = models"}, "import the names of our modules"),
        ({"a": "from .zz_b import Y"}, "relative imports"),
        ({"a": "def f():\n    from models.zz_b import Y"}, "line 2: import models.zz_b at the top"),
        ({"a": "for i in range(3): pass"}, "For at the top"),
        (
            {"a": "from models.zz_b import Y\nX = Y\nW = 1\ndef f():\n    W = 2\n    return W"},
            "models.zz_a, line 5: 'W' is local here",
        ),
        ({"a": "from models.zz_b import Y\nX = Y\nW = 1\ndef f(W): return 1"}, "'W' is local"),
        ({"a": "import json as np\nfrom models.zz_b import Z\nX = Z, np"}, "'np' is"),
        ({"a": "from models.zz_b import NOTHING\nX = NOTHING"}, "which models.zz_b lacks"),
    ],
)
def test_what_cannot_be_bundled_is_refused(
    write: Write, sources: Mapping[str, str], problem: str
) -> None:
    write({"zz_b": "import numpy as np\nW = 2\nY = W\nZ = np.pi"})
    write({f"zz_{name}": source for name, source in sources.items()})
    with pytest.raises(BundleError, match=problem):
        bundle(["models.zz_a"], docstring="")


def test_names_of_several_modules_are_told_apart(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = """
        from dataclasses import dataclass, replace
        LIMIT = {limit}

        @dataclass(frozen=True)
        class Config:
            size: int = LIMIT

            def larger(self) -> "Config":
                return replace(Config(), size=self.size + LIMIT)  # é, and LIMIT once more
    """
    write({"zz_one": part.format(limit=10), "zz_two": part.format(limit=200)})
    write(
        {
            "zz_both": """
                from dataclasses import dataclass
                from models.zz_one import Config as One
                from models.zz_two import Config as Two

                @dataclass(frozen=True)
                class Config:
                    one: One = One()
                    two: Two = Two()

                    def sizes(self) -> list[int]:
                        return [self.one.larger().size, self.two.larger().size]
            """
        }
    )
    source = bundle(["models.zz_both"], docstring="", last="sizes = Config().sizes()")
    assert run(source, monkeypatch).sizes == [20, 400]
    assert "class Config_models_zz_one:" in source
    assert "sizes = Config_models_zz_both().sizes()" in source
    assert "LIMIT_models_zz_two)  # é, and LIMIT once more" in source


def test_every_family_becomes_one_file_without_its_kernels() -> None:
    for config in FAMILIES:
        source = family_code(config())
        names = {line.split()[1].partition(".")[0] for line in source.splitlines() if _top(line)}
        allowed = {"mlflow", "numpy", "pandas", "pydantic", *sys.stdlib_module_names}
        assert names - allowed <= {"torch"}, config
        assert ("torch" in names) == (config.style == "learns")
        assert config.__name__ in source
        # A package of these names may be anyone's where the model is served.
        assert not re.search(r"^\s*(from|import) (models|tasks|pipelines)\b", source, re.MULTILINE)
        compile(source, "model.py", "exec")


def _top(line: str) -> bool:
    return line.startswith(("import ", "from "))


def test_two_versions_in_one_process_behave_as_registered(write: Write, tmp_path: Path) -> None:
    """Equal names in two bundles do not meet, and nothing is added to the places of modules."""
    model = """
        from __future__ import annotations
        from mlflow.models import set_model
        from mlflow.pyfunc.model import PythonModel
        import pandas as pd
        from models.zz_helper import helper

        class Pretrained(PythonModel):
            def predict(self, context, model_input: pd.DataFrame, params=None):
                return helper()

        def serve():
            set_model(Pretrained())
    """
    saved = []
    for number in (1, 2):
        write({"zz_helper": f"def helper():\n    return {number}", "zz_model": model})
        code = tmp_path / f"code{number}.py"
        code.write_text(bundle(["models.zz_model"], docstring="", last="serve()"))
        path = tmp_path / f"saved{number}"
        saved.append(path)
        mlflow.pyfunc.save_model(path, python_model=str(code), pip_requirements=["mlflow"])
    before = list(sys.path)
    loaded = [mlflow.pyfunc.load_model(str(path)) for path in saved]
    assert [one.predict([{"x": 1}]) for one in loaded] == [1, 2]
    assert sys.path == before
