"""Averages of the few metrics that show bottlenecks.

None means "not measured", as everywhere; an average then keeps its last known value.
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
    """Metrics of one pipeline.

    rate: rows processed per second; arrival: rows arriving per second; busy: share of time at work;
    need: seconds of work arriving per second for each instance; waiting: seconds to work off the
    backlog, the latest value rather than an average; costs: share of an instance's time by
    operator; by_rows: True if `busy` counts work on rows only, not time in batches, which may
    follow one another without a pause although they have few rows.
    """

    rate: float | None = None
    arrival: float | None = None
    busy: float | None = None
    need: float | None = None
    waiting: float | None = None
    costs: Mapping[str, float] = field(default_factory=dict)
    by_rows: bool = True

    @property
    def is_known(self) -> bool:
        """True if utilisation is known, or known to be zero."""
        return self.busy is not None or (self.rate == 0 and not self.waiting)

    @property
    def shares(self) -> Mapping[str, float]:
        """Cost of each operator as a share of the time at work."""
        return {n: cost / self.busy for n, cost in self.costs.items()} if self.busy else {}

    @property
    def without_backlog(self) -> PipelineReading:
        """The same metrics without work on an older backlog: only what arrived counts."""
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
    """Pipeline metrics, and rows per second into each operator, from `since` to `at`."""

    since: float
    at: float
    pipelines: Mapping[str, PipelineReading]
    operators: Mapping[str, float]

    def behind(self, seconds: float) -> bool | None:
        """True if a backlog exceeds these seconds; None if not all backlogs are known."""
        longest, all_known = self._waiting
        if longest is not None and longest > seconds:
            return True
        return False if all_known else None

    @property
    def longest(self) -> float | None:
        """Longest known backlog in seconds."""
        return self._waiting[0]

    def unmeasured(self, plan: Plan) -> tuple[str, ...]:
        """Pipelines of unknown utilisation that have, or may have, rows to process."""
        found = ((p.name, self.pipelines.get(p.name)) for p in plan.pipelines)
        return tuple(name for name, reading in found if reading is None or not reading.is_known)

    @property
    def without_backlog(self) -> Readings:
        """The same without work on older backlogs; `operators` still counts all rows."""
        return replace(self, pipelines={n: r.without_backlog for n, r in self.pipelines.items()})

    @cached_property
    def _waiting(self) -> tuple[float | None, bool]:
        found = [reading.waiting for reading in self.pipelines.values()]
        known = [seconds for seconds in found if seconds is not None]
        return max(known, default=None), bool(known) and len(known) == len(found)


def busy_text(name: str, busy: float) -> str:
    """Describe how busy a pipeline is.

    The share may exceed 1: a batch counts in the window where it ends, with all its work.
    """
    if round(busy, 2) > 1:
        return f"{name} has {busy:.0%} of the work it can do"
    return f"{name} is {busy:.0%} busy"


def is_usable(snapshot: Snapshot, since: float, settle: float) -> bool:
    """True if a snapshot covers only the time after a change and its settling time."""
    whole = snapshot.at - snapshot.window >= since - 1e-6
    return snapshot.settled and whole and snapshot.at >= since + settle


def read(snapshot: Snapshot, plan: Plan, whole: bool = False) -> Readings:
    """Read the metrics of one snapshot.

    whole: count all time that threads are busy, not only their work on rows.
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
    """Exponential average with weight `share` for the new readings."""
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
    """Rows per second into an operator; for a source without that metric, rows out."""
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
