"""Es-Stream's marginal analysis: instances of a pipeline as an M/M/k queue.

It minimises z(k) = share * k + (1 - share) * Q(k), where Q(k) is the mean number of rows in the
queue with k instances, and `share`, between 0 and 1, the cost of one instance. Q is convex, and
infinite if k instances cannot carry the load. So the minimum is at the first k where one further
instance removes no more rows than it costs: Q(k) - Q(k + 1) <= share / (1 - share).
"""

from __future__ import annotations

import itertools
import math

from penstock.policies.shared import queueing


def objective(load: float, instances: int, share: float) -> float:
    """Return z(k)."""
    return share * instances + (1 - share) * queueing.mmk(load, 1.0, instances).number


def rows_spared(load: float, instances: int) -> float:
    """Rows that a further instance removes from the queue; infinite if overloaded."""
    now, then = (queueing.mmk(load, 1.0, k).number for k in (instances, instances + 1))
    return math.inf if math.isinf(now) else now - then


def price_in_rows(share: float) -> float:
    """Rows that an instance must remove to be worth its cost."""
    return share / (1 - share)


def best_instances(load: float, share: float, least: int = 1, most: int | None = None) -> int:
    """Return the k that minimises z(k) within bounds; `most` if all are too few.

    load: arrival rate times service time.
    """
    if not 0 < share < 1:
        raise ValueError(f"share must be between 0 and 1, not {share}")
    price = price_in_rows(share)
    start = max(least, math.floor(load) + 1)
    if most is not None and start >= most:
        return most
    numbers = queueing.mean_numbers(load, start)
    for k, (now, then) in enumerate(itertools.pairwise(numbers), start):
        if now - then <= price or k == most:
            return k
    raise AssertionError  # the iterator is endless
