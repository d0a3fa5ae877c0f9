"""A pipeline as a queueing station: what more instances shorten, and what crowding costs.

An engine that takes rows one by one keeps a row waiting in a queue, and then works on it; more
instances shorten the queue alone. One that works in batches keeps a row waiting for its batch,
and then for all of that batch. If batches follow one another, a batch has what came during the
last one. With an overhead of c seconds and a load of b instances on p of them it takes
B = c + B b/p, that is c + c b/(p - b), and a row waits B/2 before. Of this 3/2 c stay whatever p
is, and the rest, 3/2 c b/(p - b), has the form of a queue. A cadence longer than B makes rows
wait longer than they would have to; that is no matter of instances, and is not counted here.

With c seconds more for every instance a row takes 3/2 c p + a/(p - b) seconds, which is least at
p = b + sqrt(a / (3/2 c)). Beyond that, an instance costs more than it saves. What c is shows when
the number of instances changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.metrics import derived
from penstock.metrics.snapshot import PipelineMetrics
from penstock.policies.shared.rebalance import Vertex

_TURNS = 1.5
"""Batches that a row waits for at most, where nothing is left from before."""


@dataclass(frozen=True)
class Station:
    """One pipeline, fitted to what was measured.

    load: instances that are busy on average; task: seconds of a row that stay with any number of
    instances; wait: seconds that more instances shorten; overhead: seconds of a batch that do
    not depend on its rows; backlog: seconds of one instance's work that is waiting; formula: the
    a of W(p) = a / (p - load) by Kingman's formula alone, whatever was measured.
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
        """The a of W(p) = a / (p - load), which passes through today's measurement."""
        return self.wait * max(0.0, self.parallelism - self.load)

    def vertex(self, least: int, most: int, jammed: bool = False) -> Vertex:
        """The wait by what was measured; where that is of a jam, no shorter than the formula's."""
        a = max(self.a, self.formula) if jammed else self.a
        return Vertex(self.name, a, self.load, min(least, most), most)


def missing(metrics: PipelineMetrics | None) -> tuple[str, ...]:
    """What would have to be measured. Where nothing comes, nothing else needs to be known."""
    if metrics is None:
        return ("everything",)
    if metrics.arrival_rate == 0 and not metrics.backlog_rows:
        return ()
    names = {"arrival_rate": "arrival rate", "service": "service time", "wait": "wait"}
    return tuple(word for name, word in names.items() if getattr(metrics, name) is None)


def fitted_station(
    metrics: PipelineMetrics, cadence: float, patience: float, drained: bool = False
) -> Station:
    """The station of a pipeline of which nothing is `missing`.

    A wait longer than `patience` seconds is no steady state but a backlog that is left from
    before; then the formula alone says what the wait will be when that is gone. So it does where
    a backlog was `drained` while the wait was measured, and where rows have waited for longer than
    those that are waiting now can account for.
    """
    queue = derived.queue(metrics)
    if queue is None:  # nothing comes
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
        if gathers:  # half a cadence is what rows wait for it, some of them for the batch before
            late = max(0.0, (metrics.wait or 0.0) - cadence / 2)
            found = replace(found, wait=0.0 if passing else late)
        found = _in_batches(found, metrics, queue.service, cadence if gathers else 0.0)
    return replace(found, backlog=backlog) if behind else found


def _outdated(metrics: PipelineMetrics, cadence: float) -> bool:
    """Whether rows of batches waited for something that is gone by now.

    A row waits for the batch before, or for its cadence, and for the rows that are there already.
    """
    if not metrics.in_batches or metrics.wait is None or not metrics.arrival_rate:
        return False
    turn = max(metrics.batch_seconds or 0.0, cadence)
    return metrics.wait > _TURNS * turn + (metrics.backlog_rows or 0) / metrics.arrival_rate


def _in_batches(
    found: Station, metrics: PipelineMetrics, service: float, cadence: float
) -> Station:
    """The same for batches: the overhead stays, the rows of a batch are shared by the instances.

    Rows that were gathered, or that are left from before, make a batch larger than it would be
    one after the other, which is what counts. cadence: for which rows are gathered, or 0.
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
    """The part of a batch's time that is divided among the instances; each has one row anyhow."""
    if metrics.batches:
        rows = (metrics.rows_in or 0) / metrics.batches
    else:  # batches are longer than the window
        rows = (metrics.rate_in or 0.0) * max(metrics.batch_seconds or 0.0, cadence)
    return max(0.0, rows / metrics.parallelism - 1) * service


def round_up(instances: float) -> int:
    """Rounded up, but not for the last digits of a product."""
    return math.ceil(round(instances, 9))


def cadence_for(seconds: float, utilisation: float) -> float:
    """The cadence that costs a row `seconds` on average, in two digits; 0 if that is hardly any.

    A row waits for half a cadence, and then for the work that has come in a whole one.
    """
    return 0.0 if utilisation >= 1 else rounded_cadence(seconds / (0.5 + utilisation))


def rounded_cadence(cadence: float) -> float:
    """Rounded down to two digits, and to 0 where it is hardly anything."""
    if cadence < 0.01:
        return 0.0
    unit = 10.0 ** (1 - math.floor(math.log10(cadence)))
    return math.floor(cadence * unit) / unit


_WEIGHT = 0.3
_SPREAD = 1.5

Overheads = Mapping[int, float]
"""Seconds of a batch beside its rows, by the number of instances that it had."""


def with_measured_overhead(known: Overheads, station: Station) -> Overheads:
    """With one more measurement, newer ones counting more than older ones."""
    if not station.overhead:
        return known
    p = station.parallelism
    old = known.get(p, station.overhead)
    return {**known, p: old + _WEIGHT * (station.overhead - old)}


def overhead_per_instance(known: Overheads) -> float:
    """Seconds that an instance adds to a batch: the slope of the least squares, if it rises.

    Numbers of instances that hardly differ tell nothing.
    """
    if not known or max(known) < _SPREAD * min(known):
        return 0.0
    middle = sum(known) / len(known)
    mean = sum(known.values()) / len(known)
    rise = sum((p - middle) * (seconds - mean) for p, seconds in known.items())
    return max(0.0, rise / sum((p - middle) ** 2 for p in known))


def most_useful_instances(station: Station, seconds: float) -> int | None:
    """The most instances that make rows faster; None if there is no such limit.

    seconds: what each adds to a batch.
    """
    if not seconds:
        return None
    least = math.floor(station.load) + 1
    best = math.floor(station.load + math.sqrt(station.a / (1.5 * seconds)))

    def takes(instances: int) -> float:
        return 1.5 * seconds * instances + station.a / (instances - station.load)

    return min((max(least, best), max(least, best + 1)), key=takes)
