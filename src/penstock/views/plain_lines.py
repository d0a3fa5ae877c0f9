"""One line every few seconds, for logs and terminals that cannot be redrawn."""

from __future__ import annotations

from typing import TextIO

from penstock import text
from penstock.control.status import Status
from penstock.metrics.snapshot import Snapshot
from penstock.views.notices import News


class PlainView:
    """Writes a line for every phase, transition and veto, and one every `every` seconds between."""

    def __init__(self, out: TextIO, every: float = 5.0) -> None:
        self._out = out
        self._every = every
        self._phase = ""
        self._written = 0.0
        self._tick: object = None
        self._news = News()
        self._trouble: str | None = None
        self._alarm: str | None = None

    def show(self, status: Status) -> None:
        tick, new_phase = status.tick, status.phase != self._phase
        if new_phase:
            self._phase = status.phase
            if status.phase != "running":
                self._write(status, status.phase)
        if status.trouble != self._trouble:
            self._trouble = status.trouble
            self._write(status, f"trouble: {status.trouble or 'over'}")
        if status.alarm != self._alarm:
            self._alarm = status.alarm
            self._write(status, f"ALARM: {status.alarm or 'over'}")
        if tick is None or tick is self._tick:
            return
        self._tick = tick
        if tick.transition is not None:
            done = tick.transition
            took = f"{text.span(done.duration)}, output held {text.span(done.interruption)}"
            self._write(status, f"{'; '.join(done.changes)} ({took}): {done.reason}")
        for kind, news in self._news.of(tick):
            self._write(status, f"{kind}: {news}")
        if new_phase or status.elapsed - self._written >= self._every:
            self._written = status.elapsed
            self._write(status, _figures(tick.snapshot))

    def close(self) -> None:
        self._out.flush()

    def _write(self, status: Status, what: str) -> None:
        line = text.line(f"{status.graph.name}: {what}")
        print(f"[{text.clock(status.elapsed):>5}] {line}", file=self._out)
        self._out.flush()


def _figures(snapshot: Snapshot) -> str:
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
