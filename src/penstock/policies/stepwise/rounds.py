"""Observations of the flow under stress, and the rounds of profiling made of them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan.plan import Plan
from penstock.policies.stepwise.profile import Feature, ProfilingRound

BEAT = 1.0
"""Seconds between the batches of a source that is slowed down. Without a beat it would be as fast
as its batches are, and these are faster or slower with all else that runs."""


_ENOUGH = 30
"""Rows from which on a mean of times says something."""


_LESS = 0.98
"""A backlog gets smaller if it is less than this share of what it was a window ago."""


@dataclass(frozen=True)
class RoundObservation:
    """One snapshot, by pipeline where it is a mapping.

    latency: over its bound; services: seconds of an instance for a row; capacities: shares of the
    time at work; selectivity: rows out for a row in; batches: rows of a source in a beat; rows:
    that it was seen of.
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
    """What a snapshot says; `bound` is the latency where the dataflow has no constraint.

    None where it does not say what every pipeline has processed.
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
    """Whether rows that are left from before are being worked off behind the sources.

    Until they are gone, the latency is theirs and says nothing of the plan. By Little's law they
    are more than come in the time that rows may take. Where there are no batches, queues are
    bounded and soon worked off.
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
    """Rows per second from the sources that the slowest pipeline keeps up with, one by one.

    What the sources take may be more for a while: it only piles up before that pipeline. It is the
    slowest of all observations together: in one of them any pipeline may do less by chance. One
    whose input does not grow with throughput tells nothing.
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
    """The round that some observations make."""
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
    """The least time for a row of each pipeline, of observations with enough rows of it.

    The least of a few rows is less than a row takes: where no observation has enough of them, it is
    what all of them took together.
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
    """The mean value of each name."""
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
    """The worst constraint over its bound; else the longest backlog that no source has."""
    if snapshot.latency:
        return max(found.mean / found.bound for found in snapshot.latency.values())
    waiting = [
        metrics.backlog_seconds
        for name, metrics in snapshot.pipelines.items()
        if name not in snapshot.source_pipelines and metrics.backlog_seconds is not None
    ]
    return max(waiting) / bound if waiting else None


def _beat(metrics: PipelineMetrics, within: float) -> float:
    """Seconds whose rows are a beat; without batches as many as a row may take.

    By Little's law so many rows are under way if the latency is just met.
    """
    return BEAT if metrics.in_batches else within
