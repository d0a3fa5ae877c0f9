"""Panes of the live view, each rendered from values into a given size."""

from __future__ import annotations

import math
import textwrap
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from penstock import text
from penstock.control.status import Status
from penstock.metrics import derived
from penstock.metrics.events import PROBLEMS
from penstock.metrics.snapshot import LatencyMetrics, PipelineMetrics, Snapshot
from penstock.plan.plan import Pipeline, Plan
from penstock.store.turn import Tick

_PHASES = {
    "starting": "yellow",
    "running": "green",
    "draining": "cyan",
    "verifying": "cyan",
    "stopping": "red",
}
_NARROW = 76
_KEPT = 300  # maximum number of values of a sparkline
_NAME, _VALUE = 10, 9
_RED = {"error", "trouble", *PROBLEMS}


# --- header ---------------------------------------------------------------------------------------


def header(status: Status, elapsed: float, width: int) -> list[Text]:
    """Title line with the phase, and a progress bar or the elapsed time."""
    phase = Text(status.phase, f"bold {_PHASES.get(status.phase, 'white')}")
    title = Text.assemble(
        " ",
        (status.graph.name, "bold"),
        f" on {status.engine}",
        ("  policy ", "dim"),
        status.policy,
    )
    room = max(1, width - len(phase) - 2)
    title.truncate(room, overflow="ellipsis", pad=True)
    top = title + Text(" ") + phase
    if status.seconds is None:
        return [top, Text(f" {text.clock(elapsed)} since the start", "dim")]
    times = f"{text.clock(min(elapsed, status.seconds))} / {text.clock(status.seconds)}"
    over = status.phase not in ("starting", "running")
    part = 1.0 if over else min(1.0, elapsed / status.seconds)
    bar = max(4, width - len(times) - 4)
    full = round(part * bar)
    line = Text.assemble(
        " ", ("━" * full, "green"), ("━" * (bar - full), "grey35"), (f"  {times}", "dim")
    )
    return [top, line]


def alarm(words: str, width: int) -> Text:
    line = Text(f" {words} ", "bold white on red")
    line.truncate(width, overflow="ellipsis")
    return line


# --- gauges: throughput, latency, backlog, instances ----------------------------------------------


@dataclass(frozen=True)
class _Gauge:
    """Name, current value, sparkline and remark of one quantity."""

    name: str
    value: str
    course: Text
    more: Text


def gauges(status: Status, trace: Trace, width: int) -> list[Text]:
    """One line per gauge; offered and ingested share a scale, so that a gap shows."""
    assert status.tick is not None
    snapshot = status.tick.snapshot
    room = max(6, min(70, (width - _NAME - _VALUE - 3) // 2))
    shown = [*_flows(snapshot, trace, room), *_latencies(status, trace, room)]
    if trace.backlog:
        course = Text(text.spark(tuple(trace.backlog), room), "magenta")
        shown.append(_Gauge("waiting", text.count(trace.backlog[-1]), course, Text("rows", "dim")))
    plan = status.plan or status.tick.plan
    few = Text(text.spark(tuple(trace.instances), room), "yellow")
    executors = len(snapshot.executors) or plan.executors
    more = Text(f"on {executors} executor{'s' * (executors != 1)}", "dim")
    shown.append(_Gauge("instances", str(plan.slots), few, more))
    return [_gauge(one, room, width) for one in shown]


def _flows(snapshot: Snapshot, trace: Trace, room: int) -> list[_Gauge]:
    top = max((*trace.offered, *trace.ingested), default=0.0)
    found = []
    for name, values, total, style in (
        ("offered", trace.offered, snapshot.rows_offered, "blue"),
        ("ingested", trace.ingested, snapshot.rows_ingested, "green"),
    ):
        more = Text(f"{text.count(total)} rows", "dim")
        if name == "ingested" and snapshot.rows_dead:
            more.append(f", {snapshot.rows_dead:,} dead", "yellow")
        if name == "ingested" and snapshot.rows_late:
            more.append(f", {snapshot.rows_late:,} late", "yellow")
        now = f"{text.rate(values[-1])}/s" if values else "-"
        found.append(_Gauge(name, now, Text(text.spark(tuple(values), room, top), style), more))
    return found


def _latencies(status: Status, trace: Trace, room: int) -> list[_Gauge]:
    """One gauge per latency constraint, the highest share of its bound first."""
    assert status.tick is not None
    measured = status.tick.snapshot.latency

    def pressed(name: str, bound: float) -> float:
        one = measured.get(name)
        return -1.0 if one is None or bound <= 0 or math.isnan(one.mean) else one.mean / bound

    known = sorted(status.graph.constraints, key=lambda c: -pressed(c.name, c.latency))
    found = []
    for one in known:
        now = measured.get(one.name)
        path = f"{one.first} → {one.last}"
        course = _against(trace.latency.get(one.name, ()), one.latency, room)
        value = "-" if now is None else text.span(now.mean)
        found.append(_Gauge("latency", value, course, _verdict(now, one.latency, path)))
    return found


def _verdict(now: LatencyMetrics | None, bound: float, path: str) -> Text:
    limit = f"bound {text.span(bound)}"
    if now is None:
        return Text(f"{limit}, not measured yet, {path}", "dim")
    word, style = ("met", "green") if now.met else ("missed", "bold red")
    return Text.assemble((word, style), (f", {limit}, p95 {text.span(now.p95)}, {path}", "dim"))


def _against(values: Iterable[float], bound: float, room: int) -> Text:
    """A sparkline that is red where the latency exceeds its bound."""
    shown = [0.0 if math.isnan(v) else v for v in values][-room:]
    bars = text.spark(shown, room, max((*shown, 1.25 * bound)))
    line = Text()
    for bar, value in zip(bars, shown, strict=True):
        line.append(bar, "red" if value > bound else "green")
    return line


def _gauge(one: _Gauge, room: int, width: int) -> Text:
    line = Text.assemble(
        (f" {one.name:<{_NAME}}", "dim"), (f"{one.value:>{_VALUE}} ", "bold"), one.course
    )
    line.append(" " * (room - len(one.course) + 1))
    line.append_text(one.more)
    line.truncate(width, overflow="ellipsis")
    return line


class Trace:
    """Recent values for the sparklines, one per turn."""

    def __init__(self) -> None:
        self.offered = _series()
        self.ingested = _series()
        self.backlog = _series()
        self.instances = _series()
        self.latency: dict[str, deque[float]] = {}
        self._before: Snapshot | None = None

    def add(self, tick: Tick) -> None:
        """Add a turn. Rates are differences of exact totals."""
        now, before = tick.snapshot, self._before
        self._before = now
        self.instances.append(tick.plan.slots)
        waiting = [p.backlog_rows for p in now.pipelines.values() if p.backlog_rows is not None]
        if waiting:
            self.backlog.append(sum(waiting))
        for name, one in now.latency.items():
            self.latency.setdefault(name, _series()).append(one.mean)
        if before is None or now.at <= before.at:
            return
        span = now.at - before.at
        self.ingested.append((now.rows_ingested - before.rows_ingested) / span)
        if now.rows_offered is not None and before.rows_offered is not None:
            self.offered.append((now.rows_offered - before.rows_offered) / span)


def _series() -> deque[float]:
    return deque(maxlen=_KEPT)


# --- pipelines ------------------------------------------------------------------------------------


def pipelines(plan: Plan, snapshot: Snapshot, width: int, rows: int) -> RenderableType:
    """A row per pipeline; if there are more than `rows`, only the busiest ones."""
    wide = width >= _NARROW
    name_width = max(12, width - (58 if wide else 34))
    table = Table(box=None, padding=(0, 1), expand=False, header_style="dim", pad_edge=True)
    table.add_column("pipeline", no_wrap=True, min_width=12, max_width=name_width)
    heads = (
        (("inst", 4), ("in/s", 6), ("out/s", 6), ("batch", 7))
        if wide
        else (("inst", 4), ("in/s", 6))
    )
    for head, least in heads:
        table.add_column(head, justify="right", no_wrap=True, min_width=least)
    table.add_column("busy", no_wrap=True, min_width=13 if wide else 4)
    table.add_column("backlog", justify="right", no_wrap=True, min_width=7)
    known = [(p, snapshot.pipelines.get(p.name)) for p in plan.pipelines]
    for pipeline, measured in _busiest(known, rows):
        table.add_row(*_row(pipeline, measured, name_width, wide))
    if len(known) > rows:
        table.add_row(Text(f"… and {len(known) - rows + 1} more", "dim"))
    return table


_Known = tuple[Pipeline, PipelineMetrics | None]


def _busiest(known: Sequence[_Known], rows: int) -> Sequence[_Known]:
    """The busiest pipelines, in plan order; one row is reserved to count the others."""
    if len(known) <= rows:
        return known
    ranked = sorted(known, key=lambda one: -((derived.at_work(one[1]) if one[1] else None) or 0.0))
    kept = {id(one[0]) for one in ranked[: max(0, rows - 1)]}
    return [one for one in known if id(one[0]) in kept]


def _row(
    pipeline: Pipeline, measured: PipelineMetrics | None, width: int, wide: bool
) -> tuple[RenderableType, ...]:
    name = text.chain(pipeline.operators, width)
    if measured is None:
        return (name, str(pipeline.parallelism), *("-" * (5 if wide else 3)))
    ends = (text.rate(measured.rate_out), text.span(measured.batch_seconds)) if wide else ()
    return (
        name,
        str(measured.parallelism),
        text.rate(measured.rate_in),
        *ends,
        _busy(derived.at_work(measured), wide),
        text.count(measured.backlog_rows),
    )


def _busy(value: float | None, wide: bool) -> Text:
    if value is None:
        return Text("-", "dim")
    style = "red" if value > 0.9 else "yellow" if value > 0.7 else "green"
    if not wide:
        return Text(f"{text.share(value):>4}", style)
    full, rest = text.bar(value, 8)
    return Text.assemble((full, style), (rest, "grey35"), f" {text.share(value):>4}")


# --- decisions and events -------------------------------------------------------------------------


@dataclass(frozen=True)
class Note:
    """A change, notice or event: time, text, cost if known, and reason."""

    at: float
    what: str
    cost: str = ""
    why: str = ""
    kind: str = ""


def notes(told: Sequence[Note], width: int, lines: int) -> list[Text]:
    """The newest notes that fit into `lines` lines, oldest first."""
    found: list[Text] = []
    for one in reversed(told):
        drawn = _note(one, width)
        if found and len(found) + len(drawn) > lines:
            break
        found = [*drawn[: max(1, lines)], *found]
    return found


def _note(one: Note, width: int) -> list[Text]:
    """A line with event and cost, then the reason; a long cost moves there."""
    at = f" {text.clock(one.at):>6}  "
    kind = (f"{one.kind}: ", "red" if one.kind in _RED else "yellow") if one.kind else ""
    first, why = Text.assemble((at, "dim"), kind, text.line(one.what)), text.line(one.why)
    if len(first) + len(one.cost) <= width:
        first.append(one.cost, "dim")
    else:
        why = f"{one.cost.strip()} {why}".strip()
    first.truncate(width, overflow="ellipsis")
    room = max(20, width - len(at) - 1)
    reason = textwrap.wrap(why, room, max_lines=2, placeholder=" …") if why else []
    return [first, *(Text(" " * len(at) + line, "dim") for line in reason)]
