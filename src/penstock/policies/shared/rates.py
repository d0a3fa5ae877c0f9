"""Rates in rows per second through a plan: measured, and predicted after changes.

A pipeline has one output, and each of its readers gets all of it. A reader of several pipelines
gets the sum of their outputs.

Downstream of a bottleneck, the measured rates are lower than the rates once it is resolved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from penstock.metrics import derived
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.policies.base.messages import listed
from penstock.policies.shared.topology import Topology

CONGESTED = 1.2
"""Ratio of arriving to processed rows above which a pipeline is congested."""

ROUNDING = 1e-9
"""Relative difference of ratios below which they count as equal (rounding)."""

_IDLE = 0.5
"""Utilisation below which no backlog can build up.

With batches, more rows may arrive than finish in one window, and fewer in the next.
"""

_AT_WORK = 0.9
"""Share of time at work from which a pipeline is assumed to cause back pressure."""


class NotMeasured(Exception):
    """A metric that is needed was not measured; the message names it."""


@dataclass(frozen=True)
class PipelineRate:
    """Rows per second of one pipeline: arriving, processed, and its capacity.

    selectivity: rows out per row in; behind: seconds to work off the backlog if that is longer than
    a window and the pipeline is busy all the time, otherwise 0.
    """

    arrival: float
    processed: float
    capacity: float
    selectivity: float = 1.0
    behind: float = 0.0

    @property
    def output(self) -> float:
        return self.processed * self.selectivity

    @property
    def congestion(self) -> float:
        """Rows arriving for each row processed; infinite if none is processed."""
        if self.processed == 0:
            return math.inf if self.arrival > 0 else 1.0
        return self.arrival / self.processed

    def congested(self, over: float = CONGESTED) -> bool:
        """True if more than `over` rows arrive per processed row, or a backlog grows."""
        return self.congestion > over * (1 + ROUNDING) or self.behind > 0


Rates = Mapping[str, PipelineRate]
"""Rates by name of the pipeline."""


def steady_state(
    topology: Topology,
    offered: Mapping[str, float],
    selectivity: Mapping[str, float],
    capacity: Mapping[str, float],
) -> Rates:
    """Return the rates at which each pipeline processes its input up to its capacity.

    offered: rows per second from outside, by pipeline. A missing selectivity is 1, a missing
    capacity unlimited.
    """
    found: dict[str, PipelineRate] = {}
    for name in topology.pipelines:
        inside = math.fsum(n * found[up].output for up, n in topology.feeds[name].items())
        arrival = offered.get(name, 0.0) + inside
        most = capacity.get(name, math.inf)
        found[name] = PipelineRate(arrival, min(arrival, most), most, selectivity.get(name, 1.0))
    return found


def scaled(topology: Topology, rates: Rates, name: str, factor: float) -> Rates:
    """Return rates after scaling a pipeline's capacity, propagated downstream."""
    rate = rates[name]
    return _follow(topology, rates, {name: replace(rate, capacity=rate.capacity * factor)})


def grown(topology: Topology, rates: Rates, name: str, factor: float) -> Rates:
    """Return the rates after multiplying both input and capacity of a pipeline."""
    rate = rates[name]
    larger = replace(rate, arrival=rate.arrival * factor, capacity=rate.capacity * factor)
    return _follow(topology, rates, {name: larger})


def delivered(topology: Topology, rates: Rates) -> Mapping[str, float]:
    """Rows per second delivered by the sinks in each pipeline that has any."""
    found = {}
    for name, count in topology.outlets.items():
        taken = rates[name].processed if only_sinks(topology, name) else rates[name].output
        found[name] = count * taken
    return found


def only_sinks(topology: Topology, name: str) -> bool:
    """True if the pipeline contains only sinks, which deliver its input rows.

    Sinks fused with other operators deliver the output of those.
    """
    return topology.outlets[name] == len(topology.pipelines[name].operators)


def throughput(topology: Topology, rates: Rates) -> float:
    """Rows per second delivered by all sinks."""
    return math.fsum(delivered(topology, rates).values())


def measured(topology: Topology, snapshot: Snapshot, congested: float = CONGESTED) -> Rates:
    """Return the rates of a window. Raises `NotMeasured` naming all missing metrics.

    A congested pipeline runs at its capacity. The capacity of any other follows from its service
    time or, if that is unknown, is what it processes now. A pipeline that has processed nothing
    gets selectivity 1, and one that needs less than half of its time processes all its input. A
    pipeline that is busy all the time while its backlog grows beyond a window is congested, too.
    """
    if not snapshot.settled:
        raise NotMeasured("not measured: the plan changed during the window")
    lacking = [*_lacking(topology, snapshot)]
    if lacking:
        raise NotMeasured(f"not measured: {listed(lacking, ', ')}")
    found: dict[str, PipelineRate] = {}
    for name in topology.pipelines:
        metrics = snapshot.pipelines[name]
        assert metrics.arrival_rate is not None
        sent = received_rate(topology, snapshot.pipelines, name)
        arrival = metrics.arrival_rate if sent is None or name in topology.sources else sent
        processed = metrics.rate_in or 0.0  # only an idle pipeline may lack it
        selectivity = 1.0
        if processed > 0 and metrics.rate_out is not None:
            selectivity = metrics.rate_out / processed
        rate = PipelineRate(
            arrival, processed, processed, selectivity, _behind(metrics, snapshot.window)
        )
        most = _possible(metrics)
        if arrival <= processed * (1 + ROUNDING):  # the backlog does not grow
            rate = replace(rate, behind=0.0)
        if most is not None and not rate.behind:
            if metrics.in_batches and 0 < arrival < _IDLE * most:
                rate = replace(rate, processed=arrival, capacity=most)
            elif processed == 0 or not rate.congested(congested):
                rate = replace(rate, capacity=max(processed, most))
        found[name] = rate
    return _released(topology, found, snapshot, congested)


def received_rate(
    topology: Topology, measured: Mapping[str, PipelineMetrics], name: str
) -> float | None:
    """Rows per second that upstream pipelines have sent; None if one has no count.

    Steadier than the measured arrival rate: it covers whole upstream batches, which arrive at once.
    """
    sent = [(n, measured[up].rate_out) for up, n in topology.feeds[name].items()]
    known = [n * rate for n, rate in sent if rate is not None]
    return math.fsum(known) if len(known) == len(sent) else None


def _lacking(topology: Topology, snapshot: Snapshot) -> Iterable[str]:
    for name, pipeline in topology.pipelines.items():
        metrics = snapshot.pipelines.get(name)
        if metrics is None:
            yield f"pipeline {name}"
            continue
        if metrics.parallelism != pipeline.parallelism:
            had = metrics.parallelism
            yield f"{name} with {pipeline.parallelism} instances (measured with {had})"
        if derived.idle(metrics):
            continue
        if metrics.arrival_rate is None:
            yield f"arrival rate of {name}"
        if metrics.rate_in is None:
            yield f"rows that {name} processes"
        elif metrics.rate_out is None and metrics.rate_in > 0 and topology.downstream[name]:
            yield f"output rate of {name}"


def _behind(metrics: PipelineMetrics, window: float) -> float:
    """Seconds of backlog if longer than a window at full utilisation; else 0."""
    most = _possible(metrics) or metrics.rate_in
    if not metrics.backlog_rows or not most:
        return 0.0
    seconds = metrics.backlog_rows / most
    return seconds if seconds > window and (derived.at_work(metrics) or 0.0) >= _AT_WORK else 0.0


def _possible(metrics: PipelineMetrics) -> float | None:
    """Rows per second with every instance busy all the time; None if unknown."""
    if metrics.service is None:
        return None
    return metrics.parallelism / metrics.service if metrics.service > 0 else math.inf


def _released(
    topology: Topology, rates: dict[str, PipelineRate], snapshot: Snapshot, congested: float
) -> Rates:
    """Return the rates as they would be without back pressure from full channels.

    A pipeline that could process all its input, and does not, is held back by a downstream pipeline
    that is busy all the time.
    """
    held: set[str] = set()  # pipelines upstream of one that is busy all the time
    for name in reversed(tuple(topology.pipelines)):
        for reader in topology.downstream[name]:
            if reader in held or (derived.at_work(snapshot.pipelines[reader]) or 0.0) >= _AT_WORK:
                held.add(name)
    freed = {}
    for name in held:
        most, rate = _possible(snapshot.pipelines[name]), rates[name]
        if rate.congested(congested) and most is not None and most >= rate.arrival:
            freed[name] = replace(rate, capacity=most)
    return _follow(topology, rates, freed)


def _follow(topology: Topology, rates: Rates, turned: Rates) -> Rates:
    """Recompute rates after some pipelines changed, propagating output downstream."""
    found = {**rates, **turned}
    moved: set[str] = set()
    for name in topology.pipelines:
        feeds = topology.feeds[name]
        if name not in turned and moved.isdisjoint(feeds):
            continue
        more = math.fsum(n * (found[up].output - rates[up].output) for up, n in feeds.items())
        rate = found[name]
        arrival = max(0.0, rate.arrival + more)
        processed = min(arrival, rate.capacity)
        # with capacity for all that arrives, the backlog will be worked off
        behind = rate.behind if arrival > rate.capacity else 0.0
        found[name] = PipelineRate(arrival, processed, rate.capacity, rate.selectivity, behind)
        if found[name].output != rates[name].output:
            moved.add(name)
    return found


CATCH_UP = 30.0
"""Default number of seconds in which a backlog is to be worked off."""

_USUAL = 2.0
"""Seconds of arrivals that are not a backlog but wait for the previous batch."""

_ROW = 1e-6
"""Rows per second below which a pipeline counts as idle: one row in eleven days."""


@dataclass(frozen=True)
class Inflow:
    """Rows per second to process, and the number of instances they keep busy."""

    rate: float
    load: float


def missing(metrics: PipelineMetrics | None) -> tuple[str, ...]:
    """Names of missing metrics; a pipeline without input needs its arrival rate only."""
    if metrics is None:
        return ("everything",)
    if metrics.arrival_rate is None:
        return ("arrival rate",)
    if not metrics.arrival_rate and not metrics.backlog_rows:
        return ()
    names = {"service": "service time", "rate_in": "rows processed"}
    return tuple(word for name, word in names.items() if getattr(metrics, name) is None)


def required_rate(arrival: float, metrics: PipelineMetrics, seconds: float = CATCH_UP) -> float:
    """Rows per second to process: arrivals, plus the backlog within `seconds`.

    Rows of the last moments wait for the previous batch and are not a backlog. The result never
    falls when arrivals or backlog rise.
    """
    waiting = (metrics.backlog_rows or 0) - min(_USUAL, seconds) * arrival
    return arrival + max(0.0, waiting) / seconds


def predicted_inflow(
    topology: Topology,
    measured: Mapping[str, PipelineMetrics],
    instances: Callable[[str, Inflow], float] = lambda name, inflow: math.inf,
    catch_up: float = CATCH_UP,
) -> Mapping[str, Inflow]:
    """Predict the inflow of every pipeline, upstream first.

    instances: returns the instances of a pipeline from its name and inflow. The input of a pipeline
    is the predicted output of its upstream pipelines. Measured arrivals count only for rows from
    outside, or if an upstream output was not measured. A pipeline that has processed nothing gets
    selectivity 1. Backlogs are worked off in `catch_up` seconds, which adds to the input of
    downstream pipelines.
    """
    found: dict[str, Inflow] = {}
    output: dict[str, float] = {}
    for name in topology.pipelines:
        metrics = measured[name]
        rate = required_rate(_rate(name, topology, measured, output), metrics, catch_up)
        service = metrics.service or 0.0
        found[name] = Inflow(rate, derived.rounded(rate * service))
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
    sent = received_rate(topology, measured, name)
    if sent is None:
        return arrived
    outside = max(0.0, arrived - sent) if name in topology.sources else 0.0
    return outside + math.fsum(n * output[up] for up, n in topology.feeds[name].items())


def _selectivity(metrics: PipelineMetrics) -> float:
    if metrics.rate_out is None or metrics.rate_in is None or metrics.rate_in <= _ROW:
        return 1.0
    return metrics.rate_out / metrics.rate_in
