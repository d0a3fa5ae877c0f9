"""What a view remembers of a run, for its small graphs."""

from __future__ import annotations

from collections import deque

from penstock.metrics.snapshot import Snapshot
from penstock.store.turn import Tick

_KEPT = 300


class Trace:
    """The last values of what is drawn over time, one a turn."""

    def __init__(self) -> None:
        self.offered = _series()
        self.ingested = _series()
        self.backlog = _series()
        self.instances = _series()
        self.latency: dict[str, deque[float]] = {}
        self._before: Snapshot | None = None

    def add(self, tick: Tick) -> None:
        """Take a turn in. Rates are between two snapshots, which totals give without loss."""
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
