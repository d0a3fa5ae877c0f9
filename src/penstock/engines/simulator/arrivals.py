"""How records are spread around a load."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from penstock.dataflow.load_profile import Load
from penstock.engines.simulator.arrays import Floats
from penstock.errors import InvalidInput


@dataclass(frozen=True)
class Rate:
    """A load with a quick answer to when its integral reaches a number within a short time."""

    load: Load

    def between(self, start: float, end: float) -> tuple[float, float]:
        low, high = self.load.cumulative(np.array([start, end])).tolist()
        return low, high

    def times(self, counts: Floats, start: float, end: float) -> Floats:
        """When the integral reaches each count, all of them between two times."""
        low, high = self.between(start, end)
        if self._steady(start, end):
            times = counts - low
            times *= (end - start) / (high - low)
            times += start
            return times
        return np.clip(self.load.arrival(counts - 1.0), start, end)

    def _steady(self, start: float, end: float) -> bool:
        """Whether the rate is one number from start to end."""
        load = self.load
        if load.repeats:
            whole = math.floor(start / load.period)
            start, end = start - whole * load.period, end - whole * load.period
        elif start >= load.period:
            return True
        piece = int(np.searchsorted(self._ends, start, side="right"))
        if piece == len(load.segments) or end > self._ends[piece]:
            return False
        return load.segments[piece].first == load.segments[piece].last

    @cached_property
    def _ends(self) -> Floats:
        return np.cumsum([p.seconds for p in self.load.segments])


class Arrivals(Protocol):
    """How records are spread around the integral of their load."""

    def counts(
        self, rng: np.random.Generator, low: float, high: float, carry: float
    ) -> tuple[Floats, float]:
        """Where between two values of the integral records come, and what to carry on from."""


@dataclass(frozen=True)
class Deterministic:
    """Exactly as the load says: record i when its integral reaches i + 1."""

    def counts(
        self, rng: np.random.Generator, low: float, high: float, carry: float
    ) -> tuple[Floats, float]:
        return np.arange(math.floor(low) + 1.0, math.floor(high) + 1.0), 0.0


@dataclass(frozen=True)
class Poisson:
    """Independent of each other."""

    def counts(
        self, rng: np.random.Generator, low: float, high: float, carry: float
    ) -> tuple[Floats, float]:
        return _uniform(rng, int(rng.poisson(high - low)), low, high), 0.0


@dataclass(frozen=True)
class Bursts:
    """Bursts come independently of each other, each of `size` records at once on average."""

    size: float = 10.0

    def __post_init__(self) -> None:
        if not (self.size >= 1 and math.isfinite(self.size)):
            raise InvalidInput(f"a burst of {self.size:g} records is no burst: 1 or more")

    def counts(
        self, rng: np.random.Generator, low: float, high: float, carry: float
    ) -> tuple[Floats, float]:
        bursts = int(rng.poisson((high - low) / self.size))
        sizes = rng.geometric(1 / self.size, bursts)
        return np.repeat(_uniform(rng, bursts, low, high), sizes), 0.0


@dataclass(frozen=True)
class Renewal:
    """Gaps between records are independent, of a gamma distribution with variation `cv`."""

    cv: float

    def __post_init__(self) -> None:
        if not (self.cv > 0 and math.isfinite(self.cv)):
            raise InvalidInput(f"a coefficient of variation of {self.cv:g} is not above 0")

    def counts(
        self, rng: np.random.Generator, low: float, high: float, carry: float
    ) -> tuple[Floats, float]:
        shape = 1 / self.cv**2
        at = max(carry, low) or self.cv**2 * float(rng.standard_gamma(shape))
        found: list[Floats] = []
        while at < high:
            more = int((high - at) * 1.1) + 64
            gaps = rng.standard_gamma(shape, more) * self.cv**2
            steps = at + np.concatenate(([0.0], np.cumsum(gaps)))
            found.append(steps[: np.searchsorted(steps, high)][:more])
            at = float(steps[min(len(found[-1]), more)])
        return (np.concatenate(found) if found else np.zeros(0)), at


def parse(text: str) -> Arrivals:
    """Read `poisson`, `deterministic`, `bursty` or `bursty:20`, `gamma:2.0`."""
    kind, colon, number = text.strip().partition(":")
    try:
        match kind, colon:
            case "poisson", "":
                return Poisson()
            case "deterministic", "":
                return Deterministic()
            case "bursty", _:
                return Bursts(float(number)) if colon else Bursts()
            case "gamma", ":":
                return Renewal(float(number))
    except ValueError:
        pass
    raise InvalidInput(
        f"cannot read the arrivals '{text}': write poisson, deterministic, bursty:10 (records of "
        "a burst) or gamma:2.0 (coefficient of variation)"
    )


def _uniform(rng: np.random.Generator, count: int, low: float, high: float) -> Floats:
    """Sorted draws, made as the relative steps of a Poisson process so that nothing is sorted."""
    steps = rng.standard_exponential(count + 1)
    np.cumsum(steps, out=steps)
    places = steps[:-1]
    if count:
        places *= (high - low) / steps[-1]
        places += low
    return places
