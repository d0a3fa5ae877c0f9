"""Queues in closed form: Kingman's wait, Erlang's formulas, and the means of M/M/k and M/G/1.

Rates are per second, times in seconds. `load` is Erlang's offered load: arrival rate times service
time, the number of servers that are busy on average. Where more arrives than can be served there
is no steady state, and waits and lengths are infinite.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

_FEW = 50
_DEVIATIONS = 9
"""Terms of a sum over more servers than a few that count, in standard deviations of the load."""


@dataclass(frozen=True)
class Means:
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
    return waits(erlang_b(load, servers), load, servers) if servers > load else 1.0


def waits(b: float, load: float, servers: int) -> float:
    """Erlang's C from his B, for more servers than load."""
    return b / (1 - load / servers * (1 - b))


def numbers(load: float, start: int = 0) -> Iterator[float]:
    """The mean number in an M/M/k queue for `start`, `start` + 1, ... servers, without end."""
    for servers, b in enumerate(blocking(load, start), start):
        if servers > load:
            yield waits(b, load, servers) * load / (servers - load) + load
        else:
            yield math.inf


def mmk(rate: float, service: float, servers: int) -> Means:
    """Poisson arrivals, exponential service, k servers with one queue."""
    load = rate * service
    if servers <= load:
        return Means(rate, service, math.inf)
    return Means(rate, service, erlang_c(load, servers) * service / (servers - load))


def mg1(rate: float, service: float, service_cv: float) -> Means:
    """Poisson arrivals, any service times, one server (Pollaczek and Khinchine)."""
    return Means(rate, service, kingman(rate, service, 1.0, service_cv))


def md1(rate: float, service: float) -> Means:
    """Poisson arrivals, one server that always takes the same time."""
    return mg1(rate, service, 0.0)
