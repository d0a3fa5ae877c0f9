"""Records as columns, and the queues in which they wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator import queues
from penstock.engines.simulator.arrays import Floats, Numbers

_SOME = 64


@dataclass(frozen=True)
class Records:
    """Records sorted by `time`, when they come to where they wait.

    births: by constraint, when each record came to the constraint's first operator; not a number
    for a record that did not pass it. keys: by keyed operator, the key of each record that has been
    with an instance of it, -1 for one that has not: which key that has is open.
    """

    time: Floats
    births: Mapping[str, Floats] = field(default_factory=dict)
    keys: Mapping[str, Numbers] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, which: slice | Numbers) -> Records:
        if not isinstance(which, slice):
            return self.take(which)
        births = {name: b[which] for name, b in self.births.items()}
        return Records(self.time[which], births, {name: k[which] for name, k in self.keys.items()})

    def take(self, which: Numbers) -> Records:
        """Some of them, or all in another order."""
        births = {name: b.take(which, mode="wrap") for name, b in self.births.items()}
        keys = {name: k.take(which, mode="wrap") for name, k in self.keys.items()}
        return Records(self.time.take(which, mode="wrap"), births, keys)  # which is not looked over

    def repeated(self, often: npt.NDArray[np.int64]) -> Records:
        """Each as often as is said for it."""
        births = {name: np.repeat(b, often) for name, b in self.births.items()}
        keys = {name: np.repeat(k, often) for name, k in self.keys.items()}
        return Records(np.repeat(self.time, often), births, keys)

    def by_time(self) -> Records:
        """The same records in order."""
        if _ordered(self.time):
            return self
        return self.take(queues.order(self.time))


NOTHING = Records(np.zeros(0))


def joined(parts: Sequence[Records]) -> Records:
    """Records of several parts, one part after the other."""
    parts = [p for p in parts if len(p)]
    if len(parts) < 2:
        return parts[0] if parts else NOTHING
    names = dict.fromkeys(name for p in parts for name in p.births)
    births = {
        name: np.concatenate([p.births.get(name, np.full(len(p), np.nan)) for p in parts])
        for name in names
    }
    keyed = dict.fromkeys(name for p in parts for name in p.keys)
    keys = {
        name: np.concatenate([p.keys.get(name, np.full(len(p), -1)) for p in parts])
        for name in keyed
    }
    return Records(np.concatenate([p.time for p in parts]), births, keys)


class Queue:
    """Records that have left one pipeline and not been taken by the next, oldest first."""

    def __init__(self) -> None:
        self._parts: deque[Records] = deque()
        self._count = 0
        self.came = 0
        self.gathered = 0.0  # seconds that records were kept before they were shipped to it

    def __len__(self) -> int:
        return self._count

    def first(self) -> float:
        """When the oldest record came; infinity if there is none."""
        return float(self._parts[0].time[0]) if self._parts else np.inf

    def put(self, records: Records) -> None:
        """Add records, among those that are still on their way."""
        if not len(records):
            return
        self._count += len(records)
        self.came += len(records)
        while self._parts and self._parts[-1].time[-1] > records.time[0]:
            last = self._parts.pop()
            later = int(np.searchsorted(last.time, records.time[0], "right"))
            if later:
                self._parts.append(last[:later])
            records = joined((last[later:], records)).by_time()
        self._parts.append(records)

    def put_back(self, records: Records) -> None:
        """Add records that were taken before; they come before all that are there."""
        if len(records):
            self._parts.appendleft(records.by_time())
            self._count += len(records)

    def waiting(self, until: float) -> int:
        """How many have come by a time."""
        return sum(
            len(part) if part.time[-1] <= until else int(np.searchsorted(part.time, until, "right"))
            for part in self._parts
        )

    def take(self, until: float, most: int | None = None) -> Records:
        """Take those that came by a time, the oldest first."""
        taken: list[Records] = []
        room = self._count if most is None else most
        while self._parts and room > 0:
            part = self._parts[0]
            ready = len(part)
            if part.time[-1] > until:
                ready = int(np.searchsorted(part.time, until, "right"))
            ready = min(ready, room)
            if not ready:
                break
            taken.append(part[:ready])
            room -= ready
            self._count -= ready
            if ready == len(part):
                self._parts.popleft()
            else:
                self._parts[0] = part[ready:]
        return joined(taken)

    def all(self) -> Records:
        """Everything that waits, without taking it."""
        return joined(list(self._parts))


def _ordered(times: Floats) -> bool:
    some = times[:_SOME]  # where they are not, a few tell as a rule
    return bool((some[1:] >= some[:-1]).all() and (times[1:] >= times[:-1]).all())
