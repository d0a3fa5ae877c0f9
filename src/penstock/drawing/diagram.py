"""Draws a dataflow: operators, and under a plan the pipelines around them.

An operator is a box with its form, its measured cost, and a bar for its share of the work of all
operators. A pipeline is the area around its operators, with a dot per instance; it turns yellow and
red as it gets busy, and so do single instances that get more rows than the others. The width of an
edge shows its rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from penstock import text
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Operator, State
from penstock.drawing.layout import Layout, Route, layout
from penstock.drawing.sketch import Box, Curve, Dot, Label, Shape, Sketch
from penstock.metrics import derived
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan.plan import Pipeline, Plan

WARM, HOT = 0.7, 0.9
"""Shares of busy time above which a pipeline is busy, and too busy."""

SKEWED, LOPSIDED = 1.5, 2.0
"""Multiples of the mean rows per instance that are marked as skewed, and as bad."""

_WIDE, _HIGH = 140.0, 46.0
_GAP = 66.0
_PAD = 9.0
_DOTS = 20
_EDGE = 26.0


def diagram(graph: Graph, plan: Plan | None = None, snapshot: Snapshot | None = None) -> Sketch:
    """Draw a dataflow, optionally with the pipelines of a plan and measured values."""
    return _Diagram(graph, plan, snapshot, layout(graph)).sketch()


def heat(busy: float | None) -> str:
    """Suffix of a role by busy share: none, `-warm` or `-hot`."""
    return "" if busy is None or busy <= WARM else "-hot" if busy > HOT else "-warm"


@dataclass(frozen=True)
class _Area:
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Area) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


@dataclass(frozen=True)
class _Diagram:
    graph: Graph
    plan: Plan | None
    snapshot: Snapshot | None
    layout: Layout

    def sketch(self) -> Sketch:
        x, y = self.at(max(0, self.layout.layers - 1), self.layout.rows)
        bottom = y + _HIGH / 2 + self.foot + _EDGE
        legend = [*self.legend(bottom)]
        words = [one.x + 6.2 * len(one.text) for one in legend if isinstance(one, Label)]
        return Sketch(
            f"dataflow {self.graph.name}",
            max(x + _WIDE / 2 + _EDGE, *words, 120.0),
            bottom + 16,
            (
                *self.pipelines(),
                *(self.edge(route) for route in self.layout.routes),
                *(shape for one in self.graph.operators for shape in self.operator(one)),
                *legend,
            ),
        )

    @property
    def foot(self) -> float:
        """Height below the operators of a pipeline, for its instances and its load."""
        return 0.0 if self.plan is None else 20.0 if self.snapshot is None else 34.0

    def at(self, layer: int, row: float) -> tuple[float, float]:
        """Centre of a position in the layout."""
        pitch = _HIGH + (26 if self.plan is None else 2 * _PAD + self.foot + 14)
        return _EDGE + _WIDE / 2 + layer * (_WIDE + _GAP), _EDGE + _HIGH / 2 + row * pitch

    def area(self, name: str, pad: float = 0.0, foot: float = 0.0) -> _Area:
        place = self.layout.positions[name]
        x, y = self.at(place.layer, place.row)
        wide, high = _WIDE / 2 + pad, _HIGH / 2 + pad
        return _Area(x - wide, y - high, x + wide, y + high + foot)

    # --- operators --------------------------------------------------------------------------------

    def operator(self, operator: Operator) -> Iterator[Shape]:
        area = self.area(operator.name)
        yield Box(area.left, area.top, _WIDE, _HIGH, "box", hint=self.hint(operator))
        yield Box(area.left + 4, area.top + 5, 4, _HIGH - 10, operator.state.value, 2)
        measured = self.snapshot.operators.get(operator.name) if self.snapshot else None
        cost = _cost(measured.service if measured else None)
        flow = self.flow(operator.name) if self.graph.successors[operator.name] else None
        rate = "" if flow is None else f"{text.rate(flow)}/s"
        form = operator.form + (f" by {', '.join(operator.keys)}" if operator.keys else "")
        left, top = area.left + 15, area.top
        name = text.cut(operator.name, 17 - len(cost) // 2)
        yield Label(left, top + 17, name, "words", 12, bold=True)
        yield Label(left, top + 31, text.cut(form, 20 - len(rate)), "faint", 10)
        for words, line in ((cost, 17), (rate, 31)):
            if words:
                yield Label(area.right - 7, top + line, words, "faint", 9.5, "end")
        share = self.costs.get(operator.name, 0.0)
        if share > 0:
            yield Box(left, top + _HIGH - 9, max(1.5, (_WIDE - 22) * share), 4, "cost", 2)

    def hint(self, operator: Operator) -> str:
        said = [f"{operator.name}: {operator.form}, {operator.state.value}"]
        if operator.keys:
            said.append(f"by {', '.join(operator.keys)}")
        found = self.snapshot.operators.get(operator.name) if self.snapshot else None
        if found is not None:
            for word, value in (
                ("time for a row", text.span(found.service)),
                ("rows in a second", text.rate(found.rate_in)),
                ("rows out for one in", _ratio(found.selectivity)),
                ("at work", text.share(found.busy)),
            ):
                said += [f"{word} {value}"] if value != "-" else []
        return "; ".join(said)

    @cached_property
    def costs(self) -> Mapping[str, float]:
        """Each operator's share of the measured work of all operators."""
        found = self.snapshot.operators if self.snapshot else {}
        work = {
            name: one.service * one.rate_in
            for name, one in found.items()
            if one.service is not None and one.rate_in is not None
        }
        whole = sum(work.values())
        return {name: one / whole if whole > 0 else 0.0 for name, one in work.items()}

    # --- edges ------------------------------------------------------------------------------------

    def edge(self, route: Route) -> Curve:
        """Route an edge: level through each layer on the way, a bend between two layers."""
        (first, *between, last) = [self.at(place.layer, place.row) for place in route.positions]
        start = (first[0] + _WIDE / 2, first[1])
        steps: list[tuple[float, ...]] = []
        at = start
        for x, y in between:
            beyond = (x + _WIDE / 2, y)
            if y != at[1]:
                steps += [_bend(at, (x - _WIDE / 2, y)), beyond]
            elif steps:  # the level line continues
                steps[-1] = beyond
            else:
                steps = [beyond]
            at = beyond
        flow = self.flow(route.source)
        width = 1.4 if flow is None else 1.2 + 3.8 * math.sqrt(flow / (self.strongest or 1.0))
        steps.append(_bend(at, (last[0] - _WIDE / 2 - 5 - width / 2, last[1])))
        said = f"{route.source} to {route.target}"
        hint = said if flow is None else f"{said}: {text.rate(flow)} rows a second"
        return Curve(start, tuple(steps), "edge", width, arrow=True, hint=hint)

    def flow(self, name: str) -> float | None:
        """Rows per second that leave an operator; None if unknown."""
        found = self.snapshot.operators.get(name) if self.snapshot else None
        rate = None if found is None else found.rate_out
        return rate if rate is not None and math.isfinite(rate) and rate >= 0 else None

    @cached_property
    def strongest(self) -> float:
        return max((self.flow(one.name) or 0.0 for one in self.graph.operators), default=0.0)

    # --- pipelines --------------------------------------------------------------------------------

    def pipelines(self) -> Iterator[Shape]:
        planned = self.plan.pipelines if self.plan else ()
        known = [p for p in planned if all(name in self.graph for name in p.operators)]
        fields = {p.name: self.field(p) for p in known}
        inside = {name for p in known for name in p.operators}
        alone = {o.name: self.area(o.name) for o in self.graph.operators if o.name not in inside}
        crowded = _crowded(fields | alone)
        for pipeline in known:
            measured = self.snapshot.pipelines.get(pipeline.name) if self.snapshot else None
            role = f"pipeline{heat(derived.at_work(measured) if measured else None)}"
            field = fields[pipeline.name]
            if pipeline.name in crowded:
                yield from self.tube(pipeline, role)
                field = self.area(pipeline.name, _PAD, self.foot)
            else:
                hint = _of_pipeline(pipeline, measured)
                wide, high = field.right - field.left, field.bottom - field.top
                yield Box(field.left, field.top, wide, high, role, 13, hint)
            yield from _instances(pipeline, measured, field)

    def field(self, pipeline: Pipeline) -> _Area:
        areas = [self.area(name, _PAD, self.foot) for name in pipeline.operators]
        return _Area(
            min(a.left for a in areas),
            min(a.top for a in areas),
            max(a.right for a in areas),
            max(a.bottom for a in areas),
        )

    def tube(self, pipeline: Pipeline, role: str) -> Iterator[Shape]:
        """Draw a pipeline that overlaps others: its operators, joined along its edges."""
        inside = set(pipeline.operators)
        routes = self.layout.routes if len(inside) > 1 else ()
        edges = [self.edge(r) for r in routes if r.source in inside and r.target in inside]
        for grown, suffix in ((1.2, "-rim"), (0.0, "-body")):
            for one in edges:
                yield Curve(one.start, one.steps, role + suffix, 22 + 2 * grown)
            for name in pipeline.operators:
                foot = self.foot if name == pipeline.name else 0.0
                a = self.area(name, _PAD + grown, foot)
                high = a.bottom - a.top
                yield Box(a.left, a.top, a.right - a.left, high, role + suffix, 13 + grown)

    # --- what the colours mean --------------------------------------------------------------------

    def legend(self, y: float) -> Iterator[Shape]:
        x = _EDGE
        there = {one.state for one in self.graph.operators}
        for state in (one for one in State if one in there):
            yield Box(x, y - 8, 4, 10, state.value, 2)
            yield Label(x + 9, y, state.value, "faint", 10)
            x += 22 + 5.6 * len(state.value)
        if self.plan is not None:
            yield Dot(x + 3, y - 3, 3, "instance")
            yield Label(x + 10, y, "an instance", "faint", 10)


def _crowded(areas: Mapping[str, _Area]) -> set[str]:
    """Names of areas that overlap another, found by a sweep from left to right."""
    found: set[str] = set()
    passed: list[tuple[str, _Area]] = []
    for name, area in sorted(areas.items(), key=lambda one: one[1].left):
        passed = [one for one in passed if one[1].right > area.left]
        met = [other for other, there in passed if there.meets(area)]
        found.update(met, [name] if met else [])
        passed.append((name, area))
    return found


def _instances(
    pipeline: Pipeline, measured: PipelineMetrics | None, field: _Area
) -> Iterator[Shape]:
    """Instances, utilisation and backlog, drawn at the foot of a pipeline's area."""
    count = pipeline.parallelism if measured is None else measured.parallelism
    left, right = field.left + _PAD, field.right - _PAD
    y = field.bottom - (12 if measured is None else 26)
    shown = min(count, int((right - left - 36) / 9), _DOTS)
    rows = {i.index: i.rows for i in measured.instances} if measured else {}
    known = [r for r in rows.values() if r is not None]
    mean = sum(known) / len(known) if known else 0.0
    for index in range(shown):
        taken = rows.get(index)
        over = taken / mean if taken is not None and mean > 0 and count > 1 else 0.0
        role = "-hot" if over >= LOPSIDED else "-warm" if over >= SKEWED else ""
        hint = f"instance {index}" + ("" if taken is None else f": {text.count(taken)} rows")
        yield Dot(left + 4 + 9 * index, y, 3.2, f"instance{role}", hint)
    if shown < count:
        yield Label(left + 2 + 9 * shown, y + 3, "…", "faint", 10)
    yield Label(right, y + 3.5, f"\N{MULTIPLICATION SIGN} {count}", "faint", 10, "end")
    if measured is None:
        return
    share = derived.at_work(measured)
    role = {"": "faint", "-warm": "warning", "-hot": "alarm"}[heat(share)]
    busy = "" if share is None else f"{text.share(share)} busy"
    waiting = f"{text.count(measured.backlog_rows)} wait" if measured.backlog_rows else ""
    yield Label(left, field.bottom - 9, busy, role, 10)
    yield Label(right, field.bottom - 9, waiting, role, 10, "end")


def _of_pipeline(pipeline: Pipeline, measured: PipelineMetrics | None) -> str:
    said = [f"pipeline {' + '.join(pipeline.operators)}", f"{pipeline.parallelism} instances"]
    if measured is not None and measured.skew is not None:
        said.append(f"skew {measured.skew:.2f}")
    if measured is not None and measured.state_rows:
        said.append(f"{text.count(measured.state_rows)} rows of state")
    return "; ".join(said)


def _bend(start: tuple[float, float], end: tuple[float, float]) -> tuple[float, ...]:
    middle = (start[0] + end[0]) / 2
    return (middle, start[1], middle, end[1], *end)


def _cost(service: float | None) -> str:
    if not service:
        return ""
    return text.span(service) if service >= 0.00005 else "<0.1 ms"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
