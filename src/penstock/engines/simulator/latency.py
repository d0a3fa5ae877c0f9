"""Latencies, over windows and the run."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.dataflow.graph import Constraint
from penstock.engines.simulator.arrays import Floats
from penstock.engines.simulator.model import weighed
from penstock.metrics.snapshot import LatencyMetrics

_SAMPLE = 4096
"""Records of a step that are looked at one by one."""


@dataclass(frozen=True)
class Ages:
    """How old records were as they left: how many they are, the sum, and some of them."""

    rows: int
    total: float
    sample: Floats

    @classmethod
    def of(cls, left: Floats, births: Floats, until: float) -> Ages:
        """Of records that leave by a time; a few may be there that leave later."""
        total = float(left.sum()) - float(births.sum())
        sample = _some(left, births, until)
        if math.isnan(total) or not len(sample):
            # some came by ways on which the constraint does not lie, or most leave later
            known = (left <= until) & ~np.isnan(births)
            left, births = left[known], births[known]
            sample = _some(left, births, until)
            return cls(len(left), float((left - births).sum()), sample)
        late = np.flatnonzero(left > until)
        total -= float((left[late] - births[late]).sum())
        return cls(len(left) - len(late), total, sample)


def _some(left: Floats, births: Floats, until: float) -> Floats:
    """Ages of records that are spread evenly, and not at the same distance everywhere."""
    if len(left) > _SAMPLE:
        which = np.arange(_SAMPLE) * len(left) // _SAMPLE
        left, births = left[which], births[which]
    ages = left - births
    return ages if not len(ages) or left.max() <= until else ages[left <= until]


_DECADE = 100
_LOWEST = -7.0
_BINS = 12 * _DECADE


class LatencyGauge:
    """Latencies of one constraint over its window and over the run.

    Means are exact. Percentiles come from a sample in bins 2.3 % apart, so what is kept does not
    grow with the records.
    """

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self._recent: deque[tuple[float, int, float, Floats]] = deque()
        self._rows = 0
        self._sum = 0.0
        self._bins = np.zeros(_BINS)

    def add(self, end: float, ages: Sequence[Ages]) -> None:
        """Take in the latencies of a step that ended at a time."""
        ages = [one for one in ages if len(one.sample)]
        if not ages:
            return
        sample = np.concatenate([one.sample for one in ages])
        stands = np.repeat(
            [one.rows / len(one.sample) for one in ages], [len(one.sample) for one in ages]
        )
        places = (np.log10(np.maximum(sample, 1e-7)) - _LOWEST) * _DECADE
        bins = weighed(np.minimum(places.astype(np.intp), _BINS - 1), stands, _BINS)
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
        """Over the constraint's window; None if no record ended in it."""
        self._forget(now)
        if not self._recent:
            return None
        rows = sum(r for _, r, _, _ in self._recent)
        total = sum(s for _, _, s, _ in self._recent)
        return self._metrics(rows, total, sum((b for *_, b in self._recent), np.zeros(_BINS)))

    def total(self) -> LatencyMetrics | None:
        """Over the run."""
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
