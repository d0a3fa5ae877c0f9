"""Fewest instances whose waits fit a budget: an optimal Nephele Rebalance.

The wait before a vertex with p instances is W(p) = a / (p - b), where b is the number of instances
that its load keeps busy. With b instances or fewer there is no steady state, and the wait is
infinite.

A further instance shortens the wait by a / ((p - b) (p + 1 - b)), less each time. Adding instances
in the order of these gains yields, after any number of steps, the least total wait for that number
of instances. So the first allotment within the budget has the fewest instances. Instead of adding
one instance at a time, a threshold on the gain is found by bisection, and only the last steps are
taken in order.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Vertex:
    """Wait before one vertex as a function of its instances, and bounds on these."""

    name: str
    a: float
    b: float
    least: int = 1
    most: int = 1

    def __post_init__(self) -> None:
        if not (0 <= self.a < math.inf and 0 <= self.b < math.inf):
            raise ValueError(f"{self.name}: a = {self.a} and b = {self.b} must be 0 or more")
        if not 1 <= self.least <= self.most:
            raise ValueError(f"{self.name}: {self.least}..{self.most} is no range of instances")

    @property
    def fewest(self) -> int:
        """Fewest instances with a steady state, whatever the bounds."""
        return math.floor(self.b) + 1

    def wait(self, instances: int) -> float:
        """Mean wait in seconds; infinite without a steady state."""
        return self.a / (instances - self.b) if instances > self.b else math.inf

    def gain(self, instances: int) -> float:
        """Seconds by which one further instance shortens the wait."""
        if instances <= self.b:
            return math.inf
        return self.a / ((instances - self.b) * (instances + 1 - self.b))


@dataclass(frozen=True)
class Allotment:
    """Instances by vertex, the sum of their waits, and whether the target is met."""

    instances: Mapping[str, int]
    wait: float
    met: bool

    @property
    def total(self) -> int:
        return sum(self.instances.values())


def p_delta(vertex: Vertex, delta: float) -> int:
    """Nephele's P_delta: fewest instances where one more gains at most -`delta` s."""
    if delta >= 0:
        raise ValueError(f"delta must be below 0 s, not {delta}")
    guess = vertex.b + (math.sqrt(1 + 4 * vertex.a / -delta) - 1) / 2
    return _first(lambda p: vertex.gain(p) <= -delta, math.ceil(guess), vertex.fewest)


def p_w(vertex: Vertex, wait: float) -> int | None:
    """Nephele's P_W: fewest instances with at most this wait; None if impossible."""
    if wait < 0 or (wait == 0 and vertex.a > 0):
        return None
    guess = math.ceil(vertex.a / wait + vertex.b) if vertex.a > 0 else vertex.fewest
    return _first(lambda p: vertex.wait(p) <= wait, guess, vertex.fewest)


def rebalance(vertices: Sequence[Vertex], budget: float) -> Allotment:
    """Return the fewest instances whose waits add up to at most the budget.

    Of several such allotments it is one with the least wait. If there is none, every vertex gets
    its most instances, and the allotment is not met.
    """
    ladder = _Ladder(vertices)
    if not ladder.stable or not ladder.wait(ladder.most) <= budget:
        return ladder.allotment(ladder.most, met=False)
    return ladder.allotment(ladder.climb(lambda p: ladder.wait(p) <= budget), met=True)


def spread(vertices: Sequence[Vertex], instances: int) -> Allotment:
    """Return the least sum of waits with at most this many instances, none useless.

    If they are too few for a steady state, the utilisation of the busiest vertex is minimised, and
    the allotment is not met.
    """
    ladder = _Ladder(vertices)
    if not ladder.stable or int(ladder.start.sum()) > instances:
        return Allotment(_levelled(vertices, instances), math.inf, met=False)
    return ladder.allotment(ladder.climb(lambda p: int(p.sum()) >= instances), met=True)


def _levelled(vertices: Sequence[Vertex], instances: int) -> Mapping[str, int]:
    """Give instances one by one to the vertex with the highest load per instance."""
    found = {v.name: v.least for v in vertices}
    heap = [(-v.b / v.least, at) for at, v in enumerate(vertices) if v.least < v.most]
    heapq.heapify(heap)
    for _ in range(instances - sum(found.values())):
        if not heap:
            break
        vertex = vertices[heap[0][1]]
        found[vertex.name] += 1
        if (p := found[vertex.name]) < vertex.most:
            heapq.heapreplace(heap, (-vertex.b / p, heap[0][1]))
        else:
            heapq.heappop(heap)
    return found


def _first(holds: Callable[[int], bool], guess: int, least: int) -> int:
    """Return the least number from `least` on for which a monotone condition holds.

    The guess is off by rounding only, so the search doubles its steps from there.
    """
    low, high, step = least - 1, max(guess, least), 1
    while not holds(high):
        low, high, step = high, high + step, 2 * step
    step = 1
    while high - step > low and holds(high - step):
        high, step = high - step, 2 * step
    low = max(low, high - step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


class _Ladder:
    """All vertices as arrays, for adding instances in the order of their gains."""

    def __init__(self, vertices: Sequence[Vertex]) -> None:
        self.names = [v.name for v in vertices]
        if len(set(self.names)) < len(vertices):
            raise ValueError(f"a vertex is named twice: {', '.join(self.names)}")
        self.a: Reals = np.array([v.a for v in vertices], dtype=np.float64)
        self.b: Reals = np.array([v.b for v in vertices], dtype=np.float64)
        self.start: Counts = np.array([max(v.least, v.fewest) for v in vertices], dtype=np.int64)
        self.most: Counts = np.array([v.most for v in vertices], dtype=np.int64)

    @cached_property
    def stable(self) -> bool:
        """True if every vertex can have a steady state."""
        return bool((self.start <= self.most).all())

    def wait(self, p: Counts) -> float:
        return math.fsum((self.a / (p - self.b)).tolist())

    def gains(self, p: Counts, of: Counts | slice = slice(None)) -> Reals:
        above = p - self.b[of]
        return self.a[of] / (above * (above + 1))

    def allotment(self, p: Counts, met: bool) -> Allotment:
        instances = dict(zip(self.names, p.tolist(), strict=True))
        return Allotment(instances, self.wait(p) if self.stable else math.inf, met)

    def climb(self, enough: Callable[[Counts], bool]) -> Counts:
        """Return the first allotment that is enough, or the last one that still gains."""
        if enough(self.start):
            return self.start
        low, high = self._narrowed(enough)
        steps = high - low
        of = np.repeat(np.arange(len(steps)), steps)
        p = np.arange(len(of)) - np.repeat(np.cumsum(steps) - steps, steps) + low[of]
        order = of[np.lexsort((p, of, -self.gains(p, of)))]

        def after(taken: int) -> Counts:
            return low + np.bincount(order[:taken], minlength=len(low))

        return after(_least(lambda taken: enough(after(taken)), len(order)))

    def _narrowed(self, enough: Callable[[Counts], bool]) -> tuple[Counts, Counts]:
        """Bracket the result by two thresholds on the gain: one too high, one low enough.

        Both are widened by one step, in case of rounding in the closed form.
        """
        low, high = self.start, np.where(self.a > 0, self.most, self.start)
        gains = np.concatenate([self.gains(low), self.gains(high)])
        gains = gains[gains > 0]
        if not len(gains):
            return low, high
        small, large = math.log(gains.min()), math.log(gains.max())
        while int((high - low).sum()) > 2 * len(low) + 100 and small < large:
            middle = (small + large) / 2
            if middle in (small, large):
                break
            p = self._at(math.exp(middle))
            if enough(p):
                high, small = p, middle
            else:
                low, large = p, middle
        high = np.where(self.a > 0, np.minimum(self.most, high + 1), self.start)
        return np.maximum(self.start, low - 1), high

    def _at(self, gain: float) -> Counts:
        """Return the allotment from which no step gains more than that."""
        with np.errstate(over="ignore"):  # infinity is clipped to the most
            p = np.ceil(self.b + (np.sqrt(1 + 4 * self.a / gain) - 1) / 2)
        return np.clip(p, self.start, self.most).astype(np.int64)


def _least(holds: Callable[[int], bool], most: int) -> int:
    """Return the least of 0..most for which a monotone condition holds; else `most`."""
    low, high = -1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
