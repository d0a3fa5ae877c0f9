"""What is measured of pipelines, over the last seconds."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator.arrays import Floats

Counts = npt.NDArray[np.intp]


@dataclass
class Spell:
    """Sums over a stretch of time; rows, busy and work by instance.

    ways: rows, wait and gathered by inlet, one column each. Of batches: worked, seconds of tasks
    on a processor; tasks, and overhead, their seconds that were not for records; runnable: seconds
    for which a processor was wanted or had; needed, stretched: seconds on a processor that
    records would have had alone, and had; touched: keys, of all batches. open: seconds in which
    nothing was held back in front of it.
    """

    instances: int
    inlets: int = 1
    seconds: float = 0.0
    taken: int = 0
    wait: float = 0.0
    gathered: float = 0.0
    held: float = 0.0
    service: float = 0.0
    squares: float = 0.0
    done: Counter[str] = field(default_factory=Counter)
    out: int = 0
    batches: int = 0
    batch_seconds: float = 0.0
    running: float = 0.0
    parts: Counter[str] = field(default_factory=Counter)
    gaps: int = 0
    gap: float = 0.0
    gap_squares: float = 0.0
    came: int = 0
    tasks: int = 0
    overhead: float = 0.0
    runnable: float = 0.0
    needed: float = 0.0
    stretched: float = 0.0
    touched: float = 0.0
    worked: float = 0.0
    open: float = 0.0
    ways: Floats = field(init=False)
    rows: Counts = field(init=False)
    busy: Floats = field(init=False)
    reading: Floats = field(init=False)  # of busy, before records are dealt out by their keys

    def __post_init__(self) -> None:
        self.ways = np.zeros((3, self.inlets))
        self.rows = np.zeros(self.instances, np.intp)
        self.busy = np.zeros(self.instances)
        self.reading = np.zeros(self.instances)

    def add(self, other: Spell) -> None:
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.done.update(other.done)
        self.parts.update(other.parts)
        self.ways += other.ways
        self.rows += other.rows
        self.busy += other.busy
        self.reading += other.reading


_SUMS = (
    *("seconds", "taken", "wait", "gathered", "held", "service", "squares", "out", "batches"),
    *("batch_seconds", "running", "gaps", "gap", "gap_squares", "came"),
    *("tasks", "overhead", "runnable", "needed", "stretched", "touched", "worked", "open"),
)


@dataclass(frozen=True)
class Cycle:
    """A batch: when the one before was done, when it is, and its records."""

    before: float | None
    at: float
    rows: int


_WATCHED = 512
"""Times between records of an instance that are looked at in one step."""


class Gauge:
    """Watches one pipeline, step by step."""

    def __init__(self, instances: int, inlets: int = 1) -> None:
        self._size = (instances, inlets)
        self._last: dict[int, Floats] = {}
        self._past: deque[tuple[float, Spell]] = deque()
        self._cycles: deque[Cycle] = deque()
        self._passed = 1.0
        self.now = Spell(*self._size)

    def served(
        self,
        came: Floats,
        left: Floats,
        service: Floats,
        gathered: float,
        rows: Counts,
        entry: npt.NDArray[np.uint8],
        each: Floats | None = None,
    ) -> None:
        """Records were given to instances.

        entry: the inlet of each, or of all; each: what each of them gathered, if they did.
        """
        now, total = self.now, float(service.sum())
        wait = 0.0 if left is came else float(left.sum()) - float(came.sum()) - total
        now.taken += len(came)
        now.service += total
        now.squares += _squares(service) if total else 0.0
        now.wait += wait
        now.gathered += gathered
        now.rows += rows
        if entry.ndim == 0:
            now.ways[:, int(entry)] += (len(came), wait, gathered)
            return
        inlets = now.inlets
        now.ways[0] += np.bincount(entry, minlength=inlets)
        now.ways[1] += np.bincount(entry, left - came - service, minlength=inlets)
        if each is not None:
            now.ways[2] += np.bincount(entry, each, minlength=inlets)

    def shipped(self, gathered: Sequence[float]) -> None:
        """Seconds that records of each inlet were gathered before they were shipped to it."""
        total = sum(gathered)
        self.now.wait += total
        self.now.gathered += total
        self.now.ways[1:] += gathered

    def worked(
        self, begin: float, end: float, given: Floats, had: Floats, left: Floats, held: Floats
    ) -> None:
        """What instances did in a step: the work they had and got, without what is left of it."""
        busy = given + had - left
        busy -= np.clip(held - begin, 0.0, end - begin)
        self.now.busy += np.clip(busy, 0.0, end - begin)
        self.now.seconds += end - begin

    def done(self, entry: str, count: int) -> None:
        self.now.done[entry] += count

    def out(self, count: int) -> None:
        self.now.out += count

    def gaps(self, watched: Sequence[Floats]) -> None:
        """Times at which records came to each of the instances that are watched for that."""
        parts: list[Floats] = []
        breaks, at = [], 0
        for which, times in enumerate(watched):
            if not len(times):
                continue
            part = times[:_WATCHED]
            last = self._last.get(which)
            self._last[which] = times[-1:].copy()
            parts += [part] if last is None else [last, part]
            at += len(part) + (last is not None)
            breaks.append(at)
        if not breaks:
            return
        came = np.concatenate(parts)
        gaps = came[1:] - came[:-1]
        gaps[np.array(breaks[:-1], np.intp) - 1] = 0.0  # from one instance to the next
        self.now.gaps += at - len(breaks)
        self.now.gap += float(gaps.sum())
        self.now.gap_squares += _squares(gaps)

    def batch(self, at: float, rows: int) -> None:
        """A batch of so many records will be done at a time. The first is for finding out when."""
        before = self._cycles[-1].at if self._cycles else None
        self._cycles.append(Cycle(before, at, rows))

    def rates(self, now: float, window: float) -> tuple[float, float] | None:
        """Records a second in and out, over whole batches; None if there was none.

        Of batches that take longer than the window the last one is what is known.
        """
        whole = [c for c in self._cycles if c.before is not None and c.at <= now]
        some = [c for c in whole if c.at > now - window] or whole[-1:]
        if not some:
            return None
        first, last = some[0].before or 0.0, some[-1].at
        late = now - last > 2 * (last - first) / len(some)
        rate = sum(c.rows for c in some) / max((now if late else last) - first, 1e-9)
        return rate, rate * self._passed

    def close(self, end: float, window: float) -> None:
        """End a step; what is older than the window is forgotten."""
        done = sum(self.now.done.values())
        self._passed = self.now.out / done if done else self._passed
        while len(self._cycles) > 2 and self._cycles[1].at <= end - window:
            self._cycles.popleft()
        self._past.append((end, self.now))
        self.now = Spell(*self._size)
        while self._past and self._past[0][0] <= end - window + 1e-9:
            self._past.popleft()

    def clear(self) -> None:
        """Forget everything, as after a change."""
        self._past.clear()
        self._cycles.clear()
        self._last.clear()
        self.now = Spell(*self._size)

    @property
    def latest(self) -> Spell | None:
        return self._past[-1][1] if self._past else None

    def window(self) -> Spell:
        """The sums over the window."""
        total = Spell(*self._size)
        for _, spell in self._past:
            total.add(spell)
        return total


def _squares(values: Floats) -> float:
    # Not `values @ values`: that wakes up the threads of a BLAS, which costs more than the sum.
    return float(np.einsum("i,i->", values, values))


def variation(count: int, total: float, squares: float) -> float | None:
    """Coefficient of variation from sums; None where there is too little to say."""
    if count < 2 or total <= 0:
        return None
    mean = total / count
    return math.sqrt(max(0.0, squares / count - mean * mean)) / mean
