"""Where records come from: a load, and how the records of a load are spread around it.

Time is cut into seconds. The records of a second follow from the seed, the source and the number
of the second alone, so they can be made when they are needed and made again when they were
forgotten: a backlog at a source takes no memory, however long it gets.
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
import numpy.typing as npt

from penstock.engines.simulator.records import NOTHING, Records, joined
from penstock.errors import InvalidInput
from penstock.models.load import Load

Floats = npt.NDArray[np.float64]

_KEPT = 4_000_000
"""Records that a source keeps in memory; more are made again when it is their turn."""


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
            return start + (counts - low) * ((end - start) / (high - low))
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
        if piece == len(load.pieces) or end > self._ends[piece]:
            return False
        return load.pieces[piece].first == load.pieces[piece].last

    @cached_property
    def _ends(self) -> Floats:
        return np.cumsum([p.seconds for p in self.load.pieces])


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


@dataclass
class _Second:
    number: int
    carry: float
    count: int
    times: Floats | None = field(repr=False, default=None)


class Source:
    """The inlet of a source operator: records that are due, taken or not.

    Works like a `Queue` whose records come from nowhere.
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
        self._rate = Rate(load)
        self._arrivals = arrivals
        self._seed = (seed, zlib.crc32(name.encode()))
        self.births = births  # the constraints that count from here
        self._limit = math.inf if limit is None else limit
        self._seconds: deque[_Second] = deque()
        self._made = 0
        self._next = 0
        self._carry = 0.0
        self._skip = 0  # records of the first second that were taken
        self._kept = 0
        self._back: deque[Records] = deque()
        self.taken = 0
        self.closed = False

    @property
    def came(self) -> int:
        return self._made

    def mark(self) -> dict[str, float]:
        """Where it stands, in a few numbers."""
        head = self._seconds[0] if self._seconds else None
        return {
            "second": head.number if head else self._next,
            "carry": head.carry if head else self._carry,
            "skip": self._skip,
            "taken": self.taken,
        }

    def go_to(self, mark: Mapping[str, float]) -> None:
        """Go on from a mark."""
        self._next, self._carry = int(mark["second"]), mark["carry"]
        self._skip, self.taken = int(mark["skip"]), int(mark["taken"])
        self._made = self.taken - self._skip

    def offered(self, until: float) -> int:
        """Records due by a time."""
        self._make(until)
        later = 0
        for second in reversed(self._seconds):
            if second.number + 1 <= until:
                break
            times = second.times
            if times is None:  # only to be counted: not worth keeping
                times = self._second(second.number, second.carry)[0][: second.count]
            later += second.count - int(np.searchsorted(times, until, side="right"))
        return self._made - later

    def waiting(self, until: float) -> int:
        """Records due by a time and not taken."""
        back = sum(map(len, self._back))
        return back + (0 if self.closed else self.offered(until) - self.taken)

    def __len__(self) -> int:
        """Records that were taken and given back; what was never taken is not in the flow."""
        return sum(map(len, self._back))

    def first(self) -> float:
        """When the oldest waiting record was due, as far as they are made."""
        if self._back:
            return float(self._back[0].time[0])
        if self.closed or not self._seconds:
            return np.inf
        return float(self._times(self._seconds[0])[self._skip])

    def given_back(self) -> Records:
        """Records that were taken and given back."""
        return joined(list(self._back))

    def put_back(self, records: Records) -> None:
        if len(records):
            self._back.appendleft(records.by_time())

    def take(self, until: float, most: int | None = None) -> Records:
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
        return joined(taken)

    def _fresh(self, until: float, room: float) -> Iterator[Records]:
        self._make(until)
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

    def _make(self, until: float) -> None:
        while self._next < until:
            times, carry = self._second(self._next, self._carry)
            times = times[: int(min(len(times), self._limit - self._made))]
            if len(times):
                keep = self._kept < _KEPT
                self._kept += len(times) * keep
                second = _Second(self._next, self._carry, len(times), times if keep else None)
                self._seconds.append(second)
                self._made += len(times)
            self._next, self._carry = self._next + 1, carry

    def _times(self, second: _Second) -> Floats:
        if second.times is None:
            second.times = self._second(second.number, second.carry)[0][: second.count]
            self._kept += second.count
        return second.times

    def _second(self, number: int, carry: float) -> tuple[Floats, float]:
        low, high = self._rate.between(number, number + 1.0)
        if high <= low:
            return NOTHING.time, carry
        rng = np.random.Generator(np.random.SFC64([*self._seed, number]))
        counts, carry = self._arrivals.counts(rng, low, high, carry)
        return self._rate.times(counts, number, number + 1.0), carry
