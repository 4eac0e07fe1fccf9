"""One Python file out of several modules of ours, for places where lexloom is not installed.

A registered model brings its code along. That code is not written a second time: it is cut out of
the very modules that trained and evaluated the model. The root modules are taken whole; of the
modules that they import, only the definitions that are needed, as they stand, comments included.
Imports between our modules vanish, and all other imports come first. Where two modules define one
name, each definition is called after its module too, ``Config_models_ngram``, wherever it is used.

What a module must keep to, to be bundled:

* names are imported by themselves, ``from models.text import Sentences``, not as modules;
* no parameter, local variable or field is called like a name that has to be renamed;
* its top level holds imports, definitions and assignments only;
* imports inside of functions reach for none of our modules but ``models.kernels``. They become an
  ``ImportError``: kernels are not bundled, and a package that is called ``models`` may be anyone's.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

OURS = ("models", "tasks", "pipelines")
KERNELS = "models.kernels"


class BundleError(ValueError):
    """Modules that cannot become one file."""


def bundle(roots: Sequence[str], *, docstring: str, last: str = "") -> str:
    """The source of one module that holds the roots and all that they need.

    Args:
        roots: names of modules, taken whole.
        docstring: of the module.
        last: its last line, by the names of the first root.

    Raises:
        BundleError: a module does not keep to the rules above.
    """
    plan = _Plan()
    for root in roots:
        plan.take_all(root)
    imports, typing_only, body = plan.write()
    (last,) = _renamed([last], ast.parse(last), plan.called().get(roots[0], {}))
    quoted = docstring.replace("\\", "\\\\").replace('"""', "'''").strip()
    head = [f'"""{quoted}\n"""', "from __future__ import annotations", "\n".join(imports)]
    if typing_only:
        indented = "\n".join(f"    {line}" for line in typing_only)
        head.append(f"if TYPE_CHECKING:\n{indented}")
    return "\n\n\n".join(["\n\n".join(head), *body, last]).rstrip() + "\n"


# --- a module, taken apart ------------------------------------------------------------------


@dataclass(frozen=True)
class _Import:
    """One imported name."""

    line: str
    typing_only: bool = False


@dataclass
class _Module:
    """A module by its statements.

    Attributes:
        name: of the module.
        source: its lines.
        statements: the definitions and assignments of its top level.
        bound: the index in ``statements`` of every name that they define.
        outside: imported names from elsewhere.
        inside: imported names from modules of ours, with the module and the name there.
        refused: imported names that cannot be bundled, with the reason.
        strings: the docstrings of its top level.
    """

    name: str
    source: list[str]
    statements: list[ast.stmt] = field(default_factory=list)
    bound: dict[str, int] = field(default_factory=dict)
    outside: dict[str, _Import] = field(default_factory=dict)
    inside: dict[str, tuple[str, str]] = field(default_factory=dict)
    refused: dict[str, BundleError] = field(default_factory=dict)
    strings: list[ast.Expr] = field(default_factory=list)

    def fail(self, node: ast.AST, problem: str) -> BundleError:
        return BundleError(f"{self.name}, line {getattr(node, 'lineno', '?')}: {problem}")

    def text(self, index: int, names: Mapping[str, str]) -> str:
        """A statement as it stands, with the comments above it and the docstring below it.

        Args:
            index: of the statement.
            names: what global names are called in the bundle, where they are called otherwise.
        """
        node = self.statements[index]
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1
        while first and self.source[first - 1].startswith("#"):
            first -= 1
        last = node.end_lineno or node.lineno
        following = self.source[last : last + 1]
        if following and following[0].startswith(('"""', "'''")):
            string = next(n for n in self.strings if n.lineno == last + 1)
            last = string.end_lineno or last
        return "\n".join(self._renamed(node, names)[first:last])

    def _renamed(self, node: ast.stmt, names: Mapping[str, str]) -> list[str]:
        """The source of the module with the global names in a statement renamed."""
        lines = _without_kernels(_renamed(self.source, node, names), node)
        for row, old, new in self._heads(node, names):
            lines[row] = lines[row].replace(old, new, 1)
        return lines

    def _heads(self, node: ast.stmt, names: Mapping[str, str]) -> Iterator[tuple[int, str, str]]:
        """Where a definition itself is called otherwise; refuses local names of that kind."""
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names:
            word = "def" if isinstance(node, ast.FunctionDef) else "class"
            yield node.lineno - 1, f"{word} {node.name}", f"{word} {names[node.name]}"
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            return
        for inner in ast.walk(node):
            local = inner.arg if isinstance(inner, ast.arg) else ""
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                local = inner.id
            if local in names:
                raise self.fail(inner, f"{local!r} is local here, and a name to be renamed")


def _renamed(source: Sequence[str], node: ast.AST, names: Mapping[str, str]) -> list[str]:
    """Lines with the names that are used in a statement renamed."""
    lines = [line.encode() for line in source]  # columns are counted in bytes
    found = [inner for inner in ast.walk(node) if isinstance(inner, ast.Name)]
    for inner in sorted(found, key=lambda name: name.col_offset, reverse=True):
        if inner.id in names:
            row, first = inner.lineno - 1, inner.col_offset
            last = first + len(inner.id.encode())
            lines[row] = lines[row][:first] + names[inner.id].encode() + lines[row][last:]
    return [line.decode() for line in lines]


def _without_kernels(lines: list[str], node: ast.AST) -> list[str]:
    """Lines in which a statement's imports of kernels fail, as where these are not installed."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Import | ast.ImportFrom) and _is_kernel(inner):
            first, last = inner.lineno - 1, inner.end_lineno or inner.lineno
            lines[first:last] = [""] * (last - first)
            lines[first] = " " * inner.col_offset + 'raise ImportError("kernels are not served")'
    return lines


def _is_kernel(node: ast.Import | ast.ImportFrom) -> bool:
    origin = (isinstance(node, ast.ImportFrom) and node.module) or node.names[0].name
    return f"{origin}.".startswith(f"{KERNELS}.")


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


@functools.cache
def _parse(name: str) -> _Module:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise BundleError(f"there is no module {name}")
    source = Path(spec.origin).read_text("utf-8")
    module = _Module(name, source.splitlines())
    for node in ast.parse(source).body:
        if isinstance(node, ast.Expr) and _is_text(node):
            module.strings.append(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            _note_import(module, node, typing_only=False)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for inner in node.body:
                if not isinstance(inner, ast.Import | ast.ImportFrom):
                    raise module.fail(inner, "only imports may stand under TYPE_CHECKING")
                _note_import(module, inner, typing_only=True)
        else:
            _note_definition(module, node)
    return module


def _note_import(module: _Module, node: ast.Import | ast.ImportFrom, *, typing_only: bool) -> None:
    origin = node.module or "" if isinstance(node, ast.ImportFrom) else ""
    if origin == "__future__":
        return
    if isinstance(node, ast.ImportFrom) and node.level:
        raise module.fail(node, "relative imports cannot be bundled")
    for alias in node.names:
        top = (origin or alias.name).partition(".")[0]
        renamed = f" as {alias.asname}" if alias.asname else ""
        name = alias.asname or alias.name.partition(".")[0]
        if top not in OURS:
            line = f"from {origin} import" if origin else "import"
            module.outside[name] = _Import(f"{line} {alias.name}{renamed}", typing_only)
        elif not origin or _is_module(f"{origin}.{alias.name}"):
            problem = "import the names of our modules by themselves"
            module.refused[name] = module.fail(node, problem)
        else:
            module.inside[name] = origin, alias.name


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _note_definition(module: _Module, node: ast.stmt) -> None:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        names = [node.name]
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    else:
        raise module.fail(node, f"{type(node).__name__} at the top of a module cannot be bundled")
    if names == ["__all__"]:
        return
    for inner in ast.walk(node):
        if isinstance(inner, ast.Import | ast.ImportFrom):
            origin = getattr(inner, "module", None) or inner.names[0].name
            if origin.partition(".")[0] in OURS and not _is_kernel(inner):
                raise module.fail(inner, f"import {origin} at the top of the module")
    for name in names:
        module.bound[name] = len(module.statements)
    module.statements.append(node)


def _names(node: ast.AST) -> Iterator[str]:
    """The names that a statement uses, those of its annotations included."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id


# --- what is taken --------------------------------------------------------------------------


@dataclass
class _Plan:
    """Which statements of which modules are taken, and which imports they need."""

    taken: dict[str, set[int]] = field(default_factory=dict)
    imports: dict[str, _Import] = field(default_factory=dict)

    def take_all(self, name: str) -> None:
        """Take a whole module."""
        module = _parse(name)
        for index in range(len(module.statements)):
            self._take(module, index)

    def _take(self, module: _Module, index: int) -> None:
        taken = self.taken.setdefault(module.name, set())
        if index in taken:
            return
        taken.add(index)
        for name in _names(module.statements[index]):
            self._need(module, name)

    def _need(self, module: _Module, name: str) -> None:
        if name in module.bound:
            self._take(module, module.bound[name])
        elif name in module.inside:
            source, there = module.inside[name]
            origin = _parse(source)
            if there not in origin.bound:
                raise BundleError(f"{module.name} imports {there}, which {origin.name} lacks")
            self._take(origin, origin.bound[there])
        elif name in module.outside:
            self._import(module, name)
        elif name in module.refused:
            raise module.refused[name]

    def _order(self) -> list[str]:
        """The modules, each after those that it imports from."""
        order: list[str] = []
        seen: set[str] = set()

        def visit(name: str) -> None:
            if name in self.taken and name not in seen:
                seen.add(name)
                for origin, _ in _parse(name).inside.values():
                    visit(origin)
                order.append(name)

        for name in self.taken:
            visit(name)
        return order

    def _import(self, module: _Module, name: str) -> None:
        wanted = module.outside[name]
        known = self.imports.setdefault(name, wanted)
        if known.line != wanted.line:
            raise BundleError(
                f"{module.name}: {name!r} is `{wanted.line}`, elsewhere it is `{known.line}`"
            )
        if known.typing_only and not wanted.typing_only:
            self.imports[name] = wanted

    def called(self) -> dict[str, dict[str, str]]:
        """What the names that each module uses are called in the bundle, where otherwise."""
        owners: dict[str, list[str]] = {name: ["an import"] for name in self.imports}
        for name, taken in self.taken.items():
            for bound, index in _parse(name).bound.items():
                if index in taken:
                    owners.setdefault(bound, []).append(name)

        def called(module: str, bound: str) -> str:
            shared = len(owners.get(bound, [])) > 1
            return f"{bound}_{module.replace('.', '_')}" if shared else bound

        names: dict[str, dict[str, str]] = {}
        for name in self.taken:
            module = _parse(name)
            here = {bound: called(name, bound) for bound in module.bound}
            here |= {local: called(*there) for local, there in module.inside.items()}
            names[name] = {old: new for old, new in here.items() if old != new}
        return names

    def write(self) -> tuple[list[str], list[str], list[str]]:
        """Imports, imports for type checkers, and statements."""
        body = []
        called = self.called()
        for name in self._order():
            module = _parse(name)
            body.append(f"# --- {name} {'-' * max(3, 90 - len(name))}")
            body += [module.text(index, called[name]) for index in sorted(self.taken[name])]
        lines = {entry.line for entry in self.imports.values() if not entry.typing_only}
        hidden = {entry.line for entry in self.imports.values() if entry.typing_only}
        if hidden:
            lines.add("from typing import TYPE_CHECKING")
        return _grouped(lines), _grouped(hidden), body


def _grouped(lines: Iterable[str]) -> list[str]:
    """Import statements in order, ``import x`` first, one a module."""
    plain, names = [], dict[str, list[str]]()
    for line in sorted(lines):
        origin, found, name = line.partition(" import ")
        if found:
            names.setdefault(origin, []).append(name)
        else:
            plain.append(line)
    return plain + [f"{origin} import {', '.join(parts)}" for origin, parts in names.items()]
