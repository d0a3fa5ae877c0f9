"""Closed-form queues: Kingman, Erlang, M/M/k, M/G/1 and Jackson networks.

Rates are per second, times in seconds. `load` is Erlang's offered load, arrival rate times service
time: the number of servers that are busy on average. If servers cannot carry the load there is no
steady state, and waits and queue lengths are infinite.

In a Jackson network every queue behaves as if it were alone. The mean number of rows in the network
is the sum over its queues; the mean time in the network is that number over the arrival rate from
outside (Little's law). Each further instance of a queue gains less than the one before, so adding
instances where they gain most is optimal, as in `rebalance`.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.policies.shared.rebalance import Vertex, spread

_FEW = 50
_DEVIATIONS = 9
"""Standard deviations of the load within which terms of a sum over servers count."""


@dataclass(frozen=True)
class QueueMeans:
    """Means of a queue in its steady state, from the wait by Little's law."""

    rate: float
    service: float
    wait: float

    @property
    def sojourn(self) -> float:
        """Seconds from arrival to the end of service."""
        return self.wait + self.service

    @property
    def waiting(self) -> float:
        """Mean number of rows that wait."""
        return math.inf if math.isinf(self.wait) else self.rate * self.wait

    @property
    def number(self) -> float:
        """Mean number of rows that wait or are served."""
        return self.waiting + self.rate * self.service


def kingman(rate: float, service: float, arrival_cv: float, service_cv: float) -> float:
    """Kingman's approximate wait for one server (GI/G/1), in seconds.

    arrival_cv, service_cv: coefficients of variation of inter-arrival and service times.
    """
    load = rate * service
    if load >= 1:
        return math.inf
    return load / (1 - load) * service * (arrival_cv**2 + service_cv**2) / 2


def blocking(load: float, start: int = 0) -> Iterator[float]:
    """Yield Erlang's B for `start`, `start` + 1, ... servers, without end.

    By the recursion B(k) = load B(k-1) / (k + load B(k-1)), whose terms stay between 0 and 1; the
    factorials of the textbook formula would overflow.
    """
    b = erlang_b(load, start)
    for servers in itertools.count(start + 1):
        yield b
        b = load * b / (servers + load * b)


def erlang_b(load: float, servers: int) -> float:
    """Erlang's B: the share of arrivals that find all servers busy and are lost.

    1 / B(k) = 1 + k/load (1 + (k-1)/load (1 + ...)). With many servers only the last terms count.
    With servers for ten times the load and a thousand more, B is below the smallest float.
    """
    if servers > 10 * load + 1000:
        return 0.0
    if servers < _FEW or load < 1:
        b = 1.0
        for k in range(1, servers + 1):
            b = load * b / (k + load * b)
        return b
    kept = 2 * max(0.0, servers - load) + _DEVIATIONS * math.sqrt(load) + _FEW
    factors = np.arange(servers, max(0, servers - math.ceil(kept)), -1.0) / load
    with np.errstate(over="ignore"):
        return 1 / (1 + float(np.cumprod(factors).sum()))


def erlang_c(load: float, servers: int) -> float:
    """Erlang's C: share of arrivals that have to wait; 1 with too few servers."""
    return erlang_c_from_b(erlang_b(load, servers), load, servers) if servers > load else 1.0


def erlang_c_from_b(b: float, load: float, servers: int) -> float:
    """Erlang's C from Erlang's B, for more servers than load."""
    return b / (1 - load / servers * (1 - b))


def mean_numbers(load: float, start: int = 0) -> Iterator[float]:
    """Yield the mean number of rows in an M/M/k queue, for k from `start` on."""
    for servers, b in enumerate(blocking(load, start), start):
        if servers > load:
            yield erlang_c_from_b(b, load, servers) * load / (servers - load) + load
        else:
            yield math.inf


def mmk(rate: float, service: float, servers: int) -> QueueMeans:
    """Poisson arrivals, exponential service times, k servers with one queue."""
    load = rate * service
    if servers <= load:
        return QueueMeans(rate, service, math.inf)
    return QueueMeans(rate, service, erlang_c(load, servers) * service / (servers - load))


def mg1(rate: float, service: float, service_cv: float) -> QueueMeans:
    """Poisson arrivals, general service times, one server (Pollaczek-Khinchine)."""
    return QueueMeans(rate, service, kingman(rate, service, 1.0, service_cv))


def md1(rate: float, service: float) -> QueueMeans:
    """Poisson arrivals, constant service time, one server."""
    return mg1(rate, service, 0.0)


_NOTHING = 1e-9
"""Gain of an instance, as a share of the load, below which it is of no use."""


@dataclass(frozen=True)
class Server:
    """One queue of the network: its load in busy instances, and instance bounds."""

    name: str
    load: float
    least: int = 1
    most: int | None = None

    @property
    def fewest(self) -> int:
        """Fewest instances that are allowed and have a steady state."""
        return max(self.least, math.floor(self.load) + 1)

    @property
    def stable(self) -> bool:
        return self.most is None or self.fewest <= self.most

    def number(self, instances: int) -> float:
        """Mean number of rows in the queue with so many instances."""
        return mmk(self.load, 1.0, instances).number


@dataclass(frozen=True)
class Staffing:
    """Instances by queue, mean rows in the network, and whether the target is met."""

    instances: Mapping[str, int]
    number: float
    met: bool

    @property
    def total(self) -> int:
        return sum(self.instances.values())


def fewest(servers: Sequence[Server], number: float) -> Staffing:
    """Return the fewest instances with at most so many rows in the network.

    Not met if more rows than that are in service alone: each queue then has the fewest instances
    that carry its load. Not met either if the bounds are too low: each queue then has all instances
    that gain anything, so that more load never means fewer instances.
    """
    if number < math.fsum(s.load for s in servers):
        return replace(_climb(servers, lambda rows, total: True), met=False)
    found = _climb(servers, lambda rows, total: rows <= number)
    if found.met and found.number <= number:
        return found
    every = {s.name: _useful(s) for s in servers}
    return Staffing(every, math.fsum(s.number(every[s.name]) for s in servers), met=False)


def best(servers: Sequence[Server], instances: int) -> Staffing:
    """Return the fewest rows with so many instances; not met if they are too few."""
    found = _climb(servers, lambda rows, total: total >= instances)
    return replace(found, met=found.met and found.total <= instances)


def within(servers: Sequence[Server], instances: int) -> Mapping[str, int]:
    """Return the best use of so many instances; if they are too few, by load."""
    found = best(servers, instances)
    if found.met:
        return found.instances
    vertices = [Vertex(s.name, 0.0, s.load, s.least, s.most or instances) for s in servers]
    return spread(vertices, instances).instances


def _climb(servers: Sequence[Server], enough: Callable[[float, int], bool]) -> Staffing:
    """Add instances one by one where they gain most, while needed and useful.

    Not met if a queue cannot have a steady state; each then has its fewest instances, or its most.
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
    """Number of instances beyond which a further one gains nothing, within bounds."""
    if not server.stable:
        return server.most or server.fewest
    steps = _Steps(server)
    while steps.gain > _NOTHING * server.load:
        steps.take()
    return steps.instances


class _Steps:
    """Growth of one queue, and the gain of its next instance."""

    def __init__(self, server: Server) -> None:
        self.server, self.instances = server, server.fewest
        self._numbers = mean_numbers(server.load, server.fewest)
        self.now, self._then = next(self._numbers), next(self._numbers)
        self.gain = self._gain()

    def _gain(self) -> float:
        most = self.server.most
        return 0.0 if most is not None and self.instances >= most else self.now - self._then

    def take(self) -> None:
        self.instances += 1
        self.now, self._then = self._then, next(self._numbers)
        self.gain = self._gain()
