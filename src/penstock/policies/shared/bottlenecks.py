"""Snapshots averaged over a while, in the few figures that bottlenecks are judged by.

None is "not measured" here as everywhere, and an average keeps the last value that was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from penstock.metrics import derived, windows
from penstock.metrics.snapshot import OperatorMetrics, PipelineMetrics, Snapshot
from penstock.plan.plan import Pipeline, Plan


@dataclass(frozen=True)
class PipelineReading:
    """One pipeline.

    rate: rows it processes per second; arrival: rows that come to it per second; busy: share of
    the time it is at work; need: work that arrives for each instance, in seconds a second; waiting:
    seconds its backlog takes, which is a level and not averaged; costs: shares of an instance's
    time, by operator; by_rows: whether `busy` is time at work on rows, and not that of batches,
    which follow one another however few rows they have.
    """

    rate: float | None = None
    arrival: float | None = None
    busy: float | None = None
    need: float | None = None
    waiting: float | None = None
    costs: Mapping[str, float] = field(default_factory=dict)
    by_rows: bool = True

    @property
    def judged(self) -> bool:
        """Whether it is known how busy it is, or that it has nothing to do."""
        return self.busy is not None or (self.rate == 0 and not self.waiting)

    @property
    def shares(self) -> Mapping[str, float]:
        """The costs as shares of the time at work, which is what a cut is judged by."""
        return {n: cost / self.busy for n, cost in self.costs.items()} if self.busy else {}

    @property
    def lasting(self) -> PipelineReading:
        """The same without rows that had waited from before, as if only what came had been done."""
        if self.arrival is None or not self.rate or self.arrival >= self.rate:
            return self
        part = self.arrival / self.rate
        return replace(
            self,
            rate=self.arrival,
            busy=None if self.busy is None else part * self.busy,
            costs={name: part * cost for name, cost in self.costs.items()},
        )


@dataclass(frozen=True)
class Readings:
    """All pipelines, and the rows per second that enter each operator, from `since` to `at`."""

    since: float
    at: float
    pipelines: Mapping[str, PipelineReading]
    operators: Mapping[str, float]

    def behind(self, seconds: float) -> bool | None:
        """Whether more than that waits anywhere; None where too little is known to say no."""
        longest, all_known = self._waiting
        if longest is not None and longest > seconds:
            return True
        return False if all_known else None

    @property
    def longest(self) -> float | None:
        """Seconds of the backlog that takes longest, of those that are known."""
        return self._waiting[0]

    def unmeasured(self, plan: Plan) -> tuple[str, ...]:
        """The pipelines of which nobody knows how busy they are, though rows come or wait there."""
        found = ((p.name, self.pipelines.get(p.name)) for p in plan.pipelines)
        return tuple(name for name, reading in found if reading is None or not reading.judged)

    @property
    def lasting(self) -> Readings:
        """The same without what was left from before; `operators` has all that came through."""
        return replace(self, pipelines={n: r.lasting for n, r in self.pipelines.items()})

    @cached_property
    def _waiting(self) -> tuple[float | None, bool]:
        found = [reading.waiting for reading in self.pipelines.values()]
        known = [seconds for seconds in found if seconds is not None]
        return max(known, default=None), bool(known) and len(known) == len(found)


def busy_text(name: str, busy: float) -> str:
    """How busy a pipeline is, in words.

    By what rows take it may be more than all of the time: a batch counts where it ends, with the
    work that was done before the window began.
    """
    if round(busy, 2) > 1:
        return f"{name} has work for {busy:.2f} of its time"
    return f"{name} is busy {busy:.2f}"


def is_usable(snapshot: Snapshot, since: float, settle: float) -> bool:
    """Whether a snapshot tells of what is in force since then, after so many seconds to settle."""
    whole = snapshot.at - snapshot.window >= since - 1e-6
    return snapshot.settled and whole and snapshot.at >= since + settle


def read(snapshot: Snapshot, plan: Plan, whole: bool = False) -> Readings:
    """One snapshot of a flow under a plan.

    whole: whether a pipeline is as busy as its threads are, whatever they are busy with, and not
    only with rows.
    """
    pipelines = {
        pipeline.name: _reading(pipeline, snapshot, whole)
        for pipeline in plan.pipelines
        if pipeline.name in snapshot.pipelines
    }
    rates = {name: _entering(metrics) for name, metrics in snapshot.operators.items()}
    operators = {name: rate for name, rate in rates.items() if rate is not None}
    return Readings(snapshot.at - snapshot.window, snapshot.at, pipelines, operators)


def blended(old: Readings, new: Readings, share: float) -> Readings:
    """The exponential average: `share` of the new readings and the rest of the old."""
    pipelines = {
        name: _blended(old.pipelines[name], reading, share) if name in old.pipelines else reading
        for name, reading in new.pipelines.items()
    }
    operators = _mixed(old.operators, new.operators, share)
    return Readings(old.since, new.at, pipelines, operators)


def _reading(pipeline: Pipeline, snapshot: Snapshot, whole: bool) -> PipelineReading:
    metrics = snapshot.pipelines[pipeline.name]
    costs = {n: _cost(snapshot.operators.get(n), pipeline) for n in pipeline.operators}
    return PipelineReading(
        rate=metrics.rate_in,
        arrival=metrics.arrival_rate,
        busy=metrics.busy if whole else derived.at_work(metrics),
        need=_need(metrics),
        waiting=0.0 if metrics.backlog_rows == 0 else metrics.backlog_seconds,
        costs={name: cost for name, cost in costs.items() if cost is not None},
        by_rows=metrics.service is not None or not metrics.in_batches,
    )


def _need(metrics: PipelineMetrics) -> float | None:
    if metrics.arrival_rate == 0 and not metrics.backlog_rows:
        return 0.0
    need = derived.utilisation(metrics)
    return metrics.busy if need is None else need


def _cost(metrics: OperatorMetrics | None, pipeline: Pipeline) -> float | None:
    if metrics is None or metrics.busy is not None:
        return None if metrics is None else metrics.busy
    return derived.capacity(metrics, pipeline.parallelism)


def _entering(metrics: OperatorMetrics) -> float | None:
    """Rows per second into an operator; a source may only know those that leave it."""
    return metrics.rate_out if metrics.rate_in is None else metrics.rate_in


def _blended(old: PipelineReading, new: PipelineReading, share: float) -> PipelineReading:
    return PipelineReading(
        rate=windows.blend(old.rate, new.rate, share),
        arrival=windows.blend(old.arrival, new.arrival, share),
        busy=windows.blend(old.busy, new.busy, share),
        need=windows.blend(old.need, new.need, share),
        waiting=new.waiting,
        costs=_mixed(old.costs, new.costs, share),
        by_rows=old.by_rows and new.by_rows,
    )


def _mixed(old: Mapping[str, float], new: Mapping[str, float], share: float) -> Mapping[str, float]:
    kept = {name: value for name, value in old.items() if name not in new}
    both = {n: windows.blend(old.get(n), value, share) for n, value in new.items()}
    return kept | {n: value for n, value in both.items() if value is not None}
