"""Choosing among many with given weights, in constant time a choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator.arrays import Floats
from penstock.engines.simulator.groups import Groups

_CELLS = 1 << 16
"""Numbers that a dealer draws."""


class Chooser:
    """Walker's alias method: a place drawn evenly is taken, or given up for its alias.

    Every place holds its own weight up to the average, and what it lacks is filled up by one
    heavier place, its alias.
    """

    def __init__(self, weights: Floats) -> None:
        size = len(weights)
        rest = (weights * (size / weights.sum())).tolist()
        alias = list(range(size))
        light = [i for i, w in enumerate(rest) if w < 1]
        heavy = [i for i, w in enumerate(rest) if w >= 1]
        while light and heavy:
            small, large = light.pop(), heavy[-1]
            alias[small] = large
            rest[large] -= 1 - rest[small]
            if rest[large] < 1:
                light.append(heavy.pop())
        for left_over in (*light, *heavy):  # short of the average by rounding only
            rest[left_over] = 1.0
        self._own = np.array(rest)
        self._pairs = np.stack((np.arange(size), np.array(alias, np.intp)), axis=1).ravel()

    def draw(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.intp]:
        """Places, each as often as its weight says."""
        drawn = rng.random(count)
        drawn *= len(self._own)
        place = drawn.astype(np.intp)
        drawn -= place
        given_up = drawn >= self._own.take(place)
        place <<= 1
        place |= given_up  # no branch that is as likely as not
        return self._pairs.take(place)


class Dealer:
    """Chooses for many at once, and puts those together that get the same place.

    Numbers are dealt out to the places, to each as many as its weight is worth in full. A record
    draws a number; the few that draw one that is left over are chosen for by what the weights are
    worth beyond whole numbers. So each place is as likely as its weight says, not nearly so. What
    a record gets does not depend on how many are dealt at once: numbers are drawn four at a time,
    and what is left of them is for the next; those few are chosen for from a stream of their own.
    """

    def __init__(self, weights: Floats, rng: np.random.Generator) -> None:
        self._size = len(weights)
        worth = weights * (_CELLS / weights.sum())
        whole = np.floor(worth).astype(np.intp)
        narrow = np.uint16 if self._size <= _CELLS else np.uint32
        self._place: npt.NDArray[np.integer[Any]] = np.zeros(_CELLS, narrow)
        self._dealt = int(whole.sum())
        self._place[: self._dealt] = np.repeat(np.arange(self._size), whole)
        rest = worth - whole
        self._chooser = Chooser(rest if rest.any() else weights)
        self._rng, self._aside = rng, rng.spawn(1)[0]
        self._spare = np.zeros(0, np.uint16)

    def deal(
        self,
        count: int,
        head: int | None = None,
        settled: npt.NDArray[np.integer[Any]] | None = None,
    ) -> Groups:
        """Groups of so many records; head: the place of the first, where that is settled;
        settled: the places of all, -1 for those that are not."""
        drawn = self._drawn(count)
        place = self._place.take(drawn, mode="wrap")
        if self._dealt < _CELLS:
            over = np.flatnonzero(drawn >= self._dealt)
            place[over] = self._chooser.draw(self._aside, len(over))
        if head is not None:
            place[:1] = head
        if settled is not None:
            known = np.flatnonzero(settled >= 0)
            place[known] = settled[known]
        return Groups.of(place, self._size)

    def _drawn(self, count: int) -> npt.NDArray[np.uint16]:
        spare = self._spare
        more = -(-max(0, count - len(spare)) // 4)
        drawn = self._rng.bit_generator.random_raw(more).view(np.uint16)
        if len(spare):
            drawn = np.concatenate((spare, drawn))
        self._spare = drawn[count:].copy()
        return drawn[:count]
