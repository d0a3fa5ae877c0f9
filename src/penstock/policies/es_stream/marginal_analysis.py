"""How many instances a pipeline should have: Es-Stream's marginal analysis of an M/M/k queue."""

from __future__ import annotations

import itertools
import math

from penstock.policies.shared import queueing


def objective(load: float, instances: int, share: float) -> float:
    """z(k)."""
    return share * instances + (1 - share) * queueing.mmk(load, 1.0, instances).number


def rows_spared(load: float, instances: int) -> float:
    """Q(k) - Q(k + 1): the rows that one instance more takes away; infinite where k are too few."""
    now, then = (queueing.mmk(load, 1.0, k).number for k in (instances, instances + 1))
    return math.inf if math.isinf(now) else now - then


def price_in_rows(share: float) -> float:
    """The rows that one instance has to take away: what it costs over what a row costs."""
    return share / (1 - share)


def best_instances(load: float, share: float, least: int = 1, most: int | None = None) -> int:
    """k*: the instances with the least z, within bounds; the most where even these are too few.

    `load` is arrival rate times service time.
    """
    if not 0 < share < 1:
        raise ValueError(f"the share of one instance is {share}, it must be between 0 and 1")
    price = price_in_rows(share)
    start = max(least, math.floor(load) + 1)
    if most is not None and start >= most:
        return most
    numbers = queueing.mean_numbers(load, start)
    for k, (now, then) in enumerate(itertools.pairwise(numbers), start):
        if now - then <= price or k == most:
            return k
    raise AssertionError  # the numbers have no end
