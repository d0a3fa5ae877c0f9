"""A finished batch, and what follows from the times at which its rows arrived."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from penstock.engines.spark.measuring.lineage import Span

PARTS = {
    "planning": ("latestOffset", "getBatch", "queryPlanning"),
    "log": ("walCommit",),
    "work": ("addBatch",),
    "commit": ("commitBatch", "commitOffsets"),
}
"""Where the time of a batch goes, by the names that Spark has for it; what is left is `other`."""


@dataclass(frozen=True)
class Batch:
    """One finished batch of a pipeline. Ranges are rows [first, stop) by input.

    at: when its output was there; run: the id that Spark gave to this start of the query;
    arrivals: when its rows came to the pipeline, by input; before: when the batch before ended;
    late: rows that came behind the watermark.
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
        """When it was through, with its commit."""
        return self.started + self.seconds

    @cached_property
    def waited(self) -> Mapping[str, Waits]:
        """By input. A row that came while the batch before was running waits for that one to end
        first; from then on it waits because rows are being gathered.
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
            found[key] = Waits(
                float(rows.sum()),
                float(np.average(waited, weights=rows)),
                float(np.average(gathered, weights=rows)),
            )
        return found


def parts(durations: Mapping[str, float], seconds: float) -> dict[str, float]:
    """The parts of a batch's time in seconds, from Spark's durations in milliseconds."""
    found = {
        name: sum(durations.get(word, 0) for word in words) / 1000 for name, words in PARTS.items()
    }
    return {**found, "other": max(0.0, seconds - sum(found.values()))}


@dataclass(frozen=True)
class Waits:
    """Mean time that rows waited for their batch, and what of it the pipeline was idle for."""

    rows: float
    wait: float
    batching: float


def waits(batches: Iterable[Batch], entry: str | None = None) -> Waits | None:
    """Over all rows of some batches, of one input or of all; None if no arrival is known."""
    found = [one for b in batches for key, one in b.waited.items() if entry is None or key == entry]
    rows = sum(one.rows for one in found)
    if not rows:
        return None
    wait = sum(one.rows * one.wait for one in found) / rows
    return Waits(rows, wait, sum(one.rows * one.batching for one in found) / rows)


def arrival_cv(batches: Iterable[Batch], entries: Collection[str] | None = None) -> float | None:
    """Coefficient of variation of the time between rows, of some inputs or of all of them.

    Rows written at once are 0 apart.
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
    """The time in which some batches in a row were made, whole cycles of it.

    It ends with the last of them, or now if by now another one should have come.
    """
    if not batches or batches[0].before is None:
        return None
    return (now if overdue(batches, now) else batches[-1].at) - batches[0].before


def overdue(batches: Sequence[Batch], now: float) -> bool:
    """Whether another batch should have come by now, going by the time between those before."""
    if not batches or batches[0].before is None:
        return True
    last = batches[-1].at
    return now - last > 2 * (last - batches[0].before) / len(batches)
