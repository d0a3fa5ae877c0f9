"""Sums over the window of each pipeline, and latencies of each constraint."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from penstock.dataflow.graph import Constraint
from penstock.engines.simulator.model import weighted_counts
from penstock.engines.simulator.queues import Floats, Indices
from penstock.metrics.snapshot import LatencyMetrics


@dataclass
class WindowSums:
    """Sums over a stretch of time; `rows`, `busy` and `reading` by instance.

    by_inlet: rows, waiting and gathering time of each inlet, one column each. open: seconds in
    which no input was held back. For batches: tasks, and overhead, their seconds not spent on
    records; worked: seconds of tasks on a processor; runnable: seconds in which a processor was
    wanted or used; needed, stretched: processor seconds that the records would have taken alone,
    and took; touched: distinct keys, summed over batches.
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
    arrived: int = 0
    tasks: int = 0
    overhead: float = 0.0
    runnable: float = 0.0
    needed: float = 0.0
    stretched: float = 0.0
    touched: float = 0.0
    worked: float = 0.0
    open: float = 0.0
    by_inlet: Floats = field(init=False)
    rows: Indices = field(init=False)
    busy: Floats = field(init=False)
    reading: Floats = field(init=False)  # part of busy: tasks before the shuffle

    def __post_init__(self) -> None:
        self.by_inlet = np.zeros((3, self.inlets))
        self.rows = np.zeros(self.instances, np.intp)
        self.busy = np.zeros(self.instances)
        self.reading = np.zeros(self.instances)

    def add(self, other: WindowSums) -> None:
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.done.update(other.done)
        self.parts.update(other.parts)
        self.by_inlet += other.by_inlet
        self.rows += other.rows
        self.busy += other.busy
        self.reading += other.reading


_SUMS = (
    *("seconds", "taken", "wait", "gathered", "held", "service", "squares", "out", "batches"),
    *("batch_seconds", "running", "gaps", "gap", "gap_squares", "arrived"),
    *("tasks", "overhead", "runnable", "needed", "stretched", "touched", "worked", "open"),
)


@dataclass(frozen=True)
class BatchCycle:
    """A batch: when the one before ended, when it ends, and its number of records."""

    before: float | None
    at: float
    rows: int


_WATCHED = 512
"""Gaps between records of an instance that are used in one step."""


class PipelineGauge:
    """Measures one pipeline, step by step."""

    def __init__(self, instances: int, inlets: int = 1) -> None:
        self._size = (instances, inlets)
        self._last: dict[int, Floats] = {}
        self._past: deque[tuple[float, WindowSums]] = deque()
        self._cycles: deque[BatchCycle] = deque()
        self._passed = 1.0
        self.now = WindowSums(*self._size)

    def served(
        self,
        arrived: Floats,
        left: Floats,
        service: Floats,
        gathered: float,
        rows: Indices,
        entry: npt.NDArray[np.uint8],
        each: Floats | None = None,
    ) -> None:
        """Count records given to instances.

        entry: inlet of each record, or of all; each: gathering time of each record, if there is
        any.
        """
        now, total = self.now, float(service.sum())
        wait = 0.0 if left is arrived else float(left.sum()) - float(arrived.sum()) - total
        now.taken += len(arrived)
        now.service += total
        now.squares += _squares(service) if total else 0.0
        now.wait += wait
        now.gathered += gathered
        now.rows += rows
        if entry.ndim == 0:
            now.by_inlet[:, int(entry)] += (len(arrived), wait, gathered)
            return
        inlets = now.inlets
        now.by_inlet[0] += np.bincount(entry, minlength=inlets)
        now.by_inlet[1] += np.bincount(entry, left - arrived - service, minlength=inlets)
        if each is not None:
            now.by_inlet[2] += np.bincount(entry, each, minlength=inlets)

    def shipped(self, gathered: Sequence[float]) -> None:
        """Count seconds that records of each inlet were held before shipping."""
        total = sum(gathered)
        self.now.wait += total
        self.now.gathered += total
        self.now.by_inlet[1:] += gathered

    def worked(
        self, begin: float, end: float, given: Floats, had: Floats, left: Floats, held: Floats
    ) -> None:
        """Count the busy time of the instances in a step.

        given: work added in the step; had, left: unfinished work at its start and end; held: until
        when each instance stands still.
        """
        busy = given + had - left
        busy -= np.clip(held - begin, 0.0, end - begin)
        self.now.busy += np.clip(busy, 0.0, end - begin)
        self.now.seconds += end - begin

    def done(self, entry: str, count: int) -> None:
        self.now.done[entry] += count

    def out(self, count: int) -> None:
        self.now.out += count

    def gaps(self, watched: Sequence[Floats]) -> None:
        """Count gaps between records, given the arrival times at each watched instance."""
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
        arrived = np.concatenate(parts)
        gaps = arrived[1:] - arrived[:-1]
        gaps[np.array(breaks[:-1], np.intp) - 1] = 0.0  # from one instance to the next
        self.now.gaps += at - len(breaks)
        self.now.gap += float(gaps.sum())
        self.now.gap_squares += _squares(gaps)

    def batch(self, at: float, rows: int) -> None:
        """Note a batch and the time at which it ends; the first only marks a beginning."""
        before = self._cycles[-1].at if self._cycles else None
        self._cycles.append(BatchCycle(before, at, rows))

    def rates(self, now: float, window: float) -> tuple[float, float] | None:
        """Rates of records in and out over whole batches; None before the second batch.

        If batches take longer than the window, the last one counts.
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
        """End a step and drop what is older than the window."""
        done = sum(self.now.done.values())
        self._passed = self.now.out / done if done else self._passed
        while len(self._cycles) > 2 and self._cycles[1].at <= end - window:
            self._cycles.popleft()
        self._past.append((end, self.now))
        self.now = WindowSums(*self._size)
        while self._past and self._past[0][0] <= end - window + 1e-9:
            self._past.popleft()

    def clear(self) -> None:
        """Drop everything, as after a change of plan."""
        self._past.clear()
        self._cycles.clear()
        self._last.clear()
        self.now = WindowSums(*self._size)

    @property
    def latest(self) -> WindowSums | None:
        return self._past[-1][1] if self._past else None

    def window(self) -> WindowSums:
        """Sums over the window."""
        total = WindowSums(*self._size)
        for _, spell in self._past:
            total.add(spell)
        return total


def _squares(values: Floats) -> float:
    # `values @ values` would wake the BLAS threads, which costs more than the sum.
    return float(np.einsum("i,i->", values, values))


def variation(count: int, total: float, squares: float) -> float | None:
    """Coefficient of variation from sums; None for fewer than two values."""
    if count < 2 or total <= 0:
        return None
    mean = total / count
    return math.sqrt(max(0.0, squares / count - mean * mean)) / mean


_SAMPLE = 4096
"""Records of a step whose ages are sampled."""


@dataclass(frozen=True)
class Ages:
    """Ages of records when they left: their number, their sum, and a sample."""

    rows: int
    total: float
    sample: Floats

    @classmethod
    def of(cls, left: Floats, births: Floats, until: float) -> Ages:
        """Ages of records that leave by a time; a few of the records may leave later."""
        total = float(left.sum()) - float(births.sum())
        sample = _sampled(left, births, until)
        if math.isnan(total) or not len(sample):
            # some did not pass the constraint's first operator, or most leave later
            known = (left <= until) & ~np.isnan(births)
            left, births = left[known], births[known]
            sample = _sampled(left, births, until)
            return cls(len(left), float((left - births).sum()), sample)
        late = np.flatnonzero(left > until)
        total -= float((left[late] - births[late]).sum())
        return cls(len(left) - len(late), total, sample)


def _sampled(left: Floats, births: Floats, until: float) -> Floats:
    """A sample of ages, evenly spread over the records but at varying distances."""
    if len(left) > _SAMPLE:
        which = np.arange(_SAMPLE) * len(left) // _SAMPLE
        left, births = left[which], births[which]
    ages = left - births
    return ages if not len(ages) or left.max() <= until else ages[left <= until]


_DECADE = 100
"""Bins of the histogram for each power of ten."""
_LOWEST = -7.0
"""Power of ten of the first bin, in seconds."""
_BINS = 12 * _DECADE


class LatencyGauge:
    """Latencies of one constraint, over its window and over the run.

    Means are exact. Percentiles come from a sampled histogram with bins 2.3 % apart, so memory does
    not grow with the number of records.
    """

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self._recent: deque[tuple[float, int, float, Floats]] = deque()
        self._rows = 0
        self._sum = 0.0
        self._bins = np.zeros(_BINS)

    def add(self, end: float, ages: Sequence[Ages]) -> None:
        """Add the latencies of a step that ended at a time."""
        ages = [one for one in ages if len(one.sample)]
        if not ages:
            return
        sample = np.concatenate([one.sample for one in ages])
        weights = np.repeat(
            [one.rows / len(one.sample) for one in ages], [len(one.sample) for one in ages]
        )
        positions = (np.log10(np.maximum(sample, 1e-7)) - _LOWEST) * _DECADE
        bins = weighted_counts(np.minimum(positions.astype(np.intp), _BINS - 1), weights, _BINS)
        rows, total = sum(one.rows for one in ages), math.fsum(one.total for one in ages)
        self._recent.append((end, rows, total, bins))
        self._rows += rows
        self._sum += total
        self._bins += bins
        self._forget(end)

    def _forget(self, now: float) -> None:
        while self._recent and self._recent[0][0] <= now - self.constraint.window + 1e-9:
            self._recent.popleft()

    def window(self, now: float) -> LatencyMetrics | None:
        """Metrics over the constraint's window; None if no record ended in it."""
        self._forget(now)
        if not self._recent:
            return None
        rows = sum(r for _, r, _, _ in self._recent)
        total = sum(s for _, _, s, _ in self._recent)
        return self._metrics(rows, total, sum((b for *_, b in self._recent), np.zeros(_BINS)))

    def total(self) -> LatencyMetrics | None:
        """Metrics over the run; None if no record ended."""
        return self._metrics(self._rows, self._sum, self._bins) if self._rows else None

    def _metrics(self, rows: int, total: float, bins: Floats) -> LatencyMetrics:
        p50, p95, p99 = _percentiles(bins, (0.5, 0.95, 0.99))
        bound = self.constraint.latency
        return LatencyMetrics(self.constraint.name, bound, total / rows, p50, p95, p99, rows)


def _percentiles(bins: Floats, shares: Iterable[float]) -> list[float]:
    below = np.cumsum(bins)
    found = []
    for share in shares:
        wanted = share * below[-1]
        at = int(np.searchsorted(below, wanted))
        into = 1.0 - (below[at] - wanted) / bins[at]
        found.append(float(10 ** (_LOWEST + (at + into) / _DECADE)))
    return found
