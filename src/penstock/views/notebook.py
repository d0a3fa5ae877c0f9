"""Renders values in a notebook: drawings of dataflows; tables of plans and runs.

`html` takes any value. Other result types only need a title, a table and figures (`Tabled`), and
inherit `penstock.notebook_display.Shown`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch
from typing import Protocol, runtime_checkable

from penstock import text
from penstock.control.summary import LatencySummary, Summary
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import CycleError, Graph
from penstock.drawing.charts import chart
from penstock.drawing.diagram import diagram, heat
from penstock.drawing.figures import Figure
from penstock.drawing.markup import Child, Html, stylesheet, table, tag
from penstock.drawing.svg import svg
from penstock.metrics import derived
from penstock.metrics.snapshot import LatencyMetrics, Snapshot
from penstock.plan.decision import Decision
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.transition import Transition
from penstock.views.explain import admission_text, cadence_text

_DOTS = 24


@runtime_checkable
class Tabled(Protocol):
    """A result that consists of a table and figures, such as a comparison."""

    @property
    def title(self) -> str: ...

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """Column headers and rows."""

    def figures(self) -> Sequence[Figure]:
        """Figures to show below the table; may be empty."""


def html(value: object) -> str:
    """HTML of a value, with its stylesheet, to embed in any page."""
    return tag("div", Html(f"<style>{stylesheet()}</style>"), body(value), class_="penstock note")


@singledispatch
def body(value: object) -> Child:
    """Markup of a value, without stylesheet; register other types with this function."""
    if isinstance(value, Tabled):
        heads, rows = value.table()
        drawn = (_picture(svg(chart(one), light=True), one.title) for one in value.figures())
        return [tag("h3", value.title), table(heads, rows), drawn]
    return tag("code", repr(value))


def _picture(drawing: str, words: str) -> Html:
    """A drawing as an image: an untrusted notebook shows no inline SVG."""
    data = base64.b64encode(drawing.encode()).decode()
    return tag("figure", tag("img", src=f"data:image/svg+xml;base64,{data}", alt=words))


def _pairs(rows: Iterable[tuple[str, Child]]) -> Html:
    """A table of names and values; notebooks restyle description lists."""
    return table((), ((tag("span", name, class_="faint"), what) for name, what in rows))


# --- dataflows and plans --------------------------------------------------------------------------


@body.register
def _(flow: Dataflow) -> Child:
    return body(flow.graph)


@body.register
def _(graph: Graph) -> Child:
    try:
        drawn: Child = _picture(svg(diagram(graph), light=True), f"dataflow {graph.name}")
    except CycleError as error:
        drawn = tag("p", f"it cannot be drawn, for it has a cycle: {error}", class_="bad")
    bounds = [
        f"{c.first} → {c.last} below {text.span(c.latency)}, mean over {text.span(c.window)}"
        for c in graph.constraints
    ]
    said = [f"dataflow of {_number(len(graph.operators), 'operator')}", *bounds]
    return [tag("h3", graph.name), drawn, tag("p", "; ".join(said), class_="faint")]


@body.register
def _(plan: Plan) -> Child:
    heads = ("pipeline", "instances", "", "cadence", "admission")
    rows = (
        (
            text.chain(p.operators, 90),
            str(p.parallelism),
            _dots(p),
            cadence_text(p.cadence),
            admission_text(p.admission),
        )
        for p in plan.pipelines
    )
    said = (
        f"{_number(len(plan.pipelines), 'pipeline')}, {_number(plan.slots, 'instance')}, "
        f"{_number(plan.executors, 'executor')}"
    )
    return [tag("h3", "plan"), table(heads, rows, numbers=(1,)), tag("p", said, class_="faint")]


def _dots(pipeline: Pipeline) -> Html:
    more = "…" if pipeline.parallelism > _DOTS else ""
    return tag("span", "●" * min(pipeline.parallelism, _DOTS) + more, class_="dots")


# --- what was decided and done --------------------------------------------------------------------


@body.register
def _(decision: Decision) -> Child:
    what = "leave it as it is" if decision.plan is None else "another plan"
    look = "faint" if decision.plan is None else "good"
    head = tag("h3", "decision ", tag("span", what, class_=f"badge {look}"))
    parts: list[Child] = [head, tag("p", decision.reason)]
    if decision.numbers:
        rows = ((name, text.figure(value)) for name, value in decision.numbers.items())
        parts.append(table(("number", ""), rows, numbers=(1,)))
    if decision.plan is not None:
        parts.append(body(decision.plan))
    return parts


@body.register
def _(done: Transition) -> Child:
    moved = [text.count(done.state_rows_moved), text.size(done.state_bytes_moved)]
    settled = None if done.settled else tag("span", " and still watched", class_="warn")
    rows: list[tuple[str, Child]] = [
        ("at", text.clock(done.at)),
        ("changes", [tag("div", one) for one in done.changes]),
        ("why", done.reason or "-"),
        ("took", text.span(done.duration)),
        ("output held", [text.span(done.interruption), settled]),
    ]
    if done.sink_gap is not None:
        usual = f" (usually {text.span(done.usual_gap)})" if done.usual_gap is not None else ""
        rows.append(("longest gap", f"{text.span(done.sink_gap)}{usual}"))
    if done.phases:
        rows.append(("of it", ", ".join(f"{name} {text.span(s)}" for name, s in done.phases)))
    if done.state_rows_moved is not None:
        rows.append(("state moved", f"{moved[0]} rows, {moved[1]}"))
    rows.append(("replayed", f"{_number(done.rows_replayed, 'row')}"))
    return [tag("h3", "transition"), _pairs(rows)]


# --- what was measured ----------------------------------------------------------------------------


@body.register
def _(summary: Summary) -> Child:
    exact = {True: ("exact", "good"), False: ("not exact", "bad"), None: ("not checked", "faint")}
    word, look = exact[summary.exact]
    why = f" ({summary.exact_reason})" if summary.exact_reason else ""
    ended = ", ended early" if summary.interrupted else ""
    held = sum(one.interruption for one in summary.transitions)
    rows: list[tuple[str, Child]] = [
        ("policy", f"{summary.policy} on {summary.engine}"),
        ("time", text.span(summary.seconds) + ended),
        ("rows", _rows(summary)),
        ("throughput", f"{text.rate(summary.throughput_mean)}/s mean"),
        *((f"latency {_pair(n)}", _latency(one)) for n, one in summary.latency.items()),
        ("used", f"{text.count(summary.slot_seconds)} slot-seconds"),
        ("changes", f"{len(summary.transitions)}, output held for {text.span(held)} in all"),
        *([("events", str(summary.events))] if summary.events.count else []),
        ("result", [tag("span", word, class_=look), why]),
        ("directory", tag("code", summary.run_dir)),
    ]
    last = tag("details", tag("summary", "the last plan"), body(summary.plan))
    return [tag("h3", f"run of {summary.flow}"), _pairs(rows), last]


def _rows(summary: Summary) -> str:
    offered = "" if summary.rows_offered is None else f"{summary.rows_offered:,} offered, "
    dead = f", {summary.rows_dead:,} dead letters" if summary.rows_dead else ""
    dead += (
        f" (more than {summary.dead_letters.at_most:.0%})" if summary.dead_letters.too_many else ""
    )
    dead += f", {summary.rows_late:,} too late" if summary.rows_late else ""
    repeated = summary.rows_repeated
    dead += f", up to {repeated:,} delivered again" if repeated else ""
    return (
        f"{offered}{summary.rows_ingested:,} taken in, {summary.rows_delivered:,} delivered{dead}"
    )


def _latency(one: LatencySummary | LatencyMetrics) -> Child:
    if one.mean is None:
        return tag("span", "not measured", class_="faint")
    look = "good" if one.mean <= one.bound else "bad"
    mean = tag("span", f"{text.span(one.mean)} mean", class_=f"strong {look}")
    met = one.met if isinstance(one, LatencySummary) else None
    kept = f", kept in {text.share(met)} of the windows" if met is not None else ""
    return [mean, f", {text.span(one.p95)} p95; bound {text.span(one.bound)}{kept}"]


@body.register
def _(snapshot: Snapshot) -> Child:
    offered = "" if snapshot.rows_offered is None else f", {snapshot.rows_offered:,} offered"
    said = (
        f"at {text.clock(snapshot.at)}, over {text.span(snapshot.window)}: "
        f"{text.rate(snapshot.throughput)} rows/s; so far {snapshot.rows_ingested:,} taken in"
        f"{offered}, {snapshot.rows_delivered:,} delivered"
    )
    return [tag("h3", "snapshot"), tag("p", said), *_measured(snapshot)]


def _measured(snapshot: Snapshot) -> Iterator[Child]:
    if snapshot.latency:
        rows = ((f"latency {_pair(n)}", _latency(one)) for n, one in snapshot.latency.items())
        yield _pairs(rows)
    if snapshot.pipelines:
        yield _pipelines(snapshot)
    if snapshot.operators:
        name = tag("summary", _number(len(snapshot.operators), "operator"))
        yield tag("details", name, _operators(snapshot))


def _pipelines(snapshot: Snapshot) -> Html:
    heads = ("pipeline", "instances", "in/s", "out/s", "for a row", "busy", "backlog", "state")
    rows = (
        (
            p.name,
            str(p.parallelism),
            text.rate(p.rate_in),
            text.rate(p.rate_out),
            text.span(p.service),
            _busy(derived.at_work(p)),
            text.count(p.backlog_rows),
            text.count(p.state_rows),
        )
        for p in snapshot.pipelines.values()
    )
    return table(heads, rows, numbers=range(1, 8))


def _operators(snapshot: Snapshot) -> Html:
    heads = ("operator", "in/s", "out/s", "out for one in", "for a row", "busy")
    rows = (
        (
            o.name,
            text.rate(o.rate_in),
            text.rate(o.rate_out),
            "-" if o.selectivity is None else f"{o.selectivity:.3g}",
            text.span(o.service),
            _busy(o.busy),
        )
        for o in snapshot.operators.values()
    )
    return table(heads, rows, numbers=range(1, 6))


def _busy(busy: float | None) -> Child:
    look = {"": None, "-warm": "warn", "-hot": "bad"}[heat(busy)]
    return tag("span", text.share(busy), class_=look)


def _pair(name: str) -> str:
    first, _, last = name.partition("->")
    return f"{first} → {last}" if last else name


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
