"""Where records come from: the inlet of a source operator.

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

import numpy as np

from penstock.dataflow.load_profile import Load
from penstock.engines.simulator.arrays import Floats
from penstock.engines.simulator.arrivals import Arrivals, Rate
from penstock.engines.simulator.records import NOTHING, Records, joined

_KEPT = 4_000_000
"""Records that a source keeps in memory; more are made again when it is their turn."""

_PART = 500_000
"""Records that were due before the start, of those that are made at once."""


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
        self._newest = (-1, NOTHING.time)  # a second and its records, which are counted often
        self._carry = 0.0
        self._skip = 0  # records of the first second that were taken
        self._kept = 0
        self._back: deque[Records] = deque()
        self.taken = 0
        self._due: int | None = None  # records that were due when it was closed
        self._owed = (0, 0.0)  # records that were due before the start, and over which seconds

    @property
    def came(self) -> int:
        return self._made

    @property
    def closed(self) -> bool:
        """Whether nothing more is taken from it, though something may be due."""
        return self._due is not None

    def close(self, now: float) -> None:
        self._due = self.offered(now)

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

    def owe(self, count: int, seconds: float) -> None:
        """Begin with records that were due before the start, evenly over some seconds.

        They are in parts, which are numbered as if they were the seconds before the first.
        """
        self._owed = (count, seconds)
        for number in range(-count // _PART, 0):
            size = len(self._late(number))
            self._seconds.append(_Second(number, 0.0, size))
            self._made += size

    def offered(self, until: float) -> int:
        """Records due by a time, and before it was closed."""
        if self._due is not None:
            return self._due
        self._make(until)
        later = 0
        for second in reversed(self._seconds):
            if second.number + 1 <= until:
                break
            times = second.times
            if times is None:  # only to be counted: but for the newest not worth keeping
                known = second.number == self._newest[0]
                made = self._newest[1] if known else self._second(second.number, second.carry)[0]
                times = made[: second.count]
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
                self._newest = (self._next, times)
            self._next, self._carry = self._next + 1, carry

    def _times(self, second: _Second) -> Floats:
        if second.times is None:
            second.times = self._second(second.number, second.carry)[0][: second.count]
            self._kept += second.count
        return second.times

    def _late(self, number: int) -> Floats:
        """A part of the records that were due before the start."""
        count, seconds = self._owed
        parts = -(-count // _PART)
        first = (parts + number) * _PART
        places = np.arange(first, min(first + _PART, count), dtype=np.float64)
        return seconds * (places / count - 1.0)

    def _second(self, number: int, carry: float) -> tuple[Floats, float]:
        if number < 0:
            return self._late(number), carry
        low, high = self._rate.between(number, number + 1.0)
        if high <= low:
            return NOTHING.time, carry
        rng = np.random.Generator(np.random.SFC64([*self._seed, number]))
        counts, carry = self._arrivals.counts(rng, low, high, carry)
        return self._rate.times(counts, number, number + 1.0), carry
