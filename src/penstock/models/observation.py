"""What profiling reads from a snapshot, and rounds made of such observations."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.models.profile import Round
from penstock.plan.plan import Plan


@dataclass(frozen=True)
class Observation:
    """One snapshot; latency is over its bound, services are seconds of an instance for a row."""

    at: float
    throughput: float
    latency: float | None
    services: Mapping[str, float]
    capacities: Mapping[str, float]
    rates: Mapping[str, float]
    batches: Mapping[str, float]


def observed(snapshot: Snapshot, bound: float) -> Observation:
    """What a snapshot says; `bound` is the latency where the dataflow has no constraint."""
    pipelines = snapshot.pipelines
    services = {n: s for n, m in pipelines.items() if (s := _service(m)) is not None}
    return Observation(
        snapshot.at,
        snapshot.throughput,
        _latency(snapshot, bound),
        services,
        {n: s * pipelines[n].rate_in / pipelines[n].parallelism for n, s in services.items()},
        {n: m.rate_in for n, m in pipelines.items()},
        {n: _batch(m) for n, m in pipelines.items() if n in snapshot.source_pipelines},
    )


def round_of(plan: Plan, kind: str, throttle: float, observations: Sequence[Observation]) -> Round:
    """The round that some observations make."""
    late = [o.latency for o in observations if o.latency is not None]
    return Round(
        plan,
        kind,
        tuple(o.throughput for o in observations),
        statistics.fmean(late) if late else None,
        throttle,
        means([o.services for o in observations]),
        means([o.capacities for o in observations]),
        means([o.batches for o in observations]),
    )


def least(observations: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The least value of each name."""
    names = {name for each in observations for name in each}
    return {name: min(each[name] for each in observations if name in each) for name in names}


def means(observations: Sequence[Mapping[str, float]]) -> dict[str, float]:
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


def _latency(snapshot: Snapshot, bound: float) -> float | None:
    """The worst constraint over its bound; else the longest backlog that no source has."""
    if snapshot.latency:
        return max(found.mean / found.bound for found in snapshot.latency.values())
    waiting = [
        metrics.backlog_seconds
        for name, metrics in snapshot.pipelines.items()
        if name not in snapshot.source_pipelines and metrics.backlog_seconds is not None
    ]
    return max(waiting) / bound if waiting else None


def _batch(metrics: PipelineMetrics) -> float:
    """Rows of a batch; of a second where batches are not counted."""
    return metrics.rows_in / metrics.batches if metrics.batches else metrics.rate_in
