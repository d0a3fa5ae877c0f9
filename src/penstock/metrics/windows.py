"""Several snapshots as one: what was measured over an adjustment interval.

Snapshots come about every second, and each covers a window that may be longer. A policy that
decides less often needs one value for the time since its last decision. Only snapshots with
disjoint windows count, else rows would count several times, and only those since the last change
of the plan, because earlier ones say nothing about the current plan.

Counts are summed, rates and shares are means over time, times per row are means over rows, and
levels (backlog, state) are those at the end. A mean is taken over what was measured; a sum is None
if a part of it is. A pipeline whose parallelism changed counts as another pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from penstock.metrics.snapshot import (
    ChannelMetrics,
    ExecutorMetrics,
    InstanceMetrics,
    LatencyMetrics,
    OperatorMetrics,
    PipelineMetrics,
    Snapshot,
)

_Item = TypeVar("_Item")


def mean(parts: Iterable[tuple[float | None, float | None]]) -> float | None:
    """Return the weighted mean of (value, weight) pairs, ignoring None; None if there are none."""
    known = [(v, w) for v, w in parts if v is not None and w is not None and w > 0]
    total = math.fsum(w for _, w in known)
    return math.fsum(v * w for v, w in known) / total if known else None


def total(values: Iterable[int | None]) -> int | None:
    """Return the sum, or None if a part of it was not measured."""
    known = [*values]
    return None if None in known or not known else sum(v for v in known if v is not None)


def variation(
    parts: Iterable[tuple[float | None, float | None, float | None]],
) -> float | None:
    """Return the coefficient of variation of the whole from (mean, coefficient, rows) of parts.

    Second moments can be added, coefficients cannot: two parts without variation vary together if
    their means differ.
    """
    known = [(m, c, w) for m, c, w in parts if m is not None and c is not None and w]
    middle = mean((m, w) for m, _, w in known)
    if not middle:
        return None
    second = mean(((c * c + 1) * m * m, w) for m, c, w in known)
    assert second is not None
    return math.sqrt(max(0.0, second / middle**2 - 1))


def blend(average: float | None, value: float | None, weight: float) -> float | None:
    """Update an exponential average with a value of this weight; None keeps the other."""
    if average is None or value is None:
        return average if value is None else value
    return (1 - weight) * average + weight * value


def settled(snapshots: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """Return the snapshots since the last unsettled one, oldest first."""
    first = max((i + 1 for i, one in enumerate(snapshots) if not one.settled), default=0)
    return tuple(snapshots[first:])


def begins_after(snapshot: Snapshot, at: float) -> bool:
    """True if the window of a snapshot begins after a time."""
    return snapshot.at - snapshot.window >= at - 1e-9


def disjoint(snapshots: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """Return the newest snapshot and earlier ones with disjoint windows, oldest first."""
    taken: list[Snapshot] = []
    for one in reversed(snapshots):
        if not taken or one.at <= taken[-1].at - taken[-1].window + 1e-9:
            taken.append(one)
    return tuple(reversed(taken))


def summary(snapshots: Sequence[Snapshot], interval: float | None = None) -> Snapshot | None:
    """Return one snapshot over the last `interval` seconds (None: all); None if none is settled.

    Totals, pipelines and operators are those of the newest snapshot; each is summed up over the
    snapshots that have it. `window` is the time that was measured.
    """
    known = settled(snapshots)
    if not known:
        return None
    newest = known[-1]
    if interval is not None:  # whole windows within the interval; the newest in any case
        begin = newest.at - interval - 1e-9
        known = (*(s for s in known[:-1] if s.at - s.window >= begin), newest)
    parts = disjoint(known)
    if len(parts) == 1:
        return parts[0]
    return replace(
        newest,
        window=math.fsum(s.window for s in parts),
        load=mean((s.load, s.window) for s in parts),
        pipelines=pipelines(parts),
        operators=_each(parts, lambda s: s.operators, _operator),
        channels=_each(parts, lambda s: s.channels, _channel),
        executors=_each(parts, lambda s: s.executors, _executor),
        latency=_each(parts, lambda s: s.latency, _latency),
    )


def pipelines(parts: Sequence[Snapshot]) -> dict[str, PipelineMetrics]:
    """Sum up each pipeline of the last snapshot, over snapshots with the same parallelism."""
    return _each(parts, lambda s: s.pipelines, _pipeline)


@dataclass(frozen=True)
class _Over(Generic[_Item]):
    """The metrics of one thing in several snapshots."""

    found: Sequence[tuple[Snapshot, _Item]]

    @property
    def last(self) -> _Item:
        return self.found[-1][1]

    def by_time(self, *names: str) -> dict[str, Any]:
        return {n: mean((getattr(v, n), s.window) for s, v in self.found) for n in names}

    def by(self, weight: str, *names: str) -> dict[str, Any]:
        return {n: self.mean(weight, [getattr(v, n) for _, v in self.found]) for n in names}

    def mean(self, weight: str, values: Sequence[float | None]) -> float | None:
        return mean(zip(values, self.weights(weight), strict=True))

    def variation(self, middle: Callable[[_Item], float | None], name: str) -> float | None:
        """Return the coefficient of variation of times per row, or between rows."""
        weights = zip(self.found, self.weights("rows_in"), strict=True)
        return variation((middle(v), getattr(v, name), w) for (_, v), w in weights)

    def weights(self, name: str) -> list[float | None]:
        """Return the weight of each window: a count, or its time if all counts are 0 or None.

        If batches are longer than windows, no batch ends in most windows.
        """
        found: list[float | None] = [getattr(v, name) for _, v in self.found]
        return found if any(found) else [s.window for s, _ in self.found]

    def summed(self, *names: str) -> dict[str, Any]:
        return {n: total(getattr(v, n) for _, v in self.found) for n in names}


def _each(
    parts: Sequence[Snapshot],
    of: Callable[[Snapshot], Mapping[str, _Item]],
    together: Callable[[_Over[_Item]], _Item],
) -> dict[str, _Item]:
    return {
        name: together(_Over([(s, of(s)[name]) for s in parts if name in of(s)]))
        for name in of(parts[-1])
    }


def _operator(over: _Over[OperatorMetrics]) -> OperatorMetrics:
    found = [v for _, v in over.found]
    return replace(
        over.last,
        **over.summed("rows_in", "rows_out"),
        **over.by_time("rate_in", "rate_out", "busy"),
        **over.by("rows_in", "service", "cpu"),
        service_cv=over.variation(lambda v: v.service, "service_cv"),
        arrival_cv=over.variation(lambda v: _gap(v.rate_in), "arrival_cv"),
        measured=all(v.measured for v in found),
    )


def _pipeline(whole: _Over[PipelineMetrics]) -> PipelineMetrics:
    """The wait is the last one while a backlog is worked off: earlier rows waited because of it."""
    over = _Over([(s, v) for s, v in whole.found if v.parallelism == whole.last.parallelism])
    found = [v for _, v in over.found]
    if len(found) == 1:
        return over.last
    names = dict.fromkeys(name for v in found for name in v.parts)
    parts = {n: over.mean("batches", [v.parts.get(n) for v in found]) for n in names}
    waits = over.by("rows_in", "wait")
    if over.last.wait is not None and _worked_off(found):
        waits["wait"] = over.last.wait
    return replace(
        over.last,
        **over.summed("batches", "rows_in", "rows_out"),
        **over.by_time("rate_in", "rate_out", "arrival_rate", "busy"),
        **over.by("rows_in", "service", "batching"),
        **over.by("batches", "batch_seconds", "task_overhead"),
        **waits,
        service_cv=over.variation(lambda v: v.service, "service_cv"),
        arrival_cv=over.variation(lambda v: _gap(v.arrival_rate), "arrival_cv"),
        parts={n: v for n, v in parts.items() if v is not None},
        instances=_instances(over),
    )


def _worked_off(found: Sequence[PipelineMetrics]) -> bool:
    """True if less than half of the backlog is left."""
    first, last = found[0].backlog_rows, found[-1].backlog_rows
    return first is not None and last is not None and last < first / 2


def _instances(over: _Over[PipelineMetrics]) -> tuple[InstanceMetrics, ...]:
    """Sum up each instance over the snapshots with the same instances as the last."""
    indexes = [i.index for i in over.last.instances]
    found = [
        (s, {i.index: i for i in v.instances})
        for s, v in over.found
        if [i.index for i in v.instances] == indexes
    ]
    columns = [_Over([(s, instances[index]) for s, instances in found]) for index in indexes]
    return tuple(replace(c.last, **c.summed("rows"), **c.by_time("busy")) for c in columns)


def _channel(over: _Over[ChannelMetrics]) -> ChannelMetrics:
    """Weigh latency by the rows that the reader took, or by time if they are unknown."""
    reader = over.last.reader
    taken = [s.operators[reader].rows_in if reader in s.operators else None for s, _ in over.found]
    weights = [s.window for s, _ in over.found] if None in taken else taken
    pairs = [*zip((v for _, v in over.found), weights, strict=True)]
    return replace(
        over.last,
        latency=mean((v.latency, w) for v, w in pairs),
        batching=mean((v.batching, w) for v, w in pairs),
    )


def _executor(over: _Over[ExecutorMetrics]) -> ExecutorMetrics:
    return replace(over.last, **over.by_time("busy", "cpu", "memory", "io_bytes"))


def _latency(over: _Over[LatencyMetrics]) -> LatencyMetrics:
    """Means are exact; percentiles are approximated by the mean of those of the windows.

    The window of a constraint may be longer than that of a snapshot. Its rows then count several
    times, which smooths the mean.
    """
    found = over.by("rows", "mean", "p50", "p95", "p99")
    if found["mean"] is None:  # no row in any window
        return over.last
    return replace(over.last, **found, **over.summed("rows"))


def _gap(rate: float | None) -> float | None:
    """Return the mean time between rows."""
    return 1 / rate if rate else None


_TOLERANCE = 1e-6

_DRAINED = 4
"""A backlog this many times longer than now is gone; queues in a steady state vary by less."""

_FEW = 25
"""At most this many rows are no backlog."""


def settled_after(snapshots: Iterable[Snapshot], after: float) -> tuple[Snapshot, ...]:
    """Return settled snapshots taken after a time."""
    return tuple(s for s in snapshots if s.settled and s.window > 0 and s.at > after)


def since(snapshots: Sequence[Snapshot], begin: float) -> tuple[Snapshot, ...]:
    """Return snapshots whose windows begin at or after a time; else only the last one."""
    found = tuple(s for s in snapshots if s.at - s.window >= begin - _TOLERANCE)
    return found or tuple(snapshots[-1:])


def drained(snapshots: Sequence[Snapshot], name: str) -> bool:
    """True if a backlog of a pipeline went away within the window of the last snapshot.

    Always False for pipelines in batches: rows that wait for a batch come and go with it.
    """
    last = snapshots[-1]
    seen = last.pipelines[name]
    if seen.in_batches or seen.backlog_rows is None:
        return False
    levels = [
        s.pipelines[name].backlog_rows or 0
        for s in snapshots
        if s.at >= last.at - last.window - _TOLERANCE and name in s.pipelines
    ]
    return max(levels) > _DRAINED * max(seen.backlog_rows, _FEW)


def pipeline_averages(snapshots: Sequence[Snapshot]) -> Mapping[str, PipelineMetrics]:
    """Sum up each pipeline of the last snapshot, over all disjoint windows."""
    return pipelines(disjoint(snapshots)) if snapshots else {}
