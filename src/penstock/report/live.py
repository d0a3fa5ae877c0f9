"""The live terminal view: what flows, how busy it is, and whether it keeps its promises."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from penstock.control.status import Status
from penstock.metrics.snapshot import LatencyMetrics, PipelineMetrics, Snapshot
from penstock.plan.plan import Pipeline
from penstock.report import text
from penstock.report.news import News

_NOTES = 3
_PHASES = {
    "starting": "yellow",
    "running": "green",
    "draining": "cyan",
    "verifying": "cyan",
    "stopping": "red",
}


class LiveView:
    """Redraws in place while the flow runs, and leaves nothing behind."""

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._status: Status | None = None
        self._shown_at = 0.0
        self._before: Snapshot | None = None
        self._offered: deque[float] = deque(maxlen=200)
        self._ingested: deque[float] = deque(maxlen=200)
        self._notes: deque[Text] = deque(maxlen=_NOTES)
        self._news = News()
        self._live = Live(
            console=console,
            get_renderable=self._draw,
            refresh_per_second=4,
            transient=True,
            vertical_overflow="crop",
        )

    def show(self, status: Status) -> None:
        new = self._status is None or status.tick is not self._status.tick
        if status.tick is not None and new:
            self._measure(status.tick.snapshot)
            self._note(status)
        if status.trouble is not None and (not self._status or not self._status.trouble):
            self._notes.append(Text.assemble(("       trouble: ", "red"), status.trouble))
        self._status, self._shown_at = status, self._clock()
        if not self._live.is_started:
            self._live.start()

    def close(self) -> None:
        self._live.stop()

    def _measure(self, snapshot: Snapshot) -> None:
        """Rates between two snapshots, which totals give without loss, for the small graphs."""
        before, self._before = self._before, snapshot
        if before is None or snapshot.at <= before.at:
            return
        span = snapshot.at - before.at
        self._ingested.append((snapshot.rows_ingested - before.rows_ingested) / span)
        if snapshot.rows_offered is not None and before.rows_offered is not None:
            self._offered.append((snapshot.rows_offered - before.rows_offered) / span)

    def _note(self, status: Status) -> None:
        tick = status.tick
        if tick is None:
            return
        at = f"{text.clock(tick.at):>5}  "
        if tick.transition is not None:
            done = tick.transition
            what = "; ".join(done.changes) or "no change"
            cost = f" ({text.span(done.duration)}, output held {text.span(done.interruption)})"
            self._notes.append(Text.assemble((at, "dim"), what, (cost, "dim")))
            if done.reason:
                self._notes.append(Text(f"       {done.reason}", "dim"))
        for kind, news in self._news.of(tick):
            style = "red" if kind == "error" else "yellow"
            self._notes.append(Text.assemble((at, "dim"), (f"{kind}: ", style), news))

    # --- drawing ----------------------------------------------------------------------------

    def _draw(self) -> RenderableType:
        status = self._status
        if status is None:
            return Text("")
        width = self._console.width
        parts: list[RenderableType] = [self._header(status, width)]
        if status.tick is None:
            waited = text.clock(self._elapsed(status))
            parts.append(Text(f" starting Spark and the first batches, {waited}", "dim"))
        else:
            snapshot = status.tick.snapshot
            parts += [self._flows(snapshot, width), Text(""), self._pipelines(status, width)]
            if status.graph.constraints:
                parts += [Text(""), self._latencies(status, width)]
        if self._notes:
            parts += [Text(""), *(_line(Text(" ") + note, width) for note in self._notes)]
        hint = {
            "starting": "Ctrl-C gives up",
            "draining": "no new input; records in flight go to their sinks. Ctrl-C stops at once",
            "verifying": "comparing the sinks with what the input says",
            "stopping": "stopping now; what is in flight stays in the run directory",
        }.get(status.phase, "Ctrl-C finishes the run")
        parts += [Text(""), _line(Text(f" {hint}  ·  {status.run_dir}", "dim"), width)]
        return Padding(Group(*parts), (1, 0, 0, 0))

    def _elapsed(self, status: Status) -> float:
        """Time goes on between two calls of `show`, e.g. through a slow start."""
        return status.elapsed + (self._clock() - self._shown_at)

    def _header(self, status: Status, width: int) -> RenderableType:
        elapsed = 0.0 if status.phase == "starting" else self._elapsed(status)
        title = Text.assemble(
            " ",
            (status.graph.name, "bold"),
            f" on {status.engine}",
            ("  policy ", "dim"),
            status.policy,
        )
        phase = Text(status.phase, f"bold {_PHASES.get(status.phase, 'white')}")
        top = Table.grid(expand=True)
        top.add_column(ratio=1, no_wrap=True)
        top.add_column(justify="right", no_wrap=True)
        top.add_row(title, phase + Text(" "))
        if status.seconds is None:
            return Group(top, Text(f" {text.clock(elapsed)} since the start", "dim"))
        times = f"{text.clock(min(elapsed, status.seconds))} / {text.clock(status.seconds)}"
        over = status.phase not in ("starting", "running")
        part = 1.0 if over else min(1.0, elapsed / status.seconds)
        room = max(10, width - len(times) - 4)
        full = round(part * room)
        line = Text.assemble(
            " ", ("━" * full, "green"), ("━" * (room - full), "grey35"), (f"  {times}", "dim")
        )
        return Group(top, line)

    def _flows(self, snapshot: Snapshot, width: int) -> RenderableType:
        """Offered above ingested on one scale, so that a gap between them is seen."""
        top = max((*self._offered, *self._ingested), default=0.0)
        room = max(10, width - 46)
        grid = Table.grid(padding=(0, 1))
        for justify in ("left", "right", "left", "left"):
            grid.add_column(justify=justify, no_wrap=True)
        dead = Text(f"{snapshot.rows_dead:,} dead", "yellow" if snapshot.rows_dead else "dim")
        rows = (
            ("offered", self._offered, snapshot.rows_offered, "blue", dead),
            ("ingested", self._ingested, snapshot.rows_ingested, "green", Text("")),
        )
        for name, values, total, style, more in rows:
            now = text.rate(values[-1]) if values else "-"
            grid.add_row(
                Text(f" {name}", "dim"),
                Text(f"{now:>6}/s", "bold"),
                Text(text.spark(tuple(values), room, top), style),
                Text(f"{text.count(total):>6} rows  ", "dim") + more,
            )
        return grid

    def _pipelines(self, status: Status, width: int) -> RenderableType:
        table = Table(box=None, padding=(0, 1), expand=False, header_style="dim", pad_edge=True)
        name_width = max(14, width - 58)
        table.add_column("pipeline", no_wrap=True, min_width=14, max_width=name_width)
        for head, least in (("inst", 4), ("in/s", 6), ("out/s", 6), ("batch", 7)):
            table.add_column(head, justify="right", no_wrap=True, min_width=least)
        table.add_column("busy", no_wrap=True, min_width=13)
        table.add_column("backlog", justify="right", no_wrap=True, min_width=7)
        assert status.tick is not None
        plan = status.plan or status.tick.plan
        for pipeline in plan.pipelines:
            measured = status.tick.snapshot.pipelines.get(pipeline.name)
            table.add_row(*_pipeline_row(pipeline, measured, name_width))
        return table

    def _latencies(self, status: Status, width: int) -> RenderableType:
        table = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=True)
        table.add_column("latency", no_wrap=True, min_width=14, max_width=max(14, width - 50))
        for head in ("mean", "p95", "bound"):
            table.add_column(head, justify="right", no_wrap=True, min_width=7)
        table.add_column("", no_wrap=True)
        assert status.tick is not None
        for constraint in status.graph.constraints:
            measured = status.tick.snapshot.latency.get(constraint.name)
            table.add_row(
                f"{constraint.first} → {constraint.last}",
                *_latency_cells(measured, constraint.latency),
            )
        return table


def _pipeline_row(
    pipeline: Pipeline, measured: PipelineMetrics | None, width: int
) -> tuple[RenderableType, ...]:
    name = text.chain(pipeline.operators, width)
    if measured is None:
        return (name, str(pipeline.parallelism), "-", "-", "-", "", "-")
    return (
        name,
        str(measured.parallelism),
        text.rate(measured.rate_in),
        text.rate(measured.rate_out),
        text.span(measured.batch_seconds),
        _busy(measured.busy),
        text.count(measured.backlog_rows),
    )


def _busy(value: float | None) -> Text:
    if value is None:
        return Text("-", "dim")
    style = "red" if value > 0.9 else "yellow" if value > 0.7 else "green"
    full, rest = text.bar(value, 8)
    return Text.assemble((full, style), (rest, "grey35"), f" {text.share(value):>4}")


def _latency_cells(measured: LatencyMetrics | None, bound: float) -> tuple[RenderableType, ...]:
    limit = Text(text.span(bound), "dim")
    if measured is None:
        return (Text("-", "dim"), Text("-", "dim"), limit, Text("not measured yet", "dim"))
    style = "green" if measured.met else "red"
    verdict = Text("met" if measured.met else "missed", style)
    tail = "green" if measured.p95 <= bound else "yellow"
    return (
        Text(text.span(measured.mean), f"bold {style}"),
        Text(text.span(measured.p95), tail),
        limit,
        verdict,
    )


def _line(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    return line
