"""A network of M/M/k queues: the fewest instances for a time in it, and the best use of so many.

In Jackson's network every queue behaves as if it were alone, so the mean number of rows in it is
the sum of those of its queues, and the mean time a row and all that is made of it spend there is
that number over the rate at which rows come from outside (Little). Each queue gains less by each
instance more, so taking the largest gain first is optimal, as in `rebalance`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.models import queueing
from penstock.models.rebalance import Vertex, spread

_NOTHING = 1e-9
"""The share of its load that a queue gains by an instance which is of no use to it."""


@dataclass(frozen=True)
class Server:
    """One queue: the instances that its load keeps busy, and how many it may have."""

    name: str
    load: float
    least: int = 1
    most: int | None = None

    @property
    def fewest(self) -> int:
        """With fewer there is no steady state, or they are not allowed."""
        return max(self.least, math.floor(self.load) + 1)

    @property
    def stable(self) -> bool:
        return self.most is None or self.fewest <= self.most

    def number(self, instances: int) -> float:
        """Rows in it on average."""
        return queueing.mmk(self.load, 1.0, instances).number


@dataclass(frozen=True)
class Staffing:
    """Instances by queue, the rows in the network, and whether what was asked for is met."""

    instances: Mapping[str, int]
    number: float
    met: bool

    @property
    def total(self) -> int:
        return sum(self.instances.values())


def fewest(servers: Sequence[Server], number: float) -> Staffing:
    """The fewest instances with at most so many rows in the network.

    Where so many are in service alone, no number of instances helps: not met, and each queue has
    the fewest that carry its load. Where the instances that it may have are too few: not met
    either, and each queue has all that gain anything, so that more load never means fewer.
    """
    if number < math.fsum(s.load for s in servers):
        return replace(_climb(servers, lambda rows, total: True), met=False)
    found = _climb(servers, lambda rows, total: rows <= number)
    if found.met and found.number <= number:
        return found
    every = {s.name: _useful(s) for s in servers}
    return Staffing(every, math.fsum(s.number(every[s.name]) for s in servers), met=False)


def best(servers: Sequence[Server], instances: int) -> Staffing:
    """The least rows in the network that so many instances allow; not met if they are too few."""
    found = _climb(servers, lambda rows, total: total >= instances)
    return replace(found, met=found.met and found.total <= instances)


def within(servers: Sequence[Server], instances: int) -> Mapping[str, int]:
    """The best use of so many instances, also of too few: then by load."""
    found = best(servers, instances)
    if found.met:
        return found.instances
    vertices = [Vertex(s.name, 0.0, s.load, s.least, s.most or instances) for s in servers]
    return spread(vertices, instances).instances


def _climb(servers: Sequence[Server], enough: Callable[[float, int], bool]) -> Staffing:
    """One instance after the other where it gains most, until that is enough or gains nothing.

    Not met if some queue cannot have a steady state; all have their fewest then, or their most.
    """
    if not all(s.stable for s in servers):
        start = {s.name: min(s.fewest, s.most or s.fewest) for s in servers}
        return Staffing(start, math.inf, met=False)
    steps = [_Steps(server) for server in servers]
    rows, total = math.fsum(s.now for s in steps), sum(s.instances for s in steps)
    heap = [(-step.gain, at) for at, step in enumerate(steps) if step.gain > 0]
    heapq.heapify(heap)
    while heap and not enough(rows, total):
        gain, at = heap[0]
        rows, total = rows + gain, total + 1
        steps[at].take()
        if steps[at].gain > 0:
            heapq.heapreplace(heap, (-steps[at].gain, at))
        else:
            heapq.heappop(heap)
    instances = {step.server.name: step.instances for step in steps}
    return Staffing(instances, math.fsum(step.now for step in steps), met=True)


def _useful(server: Server) -> int:
    """All instances that gain anything, as far as it may have them."""
    if not server.stable:
        return server.most or server.fewest
    steps = _Steps(server)
    while steps.gain > _NOTHING * server.load:
        steps.take()
    return steps.instances


class _Steps:
    """The way of one queue upwards, and what the next instance gains."""

    def __init__(self, server: Server) -> None:
        self.server, self.instances = server, server.fewest
        self._numbers = queueing.numbers(server.load, server.fewest)
        self.now, self._then = next(self._numbers), next(self._numbers)
        self.gain = self._gain()

    def _gain(self) -> float:
        most = self.server.most
        return 0.0 if most is not None and self.instances >= most else self.now - self._then

    def take(self) -> None:
        self.instances += 1
        self.now, self._then = self._then, next(self._numbers)
        self.gain = self._gain()
