"""Several snapshots of the same plan as one: means of what was measured, sums of counts."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.metrics.snapshot import PipelineMetrics, Snapshot

_MEANS = (
    "rate_in",
    "rate_out",
    "arrival_rate",
    "service",
    "service_cv",
    "arrival_cv",
    "batch_seconds",
    "wait",
    "batching",
    "busy",
)

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
    if seen.batches or seen.backlog_rows is None:
        return False
    levels = [
        s.pipelines[name].backlog_rows or 0
        for s in snapshots
        if s.at >= last.at - last.window - _SAME and name in s.pipelines
    ]
    return max(levels) > _DRAINED * max(seen.backlog_rows, _FEW)


def pipelines(snapshots: Sequence[Snapshot]) -> Mapping[str, PipelineMetrics]:
    """Every pipeline of the last snapshot, over all snapshots in which it had as many instances.

    What was not measured in some of them is the mean of the others. Backlog and state are those
    of the last snapshot, because they are levels; so is the wait while a backlog is worked off,
    because the rows before had to wait for what is gone by now.
    """
    if not snapshots:
        return {}
    return {
        name: _together(
            last,
            [
                s.pipelines[name]
                for s in snapshots
                if name in s.pipelines and s.pipelines[name].parallelism == last.parallelism
            ],
        )
        for name, last in snapshots[-1].pipelines.items()
    }


def _together(last: PipelineMetrics, all_of_it: Sequence[PipelineMetrics]) -> PipelineMetrics:
    means: dict[str, Any] = {}
    for name in _MEANS:
        values = [v for m in all_of_it if (v := getattr(m, name)) is not None]
        means[name] = statistics.fmean(values) if values else None
    if last.wait is not None and _worked_off(all_of_it):
        means["wait"] = last.wait
    return replace(
        last,
        batches=sum(m.batches for m in all_of_it),
        rows_in=sum(m.rows_in for m in all_of_it),
        **means,
    )


def _worked_off(all_of_it: Sequence[PipelineMetrics]) -> bool:
    """Whether less than half of the backlog is left."""
    first, last = all_of_it[0].backlog_rows, all_of_it[-1].backlog_rows
    return first is not None and last is not None and last < first / 2
