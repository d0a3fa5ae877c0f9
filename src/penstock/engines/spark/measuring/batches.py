"""Finished batches: when their rows arrived, how long they waited, and their latency."""

from __future__ import annotations

import itertools
import json
import math
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from penstock.dataflow.connectors import Files, Kafka, Spark
from penstock.dataflow.graph import Constraint
from penstock.metrics.snapshot import LatencyMetrics

PARTS = {
    "planning": ("latestOffset", "getBatch", "queryPlanning"),
    "log": ("walCommit",),
    "work": ("addBatch",),
    "commit": ("commitBatch", "commitOffsets"),
}
"""The phases of a batch, by Spark's names for them; the rest of its time is `other`."""


@dataclass(frozen=True)
class Batch:
    """One finished batch of a pipeline. Ranges are rows [first, stop) by input.

    at: when its output was written; run: Spark's id of this start of the query; arrivals: when its
    rows arrived at the pipeline, by input; before: when the previous batch ended; late: rows that
    were dropped behind the watermark.
    """

    number: int
    run: str
    at: float
    started: float
    seconds: float
    rows_in: int
    rows_out: int | None
    ranges: Mapping[str, tuple[int, int]]
    late: int = 0
    state_rows: int | None = None
    state_bytes: int | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    arrivals: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    before: float | None = None

    @property
    def ended(self) -> float:
        """When it was committed."""
        return self.started + self.seconds

    @cached_property
    def waited(self) -> Mapping[str, ChannelWait]:
        """Waiting time by input.

        A row that arrived while the previous batch was running waits for that batch first; after
        that it waits because rows are gathered for the next batch.
        """
        free = self.started if self.before is None else min(self.before, self.started)
        found = {}
        for key, spans in self.arrivals.items():
            rows = np.array([span.rows for span in spans])
            if not len(spans) or not rows.sum():
                continue
            ends = np.array([(span.start, span.end) for span in spans])
            came = np.minimum(np.linspace(ends[:, 0], ends[:, 1], 9), self.started)
            waited = self.started - came.mean(axis=0)
            gathered = self.started - np.maximum(came, free).mean(axis=0)
            found[key] = ChannelWait(
                float(rows.sum()),
                float(np.average(waited, weights=rows)),
                float(np.average(gathered, weights=rows)),
            )
        return found


def parts(durations: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Seconds in each phase of a batch, from Spark's durations in milliseconds."""
    found = {
        name: sum(durations.get(word, 0) for word in words) / 1000 for name, words in PARTS.items()
    }
    return {**found, "other": max(0.0, seconds - sum(found.values()))}


@dataclass(frozen=True)
class ChannelWait:
    """Mean time that rows waited for their batch, and the part of it with an idle pipeline."""

    rows: float
    wait: float
    batching: float


def waits(batches: Iterable[Batch], entry: str | None = None) -> ChannelWait | None:
    """Waiting times of the rows of some batches, of one input or all; None if unknown."""
    found = [one for b in batches for key, one in b.waited.items() if entry is None or key == entry]
    rows = sum(one.rows for one in found)
    if not rows:
        return None
    wait = sum(one.rows * one.wait for one in found) / rows
    return ChannelWait(rows, wait, sum(one.rows * one.batching for one in found) / rows)


def arrival_cv(batches: Iterable[Batch], entries: Collection[str] | None = None) -> float | None:
    """Coefficient of variation of the interarrival time, of some inputs or of all of them.

    Rows written together have an interarrival time of 0.
    """
    spans = sorted(
        (
            span
            for batch in batches
            for entry, found in batch.arrivals.items()
            if entries is None or entry in entries
            for span in found
            if span.rows > 0
        ),
        key=lambda s: s.end,
    )
    if len(spans) < 2:
        return None
    rows = total = squares = 0.0
    last = spans[0].end
    for span in spans[1:]:
        first_gap = max(0.0, span.start - last)
        inside = max(0.0, span.end - max(span.start, last)) / span.rows
        total += first_gap + inside * span.rows
        squares += first_gap**2 + inside**2 * span.rows
        rows += span.rows
        last = max(last, span.end)
    if not total:
        return None
    mean = total / rows
    return math.sqrt(max(0.0, squares / rows / mean**2 - 1))


def span_of(batches: Sequence[Batch], now: float) -> float | None:
    """Seconds that consecutive batches stand for, in whole cycles.

    They end with the last batch, or now if another batch is overdue.
    """
    if not batches or batches[0].before is None:
        return None
    return (now if overdue(batches, now) else batches[-1].at) - batches[0].before


def overdue(batches: Sequence[Batch], now: float) -> bool:
    """True if, by the usual time between batches, another one should have ended by now."""
    if not batches or batches[0].before is None:
        return True
    last = batches[-1].at
    return now - last > 2 * (last - batches[0].before) / len(batches)


_POINTS = 1000
_UNBOUNDED = ("rate", "socket")


def left(sources: Collection[Mapping[str, Any]], read: Iterable[Any]) -> int | None:
    """Rows that were available and not read when a batch was planned; None if unknown.

    sources: of a progress report; read: their connectors. A source without a limit leaves nothing
    behind; of those with one, only Kafka reports its lag.
    """
    if all(_takes_all(one) for one in read):
        return 0
    found = [_behind(one) for one in sources]
    return None if None in found or not found else sum(rows or 0 for rows in found)


def _takes_all(connector: Files | Kafka | Spark) -> bool:
    if isinstance(connector, Spark) and connector.format not in _UNBOUNDED:
        return False  # it may have limits of its own
    names = {name.lower() for name in connector.options}
    return not any(name.startswith("max") and name.endswith("pertrigger") for name in names)


def _behind(source: Mapping[str, Any]) -> int | None:
    if not str(source.get("description")).startswith("Kafka"):
        return None
    latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    return None if latest is None or end is None else max(0, latest - end)


def _offsets(said: Any) -> int | None:
    """The sum over topics and partitions, which Spark gives as JSON or as JSON in a string."""
    topics = json.loads(said) if isinstance(said, str) else said
    if not isinstance(topics, Mapping):
        return None
    return sum(int(offset) for partitions in topics.values() for offset in partitions.values())


class SourceQueue:
    """Estimates when the rows of one of Spark's own sources arrived.

    It knows only which rows were available at the start of each batch. waiting: rows that the last
    batch left unread, None if unknown.
    """

    def __init__(self) -> None:
        self.waiting: int | None = None
        self._taken = 0
        self._points: deque[tuple[float, int]] = deque(maxlen=_POINTS)

    def take(
        self, started: float, rows: int, waiting: int | None, idle: float | None = None
    ) -> list[Span]:
        """Return when the rows of a batch arrived, from its number of rows and of unread rows.

        idle: a time up to which the query had nothing to do, so that no row arrived before it.
        """
        arrived = self._points[-1][1] if self._points else 0
        if self._points and idle is not None:
            self._points.append((idle, arrived))
        self._points.append((started, max(arrived, self._taken + rows + (waiting or 0))))
        first, self._taken = self._taken, self._taken + rows
        self.waiting = waiting
        begin, there = self._points[0]
        before = min(there, self._taken) - first
        spans = [Span(begin, begin, before)] if before > 0 else []
        for (t, n), (t_next, n_next) in itertools.pairwise(self._points):
            low, high = max(n, first), min(n_next, self._taken)
            if low < high:
                pace = (t_next - t) / (n_next - n)
                spans.append(Span(t + (low - n) * pace, t + (high - n) * pace, high - low))
        return spans

    def rate(self, since: float, until: float | None = None) -> float | None:
        """Rows per second that arrived since then, or between the last two batches.

        until: a time up to which no further row has arrived, if known.
        """
        if self.waiting is None or len(self._points) < 2:
            return None
        points = [*self._points]
        if until is not None and until > points[-1][0]:
            points.append((until, points[-1][1]))
        before = [n for n, point in enumerate(points) if point[0] <= since]
        base = min(before[-1] if before else 0, len(points) - 2)
        (start, first), (end, last) = points[base], points[-1]
        return (last - first) / (end - start) if end > start else None


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
    """At most `most` spans, after merging neighbours in time."""
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
    """Arrival spans of recent batches for a constraint, by the pipeline's tail and batch name."""

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
        """Add rows that arrived in these spans and were delivered at one instant."""
        done = [Span(at - s.end, at - s.start, s.rows) for s in arrivals if s.rows > 0]
        self._recent.append((at, done))
        for span in done:
            self._sum += span.rows * (span.start + span.end) / 2
            self._rows += span.rows
            for number, rows in _spread(span):
                self._bins[number] = self._bins.get(number, 0.0) + rows

    def window(self, now: float) -> LatencyMetrics | None:
        """Latency in the constraint's window up to now; None if nothing was measured."""
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
        """Latency over the whole run."""
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
    """The rows of a span by histogram bin, in proportion to its time in each bin."""
    low, high = _bin(span.start), _bin(span.end)
    if low == high:
        return [(low, span.rows)]
    borders = _RESOLUTION ** (np.arange(low + 1, high + 1) - 0.5)
    edges = np.concatenate([[span.start], borders, [span.end]])
    shares = np.diff(edges) / (span.end - span.start)
    return zip(range(low, high + 1), (shares * span.rows).tolist(), strict=True)


def _bin(latency: float) -> int:
    return round(math.log(max(latency, 1e-4), _RESOLUTION))
