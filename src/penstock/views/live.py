"""Live terminal view: throughput, latency, utilisation, decisions and events."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from penstock import text
from penstock.control.status import Status
from penstock.views import live_panes
from penstock.views.live_panes import Note, Trace
from penstock.views.notices import Notices
from penstock.views.pipeline_graph import textgraph

_NOTES = 8
_HINTS = {
    "starting": "Ctrl-C gives up",
    "draining": "no new input; records in flight go to their sinks. Ctrl-C stops at once",
    "verifying": "comparing the sinks with the expected output",
    "stopping": "stopping now; records in flight stay in the run directory",
}


class LiveView:
    """Redraws in place while the flow runs, and clears itself at the end.

    In a small terminal it drops the graph first, then older decisions, then the least busy
    pipelines.
    """

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._status: Status | None = None
        self._shown_at = 0.0
        self._trace = Trace()
        self._notes: deque[Note] = deque(maxlen=_NOTES)
        self._notices = Notices()
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
            self._trace.add(status.tick)
            self._note(status)
        if status.trouble is not None and (not self._status or not self._status.trouble):
            self._notes.append(Note(status.elapsed, status.trouble, kind="trouble"))
        self._status, self._shown_at = status, self._clock()
        if not self._live.is_started:
            self._live.start()

    def close(self) -> None:
        self._live.stop()

    def _note(self, status: Status) -> None:
        tick = status.tick
        if tick is None:
            return
        if tick.transition is not None:
            done = tick.transition
            what = "; ".join(done.changes) or "no change"
            cost = f" ({text.span(done.duration)}, output held {text.span(done.interruption)})"
            self._notes.append(Note(tick.at, what, cost, done.reason))
        for kind, notice in self._notices.of(tick):
            self._notes.append(Note(tick.at, notice, kind=kind))

    def _elapsed(self, status: Status) -> float:
        """Elapsed time in seconds, extrapolated since the last call of `show`."""
        return status.elapsed + (self._clock() - self._shown_at)

    # --- drawing ----------------------------------------------------------------------------------

    def _draw(self) -> RenderableType:
        status = self._status
        if status is None:
            return Text("")
        width, height = self._console.width, self._console.height
        elapsed = 0.0 if status.phase == "starting" else self._elapsed(status)
        head: list[RenderableType] = [*live_panes.header(status, elapsed, width)]
        if status.alarm is not None:
            head.append(live_panes.alarm(status.alarm, width))
        hint = f" {_HINTS.get(status.phase, 'Ctrl-C finishes the run')}  ·  {status.run_dir}"
        foot = Text(hint, "dim")
        foot.truncate(width, overflow="ellipsis")
        if status.tick is None:
            waited = text.clock(self._elapsed(status))
            head.append(Text(f" starting Spark and the first batches, {waited}", "dim"))
            return Group(*head, *live_panes.notes(self._notes, width, 4), foot)
        return Group(*head, *self._body(status, width, height - 1 - len(head) - 1), foot)

    def _body(self, status: Status, width: int, room: int) -> list[RenderableType]:
        """Gauges, graph, pipelines and notes, fitted into `room` lines.

        If room is short, the upper parts have priority.
        """
        assert status.tick is not None
        plan, snapshot = status.plan or status.tick.plan, status.tick.snapshot
        gauges = live_panes.gauges(status, self._trace, width)
        many = len(plan.pipelines)
        told = min(3 if room > 10 else 2, 3 * len(self._notes))
        gauges = gauges[: max(3, room - told - min(many, 3) - 1)]
        left = room - len(gauges) - 1  # the header of the table
        rows = min(many, max(2, left - told))
        left -= rows
        blank = Text("")
        drawn = textgraph(status.graph, plan, snapshot, width - 2, left - told - 1) or []
        left -= len(drawn) + 1 if drawn else 0
        spaced = left - told >= 2
        notes = live_panes.notes(self._notes, width, max(1, left - 2 * spaced))
        left -= len(notes) + 2 * spaced
        return [
            *gauges,
            *([blank] * spaced),
            *([Text(" ") + line for line in drawn]),
            *([blank] * bool(drawn)),
            live_panes.pipelines(plan, snapshot, width, rows),
            *([blank] * (spaced and bool(notes))),
            *notes,
            *([blank] * (left > 0)),
        ]
