"""Rows that come to each pipeline once those before it have other numbers of instances.

What is measured behind a pipeline that cannot keep up is less than what will come when it can.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.metrics.snapshot import PipelineMetrics
from penstock.models.topology import Topology

_ROW = 1e-6
"""Rows per second below which a pipeline has processed nothing: one row in eleven days."""


@dataclass(frozen=True)
class Inflow:
    """Rows per second that come to a pipeline, and how many instances their work keeps busy."""

    rate: float
    load: float


def missing(metrics: PipelineMetrics | None) -> tuple[str, ...]:
    """What would have to be measured. Where nothing comes, nothing else needs to be known."""
    if metrics is None:
        return ("everything",)
    if metrics.arrival_rate is None:
        return ("arrival rate",)
    if metrics.service is None and (metrics.arrival_rate > 0 or metrics.backlog_rows):
        return ("service time",)
    return ()


def follow(
    topology: Topology,
    measured: Mapping[str, PipelineMetrics],
    instances: Callable[[str, Inflow], float] = lambda name, inflow: math.inf,
) -> Mapping[str, Inflow]:
    """The inflow of every pipeline, upstream first, if each gets `instances(name, inflow)`.

    To what was measured comes what the pipelines before will put out more, or less, than they
    did. A pipeline that has processed nothing is taken to pass on what it gets.
    """
    found: dict[str, Inflow] = {}
    more: dict[str, float] = {}
    for name in topology.pipelines:
        metrics = measured[name]
        rate = metrics.arrival_rate or 0.0
        rate = max(0.0, rate + math.fsum(more[up] for up in topology.upstream[name]))
        service = metrics.service or 0.0
        found[name] = Inflow(rate, rate * service)
        able = instances(name, found[name])
        most = able / service if service else math.inf
        more[name] = _output(metrics, min(rate, most))
    return found


def _output(metrics: PipelineMetrics, processed: float) -> float:
    """How much more it puts out than was measured when it processes so much."""
    if metrics.rate_out is None:
        return 0.0
    selectivity = metrics.rate_out / metrics.rate_in if metrics.rate_in > _ROW else 1.0
    return processed * selectivity - metrics.rate_out
