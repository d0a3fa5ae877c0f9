"""Output that is gathered before it is shipped, where operators run all the time as in Nephele."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.engines.simulator.arrays import Floats

_GOLDEN = 0.6180339887498949
"""Multiples of it, without what is before the point, are spread evenly however many there are."""


def phases(number: int) -> Floats:
    """When each of so many begins to gather, as a share of the cadence: not all together."""
    return np.arange(number, dtype=np.float64) * _GOLDEN % 1.0


def shipped(time: Floats, phase: Floats, cadence: float) -> Floats:
    """When the gathering ends that records of a time fall into, by when it began."""
    return np.ceil((time - phase) / cadence) * cadence + phase


@dataclass(frozen=True)
class Channels:
    """The channels to each instance of a reader, one from each instance that writes to it.

    Each ships on its own what it has gathered for a cadence, so an instance gets at once what one
    of those before it had for it, and not what all of them had. That those ship to one instance
    when they ship to another is no matter to either.
    """

    writers: int
    cadence: float
    rng: np.random.Generator

    @cached_property
    def _phases(self) -> Floats:
        return phases(self.writers) * self.cadence

    def shipped(self, time: Floats) -> Floats:
        """When records are shipped that some instance or other has written at a time."""
        return shipped(time, self._phases[self.rng.integers(self.writers, size=len(time))],
                       self.cadence)  # fmt: skip
