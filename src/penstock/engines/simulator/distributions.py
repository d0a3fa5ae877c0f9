"""Distributions of service times, and random choice of an instance by weight."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.dataflow import duration
from penstock.engines.simulator.queues import Floats, Groups, Indices, Numbers
from penstock.errors import InvalidInput


class Service(Protocol):
    """A distribution of service times, drawn record by record from a generator."""

    @property
    def mean(self) -> float: ...

    def draw(self, rng: np.random.Generator, count: int) -> Floats: ...


@dataclass(frozen=True)
class Constant:
    """Always the same time."""

    mean: float = 0.0

    def __post_init__(self) -> None:
        _check(self.mean)

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        return np.full(count, self.mean, np.float64)


@dataclass(frozen=True)
class Exponential:
    """Exponential distribution: coefficient of variation 1."""

    mean: float

    def __post_init__(self) -> None:
        _check(self.mean)

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        drawn = rng.standard_exponential(count)
        drawn *= self.mean
        return drawn


@dataclass(frozen=True)
class Gamma:
    """Gamma distribution: any coefficient of variation, light tail."""

    mean: float
    cv: float

    def __post_init__(self) -> None:
        _check(self.mean, self.cv)

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        drawn = rng.standard_gamma(1 / self.cv**2, count)
        drawn *= self.mean * self.cv**2
        return drawn


@dataclass(frozen=True)
class Lognormal:
    """Lognormal distribution: any coefficient of variation, heavy tail."""

    mean: float
    cv: float

    def __post_init__(self) -> None:
        _check(self.mean, self.cv)

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        variance = math.log1p(self.cv**2)
        drawn = rng.standard_normal(count)
        drawn *= math.sqrt(variance)
        drawn -= variance / 2
        np.exp(drawn, out=drawn)
        drawn *= self.mean
        return drawn


@dataclass(frozen=True)
class Empirical:
    """Measured times, each as likely as any other."""

    times: tuple[float, ...]

    def __init__(self, times: Iterable[float]) -> None:
        object.__setattr__(self, "times", tuple(map(float, times)))
        if not self.times:
            raise InvalidInput("an empirical distribution needs at least one measured time")
        for time in self.times:
            _check(time)

    @property
    def mean(self) -> float:
        return math.fsum(self.times) / len(self.times)

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        return np.array(self.times)[rng.integers(0, len(self.times), count)]


def of(mean: float, cv: float | None = 0.0) -> Service:
    """Return the simplest distribution with a mean and coefficient of variation."""
    if not cv or not mean:
        return Constant(mean)
    return Exponential(mean) if cv == 1 else Gamma(mean, cv)


def parse(text: str) -> Service:
    """Read `2ms`, `2ms~0.5` (coefficient of variation), `2ms~exp` or `2ms~lognormal:0.5`."""
    mean, tilde, shape = text.strip().partition("~")
    seconds = duration.seconds(mean)
    if not tilde:
        return Constant(seconds)
    if shape == "exp":
        return Exponential(seconds)
    kind, _, cv = shape.rpartition(":")
    if kind not in ("", "gamma", "lognormal") or not re.fullmatch(r"\d+(\.\d*)?", cv):
        raise InvalidInput(
            f"cannot read the time '{text}': write 2ms, 2ms~0.5 with a coefficient of variation, "
            "2ms~exp or 2ms~lognormal:0.5"
        )
    return Lognormal(seconds, float(cv)) if kind == "lognormal" else of(seconds, float(cv))


def _check(mean: float, cv: float = 1.0) -> None:
    if not (mean >= 0 and math.isfinite(mean)):
        raise InvalidInput(
            f"the time of a record must be finite and not negative, found {mean:g} s"
        )
    if not (cv > 0 and math.isfinite(cv)):
        raise InvalidInput(f"a coefficient of variation must be above 0, found {cv:g}")


_CELLS = 1 << 16
"""Size of a dealer's table."""


class Chooser:
    """Weighted random choice by Walker's alias method.

    A place is drawn uniformly, then kept or replaced by its alias. Every place keeps its own weight
    up to the average; what it lacks is filled up by one heavier place, its alias.
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
        for left_over in (*light, *heavy):  # below the average only by rounding
            rest[left_over] = 1.0
        self._own = np.array(rest)
        self._pairs = np.stack((np.arange(size), np.array(alias, np.intp)), axis=1).ravel()

    def draw(self, rng: np.random.Generator, count: int) -> Indices:
        """Draw places with probabilities proportional to their weights."""
        drawn = rng.random(count)
        drawn *= len(self._own)
        place = drawn.astype(np.intp)
        drawn -= place
        given_up = drawn >= self._own.take(place)
        place <<= 1
        place |= given_up  # branch-free: the branch would be unpredictable
        return self._pairs.take(place)


class Dealer:
    """Chooses instances for many records at once and groups the records by instance.

    A table of numbers is divided among the instances, to each the whole part of its share. A record
    draws a number; the few that draw one that is left over choose by the fractional parts. So each
    instance is exactly as likely as its weight says. The choice for a record does not depend on how
    many records are dealt at once: numbers are drawn four at a time and left-over draws are kept
    for the next call, and the choice by fractional parts uses a random stream of its own.
    """

    def __init__(self, weights: Floats, rng: np.random.Generator) -> None:
        self._size = len(weights)
        worth = weights * (_CELLS / weights.sum())
        whole = np.floor(worth).astype(np.intp)
        narrow = np.uint16 if self._size <= _CELLS else np.uint32
        self._place: Numbers = np.zeros(_CELLS, narrow)
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
        settled: Numbers | None = None,
    ) -> Groups:
        """Deal out records and return them grouped by instance.

        head: instance of the first record, if it is fixed; settled: instance of each record, -1
        where it is not fixed.
        """
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
