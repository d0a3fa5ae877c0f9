"""Plain text views, for logs and terminals that cannot be redrawn."""

from __future__ import annotations

import re
from typing import TextIO

from penstock import text
from penstock.control.status import Status
from penstock.metrics.snapshot import Snapshot
from penstock.store.turn import Tick
from penstock.views.notices import Notices


class _Lines:
    """Writes lines prefixed with the elapsed time and the name of the flow."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._phase = ""
        self._tick: Tick | None = None
        self._written = 0.0  # elapsed seconds at the last periodic line
        self._notices = Notices()

    def close(self) -> None:
        self._out.flush()

    def _write(self, status: Status, what: str) -> None:
        line = text.line(f"{status.graph.name}: {what}")
        print(f"[{text.clock(status.elapsed):>5}] {line}", file=self._out)
        self._out.flush()

    def _write_phase(self, status: Status) -> bool:
        """Write a line if the phase is new; return True if it is."""
        new = status.phase != self._phase
        self._phase = status.phase
        if new and status.phase != "running":
            self._write(status, status.phase)
        return new

    def _write_notices(self, status: Status, tick: Tick) -> None:
        for kind, notice in self._notices.of(tick):
            self._write(status, f"{kind}: {notice}")


class PlainView(_Lines):
    """A line per phase, change, veto and event, and metrics every `every` seconds."""

    def __init__(self, out: TextIO, every: float = 5.0) -> None:
        super().__init__(out)
        self._every = every
        self._trouble: str | None = None
        self._alarm: str | None = None

    def show(self, status: Status) -> None:
        new_phase = self._write_phase(status)
        if status.trouble != self._trouble:
            self._trouble = status.trouble
            self._write(status, f"trouble: {status.trouble or 'over'}")
        if status.alarm != self._alarm:
            self._alarm = status.alarm
            self._write(status, f"ALARM: {status.alarm or 'over'}")
        tick = status.tick
        if tick is None or tick is self._tick:
            return
        self._tick = tick
        if tick.transition is not None:
            done = tick.transition
            took = f"{text.span(done.duration)}, output held {text.span(done.interruption)}"
            self._write(status, f"{'; '.join(done.changes)} ({took}): {done.reason}")
        self._write_notices(status, tick)
        if new_phase or status.elapsed - self._written >= self._every:
            self._written = status.elapsed
            self._write(status, _metrics(tick.snapshot))


class ProgressView(_Lines):
    """A line whenever the policy gives a new reason, for runs such as profiling.

    Reasons that differ only in numbers count as equal and are repeated every `every` seconds.
    """

    def __init__(self, out: TextIO, every: float = 20.0) -> None:
        super().__init__(out)
        self._every = every
        self._reason = ""

    def show(self, status: Status) -> None:
        self._write_phase(status)
        tick = status.tick
        if tick is None or tick is self._tick or status.phase != "running":
            return
        self._tick = tick
        self._write_notices(status, tick)
        if tick.decision is None:
            return
        reason = re.sub(r"[\d.]+", "#", tick.decision.reason)
        due = status.elapsed - self._written >= self._every
        if reason != self._reason or tick.transition is not None or due:
            self._reason = reason
            rate = text.rate(tick.snapshot.throughput)
            self._write(status, f"{tick.decision.reason} (in {rate}/s)")

    def _write(self, status: Status, what: str) -> None:
        self._written = status.elapsed
        super()._write(status, what)


def _metrics(snapshot: Snapshot) -> str:
    parts = [
        f"in {text.rate(snapshot.throughput)}/s",
        f"ingested {text.count(snapshot.rows_ingested)}",
        f"delivered {text.count(snapshot.rows_delivered)}",
    ]
    backlog = [p.backlog_rows for p in snapshot.pipelines.values() if p.backlog_rows is not None]
    if backlog:
        parts.append(f"backlog {text.count(sum(backlog))}")
    if snapshot.rows_dead:
        parts.append(f"dead {text.count(snapshot.rows_dead)}")
    if snapshot.rows_late:
        parts.append(f"late {text.count(snapshot.rows_late)}")
    for name, measured in snapshot.latency.items():
        verdict = "" if measured.met else " MISSED"
        parts.append(f"{name} {text.span(measured.mean)}{verdict}")
    return ", ".join(parts)
