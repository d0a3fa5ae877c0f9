"""Rows that come to each pipeline once those before it have other numbers of instances.

What is measured behind a pipeline that cannot keep up is less than what will come when it can.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.metrics import rounding
from penstock.metrics.snapshot import PipelineMetrics
from penstock.models.rates import received
from penstock.models.topology import Topology

CATCH_UP = 30.0
"""Seconds in which rows that wait are to be worked off, unless a policy is told otherwise."""

_USUAL = 2.0
"""Seconds of arrivals that are no backlog: rows wait for the batch before theirs to end."""

_ROW = 1e-6
"""Rows per second below which a pipeline has processed nothing: one row in eleven days."""


@dataclass(frozen=True)
class Inflow:
    """Rows per second that a pipeline has to process, and how many instances they keep busy."""

    rate: float
    load: float


def missing(metrics: PipelineMetrics | None) -> tuple[str, ...]:
    """What would have to be measured. Where nothing comes, nothing else needs to be known."""
    if metrics is None:
        return ("everything",)
    if metrics.arrival_rate is None:
        return ("arrival rate",)
    if not metrics.arrival_rate and not metrics.backlog_rows:
        return ()
    names = {"service": "service time", "rate_in": "rows processed"}
    return tuple(word for name, word in names.items() if getattr(metrics, name) is None)


def to_do(arrival: float, metrics: PipelineMetrics, seconds: float = CATCH_UP) -> float:
    """Rows per second to process: those that come, and those that wait within so many seconds.

    What comes in a moment waits for the batch before it and is no backlog. More that comes, and
    more that waits, is never less to do.
    """
    waiting = (metrics.backlog_rows or 0) - min(_USUAL, seconds) * arrival
    return arrival + max(0.0, waiting) / seconds


def follow(
    topology: Topology,
    measured: Mapping[str, PipelineMetrics],
    instances: Callable[[str, Inflow], float] = lambda name, inflow: math.inf,
    catch_up: float = CATCH_UP,
) -> Mapping[str, Inflow]:
    """The inflow of every pipeline, upstream first, if each gets `instances(name, inflow)`.

    What comes is what the pipelines before put out, which is known over whole batches of theirs;
    what was seen to arrive comes in bulks, and counts where it comes from outside, or where their
    output was not measured. One that has processed nothing is taken to pass on what it gets. What
    waits is worked off in `catch_up` seconds, and what follows gets that too.
    """
    found: dict[str, Inflow] = {}
    output: dict[str, float] = {}
    for name in topology.pipelines:
        metrics = measured[name]
        rate = to_do(_rate(name, topology, measured, output), metrics, catch_up)
        service = metrics.service or 0.0
        found[name] = Inflow(rate, rounding.plain(rate * service))
        able = instances(name, found[name])
        most = able / service if service else math.inf
        output[name] = min(rate, most) * _selectivity(metrics)
    return found


def _rate(
    name: str,
    topology: Topology,
    measured: Mapping[str, PipelineMetrics],
    output: Mapping[str, float],
) -> float:
    arrived = measured[name].arrival_rate or 0.0
    sent = received(topology, measured, name)
    if sent is None:
        return arrived
    outside = max(0.0, arrived - sent) if name in topology.sources else 0.0
    return outside + math.fsum(n * output[up] for up, n in topology.feeds[name].items())


def _selectivity(metrics: PipelineMetrics) -> float:
    if metrics.rate_out is None or metrics.rate_in is None or metrics.rate_in <= _ROW:
        return 1.0
    return metrics.rate_out / metrics.rate_in
