"""Choosing among many with given weights, in constant time a choice."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


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
