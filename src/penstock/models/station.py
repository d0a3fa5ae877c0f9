"""A pipeline as a station on the way of a row: what there can be shortened by more instances.

An engine that takes rows one by one keeps a row waiting in a queue, and then works on it; more
instances shorten the queue alone. One that works in batches keeps a row waiting for its batch,
and then for all of that batch. If batches follow one another, a batch has what came during the
last one. With an overhead of c seconds and a load of b instances on p of them it takes
B = c + B b/p, that is c + c b/(p - b). So of batch and wait (B/2) a part stays whatever p is, and
the rest is of the form a/(p - b), as in a queue. With a cadence longer than that, batches have
what came in a cadence, and their work is a price of the cadence, not of a queue.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.metrics import derived
from penstock.metrics.snapshot import PipelineMetrics
from penstock.models.rebalance import Vertex


@dataclass(frozen=True)
class Station:
    """One pipeline, fitted to what was measured.

    load: instances that are busy on average; task: seconds of a row that stay with any number of
    instances; wait: seconds that more instances shorten; overhead: seconds of a batch that do
    not depend on its rows; backlog: seconds of one instance's work that is waiting.
    """

    name: str
    parallelism: int
    load: float
    task: float
    wait: float
    overhead: float = 0.0
    backlog: float = 0.0

    @property
    def utilisation(self) -> float:
        return self.load / self.parallelism

    @property
    def a(self) -> float:
        """The a of W(p) = a / (p - load), which passes through today's measurement."""
        return self.wait * max(0.0, self.parallelism - self.load)

    def vertex(self, least: int, most: int) -> Vertex:
        return Vertex(self.name, self.a, self.load, min(least, most), most)


def missing(metrics: PipelineMetrics | None) -> tuple[str, ...]:
    """What would have to be measured. Where nothing comes, nothing else needs to be known."""
    if metrics is None:
        return ("everything",)
    if metrics.arrival_rate == 0 and not metrics.backlog_rows:
        return ()
    names = {"arrival_rate": "arrival rate", "service": "service time", "wait": "wait"}
    return tuple(word for name, word in names.items() if getattr(metrics, name) is None)


def station(metrics: PipelineMetrics, cadence: float, patience: float) -> Station:
    """The station of a pipeline of which nothing is `missing`.

    A wait longer than `patience` seconds is no steady state but a backlog that is left from
    before; then the formula alone says what the wait will be when that is gone.
    """
    queue = derived.queue(metrics)
    if queue is None:  # nothing comes
        return Station(metrics.name, metrics.parallelism, 0.0, metrics.batch_seconds or 0.0, 0.0)
    load = queue.utilisation * queue.parallelism
    backlog = (metrics.backlog_rows or 0) * queue.service
    behind = backlog > patience * load
    wait = min(queue.wait, queue.kingman) if behind else queue.wait
    whole = queue.service if metrics.batch_seconds is None else metrics.batch_seconds
    work = min(whole, _divided(metrics, queue.service))
    overhead = whole - work
    gathered = min(wait, overhead / 2) if metrics.batches else 0.0
    if cadence > whole:
        work = 0.0
    elif load < queue.parallelism:  # a backlog makes batches larger than they are going to be
        work = min(work, overhead * load / (queue.parallelism - load))
    return Station(
        name=metrics.name,
        parallelism=queue.parallelism,
        load=load,
        task=overhead + gathered,
        wait=wait - gathered + work,
        overhead=overhead if metrics.batches else 0.0,
        backlog=backlog if behind else 0.0,
    )


def _divided(metrics: PipelineMetrics, service: float) -> float:
    """The part of a batch's time that is divided among the instances; each has one row anyhow."""
    if not metrics.batches:
        return 0.0
    rows = metrics.rows_in / metrics.batches
    return max(0.0, rows / metrics.parallelism - 1) * service


def up(instances: float) -> int:
    """Rounded up, but not for the last digits of a product."""
    return math.ceil(round(instances, 9))


def cadence(seconds: float, utilisation: float, overhead: float) -> float:
    """The cadence that costs a row `seconds` on average; 0 if batches take longer than that.

    A row waits for half a cadence, and then for the work that has come in a whole one.
    """
    found = seconds / (0.5 + utilisation)
    if utilisation >= 1 or found <= overhead / (1 - utilisation) or found < 0.01:
        return 0.0
    unit = 10.0 ** (1 - math.floor(math.log10(found)))
    return math.floor(found * unit) / unit
