"""Rows per second through the pipelines of a plan, as they are and as they would be.

A pipeline has one output: each of its readers gets all of it. What several pipelines write to
one reader adds up.

What is measured behind a pipeline that cannot keep up is less than what will come when it can.
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
"""Rows that come for each row processed above which a pipeline counts as congested."""

ROUNDING = 1e-9
"""Share of a ratio by which rounding may turn it, so that two as near as that are equal."""

_IDLE = 0.5
"""Share of the time that rows would keep instances at work below which none can pile up. Batches
end when they end: in one window more rows may come than are done, and in the next fewer."""

_AT_WORK = 0.9
"""Share of the time at work from which a pipeline is taken to be what holds others back."""


class NotMeasured(Exception):
    """Something that is needed was not measured; the message names it."""


@dataclass(frozen=True)
class PipelineRate:
    """One pipeline: rows per second that come, that are processed, and that could be.

    selectivity: rows out for a row in; behind: seconds that rows which wait take, where it is at
    work all the time and they take more than a window; 0 elsewhere.
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
        """Rows that come for each row processed; infinite if none is."""
        if self.processed == 0:
            return math.inf if self.arrival > 0 else 1.0
        return self.arrival / self.processed

    def congested(self, over: float = CONGESTED) -> bool:
        """Whether more than `over` rows come for each row processed, or more wait than it can do.

        What rounding adds to a ratio is not more.
        """
        return self.congestion > over * (1 + ROUNDING) or self.behind > 0


Rates = Mapping[str, PipelineRate]
"""By name of the pipeline."""


def steady_state(
    topology: Topology,
    offered: Mapping[str, float],
    selectivity: Mapping[str, float],
    capacity: Mapping[str, float],
) -> Rates:
    """The rates that settle in if each pipeline processes what comes, up to its capacity.

    `offered` is what comes from outside, by pipeline. A selectivity that is not given is 1, a
    capacity that is not given has no limit.
    """
    found: dict[str, PipelineRate] = {}
    for name in topology.pipelines:
        inside = math.fsum(n * found[up].output for up, n in topology.feeds[name].items())
        arrival = offered.get(name, 0.0) + inside
        most = capacity.get(name, math.inf)
        found[name] = PipelineRate(arrival, min(arrival, most), most, selectivity.get(name, 1.0))
    return found


def scaled(topology: Topology, rates: Rates, name: str, factor: float) -> Rates:
    """The rates when a pipeline can process `factor` times as much; what is behind it follows."""
    rate = rates[name]
    return _follow(topology, rates, {name: replace(rate, capacity=rate.capacity * factor)})


def grown(topology: Topology, rates: Rates, name: str, factor: float) -> Rates:
    """The rates when `factor` times as much comes to a pipeline, and it can process that."""
    rate = rates[name]
    larger = replace(rate, arrival=rate.arrival * factor, capacity=rate.capacity * factor)
    return _follow(topology, rates, {name: larger})


def delivered(topology: Topology, rates: Rates) -> Mapping[str, float]:
    """Rows per second delivered by the sinks of each pipeline that holds some."""
    found = {}
    for name, count in topology.outlets.items():
        taken = rates[name].processed if only_sinks(topology, name) else rates[name].output
        found[name] = count * taken
    return found


def only_sinks(topology: Topology, name: str) -> bool:
    """Whether a pipeline holds sinks only: these deliver what it takes, and others what it makes.

    Sinks fused with others read their tail.
    """
    return topology.outlets[name] == len(topology.pipelines[name].operators)


def throughput(topology: Topology, rates: Rates) -> float:
    """Rows per second delivered by all sinks."""
    return math.fsum(delivered(topology, rates).values())


def measured(topology: Topology, snapshot: Snapshot, congested: float = CONGESTED) -> Rates:
    """The rates of a window. Raises `NotMeasured` with all that is missing.

    A congested pipeline is at its capacity; that of another follows from its service time, and
    is what it processes now where that time is not known. A pipeline that has processed nothing
    is taken to pass on what it gets, and one that would do what comes in half of the time to do it.
    One that is at work all the time while more than a window of rows waits for it, and ever more
    do, is congested too.
    """
    if not snapshot.settled:
        raise NotMeasured("the window holds a change of plan, so its numbers say nothing yet")
    lacking = [*_lacking(topology, snapshot)]
    if lacking:
        raise NotMeasured(f"not measured: {listed(lacking, ', ')}")
    found: dict[str, PipelineRate] = {}
    for name in topology.pipelines:
        metrics = snapshot.pipelines[name]
        assert metrics.arrival_rate is not None
        sent = received_rate(topology, snapshot.pipelines, name)
        arrival = metrics.arrival_rate if sent is None or name in topology.sources else sent
        processed = metrics.rate_in or 0.0  # only what is idle may not have counted
        selectivity = 1.0
        if processed > 0 and metrics.rate_out is not None:
            selectivity = metrics.rate_out / processed
        rate = PipelineRate(
            arrival, processed, processed, selectivity, _behind(metrics, snapshot.window)
        )
        most = _possible(metrics)
        if arrival <= processed * (1 + ROUNDING):  # what waits becomes no more
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
    """Rows per second that those before a pipeline have sent it; None where nobody counted.

    This is over whole batches of theirs, where what was seen to arrive comes in bulks.
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
            yield f"{name} with {pipeline.parallelism} instances (it had {metrics.parallelism})"
        if derived.idle(metrics):
            continue
        if metrics.arrival_rate is None:
            yield f"arrival rate of {name}"
        if metrics.rate_in is None:
            yield f"rows that {name} processes"
        elif metrics.rate_out is None and metrics.rate_in > 0 and topology.downstream[name]:
            yield f"output rate of {name}"


def _behind(metrics: PipelineMetrics, window: float) -> float:
    """Seconds that the backlog takes, if it is more than a window and all time is spent on it."""
    most = _possible(metrics) or metrics.rate_in
    if not metrics.backlog_rows or not most:
        return 0.0
    seconds = metrics.backlog_rows / most
    return seconds if seconds > window and (derived.at_work(metrics) or 0.0) >= _AT_WORK else 0.0


def _possible(metrics: PipelineMetrics) -> float | None:
    """Rows per second with every instance at work all the time."""
    if metrics.service is None:
        return None
    return metrics.parallelism / metrics.service if metrics.service > 0 else math.inf


def _released(
    topology: Topology, rates: dict[str, PipelineRate], snapshot: Snapshot, congested: float
) -> Rates:
    """The rates without back pressure: what waits for room in a channel comes to its reader.

    A pipeline that could process all that comes, and does not, waits for one behind it that is
    at work all the time.
    """
    held: set[str] = set()  # those that something slow stands behind
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
    """The rates when some pipelines have others, and those behind them get what these put out."""
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
        # with instances for what comes, what waits will be done
        behind = rate.behind if arrival > rate.capacity else 0.0
        found[name] = PipelineRate(arrival, processed, rate.capacity, rate.selectivity, behind)
        if found[name].output != rates[name].output:
            moved.add(name)
    return found


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


def required_rate(arrival: float, metrics: PipelineMetrics, seconds: float = CATCH_UP) -> float:
    """Rows per second to process: those that come, and those that wait within so many seconds.

    What comes in a moment waits for the batch before it and is no backlog. More that comes, and
    more that waits, is never less to do.
    """
    waiting = (metrics.backlog_rows or 0) - min(_USUAL, seconds) * arrival
    return arrival + max(0.0, waiting) / seconds


def predicted_inflow(
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
