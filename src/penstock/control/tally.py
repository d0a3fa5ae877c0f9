"""Run-long sums over snapshots: latency, slot-seconds, throughput, transitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.control.loop import Tick
from penstock.control.summary import LatencySummary
from penstock.dataflow.graph import Constraint
from penstock.metrics.snapshot import LatencyMetrics, Snapshot
from penstock.plan.transition import Transition


class Tally:
    """Adds up one run, turn by turn."""

    def __init__(self, constraints: Iterable[Constraint]) -> None:
        self._windows = {c.name: _Windows(c) for c in constraints}
        self._at = 0.0
        self.slot_seconds = 0.0
        self.throughput_last: float | None = None
        self.transitions: list[Transition] = []
        self.snapshot: Snapshot | None = None
        self.settled: Snapshot | None = None

    def add(self, tick: Tick, *, running: bool = True) -> None:
        """Take a turn in; `running` is False once the sources have been told to stop."""
        self.slot_seconds += max(0.0, tick.at - self._at) * tick.plan.slots
        self._at = max(self._at, tick.at)
        self.snapshot = tick.snapshot
        if running:
            if tick.snapshot.throughput is not None:
                self.throughput_last = tick.snapshot.throughput
            self.settled = tick.snapshot if tick.snapshot.settled else self.settled
        if tick.transition is not None:
            self.transitions.append(tick.transition)
        for name, windows in self._windows.items():
            windows.add(tick.at, tick.snapshot.latency.get(name))

    def latency(
        self, totals: Mapping[str, LatencyMetrics] | None = None
    ) -> dict[str, LatencySummary]:
        """Every constraint over the run; `totals` are the engine's own figures, if it has them."""
        return {
            name: windows.summary((totals or {}).get(name))
            for name, windows in self._windows.items()
        }


@dataclass
class _Windows:
    """The windows of one constraint, one after the other.

    Snapshots come every second or so and each looks back over a whole window, so only one
    snapshot per window counts: taking all would count every record several times.
    """

    constraint: Constraint
    taken: list[LatencyMetrics] = field(default_factory=list)
    rest: LatencyMetrics | None = None
    since: float = 0.0
    now: float = 0.0

    def add(self, at: float, measured: LatencyMetrics | None) -> None:
        self.now = at
        if measured is None or measured.rows == 0:
            return
        self.rest = measured
        if at - self.since >= self.constraint.window:
            self.taken.append(measured)
            self.since, self.rest = at, None

    def all(self) -> list[LatencyMetrics]:
        """The whole windows, and what is left if it is most of one or nothing else is there."""
        if self.rest is None:
            return self.taken
        most = self.now - self.since >= self.constraint.window / 2
        return [*self.taken, self.rest] if most or not self.taken else self.taken

    def summary(self, total: LatencyMetrics | None) -> LatencySummary:
        windows = self.all()
        if total is not None and total.rows > 0:
            mean, p50, p95, p99 = total.mean, total.p50, total.p95, total.p99
        elif windows:
            rows = sum(w.rows for w in windows)
            # Means add up exactly. Percentiles do not: a mean of windows' percentiles stands in
            # where the engine keeps no figures over the run.
            mean = sum(w.mean * w.rows for w in windows) / rows
            p50 = sum(w.p50 * w.rows for w in windows) / rows
            p95 = sum(w.p95 * w.rows for w in windows) / rows
            p99 = sum(w.p99 * w.rows for w in windows) / rows
        else:
            return LatencySummary(self.constraint.latency)
        met = sum(w.met for w in windows) / len(windows) if windows else None
        return LatencySummary(self.constraint.latency, mean, p50, p95, p99, met)
