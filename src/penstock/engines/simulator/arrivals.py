"""Arrival processes around a load, and the sources that use them.

Time is cut into seconds. The records of a second depend only on the random seed, the source and the
number of the second, so they can be generated when they are needed and again after they were
dropped: a backlog at a source takes no memory, however long it gets.
"""

from __future__ import annotations

import math
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from penstock.dataflow.load_profile import Load
from penstock.engines.simulator.queues import Floats
from penstock.engines.simulator.records import NOTHING, Records, concatenated
from penstock.errors import InvalidInput


@dataclass(frozen=True)
class LoadIntegral:
    """A load whose integral can be inverted quickly within a short time."""

    load: Load

    def between(self, start: float, end: float) -> tuple[float, float]:
        """Return the integral at two times."""
        low, high = self.load.cumulative(np.array([start, end])).tolist()
        return low, high

    def times(self, counts: Floats, start: float, end: float) -> Floats:
        """Return when the integral reaches each count; all of them lie between two times."""
        low, high = self.between(start, end)
        if self._steady(start, end):
            times = counts - low
            times *= (end - start) / (high - low)
            times += start
            return times
        return np.clip(self.load.arrival(counts - 1.0), start, end)

    def _steady(self, start: float, end: float) -> bool:
        """True if the rate is constant from start to end."""
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
    """An arrival process: how records are spread around the integral of their load."""

    def counts(
        self, rng: np.random.Generator, low: float, high: float, carry: float
    ) -> tuple[Floats, float]:
        """Return the integral's values at which records arrive, and a state.

        low, high: the integral at the start and end of the interval; carry: the state returned for
        the interval before, 0 for the first.
        """


@dataclass(frozen=True)
class Deterministic:
    """Record i arrives when the integral of the load reaches i + 1."""

    def counts(
        self, rng: np.random.Generator, low: float, high: float, carry: float
    ) -> tuple[Floats, float]:
        return np.arange(math.floor(low) + 1.0, math.floor(high) + 1.0), 0.0


@dataclass(frozen=True)
class Poisson:
    """Records arrive independently of each other."""

    def counts(
        self, rng: np.random.Generator, low: float, high: float, carry: float
    ) -> tuple[Floats, float]:
        return _uniform(rng, int(rng.poisson(high - low)), low, high), 0.0


@dataclass(frozen=True)
class Bursty:
    """Bursts arrive independently of each other, each of `size` records on average."""

    size: float = 10.0

    def __post_init__(self) -> None:
        if not (self.size >= 1 and math.isfinite(self.size)):
            raise InvalidInput(
                f"the size of a burst must be at least 1 record, found {self.size:g}"
            )

    def counts(
        self, rng: np.random.Generator, low: float, high: float, carry: float
    ) -> tuple[Floats, float]:
        bursts = int(rng.poisson((high - low) / self.size))
        sizes = rng.geometric(1 / self.size, bursts)
        return np.repeat(_uniform(rng, bursts, low, high), sizes), 0.0


@dataclass(frozen=True)
class Renewal:
    """Gaps are independent and gamma distributed with coefficient of variation `cv`."""

    cv: float

    def __post_init__(self) -> None:
        if not (self.cv > 0 and math.isfinite(self.cv)):
            raise InvalidInput(f"a coefficient of variation must be above 0, found {self.cv:g}")

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
                return Bursty(float(number)) if colon else Bursty()
            case "gamma", ":":
                return Renewal(float(number))
    except ValueError:
        pass
    raise InvalidInput(
        f"cannot read the arrivals '{text}': write poisson, deterministic, bursty:10 (records in "
        "a burst) or gamma:2.0 (coefficient of variation)"
    )


def _uniform(rng: np.random.Generator, count: int, low: float, high: float) -> Floats:
    """Sorted uniform draws, made as relative steps of a Poisson process."""
    steps = rng.standard_exponential(count + 1)
    np.cumsum(steps, out=steps)
    places = steps[:-1]
    if count:
        places *= (high - low) / steps[-1]
        places += low
    return places


_KEPT = 4_000_000
"""Records that a source keeps in memory; others are generated again when needed."""

_PART = 500_000
"""Records due before the start that are generated at once."""


@dataclass
class _Second:
    """Records that are due in one second: generated, perhaps dropped again."""

    number: int
    carry: float
    count: int
    times: Floats | None = field(repr=False, default=None)


class SimulatedSource:
    """Records that a source operator has to read: due, and taken or not.

    Has the methods of a `RecordQueue`, but generates its records.
    """

    def __init__(
        self,
        name: str,
        load: Load,
        arrivals: Arrivals,
        seed: int,
        births: tuple[str, ...] = (),
        limit: int | None = None,
    ) -> None:
        self._integral = LoadIntegral(load)
        self._arrivals = arrivals
        self._seed = (seed, zlib.crc32(name.encode()))
        self.births = births  # constraints whose latency counts from here
        self._limit = math.inf if limit is None else limit
        self._seconds: deque[_Second] = deque()
        self._generated = 0
        self._next = 0
        self._newest = (-1, NOTHING.time)  # the last second, which is counted often
        self._carry = 0.0
        self._skip = 0  # number of records of the first second that were taken
        self._kept = 0
        self._back: deque[Records] = deque()
        self.taken = 0
        self._due: int | None = None  # number of records due when it was closed
        self._owed = (0, 0.0)  # number of records due before the start, and their time span

    @property
    def arrived(self) -> int:
        return self._generated

    @property
    def closed(self) -> bool:
        """True once nothing more is taken from it, even if records are due."""
        return self._due is not None

    def close(self, now: float) -> None:
        self._due = self.offered(now)

    def mark(self) -> dict[str, float]:
        """Return its position as a few numbers."""
        head = self._seconds[0] if self._seconds else None
        return {
            "second": head.number if head else self._next,
            "carry": head.carry if head else self._carry,
            "skip": self._skip,
            "taken": self.taken,
        }

    def go_to(self, mark: Mapping[str, float]) -> None:
        """Continue from a position."""
        self._next, self._carry = int(mark["second"]), mark["carry"]
        self._skip, self.taken = int(mark["skip"]), int(mark["taken"])
        self._generated = self.taken - self._skip

    def owe(self, count: int, seconds: float) -> None:
        """Start with records due before the start, spread evenly over some seconds.

        They are generated in parts, which are numbered like the seconds before the first.
        """
        self._owed = (count, seconds)
        for number in range(-count // _PART, 0):
            size = len(self._owed_part(number))
            self._seconds.append(_Second(number, 0.0, size))
            self._generated += size

    def offered(self, until: float) -> int:
        """Number of records due by a time and before it was closed."""
        if self._due is not None:
            return self._due
        self._generate(until)
        later = 0
        for second in reversed(self._seconds):
            if second.number + 1 <= until:
                break
            times = second.times
            if times is None:  # only counted, so not worth keeping
                known = second.number == self._newest[0]
                made = self._newest[1] if known else self._second(second.number, second.carry)[0]
                times = made[: second.count]
            later += second.count - int(np.searchsorted(times, until, side="right"))
        return self._generated - later

    def waiting(self, until: float) -> int:
        """Number of records due by a time and not taken."""
        back = sum(map(len, self._back))
        return back + (0 if self.closed else self.offered(until) - self.taken)

    def __len__(self) -> int:
        """Number of records that were taken and given back; others are not in the flow."""
        return sum(map(len, self._back))

    def first(self) -> float:
        """When the oldest waiting record was due, among those already generated."""
        if self._back:
            return float(self._back[0].time[0])
        if self.closed or not self._seconds:
            return np.inf
        return float(self._times(self._seconds[0])[self._skip])

    def given_back(self) -> Records:
        """Records that were taken and given back."""
        return concatenated(list(self._back))

    def put_back(self, records: Records) -> None:
        """Give back records that were taken; they are the next to be taken."""
        if len(records):
            self._back.appendleft(records.by_time())

    def take(self, until: float, most: int | None = None) -> Records:
        """Take records due by a time, at most `most`, the oldest first."""
        room = math.inf if most is None else most
        taken: list[Records] = []
        while self._back and room > 0:
            part = self._back.popleft()
            if len(part) > room:
                self._back.appendleft(part[int(room) :])
                part = part[: int(room)]
            taken.append(part)
            room -= len(part)
        if not self.closed:
            taken += self._fresh(until, room)
        return concatenated(taken)

    def _fresh(self, until: float, room: float) -> Iterator[Records]:
        """Yield records that were not taken before."""
        self._generate(until)
        while self._seconds and room > 0:
            second = self._seconds[0]
            times = self._times(second)
            end = (
                len(times)
                if second.number + 1 <= until
                else int(np.searchsorted(times, until, "right"))
            )
            end = int(min(end, self._skip + room))
            part = times[self._skip : end]
            room -= len(part)
            self.taken += len(part)
            if len(part):
                yield Records(part, dict.fromkeys(self.births, part))
            self._skip = end
            if end < second.count:
                return
            self._seconds.popleft()
            self._kept -= second.count if second.times is not None else 0
            self._skip = 0

    def _generate(self, until: float) -> None:
        """Generate the seconds up to a time."""
        while self._next < until:
            times, carry = self._second(self._next, self._carry)
            times = times[: int(min(len(times), self._limit - self._generated))]
            if len(times):
                keep = self._kept < _KEPT
                self._kept += len(times) * keep
                second = _Second(self._next, self._carry, len(times), times if keep else None)
                self._seconds.append(second)
                self._generated += len(times)
                self._newest = (self._next, times)
            self._next, self._carry = self._next + 1, carry

    def _times(self, second: _Second) -> Floats:
        """Arrival times of a second, generated again if they were dropped."""
        if second.times is None:
            second.times = self._second(second.number, second.carry)[0][: second.count]
            self._kept += second.count
        return second.times

    def _owed_part(self, number: int) -> Floats:
        """A part of the records that were due before the start."""
        count, seconds = self._owed
        parts = -(-count // _PART)
        first = (parts + number) * _PART
        places = np.arange(first, min(first + _PART, count), dtype=np.float64)
        return seconds * (places / count - 1.0)

    def _second(self, number: int, carry: float) -> tuple[Floats, float]:
        """Generate the arrival times of a second; returns the process's state, too."""
        if number < 0:
            return self._owed_part(number), carry
        low, high = self._integral.between(number, number + 1.0)
        if high <= low:
            return NOTHING.time, carry
        rng = np.random.Generator(np.random.SFC64([*self._seed, number]))
        counts, carry = self._arrivals.counts(rng, low, high, carry)
        return self._integral.times(counts, number, number + 1.0), carry
