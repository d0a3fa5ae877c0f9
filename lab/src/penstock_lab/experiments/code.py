"""Digest of the code that the records of an experiment depend on.

It covers every function, class and constant of Penstock that the cases of an experiment can reach
by name, including policies and workloads named in a string. It does not cover claims and
pictures: these are made from the records, and remade whenever they change.

A stored result keeps the digest of the code that made it, so a test notices when that code changes.
Comments, docstrings, annotations, imports, texts of errors, the order of definitions and the module
of a definition do not count, so that tidying up makes no result stale.

For the simulator, all code is covered except what only reports or draws (`APART`). A run on Spark
also depends on the engine, the machine and timing, so only the experiments' own code is covered;
the commit identifies the engine.
"""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from penstock_lab.experiments.experiment import EngineName, Experiment

OWN = __name__.rpartition(".")[0]
"""The package of the experiments."""

WORKLOADS = "penstock_lab.workloads"
ROOTS = ("penstock", "penstock_lab")

APART = (
    *(
        f"penstock.{name}"
        for name in (
            *("cli", "dashboard", "dataflow", "drawing", "engines.spark", "errors"),
            *("notebook_display", "policies.base.registry", "report", "views", "workloads"),
        )
    ),
    *("penstock_lab.cli", WORKLOADS),
)
"""Modules and packages on which no simulated number depends: the user's side, the Spark engine, and
the registries."""

_Place = tuple[str, str]
"""A module and a name in it."""


def digest(experiment: Experiment, engine: EngineName) -> str:
    """Digest of the code that makes the records of an experiment on an engine."""
    build = experiment.cases if engine == "simulator" else experiment.spark
    reach = Reach((OWN,) if engine == "spark" else ROOTS)
    reach.add(place(build))
    return reach.digest()


def place(found: Any) -> _Place:
    """Where a function or class is defined; for nested ones, where the outermost one is."""
    while isinstance(found, partial):
        found = found.func
    return found.__module__, found.__qualname__.partition(".")[0]


@dataclass
class Reach:
    """Definitions, and all definitions that these refer to.

    within: the packages that are covered.
    """

    within: tuple[str, ...] = ROOTS
    found: dict[_Place, str] = field(default_factory=dict)

    def add(self, begin: _Place) -> None:
        waiting = [begin]
        while waiting:
            at = waiting.pop()
            if at not in self.found and covered(at[0], self.within):
                self.found[at], names = defined(*at, self.within)
                waiting += names

    def digest(self) -> str:
        """Digest of all definitions, independent of their modules."""
        texts = sorted(f"{name} {text}" for (_, name), text in self.found.items() if text)
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def covered(module: str, within: Iterable[str]) -> bool:
    """Whether the definitions of a module count."""

    def part_of(packages: Iterable[str]) -> bool:
        return any(f"{module}.".startswith(f"{one}.") for one in packages)

    workload = module.startswith(f"{WORKLOADS}.")
    return part_of(within) and (workload or not part_of(APART))


@dataclass(frozen=True)
class Source:
    """The definitions of a module by name, and the origin of its imports from Penstock."""

    module: str
    defined: Mapping[str, tuple[ast.stmt, ...]]
    imported: Mapping[str, _Place]


@cache
def defined(
    module: str, name: str, within: tuple[str, ...] = ROOTS
) -> tuple[str, tuple[_Place, ...]]:
    """A definition as text and the places it refers to; for an import, its origin."""
    source = read(module)
    if name in source.imported:
        return "", (source.imported[name],)
    nodes = source.defined.get(name, ())
    names = {place for node in nodes for place in named(node, source)}
    texts = (ast.dump(_WithoutPlaces(source, within).visit(deepcopy(node))) for node in nodes)
    return "\n".join(texts), tuple(names)


@cache
def read(module: str) -> Source:
    """Parse a module without running it; a missing module defines nothing."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        spec = None
    text = Path(spec.origin).read_text() if spec is not None and spec.origin else ""
    return parsed(module, text)


def parsed(module: str, text: str) -> Source:
    """Definitions and imports of a module with this source text."""
    found: dict[str, list[ast.stmt]] = defaultdict(list)
    imported: dict[str, _Place] = {}
    for node in _WithoutWords().visit(ast.parse(text)).body:
        if isinstance(node, ast.ImportFrom):
            imported.update(_imports(node))
        for name in _targets(node):
            found[name].append(node)
    return Source(module, {name: tuple(nodes) for name, nodes in found.items()}, imported)


def _imports(node: ast.ImportFrom) -> Iterator[tuple[str, _Place]]:
    if node.module is not None and node.module.partition(".")[0] in ROOTS:
        for alias in node.names:
            yield alias.asname or alias.name, (node.module, alias.name)


def _targets(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            yield from (one.id for one in ast.walk(target) if isinstance(one, ast.Name))


def named(node: ast.stmt, source: Source) -> Iterator[_Place]:
    """The places that a definition refers to."""
    inside = (one for one in ast.walk(node) if isinstance(one, ast.ImportFrom))
    imported = {**source.imported, **dict(pair for one in inside for pair in _imports(one))}
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
            if one.value.id in imported:  # if it is no module, no such place exists
                yield ".".join(imported[one.value.id]), one.attr
        elif isinstance(one, ast.Name):
            if one.id in imported:
                yield imported[one.id]
            elif one.id in source.defined:
                yield source.module, one.id
        elif isinstance(one, ast.Constant) and source.module.startswith(OWN):
            yield from _looked_up(str(one.value))


@cache
def _is_module(place: _Place | None) -> bool:
    try:
        return place is not None and find_spec(".".join(place)) is not None
    except ModuleNotFoundError:
        return False


@cache
def _looked_up(text: str) -> tuple[_Place, ...]:
    """The policy and the workload with this name, if there are any."""
    from penstock import policies
    from penstock_lab.workloads import WORKLOADS

    found: list[Callable[..., Any]] = []
    if text.partition(":")[0] in policies.names():
        found.append(type(policies.get(text.partition(":")[0])))
    found += [workload.build for workload in WORKLOADS if workload.name == text]
    return tuple(map(place, found))


class _WithoutWords(ast.NodeTransformer):
    """Removes docstrings and annotations, on which no number depends."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        found = super().generic_visit(node)
        body = getattr(found, "body", None)
        if isinstance(body, list):
            body[:] = [one for one in body if not _is_text(one)] or [ast.Pass()]
        return found

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(node.arg)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Name("_", ast.Load())
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)


class _WithoutPlaces(ast.NodeTransformer):
    """Removes the modules of names, which are followed anyway, and the texts of errors.

    A name of code that is not covered becomes a number, so that renaming it makes nothing stale.
    """

    def __init__(self, source: Source, within: tuple[str, ...]) -> None:
        self._imported, self._within = dict(source.imported), within
        self._outside: dict[_Place, str] = {}
        self._local: frozenset[str] = frozenset()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        inside = (one for one in ast.walk(node) if isinstance(one, ast.ImportFrom))
        self._imported.update(pair for one in inside for pair in _imports(one))
        before, self._local = self._local, self._local | _bound(node)
        found = self.generic_visit(node)
        self._local = before
        return found

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        place = self._place(node.value)
        if _is_module(place):
            assert place is not None
            return ast.Name(self._name((".".join(place), node.attr), node.attr), node.ctx)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        place = self._place(node)
        return node if place is None else ast.Name(self._name(place, node.id), node.ctx)

    def _place(self, node: ast.expr) -> _Place | None:
        """Origin of an imported name; None for other names and for local variables."""
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            return None
        return None if node.id in self._local else self._imported.get(node.id)

    def _name(self, place: _Place, name: str) -> str:
        if covered(place[0], self._within):
            return name
        return self._outside.setdefault(place, f"outside {len(self._outside)}")

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call):
            node.exc = node.exc.func
        return self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        return ast.Pass()

    def visit_Import(self, node: ast.Import) -> ast.AST:
        return ast.Pass()


def _bound(node: ast.FunctionDef) -> set[str]:
    """Parameters and local variables of a function."""
    arguments = {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
    names = (one for one in ast.walk(node) if isinstance(one, ast.Name))
    return arguments | {one.id for one in names if isinstance(one.ctx, ast.Store)}


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
