"""Latency without touching records: where the rows of a batch came from, and when.

A batch reads known rows: of a generator, whose arrival times the load profile gives, or of a
channel, whose entries name the batch that wrote them. Followed back to the first operator of a
constraint this gives, for every batch, spans of arrival times with the rows that arrived in them.
Native functions may drop any column; this needs none.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from penstock.dataflow.graph import Constraint
from penstock.metrics.snapshot import LatencyMetrics

_SPANS = 64
_KEPT_BATCHES = 2000
_RESOLUTION = 1.01


@dataclass(frozen=True)
class Span:
    """Rows that arrived evenly between two instants."""

    start: float
    end: float
    rows: float


def scaled(spans: Iterable[Span], share: float) -> list[Span]:
    return [Span(s.start, s.end, s.rows * share) for s in spans]


def merged(spans: list[Span], most: int = _SPANS) -> list[Span]:
    """At most so many spans, neighbours in time joined."""
    if len(spans) <= most:
        return spans
    spans = sorted(spans, key=lambda s: s.start)
    size = math.ceil(len(spans) / most)
    groups = (spans[i : i + size] for i in range(0, len(spans), size))
    return [
        Span(min(s.start for s in g), max(s.end for s in g), sum(s.rows for s in g)) for g in groups
    ]


@dataclass
class Origins:
    """Arrival spans of recent batches for a constraint, by the operator they left and tag."""

    known: OrderedDict[tuple[str, str], list[Span]] = field(default_factory=OrderedDict)

    def put(self, tail: str, tag: str, spans: list[Span]) -> None:
        self.known[tail, tag] = merged(spans)
        while len(self.known) > _KEPT_BATCHES:
            self.known.popitem(last=False)

    def get(self, tail: str, tag: str) -> list[Span] | None:
        return self.known.get((tail, tag))


class LatencyMeter:
    """Latencies of one constraint: over its window, and over the run as a histogram."""

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self._recent: list[tuple[float, list[Span]]] = []
        self._bins: dict[int, float] = {}
        self._sum = 0.0
        self._rows = 0.0

    def add(self, at: float, arrivals: list[Span]) -> None:
        """Rows that arrived in these spans were done at an instant."""
        done = [Span(at - s.end, at - s.start, s.rows) for s in arrivals if s.rows > 0]
        self._recent.append((at, done))
        for span in done:
            self._sum += span.rows * (span.start + span.end) / 2
            self._rows += span.rows
            for number, rows in _spread(span):
                self._bins[number] = self._bins.get(number, 0.0) + rows

    def window(self, now: float) -> LatencyMetrics | None:
        """Over the constraint's window up to now; None if nothing was measured in it."""
        self._recent = [(at, s) for at, s in self._recent if at > now - self.constraint.window]
        spans = [span for _, found in self._recent for span in found]
        if not spans:
            return None
        rows = sum(s.rows for s in spans)
        mean = sum(s.rows * (s.start + s.end) / 2 for s in spans) / rows
        points = np.concatenate([np.linspace(s.start, s.end, 9) for s in spans])
        weights = np.repeat([s.rows / 9 for s in spans], 9)
        order = np.argsort(points)
        share = np.cumsum(weights[order]) / rows
        quantiles = [float(points[order][np.searchsorted(share, q)]) for q in (0.5, 0.95, 0.99)]
        return self._metrics(mean, quantiles, rows)

    def total(self) -> LatencyMetrics | None:
        """Over the whole run."""
        if not self._rows:
            return None
        numbers = sorted(self._bins)
        share = np.cumsum([self._bins[n] for n in numbers]) / self._rows
        found = [
            numbers[min(int(np.searchsorted(share, q)), len(numbers) - 1)]
            for q in (0.5, 0.95, 0.99)
        ]
        return self._metrics(self._sum / self._rows, [_RESOLUTION**n for n in found], self._rows)

    def _metrics(self, mean: float, quantiles: list[float], rows: float) -> LatencyMetrics:
        c = self.constraint
        p50, p95, p99 = quantiles
        return LatencyMetrics(c.name, c.latency, mean, p50, p95, p99, round(rows))


def _spread(span: Span) -> Iterable[tuple[int, float]]:
    """The rows of a span by bin: as many in each as the part of the span's time inside it."""
    low, high = _bin(span.start), _bin(span.end)
    if low == high:
        return [(low, span.rows)]
    borders = _RESOLUTION ** (np.arange(low + 1, high + 1) - 0.5)
    edges = np.concatenate([[span.start], borders, [span.end]])
    shares = np.diff(edges) / (span.end - span.start)
    return zip(range(low, high + 1), (shares * span.rows).tolist(), strict=True)


def _bin(latency: float) -> int:
    return round(math.log(max(latency, 1e-4), _RESOLUTION))
