"""A layout for graphs that are too large to be untangled: long edges run in lanes below.

Every operator stands in the order written, nearer to what it reads. The edges that pass layers go
straight, in lanes below all operators, and lanes that do not overlap share a row, as the wires of a
harness do. It takes as long as it takes to write the places down.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from penstock.dataflow.graph import Graph

Point = tuple[str, int]
"""An operator's place in its own layer, or its lane in a later one."""


def bundled(graph: Graph, layer: Mapping[str, int], last: Mapping[str, int]) -> dict[Point, float]:
    """The row of every point; `last` is the last layer that an operator's edges pass."""
    own = _own(graph, layer)
    rows: dict[Point, float] = {(name, layer[name]): row for name, row in own.items()}
    below = 1 + max(own.values(), default=-1.0)
    for name, lane in _lanes(layer, last).items():
        for at in range(layer[name] + 1, last[name] + 1):
            rows[name, at] = below + lane
    return rows


def _own(graph: Graph, layer: Mapping[str, int]) -> dict[str, float]:
    """The rows of operators: in each layer by the mean of what they read, around one middle."""
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
    """A lane for every operator whose edges pass layers: the uppermost that is free by then."""
    free: list[int] = []
    taken: list[tuple[int, int]] = []
    lanes: dict[str, int] = {}
    for name in sorted((n for n in layer if last[n] > layer[n]), key=layer.__getitem__):
        while taken and taken[0][0] <= layer[name]:
            heapq.heappush(free, heapq.heappop(taken)[1])
        lanes[name] = heapq.heappop(free) if free else len(taken)
        heapq.heappush(taken, (last[name], lanes[name]))
    return lanes
