"""Records as columns, and the queues in which they wait between pipelines."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator import queues
from penstock.engines.simulator.queues import Floats, Numbers

_SOME = 64
"""Records that are compared first to find out whether all are sorted."""


@dataclass(frozen=True)
class Records:
    """Records sorted by `time`, the time of their arrival where they wait.

    births: for each constraint, when each record arrived at its first operator, NaN for a record
    that did not pass it; keys: for each keyed operator, the key of each record that an instance had
    taken before, -1 for one whose key is not drawn yet.
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
        """Return some of the records, or all of them in another order."""
        births = {name: b.take(which, mode="wrap") for name, b in self.births.items()}
        keys = {name: k.take(which, mode="wrap") for name, k in self.keys.items()}
        return Records(self.time.take(which, mode="wrap"), births, keys)  # skips bounds checks

    def repeated(self, often: npt.NDArray[np.int64]) -> Records:
        """Return each record as often as given."""
        births = {name: np.repeat(b, often) for name, b in self.births.items()}
        keys = {name: np.repeat(k, often) for name, k in self.keys.items()}
        return Records(np.repeat(self.time, often), births, keys)

    def by_time(self) -> Records:
        """Return the records sorted by time."""
        if _is_sorted(self.time):
            return self
        return self.take(queues.order(self.time))


NOTHING = Records(np.zeros(0))


def concatenated(parts: Sequence[Records]) -> Records:
    """Concatenate records; a constraint or key missing in a part is NaN or -1 there."""
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


class RecordQueue:
    """Records that left one pipeline and were not taken by the next, oldest first."""

    def __init__(self) -> None:
        self._parts: deque[Records] = deque()
        self._count = 0
        self.arrived = 0
        self.gathered = 0.0  # total seconds that records were held before they were shipped

    def __len__(self) -> int:
        return self._count

    def first(self) -> float:
        """Arrival time of the oldest record, infinity if there is none."""
        return float(self._parts[0].time[0]) if self._parts else np.inf

    def put(self, records: Records) -> None:
        """Add records; they are sorted in among those that are still on their way."""
        if not len(records):
            return
        self._count += len(records)
        self.arrived += len(records)
        while self._parts and self._parts[-1].time[-1] > records.time[0]:
            last = self._parts.pop()
            later = int(np.searchsorted(last.time, records.time[0], "right"))
            if later:
                self._parts.append(last[:later])
            records = concatenated((last[later:], records)).by_time()
        self._parts.append(records)

    def put_back(self, records: Records) -> None:
        """Give back records that were taken; they go before all others."""
        if len(records):
            self._parts.appendleft(records.by_time())
            self._count += len(records)

    def waiting(self, until: float) -> int:
        """Number of records that arrived by a time."""
        return sum(
            len(part) if part.time[-1] <= until else int(np.searchsorted(part.time, until, "right"))
            for part in self._parts
        )

    def take(self, until: float, most: int | None = None) -> Records:
        """Take records that arrived by a time, at most `most`, the oldest first."""
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
        return concatenated(taken)

    def all(self) -> Records:
        """Return all waiting records without taking them."""
        return concatenated(list(self._parts))


def _is_sorted(times: Floats) -> bool:
    some = times[:_SOME]  # if all are not sorted, a few usually show it
    return bool((some[1:] >= some[:-1]).all() and (times[1:] >= times[:-1]).all())
