"""Draws the pipelines of a plan as a text graph for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from rich.text import Text

from penstock import text
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Operator, Union
from penstock.drawing.diagram import heat
from penstock.drawing.layout import Layout, Position, layout
from penstock.metrics import derived
from penstock.metrics.snapshot import Snapshot
from penstock.plan.plan import Plan
from penstock.policies.shared.topology import Topology

_LEFT, _RIGHT, _UP, _DOWN = 1, 2, 4, 8
_JOINTS = (" ", *"───│╯╰┴│╮╭┬│┤├┼")  # indexed by the sum of the sides that meet
_LABELS = (44, 36, 30, 24, 20, 16, 12, 9)
_LEAST = 6  # minimum number of characters per pipeline
_HEAT = {"": "bold", "-warm": "bold yellow", "-hot": "bold red"}


def textgraph(
    graph: Graph, plan: Plan, snapshot: Snapshot | None, width: int, height: int
) -> list[Text] | None:
    """The graph in at most `width` columns and `height` lines; None if too large.

    Also None for a plan with a single pipeline, which a graph would not explain.
    """
    if len(plan.pipelines) < 2:
        return None
    if len(plan.pipelines) * _LEAST > width * height:
        return None
    topology = Topology(graph, plan)
    placed = _placed(tuple((name, topology.upstream[name]) for name in topology.pipelines))
    if _line(placed.rows) >= height:
        return None
    for room in _LABELS:
        drawn = _Drawing(placed, _labels(plan, room))
        if drawn.width <= width:
            return [*drawn.lines(_styles(snapshot))]
    return None


@lru_cache(maxsize=8)
def _placed(upstream: tuple[tuple[str, tuple[str, ...]], ...]) -> Layout:
    """Layout of the pipelines, cached because the view redraws every 250 ms."""
    return layout(Graph("pipelines", tuple(Operator(n, Union(), i) for n, i in upstream)))


def _labels(plan: Plan, room: int) -> dict[str, str]:
    found = {}
    for one in plan.pipelines:
        count = f" ×{one.parallelism}"  # noqa: RUF001
        found[one.name] = text.chain(one.operators, max(3, room - len(count))) + count
    return found


def _styles(snapshot: Snapshot | None) -> dict[str, str]:
    known = {} if snapshot is None else snapshot.pipelines
    return {name: _HEAT[heat(derived.at_work(one))] for name, one in known.items()}


def _line(row: float) -> int:
    """Line number of a row; rows of a layer are at least 1 apart, so none collide."""
    return math.floor(row + 0.5 + 1e-6)


@dataclass
class _Drawing:
    """Labels in columns; between them, one track per source whose edges bend."""

    layout: Layout
    labels: Mapping[str, str]
    _joints: dict[tuple[int, int], int] = field(default_factory=dict)
    _arrows: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        wide = [0] * self.layout.layers
        for name, place in self.layout.positions.items():
            wide[place.layer] = max(wide[place.layer], len(self.labels[name]))
        tracks: list[dict[str, int]] = [{} for _ in wide]
        for route in self.layout.routes:
            for one, other in zip(route.positions, route.positions[1:], strict=False):
                if _line(one.row) != _line(other.row):
                    found = tracks[one.layer]
                    found.setdefault(route.source, len(found))
        self._tracks = tracks
        self._starts = []
        x = 0
        for layer, columns in enumerate(wide):
            self._starts.append(x)
            x += columns + 4 + bool(tracks[layer]) + len(tracks[layer])
        self._wide = wide
        self.width = x - 4 if wide else 0

    def lines(self, styles: Mapping[str, str]) -> Iterator[Text]:
        for route in self.layout.routes:
            for n, (one, other) in enumerate(
                zip(route.positions, route.positions[1:], strict=False), start=1
            ):
                last = n == len(route.positions) - 1
                self._step(route.source, one, other, first=n == 1, last=last)
        labels = {
            (_line(place.row), self._starts[place.layer]): name
            for name, place in self.layout.positions.items()
        }
        for y in range(1 + _line(self.layout.rows)):
            yield self._written(y, labels, styles)

    def _step(
        self, source: str, one: Position, other: Position, *, first: bool, last: bool
    ) -> None:
        """Draw an edge up to the next column, and across that column if the edge goes on."""
        start = self._starts[one.layer]
        begin = start + (len(self.labels[source]) + 1 if first else 0)
        end = self._starts[other.layer] - 2
        y, low = _line(one.row), _line(other.row)
        self._join(begin, y, _LEFT)
        if y == low:
            self._across(y, begin, end)
        else:
            turn = start + self._wide[one.layer] + 2 + self._tracks[one.layer][source]
            self._across(y, begin, turn)
            self._down(turn, y, low)
            self._across(low, turn, end)
        if last:
            self._arrows.add((end, low))
        else:
            self._across(low, end, end + 2)

    def _across(self, y: int, left: int, right: int) -> None:
        for x in range(left, right + 1):
            self._join(x, y, (_LEFT if x > left else 0) | (_RIGHT if x < right else 0))

    def _down(self, x: int, y: int, low: int) -> None:
        top, bottom = min(y, low), max(y, low)
        for at in range(top, bottom + 1):
            self._join(x, at, (_UP if at > top else 0) | (_DOWN if at < bottom else 0))

    def _join(self, x: int, y: int, sides: int) -> None:
        self._joints[x, y] = self._joints.get((x, y), 0) | sides

    def _written(
        self, y: int, labels: Mapping[tuple[int, int], str], styles: Mapping[str, str]
    ) -> Text:
        line, x = Text(), 0
        while x < self.width:
            name = labels.get((y, x))
            if name is not None:
                line.append(self.labels[name], styles.get(name, "bold"))
                x += len(self.labels[name])
                continue
            arrow = (x, y) in self._arrows
            line.append("▶" if arrow else _JOINTS[self._joints.get((x, y), 0)], "dim")
            x += 1
        line.rstrip()
        return line
