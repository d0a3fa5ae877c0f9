"""Pipeline as a queueing station: latency as a function of its instances.

In an engine that processes rows one by one, a row waits in a queue and is then processed; more
instances shorten only the queue. In an engine that works in batches, a row waits for its batch to
begin and then for the whole batch. If batches follow one another, a batch contains what arrived
during the one before. With an overhead of c seconds and a load of b busy instances out of p, it
takes B = c + B b/p = c + c b/(p - b), and a row waits B/2 before. Of these 3/2 B, 3/2 c does not
depend on p, and the rest, 3/2 c b/(p - b), has the form of a queue. A cadence longer than B makes
rows wait longer; that does not depend on instances and is not counted here.

If every instance adds c seconds to the overhead, a row takes 3/2 c p + a/(p - b) seconds, which is
least at p = b + sqrt(a / (3/2 c)). Beyond that, an instance costs more than it saves. c is measured
when the number of instances changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.metrics import derived
from penstock.metrics.snapshot import PipelineMetrics
from penstock.policies.shared.rebalance import Vertex

_TURNS = 1.5
"""Most batches that a row waits for without an older backlog."""


@dataclass(frozen=True)
class Station:
    """A pipeline, fitted to its measurements.

    load: instances that are busy on average; task: seconds of latency that do not depend on the
    instances; wait: seconds that more instances shorten; overhead: seconds of a batch that do not
    depend on its rows; backlog: waiting work in seconds of one instance; formula: the parameter a
    of W(p) = a / (p - load) by Kingman's formula, regardless of the measured wait.
    """

    name: str
    parallelism: int
    load: float
    task: float
    wait: float
    overhead: float = 0.0
    backlog: float = 0.0
    formula: float = 0.0

    @property
    def utilisation(self) -> float:
        return self.load / self.parallelism

    @property
    def a(self) -> float:
        """Parameter a of W(p) = a / (p - load), fitted to the measured wait."""
        return self.wait * max(0.0, self.parallelism - self.load)

    def vertex(self, least: int, most: int, jammed: bool = False) -> Vertex:
        """Wait as a function of instances; if jammed, at least as long as by the formula."""
        a = max(self.a, self.formula) if jammed else self.a
        return Vertex(self.name, a, self.load, min(least, most), most)


def missing(metrics: PipelineMetrics | None) -> tuple[str, ...]:
    """Names of missing metrics; a pipeline without input needs no others."""
    if metrics is None:
        return ("everything",)
    if metrics.arrival_rate == 0 and not metrics.backlog_rows:
        return ()
    names = {"arrival_rate": "arrival rate", "service": "service time", "wait": "wait"}
    return tuple(word for name, word in names.items() if getattr(metrics, name) is None)


def fitted_station(
    metrics: PipelineMetrics, cadence: float, patience: float, drained: bool = False
) -> Station:
    """Fit a station to the metrics of a pipeline with no metric `missing`.

    A backlog longer than `patience` seconds is not a steady state, so Kingman's formula predicts
    the wait once it is gone. The same holds if a backlog was `drained` during the measurement, or
    if rows waited longer than the present backlog explains.
    """
    queue = derived.queue(metrics)
    if queue is None:  # no input
        return Station(metrics.name, metrics.parallelism, 0.0, metrics.batch_seconds or 0.0, 0.0)
    load = derived.rounded(queue.utilisation * queue.parallelism)
    backlog = (metrics.backlog_rows or 0) * queue.service
    behind = backlog > patience * load
    passing = behind or drained or _outdated(metrics, cadence)
    wait = min(queue.wait, queue.kingman) if passing else queue.wait
    whole = queue.service if metrics.batch_seconds is None else metrics.batch_seconds
    formula = load * queue.service * queue.variation
    found = Station(metrics.name, queue.parallelism, load, whole, wait, formula=formula)
    if metrics.in_batches:
        gathers = cadence > whole
        if gathers:  # rows wait half a cadence on average
            late = max(0.0, (metrics.wait or 0.0) - cadence / 2)
            found = replace(found, wait=0.0 if passing else late)
        found = _in_batches(found, metrics, queue.service, cadence if gathers else 0.0)
    return replace(found, backlog=backlog) if behind else found


def _outdated(metrics: PipelineMetrics, cadence: float) -> bool:
    """True if rows waited longer than the last batch, cadence and backlog explain."""
    if not metrics.in_batches or metrics.wait is None or not metrics.arrival_rate:
        return False
    turn = max(metrics.batch_seconds or 0.0, cadence)
    return metrics.wait > _TURNS * turn + (metrics.backlog_rows or 0) / metrics.arrival_rate


def _in_batches(
    found: Station, metrics: PipelineMetrics, service: float, cadence: float
) -> Station:
    """Separate the overhead of a batch from the work that its instances share.

    Gathered rows or an older backlog make batches larger than batches without a pause would be, and
    only the latter count. cadence: seconds for which rows are gathered, or 0.
    """
    gathers = cadence > 0
    work = min(found.task, _divided(metrics, service, cadence))
    overhead = found.task - work
    if found.load < found.parallelism:
        usual = overhead * found.load / (found.parallelism - found.load)
        work = usual if gathers else min(work, usual)
    early = work / 2 if gathers else -min(found.wait, overhead / 2)
    return replace(
        found,
        task=1.5 * overhead,
        wait=found.wait + early + work,
        overhead=overhead,
        formula=1.5 * overhead * found.load,
    )


def _divided(metrics: PipelineMetrics, service: float, cadence: float) -> float:
    """Part of a batch's time that is divided among the instances beyond one row each."""
    if metrics.batches:
        rows = (metrics.rows_in or 0) / metrics.batches
    else:  # batches are longer than the window
        rows = (metrics.rate_in or 0.0) * max(metrics.batch_seconds or 0.0, cadence)
    return max(0.0, rows / metrics.parallelism - 1) * service


def round_up(instances: float) -> int:
    """Round up, ignoring rounding errors of a product."""
    return math.ceil(round(instances, 9))


def cadence_for(seconds: float, utilisation: float) -> float:
    """Return the cadence that adds `seconds` to the mean latency, rounded, or 0.

    A row waits for half a cadence, and then for the work that arrived in a whole one.
    """
    return 0.0 if utilisation >= 1 else rounded_cadence(seconds / (0.5 + utilisation))


def rounded_cadence(cadence: float) -> float:
    """Round down to two digits, and to 0 below 10 ms."""
    if cadence < 0.01:
        return 0.0
    unit = 10.0 ** (1 - math.floor(math.log10(cadence)))
    return math.floor(cadence * unit) / unit


_WEIGHT = 0.3
_SPREAD = 1.5

Overheads = Mapping[int, float]
"""Overhead of a batch in seconds, by the number of instances at that time."""


def with_measured_overhead(known: Overheads, station: Station) -> Overheads:
    """Add a measurement of the overhead to an exponential average."""
    if not station.overhead:
        return known
    p = station.parallelism
    old = known.get(p, station.overhead)
    return {**known, p: old + _WEIGHT * (station.overhead - old)}


def overhead_per_instance(known: Overheads) -> float:
    """Seconds that an instance adds to a batch, by linear regression; at least 0.

    Numbers of instances that hardly differ give no slope.
    """
    if not known or max(known) < _SPREAD * min(known):
        return 0.0
    middle = sum(known) / len(known)
    mean = sum(known.values()) / len(known)
    rise = sum((p - middle) * (seconds - mean) for p, seconds in known.items())
    return max(0.0, rise / sum((p - middle) ** 2 for p in known))


def most_useful_instances(station: Station, seconds: float) -> int | None:
    """Number of instances beyond which latency rises; None if there is none.

    seconds: overhead that each instance adds to a batch.
    """
    if not seconds:
        return None
    least = math.floor(station.load) + 1
    best = math.floor(station.load + math.sqrt(station.a / (1.5 * seconds)))

    def takes(instances: int) -> float:
        return 1.5 * seconds * instances + station.a / (instances - station.load)

    return min((max(least, best), max(least, best + 1)), key=takes)
