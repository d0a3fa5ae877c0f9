"""Which of the last snapshots a policy looks at, and what they say together of the pipelines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.metrics import window
from penstock.metrics.snapshot import PipelineMetrics, Snapshot

_SAME = 1e-6

_DRAINED = 4
"""A backlog so many times as long was one; queues in a steady state vary by less."""

_FEW = 25
"""Rows that are no backlog."""


def settled(snapshots: Iterable[Snapshot], after: float) -> tuple[Snapshot, ...]:
    """Those taken later than a time that say something of the plan in force."""
    return tuple(s for s in snapshots if s.settled and s.window > 0 and s.at > after)


def since(snapshots: Sequence[Snapshot], begin: float) -> tuple[Snapshot, ...]:
    """Those that look back no further than a time, or else the last: it does so least."""
    found = tuple(s for s in snapshots if s.at - s.window >= begin - _SAME)
    return found or tuple(snapshots[-1:])


def drained(snapshots: Sequence[Snapshot], name: str) -> bool:
    """Whether the window of the last snapshot saw a backlog of a pipeline go.

    Rows that wait for a batch come and go with it, so with batches that cannot be told.
    """
    last = snapshots[-1]
    seen = last.pipelines[name]
    if seen.in_batches or seen.backlog_rows is None:
        return False
    levels = [
        s.pipelines[name].backlog_rows or 0
        for s in snapshots
        if s.at >= last.at - last.window - _SAME and name in s.pipelines
    ]
    return max(levels) > _DRAINED * max(seen.backlog_rows, _FEW)


def pipelines(snapshots: Sequence[Snapshot]) -> Mapping[str, PipelineMetrics]:
    """Every pipeline of the last snapshot, over all windows that do not overlap."""
    return window.pipelines(window.apart(snapshots)) if snapshots else {}
