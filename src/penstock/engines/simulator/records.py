"""Records as columns, and the queues in which they wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator import kernel

Floats = npt.NDArray[np.float64]

_SOME = 64


@dataclass(frozen=True)
class Records:
    """Records sorted by `time`, when they come to where they wait.

    births: by constraint, when each record came to the constraint's first operator; not a number
    for a record that did not pass it.
    """

    time: Floats
    births: Mapping[str, Floats] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, which: slice | npt.NDArray[np.generic]) -> Records:
        time = self.time[which]
        return Records(
            time, {n: time if b is self.time else b[which] for n, b in self.births.items()}
        )

    def birth(self, name: str) -> Floats:
        """When each came to a constraint's first operator."""
        known = self.births.get(name)
        return np.full(len(self), np.nan) if known is None else known

    def take(self, order: npt.NDArray[np.intp]) -> Records:
        """All of them in another order."""
        time = self.time.take(order)
        births = {n: time if b is self.time else b.take(order) for n, b in self.births.items()}
        return Records(time, births)

    def repeated(self, often: npt.NDArray[np.int64]) -> Records:
        """Each as often as is said for it."""
        births = {name: np.repeat(b, often) for name, b in self.births.items()}
        return Records(np.repeat(self.time, often), births)

    def by_time(self) -> Records:
        """The same records in order."""
        return in_time([self])


NOTHING = Records(np.zeros(0))


def joined(parts: Sequence[Records]) -> Records:
    """Records of several parts, one part after the other."""
    parts = [p for p in parts if len(p)]
    if len(parts) < 2:
        return parts[0] if parts else NOTHING
    names = dict.fromkeys(name for p in parts for name in p.births)
    births = {name: np.concatenate([p.birth(name) for p in parts]) for name in names}
    return Records(np.concatenate([p.time for p in parts]), births)


def in_time(parts: Sequence[Records]) -> Records:
    """Records of several parts in order, whatever order they are in.

    All but one of the parts are small as a rule, and cheaper to put in than to join first.
    """
    parts = sorted((p for p in parts if len(p)), key=lambda p: float(p.time[0]))
    if _ordered([p.time for p in parts]):
        return joined(parts)
    if not any(p.births for p in parts):
        return Records(np.sort(np.concatenate([p.time for p in parts])))
    most = max(parts, key=len)
    rest = joined([p for p in parts if p is not most])
    order = kernel.order(most.time, rest.time)
    if not len(rest):
        return most.take(order)
    place = np.flatnonzero(order >= len(most))
    which = order[place] - len(most)

    def column(large: Floats, small: Floats) -> Floats:
        found = large.take(order, mode="clip")
        found[place] = small[which]
        return found

    names = dict.fromkeys((*most.births, *rest.births))
    births = {name: column(most.birth(name), rest.birth(name)) for name in names}
    return Records(column(most.time, rest.time), births)


class Queue:
    """Records that have left one pipeline and not been taken by the next, oldest first."""

    def __init__(self) -> None:
        self._parts: deque[Records] = deque()
        self._count = 0
        self.came = 0

    def __len__(self) -> int:
        return self._count

    def first(self) -> float:
        """When the oldest record came; infinity if there is none."""
        return float(self._parts[0].time[0]) if self._parts else np.inf

    def put(self, records: Records) -> None:
        """Add records that come after all that are there."""
        if len(records):
            self._parts.append(records)
            self._count += len(records)
            self.came += len(records)

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


def _ordered(parts: Sequence[Floats]) -> bool:
    """Whether times are in order, part after part."""
    if any(before[-1] > after[0] for before, after in pairwise(parts)):
        return False
    # where they are not, a few tell as a rule
    return all(_rising(part[:_SOME]) and _rising(part) for part in parts)


def _rising(times: Floats) -> bool:
    return bool((times[1:] >= times[:-1]).all())
