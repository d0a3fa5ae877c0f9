"""Observations of a flow under stress, and the profiling rounds made of them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan.plan import Plan
from penstock.policies.stepwise.profile import Feature, ProfilingRound

BEAT = 1.0
"""Cadence in seconds of a source that is slowed down.

Without one, its rate would depend on how fast its batches are, and so on everything else that runs.
"""


_ENOUGH = 30
"""Rows from which on a mean service time is meaningful."""


_LESS = 0.98
"""A backlog shrinks if it is below this share of that one window ago."""


@dataclass(frozen=True)
class RoundObservation:
    """Metrics of one snapshot; mappings are by pipeline.

    latency: as a share of its bound; services: seconds of an instance for a row; capacities:
    utilisation; selectivity: rows out per row in; batches: rows of a source in a batch; rows:
    number of rows measured.
    """

    at: float
    throughput: float
    latency: float | None
    services: Mapping[str, float]
    capacities: Mapping[str, float]
    rates: Mapping[str, float]
    selectivity: Mapping[str, float]
    batches: Mapping[str, float]
    rows: Mapping[str, int] = field(default_factory=dict)


def observe(snapshot: Snapshot, bound: float) -> RoundObservation | None:
    """Read a snapshot; None if the rate of a pipeline is missing.

    bound: latency bound for a dataflow without constraints.
    """
    pipelines, throughput = snapshot.pipelines, snapshot.throughput
    rates = {n: m.rate_in for n, m in pipelines.items() if m.rate_in is not None}
    if throughput is None or len(rates) < len(pipelines):
        return None
    within = min((found.bound for found in snapshot.latency.values()), default=bound)
    services = {n: s for n, m in pipelines.items() if (s := _service(m)) is not None}
    return RoundObservation(
        snapshot.at,
        throughput,
        latency_ratio(snapshot, bound),
        services,
        {n: s * rates[n] / pipelines[n].parallelism for n, s in services.items()},
        rates,
        {
            n: m.rate_out / m.rate_in
            for n, m in pipelines.items()
            if m.rate_in and m.rate_out is not None
        },
        {n: rates[n] * _beat(pipelines[n], within) for n in snapshot.source_pipelines},
        {n: m.rows_in for n, m in pipelines.items() if m.rows_in is not None},
    )


def is_draining(snapshots: Sequence[Snapshot], bound: float) -> bool:
    """True if an older backlog downstream of the sources is being worked off.

    Until it is gone, latency says nothing about the plan. By Little's law, it exceeds the rows that
    arrive within the latency bound. Without batches, queues are bounded and soon worked off.
    """
    last = snapshots[-1]
    if not any(metrics.in_batches for metrics in last.pipelines.values()):
        return False
    if last.throughput is None:
        return False
    within = min((found.bound for found in last.latency.values()), default=bound)
    begin = last.at - last.window
    now = [_inside(s) for s in snapshots if s.at > begin]
    before = [_inside(s) for s in snapshots if begin - last.window < s.at <= begin]
    left = statistics.fmean(now)
    return bool(before) and last.throughput * within < left < _LESS * statistics.fmean(before)


def _inside(snapshot: Snapshot) -> int:
    pipelines = snapshot.pipelines.items()
    return sum(m.backlog_rows or 0 for n, m in pipelines if n not in snapshot.source_pipelines)


def sustained_throughput(
    observations: Sequence[RoundObservation], features: Mapping[str, Feature]
) -> tuple[float, ...]:
    """Source rows per second that the slowest pipeline sustains, by observation.

    Sources may be faster for a while, which only builds up a backlog. The slowest pipeline is that
    of all observations together, because in a single one it may be any, at random. Pipelines whose
    input does not grow with throughput do not count.
    """
    taken = sum(f.share for f in features.values() if f.source)
    keeping_up = [
        tuple(taken * o.rates.get(name, 0.0) / f.share for o in observations)
        for name, f in features.items()
        if f.share > 0 and not f.dominated
    ]
    return min([tuple(o.throughput for o in observations), *keeping_up], key=statistics.fmean)


def round_from(
    plan: Plan,
    kind: str,
    throttle: float,
    observations: Sequence[RoundObservation],
    features: Mapping[str, Feature],
) -> ProfilingRound:
    """Make a round of some observations."""
    late = [o.latency for o in observations if o.latency is not None]
    return ProfilingRound(
        plan,
        kind,
        sustained_throughput(observations, features),
        statistics.fmean(late) if late else None,
        throttle,
        mean_values([o.services for o in observations]),
        mean_values([o.capacities for o in observations]),
        mean_values([o.batches for o in observations]),
    )


def least_service_times(observations: Sequence[RoundObservation]) -> dict[str, float]:
    """Least seconds for a row of each pipeline, among observations with enough rows.

    The least of a few rows would be too low. If no observation has enough, the mean of all counts.
    """
    names = {name for each in observations for name in each.services}
    found = {}
    for name in names:
        known = [
            (o.services[name], o.rows.get(name, 0)) for o in observations if name in o.services
        ]
        whole = [time for time, rows in known if rows >= _ENOUGH]
        rows = sum(rows for _, rows in known)
        together = sum(time * rows for time, rows in known) / rows if rows else None
        found[name] = min(whole) if whole else together or min(time for time, _ in known)
    return found


def mean_values(observations: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean value of each key."""
    names = {name for each in observations for name in each}
    return {
        name: statistics.fmean([each[name] for each in observations if name in each])
        for name in names
    }


def _service(metrics: PipelineMetrics) -> float | None:
    if metrics.service is not None or metrics.busy is None or not metrics.rate_in:
        return metrics.service
    return metrics.busy * metrics.parallelism / metrics.rate_in


def latency_ratio(snapshot: Snapshot, bound: float) -> float | None:
    """Highest latency relative to its bound, or longest inner backlog without one."""
    if snapshot.latency:
        return max(found.mean / found.bound for found in snapshot.latency.values())
    waiting = [
        metrics.backlog_seconds
        for name, metrics in snapshot.pipelines.items()
        if name not in snapshot.source_pipelines and metrics.backlog_seconds is not None
    ]
    return max(waiting) / bound if waiting else None


def _beat(metrics: PipelineMetrics, within: float) -> float:
    """Seconds of input in a batch of a source that is slowed down.

    Without batches, the latency bound: by Little's law, that many rows are under way if it is just
    met.
    """
    return BEAT if metrics.in_batches else within
