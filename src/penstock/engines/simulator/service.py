"""How long a record takes: distributions with a mean, drawn from a generator that is passed in."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from penstock.dataflow import duration
from penstock.engines.simulator.arrays import Floats
from penstock.errors import InvalidInput


class Service(Protocol):
    """A distribution of times. Draws follow the stream of the generator, record by record."""

    @property
    def mean(self) -> float: ...

    def draw(self, rng: np.random.Generator, count: int) -> Floats: ...


@dataclass(frozen=True)
class Constant:
    """Always the same."""

    mean: float = 0.0

    def __post_init__(self) -> None:
        _check(self.mean)

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        return np.full(count, self.mean, np.float64)


@dataclass(frozen=True)
class Exponential:
    """Without memory; the coefficient of variation is 1."""

    mean: float

    def __post_init__(self) -> None:
        _check(self.mean)

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        drawn = rng.standard_exponential(count)
        drawn *= self.mean
        return drawn


@dataclass(frozen=True)
class Gamma:
    """Any coefficient of variation, with a light tail."""

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
    """Any coefficient of variation, with a heavy tail: what measured times often look like."""

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
    """Times that were measured, each as likely as any other."""

    times: tuple[float, ...]

    def __init__(self, times: Iterable[float]) -> None:
        object.__setattr__(self, "times", tuple(map(float, times)))
        if not self.times:
            raise InvalidInput("measured times are needed to draw from, found none")
        for time in self.times:
            _check(time)

    @property
    def mean(self) -> float:
        return math.fsum(self.times) / len(self.times)

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        return np.array(self.times)[rng.integers(0, len(self.times), count)]


def of(mean: float, cv: float | None = 0.0) -> Service:
    """The plainest distribution of that mean and coefficient of variation."""
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
        raise InvalidInput(f"a record cannot take {mean:g} seconds")
    if not (cv > 0 and math.isfinite(cv)):
        raise InvalidInput(f"a coefficient of variation of {cv:g} is not above 0")
