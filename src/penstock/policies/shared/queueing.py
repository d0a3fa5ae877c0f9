"""Queues in closed form: Kingman, Erlang, M/M/k, M/G/1, and networks of M/M/k queues.

Rates are per second, times in seconds. `load` is Erlang's offered load: arrival rate times service
time, the number of servers that are busy on average. Where more arrives than can be served there
is no steady state, and waits and lengths are infinite.

In Jackson's network every queue behaves as if it were alone, so the mean number of rows in it is
the sum of those of its queues, and the mean time a row and all that is made of it spend there is
that number over the rate at which rows come from outside (Little). Each queue gains less by each
instance more, so taking the largest gain first is optimal, as in `rebalance`.
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
"""Terms of a sum over more servers than a few that count, in standard deviations of the load."""


@dataclass(frozen=True)
class QueueMeans:
    """A queue in its steady state: the rest follows from the wait by Little's law."""

    rate: float
    service: float
    wait: float

    @property
    def sojourn(self) -> float:
        """From arrival to the end of service."""
        return self.wait + self.service

    @property
    def waiting(self) -> float:
        """How many wait."""
        return math.inf if math.isinf(self.wait) else self.rate * self.wait

    @property
    def number(self) -> float:
        """How many wait or are served."""
        return self.waiting + self.rate * self.service


def kingman(rate: float, service: float, arrival_cv: float, service_cv: float) -> float:
    """Kingman's wait for one server with any arrivals and any service times (GI/G/1).

    The coefficients of variation are those of the times between arrivals and of service.
    """
    load = rate * service
    if load >= 1:
        return math.inf
    return load / (1 - load) * service * (arrival_cv**2 + service_cv**2) / 2


def blocking(load: float, start: int = 0) -> Iterator[float]:
    """Erlang's B for `start`, `start` + 1, ... servers, without end.

    B(k) = load B(k-1) / (k + load B(k-1)): every term is between 0 and 1, so nothing overflows
    where the factorials of the textbook's form would.
    """
    b = erlang_b(load, start)
    for servers in itertools.count(start + 1):
        yield b
        b = load * b / (servers + load * b)


def erlang_b(load: float, servers: int) -> float:
    """The share of arrivals that find all servers busy, if those go away.

    1 / B(k) = 1 + k/load (1 + (k-1)/load (1 + ...)). Of hundreds of terms, those of the first few
    servers are nothing beside the others. With servers for ten times the load and a thousand more,
    it is less than the smallest number there is.
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
    """The share of arrivals that have to wait, if they do wait: 1 where servers are too few."""
    return erlang_c_from_b(erlang_b(load, servers), load, servers) if servers > load else 1.0


def erlang_c_from_b(b: float, load: float, servers: int) -> float:
    """Erlang's C from his B, for more servers than load."""
    return b / (1 - load / servers * (1 - b))


def mean_numbers(load: float, start: int = 0) -> Iterator[float]:
    """The mean number in an M/M/k queue for `start`, `start` + 1, ... servers, without end."""
    for servers, b in enumerate(blocking(load, start), start):
        if servers > load:
            yield erlang_c_from_b(b, load, servers) * load / (servers - load) + load
        else:
            yield math.inf


def mmk(rate: float, service: float, servers: int) -> QueueMeans:
    """Poisson arrivals, exponential service, k servers with one queue."""
    load = rate * service
    if servers <= load:
        return QueueMeans(rate, service, math.inf)
    return QueueMeans(rate, service, erlang_c(load, servers) * service / (servers - load))


def mg1(rate: float, service: float, service_cv: float) -> QueueMeans:
    """Poisson arrivals, any service times, one server (Pollaczek and Khinchine)."""
    return QueueMeans(rate, service, kingman(rate, service, 1.0, service_cv))


def md1(rate: float, service: float) -> QueueMeans:
    """Poisson arrivals, one server that always takes the same time."""
    return mg1(rate, service, 0.0)


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
        return mmk(self.load, 1.0, instances).number


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
