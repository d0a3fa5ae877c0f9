"""Layered graph layout: positions of the operators and edges of a dataflow.

Sources are on the left, sinks on the right, and every edge leads to a later layer. An edge that
skips layers runs through them in a lane, which all edges of its source share, so no edge crosses a
box. Equal graphs always give equal layouts.

The method is Sugiyama's: layers by longest path, order by barycentres with exchanges, rows by
isotonic regression. Graphs too large for it get a simpler layout in linear time. See
docs/decisions/0025.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from penstock.dataflow.graph import Graph

_SWEEPS = 12  # passes over the layers; more of them change hardly anything
_EFFORT = 60_000  # maximum number of nodes and edge segments visited, so that drawing stays fast
_STRAIGHT = (8.0, 1.0, 1.0)  # weight of an edge segment, by the number of operators at its ends

Node = tuple[str, int]
"""An operator in its own layer, or the lane of its edges in a later layer."""


@dataclass(frozen=True)
class Position:
    """Layers count from the left, rows from the top.

    Rows of a layer are at least 1 apart.
    """

    layer: int
    row: float


@dataclass(frozen=True)
class Route:
    """An edge: its positions from source to target, one in each layer."""

    source: str
    target: str
    positions: tuple[Position, ...]


@dataclass(frozen=True)
class Layout:
    """Positions of operators, routes of edges, and numbers of layers and rows."""

    positions: Mapping[str, Position]
    routes: tuple[Route, ...]
    layers: int
    rows: float

    @property
    def crossings(self) -> int:
        """Number of edge crossings."""
        steps = {pair for route in self.routes for pair in pairwise(route.positions)}
        between: dict[int, list[tuple[float, float]]] = {}
        for one, other in steps:
            between.setdefault(one.layer, []).append((one.row, other.row))
        return sum(_inversions(pairs) for pairs in between.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "layers": self.layers,
            "rows": self.rows,
            "operators": {n: {"layer": p.layer, "row": p.row} for n, p in self.positions.items()},
            "edges": [
                {"from": r.source, "to": r.target, "rows": [p.row for p in r.positions]}
                for r in self.routes
            ],
        }


def layout(graph: Graph) -> Layout:
    """Lay out a dataflow. Raises `CycleError` if it has a cycle."""
    layer = layers(graph)
    last = {n: max((layer[r] - 1 for r in graph.successors[n]), default=layer[n]) for n in layer}
    segments = sum(last[n] - at + 1 + len(graph.successors[n]) for n, at in layer.items())
    if segments > _EFFORT:
        rows = _bundled_rows(graph, layer, last)
    else:
        mesh = _Mesh.of(graph, layer)
        rows = _rows(mesh, _order(mesh))
    lanes = {
        name: [Position(at, rows[name, at]) for at in range(layer[name], last[name] + 1)]
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
    """Layer of every operator: after its inputs, close to its readers if that pays.

    The longest path from a source decides. An operator with more readers than inputs then moves
    right, next to its first reader, so that a source that joins late has no long edge.
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


# --- nodes and edge segments ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Mesh:
    """All nodes by layer, in declaration order; `before` and `after` are neighbours."""

    columns: tuple[tuple[Node, ...], ...]
    before: Mapping[Node, Sequence[Node]]
    after: Mapping[Node, Sequence[Node]]
    operators: frozenset[Node]

    @classmethod
    def of(cls, graph: Graph, layer: Mapping[str, int]) -> _Mesh:
        columns: list[list[Node]] = [[] for _ in range(1 + max(layer.values(), default=-1))]
        after: dict[Node, list[Node]] = {}
        for name in graph.topological:
            readers = [layer[reader] for reader in graph.successors[name]]
            for at in range(layer[name], max(readers, default=layer[name] + 1)):
                columns[at].append((name, at))
                follow = [(name, at + 1)] if at + 1 < max(readers, default=0) else []
                follow += [(r, at + 1) for r in graph.successors[name] if layer[r] == at + 1]
                after[name, at] = follow
        before: dict[Node, list[Node]] = {node: [] for node in after}
        for node, follow in after.items():
            for one in follow:
                before[one].append(node)
        return cls(tuple(map(tuple, columns)), before, after, frozenset(layer.items()))

    @property
    def sweeps(self) -> int:
        size = len(self.after) + sum(map(len, self.after.values()))
        return max(1, min(_SWEEPS, _EFFORT // (1 + size)))


# --- the order within each layer ------------------------------------------------------------------

Columns = Sequence[Sequence[Node]]


def _order(mesh: _Mesh) -> Columns:
    """The order with the fewest crossings found, starting from the declaration order."""
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


def _sweep(mesh: _Mesh, columns: list[list[Node]], *, forth: bool) -> None:
    """Sort each layer by barycentres of neighbours, then exchange adjacent nodes."""
    step, neighbours = (1, mesh.before) if forth else (-1, mesh.after)
    for at in range(len(columns))[::step]:
        if 0 <= at - step < len(columns):
            beside = {node: n for n, node in enumerate(columns[at - step])}
            rank: dict[Node, float] = {}
            for n, node in enumerate(columns[at]):
                met = [beside[one] for one in neighbours[node]]
                rank[node] = sum(met) / len(met) if met else n
            columns[at].sort(key=rank.__getitem__)
    for at in range(len(columns)):
        _exchange(mesh, columns, at)


def _exchange(mesh: _Mesh, columns: list[list[Node]], at: int) -> None:
    """Exchange adjacent nodes of a layer if that removes crossings."""
    column, sides = columns[at], []
    for other, neighbours in ((at - 1, mesh.before), (at + 1, mesh.after)):
        if 0 <= other < len(columns):
            where = {node: n for n, node in enumerate(columns[other])}
            sides.append({p: sorted(where[one] for one in neighbours[p]) for p in column})
    for n in range(len(column) - 1):
        upper, lower = column[n], column[n + 1]
        if sum(_met(s[lower], s[upper]) - _met(s[upper], s[lower]) for s in sides) < 0:
            column[n], column[n + 1] = lower, upper


def _met(upper: Sequence[int], lower: Sequence[int]) -> int:
    """Crossings between the edges of two adjacent nodes, given sorted edge ends."""
    return sum(len(upper) - bisect_right(upper, end) for end in lower)


def _by_depth(mesh: _Mesh) -> Columns:
    """A starting order by depth-first search, which keeps connected nodes together."""
    columns: list[list[Node]] = [[] for _ in mesh.columns]
    met: set[Node] = set()
    for start in (node for column in mesh.columns for node in column):
        stack = [start]
        while stack:
            node = stack.pop()
            if node not in met:
                met.add(node)
                columns[node[1]].append(node)
                stack.extend(reversed((*mesh.after[node], *mesh.before[node])))
    return columns


def _crossings(mesh: _Mesh, columns: Columns) -> int:
    found = 0
    for left, right in pairwise(columns):
        where = {node: n for n, node in enumerate(right)}
        found += _inversions((n, where[o]) for n, p in enumerate(left) for o in mesh.after[p])
    return found


def _inversions(pairs: Iterable[tuple[float, float]]) -> int:
    """Number of crossings among lines between two layers."""
    ends: list[float] = []
    found = 0
    for _, end in sorted(pairs):
        found += len(ends) - bisect_right(ends, end)
        insort(ends, end)
    return found


# --- rows -----------------------------------------------------------------------------------------


def _rows(mesh: _Mesh, columns: Columns) -> dict[Node, float]:
    """Rows that minimise the weighted squared height of all edge segments.

    Segments of long edges weigh more. The first half of the passes looks at one side only, which
    carries changes far; the second half looks at both sides and settles them.
    """
    rows = {p: n - (len(column) - 1) / 2 for column in columns for n, p in enumerate(column)}
    for sweep in range(2 * mesh.sweeps):
        forth, settling = sweep % 2 == 0, sweep >= mesh.sweeps
        for column in columns[:: 1 if forth else -1]:
            wanted, weights = [], []
            for node in column:
                near = mesh.before[node] if forth else mesh.after[node]
                near = (*mesh.before[node], *mesh.after[node]) if settling or not near else near
                pull = [_pull(mesh, node, one) for one in near]
                weights.append(sum(pull) or 1.0)
                middle = sum(w * rows[p] for w, p in zip(pull, near, strict=True)) / weights[-1]
                wanted.append(middle if near else rows[node])
            rows.update(zip(column, _apart(wanted, weights), strict=True))
    top = min(rows.values(), default=0.0)
    return {node: round(row - top, 6) for node, row in rows.items()}


def _pull(mesh: _Mesh, one: Node, other: Node) -> float:
    """Weight of an edge segment; highest within a lane, which should stay straight."""
    return _STRAIGHT[(one in mesh.operators) + (other in mesh.operators)]


def _apart(wanted: Sequence[float], weights: Sequence[float]) -> Iterator[float]:
    """Rows at least 1 apart with the least weighted squared distance from `wanted`.

    After subtracting each node's index, the constraint is that rows do not decrease: isotonic
    regression, solved by pooling adjacent violators.
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


# --- graphs that are too large to be untangled ----------------------------------------------------


def _bundled_rows(
    graph: Graph, layer: Mapping[str, int], last: Mapping[str, int]
) -> dict[Node, float]:
    """Rows in linear time: operators near their inputs, long edges in lanes below.

    last: the last layer that the edges of an operator cross.
    """
    own = _operator_rows(graph, layer)
    rows: dict[Node, float] = {(name, layer[name]): row for name, row in own.items()}
    below = 1 + max(own.values(), default=-1.0)
    for name, lane in _lanes(layer, last).items():
        for at in range(layer[name] + 1, last[name] + 1):
            rows[name, at] = below + lane
    return rows


def _operator_rows(graph: Graph, layer: Mapping[str, int]) -> dict[str, float]:
    """Rows of operators: centred per layer, ordered by the mean row of their inputs."""
    columns: dict[int, list[str]] = {}
    for name in graph.topological:
        columns.setdefault(layer[name], []).append(name)
    widest = max(map(len, columns.values()), default=0)
    rows: dict[str, float] = {}
    for _, names in sorted(columns.items()):
        wanted = {}
        for name in names:
            read = [rows[one] for one in graph[name].inputs if one in graph]
            wanted[name] = sum(read) / len(read) if read else 0.0
        top = (widest - len(names)) / 2
        for n, name in enumerate(sorted(names, key=wanted.__getitem__)):
            rows[name] = top + n
    return rows


def _lanes(layer: Mapping[str, int], last: Mapping[str, int]) -> dict[str, int]:
    """Lane of every operator with long edges: the topmost free in those layers."""
    free: list[int] = []
    taken: list[tuple[int, int]] = []
    lanes: dict[str, int] = {}
    for name in sorted((n for n in layer if last[n] > layer[n]), key=layer.__getitem__):
        while taken and taken[0][0] <= layer[name]:
            heapq.heappush(free, heapq.heappop(taken)[1])
        lanes[name] = heapq.heappop(free) if free else len(taken)
        heapq.heappush(taken, (last[name], lanes[name]))
    return lanes
