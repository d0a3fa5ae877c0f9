"""Where the operators of a dataflow stand in a drawing: a layered layout, computed from the graph.

Sources stand left, sinks right, every edge leads from a layer to a later one. An edge that is
longer than one layer passes the layers between in a lane of its own, which all readers of one
operator share, so that no edge runs through a box. The same graph always gives the same layout.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from penstock.dataflow.graph import Graph
from penstock.drawing.lanes import Point, bundled

_SWEEPS = 12  # passes over the layers, forth and back; more of them hardly change anything
_EFFORT = 60_000  # points and pieces of edges that are looked at in all: drawing is not slow
_STRAIGHT = (8.0, 1.0, 1.0)  # weight of a piece of an edge, by the operators at its ends


@dataclass(frozen=True)
class Place:
    """Layers count from the left; rows run from 0 downwards, at least 1 apart in a layer."""

    layer: int
    row: float


@dataclass(frozen=True)
class Route:
    """An edge: the places it passes, one in each layer, from its source to its target."""

    source: str
    target: str
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Layout:
    """A place for every operator, a route for every edge, and how much room that takes."""

    places: Mapping[str, Place]
    routes: tuple[Route, ...]
    layers: int
    rows: float

    @property
    def crossings(self) -> int:
        """How often two edges cross."""
        steps = {pair for route in self.routes for pair in pairwise(route.places)}
        between: dict[int, list[tuple[float, float]]] = {}
        for one, other in steps:
            between.setdefault(one.layer, []).append((one.row, other.row))
        return sum(_inversions(pairs) for pairs in between.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "layers": self.layers,
            "rows": self.rows,
            "operators": {n: {"layer": p.layer, "row": p.row} for n, p in self.places.items()},
            "edges": [
                {"from": r.source, "to": r.target, "rows": [p.row for p in r.places]}
                for r in self.routes
            ],
        }


def layout(graph: Graph) -> Layout:
    """Place a dataflow. Raises `CycleError` where there is no forwards."""
    layer = layers(graph)
    last = {n: max((layer[r] - 1 for r in graph.successors[n]), default=layer[n]) for n in layer}
    pieces = sum(last[n] - at + 1 + len(graph.successors[n]) for n, at in layer.items())
    if pieces > _EFFORT:
        rows = bundled(graph, layer, last)
    else:
        mesh = _Mesh.of(graph, layer)
        rows = _rows(mesh, _order(mesh))
    lanes = {
        name: [Place(at, rows[name, at]) for at in range(layer[name], last[name] + 1)]
        for name in graph.topological
    }

    def route(name: str, reader: str) -> Route:
        lane = lanes[name][: layer[reader] - layer[name]]
        return Route(name, reader, (*lane, lanes[reader][0]))

    return Layout(
        {name: lane[0] for name, lane in lanes.items()},
        tuple(route(n, reader) for n in graph.topological for reader in graph.successors[n]),
        1 + max(layer.values(), default=-1),
        max(rows.values(), default=0.0),
    )


def layers(graph: Graph) -> dict[str, int]:
    """The layer of every operator: behind all it reads, and as near to its readers as pays.

    The longest path from a source decides. An operator that more edges leave than enter then
    moves up to its first reader: a source that is joined late does not trail a long edge.
    """
    layer: dict[str, int] = {}
    for name in graph.topological:
        layer[name] = 1 + max((layer[i] for i in _inputs(graph, name)), default=-1)
    for name in reversed(graph.topological):
        readers = graph.successors[name]
        if len(readers) > len(_inputs(graph, name)):
            layer[name] = min(layer[reader] for reader in readers) - 1
    return layer


def _inputs(graph: Graph, name: str) -> list[str]:
    return [i for i in dict.fromkeys(graph[name].inputs) if i in graph]


# --- points and the edges between them ----------------------------------------------------------


@dataclass(frozen=True)
class _Mesh:
    """All points, by layer, in the order written; `before` and `after` are the neighbours."""

    columns: tuple[tuple[Point, ...], ...]
    before: Mapping[Point, Sequence[Point]]
    after: Mapping[Point, Sequence[Point]]
    operators: frozenset[Point]

    @classmethod
    def of(cls, graph: Graph, layer: Mapping[str, int]) -> _Mesh:
        columns: list[list[Point]] = [[] for _ in range(1 + max(layer.values(), default=-1))]
        after: dict[Point, list[Point]] = {}
        for name in graph.topological:
            readers = [layer[reader] for reader in graph.successors[name]]
            for at in range(layer[name], max(readers, default=layer[name] + 1)):
                columns[at].append((name, at))
                follow = [(name, at + 1)] if at + 1 < max(readers, default=0) else []
                follow += [(r, at + 1) for r in graph.successors[name] if layer[r] == at + 1]
                after[name, at] = follow
        before: dict[Point, list[Point]] = {point: [] for point in after}
        for point, follow in after.items():
            for one in follow:
                before[one].append(point)
        return cls(tuple(map(tuple, columns)), before, after, frozenset(layer.items()))

    @property
    def sweeps(self) -> int:
        size = len(self.after) + sum(map(len, self.after.values()))
        return max(1, min(_SWEEPS, _EFFORT // (1 + size)))


# --- the order within each layer ----------------------------------------------------------------

Columns = Sequence[Sequence[Point]]


def _order(mesh: _Mesh) -> Columns:
    """The order with the fewest crossings of those tried, which begin with the order written."""
    best: Columns = mesh.columns
    fewest = _crossings(mesh, best)
    for start in (mesh.columns, _by_depth(mesh)):
        columns = [list(column) for column in start]
        for sweep in range(mesh.sweeps):
            if not fewest:
                return best
            _sweep(mesh, columns, forth=sweep % 2 == 0)
            found = _crossings(mesh, columns)
            if found < fewest:
                best, fewest = [list(column) for column in columns], found
    return best


def _sweep(mesh: _Mesh, columns: list[list[Point]], *, forth: bool) -> None:
    """Order every layer by the middle of its neighbours, then exchange what is still better so."""
    step, neighbours = (1, mesh.before) if forth else (-1, mesh.after)
    for at in range(len(columns))[::step]:
        if 0 <= at - step < len(columns):
            beside = {point: n for n, point in enumerate(columns[at - step])}
            rank: dict[Point, float] = {}
            for n, point in enumerate(columns[at]):
                met = [beside[one] for one in neighbours[point]]
                rank[point] = sum(met) / len(met) if met else n
            columns[at].sort(key=rank.__getitem__)
    for at in range(len(columns)):
        _exchange(mesh, columns, at)


def _exchange(mesh: _Mesh, columns: list[list[Point]], at: int) -> None:
    """Exchange neighbours in a layer whose edges cross less then."""
    column, sides = columns[at], []
    for other, neighbours in ((at - 1, mesh.before), (at + 1, mesh.after)):
        if 0 <= other < len(columns):
            where = {point: n for n, point in enumerate(columns[other])}
            sides.append({p: sorted(where[one] for one in neighbours[p]) for p in column})
    for n in range(len(column) - 1):
        upper, lower = column[n], column[n + 1]
        if sum(_met(s[lower], s[upper]) - _met(s[upper], s[lower]) for s in sides) < 0:
            column[n], column[n + 1] = lower, upper


def _met(upper: Sequence[int], lower: Sequence[int]) -> int:
    """Crossings of the edges of two points, one above the other, with sorted ends."""
    return sum(len(upper) - bisect_right(upper, end) for end in lower)


def _by_depth(mesh: _Mesh) -> Columns:
    """An order in which what belongs together was met together: depth first from the left."""
    columns: list[list[Point]] = [[] for _ in mesh.columns]
    met: set[Point] = set()
    for start in (point for column in mesh.columns for point in column):
        stack = [start]
        while stack:
            point = stack.pop()
            if point not in met:
                met.add(point)
                columns[point[1]].append(point)
                stack.extend(reversed((*mesh.after[point], *mesh.before[point])))
    return columns


def _crossings(mesh: _Mesh, columns: Columns) -> int:
    found = 0
    for left, right in pairwise(columns):
        where = {point: n for n, point in enumerate(right)}
        found += _inversions((n, where[o]) for n, p in enumerate(left) for o in mesh.after[p])
    return found


def _inversions(pairs: Iterable[tuple[float, float]]) -> int:
    """How many pairs of lines between two layers cross."""
    ends: list[float] = []
    found = 0
    for _, end in sorted(pairs):
        found += len(ends) - bisect_right(ends, end)
        insort(ends, end)
    return found


# --- rows ---------------------------------------------------------------------------------------


def _rows(mesh: _Mesh, columns: Columns) -> dict[Point, float]:
    """Every point as near to its neighbours as its order and the distance allow.

    What is made small is the sum of the squared heights of all edges, long ones weighing more.
    Passes that look to one side only carry news far; those that follow, to both sides, settle it.
    """
    rows = {p: n - (len(column) - 1) / 2 for column in columns for n, p in enumerate(column)}
    for sweep in range(2 * mesh.sweeps):
        forth, settling = sweep % 2 == 0, sweep >= mesh.sweeps
        for column in columns[:: 1 if forth else -1]:
            wanted, weights = [], []
            for point in column:
                near = mesh.before[point] if forth else mesh.after[point]
                near = (*mesh.before[point], *mesh.after[point]) if settling or not near else near
                pull = [_pull(mesh, point, one) for one in near]
                weights.append(sum(pull) or 1.0)
                middle = sum(w * rows[p] for w, p in zip(pull, near, strict=True)) / weights[-1]
                wanted.append(middle if near else rows[point])
            rows.update(zip(column, _apart(wanted, weights), strict=True))
    top = min(rows.values(), default=0.0)
    return {point: round(row - top, 6) for point, row in rows.items()}


def _pull(mesh: _Mesh, one: Point, other: Point) -> float:
    """How much an edge resists being steep: a bend in a lane is the least necessary."""
    return _STRAIGHT[(one in mesh.operators) + (other in mesh.operators)]


def _apart(wanted: Sequence[float], weights: Sequence[float]) -> Iterator[float]:
    """The rows nearest to those wanted, by weighted squares, that keep a distance of one.

    With one row less for each place in the order the condition is "not falling", and the nearest
    such series is found by joining neighbours that fall into their mean.
    """
    blocks: list[tuple[float, float, int]] = []
    for n, (row, weight) in enumerate(zip(wanted, weights, strict=True)):
        block = (row - n, weight, 1)
        while blocks and blocks[-1][0] > block[0]:
            mean, mass, members = blocks.pop()
            whole = mass + block[1]
            middle = (mean * mass + block[0] * block[1]) / whole
            block = (middle, whole, members + block[2])
        blocks.append(block)
    n = 0
    for mean, _, members in blocks:
        for _ in range(members):
            yield mean + n
            n += 1
