"""Snapshots: everything measured over one window, as immutable values.

`None` means "not measured" and is never written as 0. Rates are rows per second, times are
seconds, shares are between 0 and 1. `catalog.py` says what each name means.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.notebook_display import Shown


@dataclass(frozen=True)
class KeyRange:
    """The keys whose hash falls into part `part` of `parts`, counted from 0.

    share: share of all rows that have these keys.
    """

    part: int
    parts: int
    share: float

    def __str__(self) -> str:
        return f"part {self.part} of {self.parts}: {100 * self.share:.0f} % of the rows"


@dataclass(frozen=True)
class OperatorMetrics:
    """One operator over the window, all its instances together.

    service: time of one instance per row; service_cv, arrival_cv: coefficients of variation of the
    time per row and of the time between rows; busy: share of the window in which an instance was
    at work in this operator; measured: True if the times were measured in the operator, False if
    estimated as its share of the time of its pipeline; cpu: share of its time spent on a processor
    rather than waiting.
    """

    name: str
    rows_in: int | None = None
    rows_out: int | None = None
    rate_in: float | None = None
    rate_out: float | None = None
    service: float | None = None
    service_cv: float | None = None
    arrival_cv: float | None = None
    busy: float | None = None
    measured: bool = True
    cpu: float | None = None

    @property
    def selectivity(self) -> float | None:
        """Rows out per row in."""
        if self.rows_in and self.rows_out is not None:
            return self.rows_out / self.rows_in
        if self.rate_in and self.rate_out is not None:  # the batch began before the window
            return self.rate_out / self.rate_in
        return None


@dataclass(frozen=True)
class InstanceMetrics:
    """One instance of a pipeline over the window.

    busy: share of the window at work; part: the part of the keys it has, where keys are assigned
    to instances by their hash.
    """

    index: int
    rows: int | None = None
    busy: float | None = None
    executor: str | None = None
    part: int | None = None


@dataclass(frozen=True)
class PipelineMetrics:
    """One pipeline over the window.

    batches, rows_in, rows_out: of the batches that ended in the window; rate_in: rows processed per
    second, over whole batches; arrival_rate: rows that arrived per second, processed or not;
    service: time of one instance per row; task_overhead: time of one instance per batch beyond its
    rows; busy: share of the window in which a batch was running; batch_seconds: from the start of a
    batch to its output; wait: from the arrival of a row to the start of its batch; batching: part
    of the wait that the cadence caused; parts: where the time of a batch went (planning, log,
    work, commit); backlog_seconds: time to process the backlog at the rate of the window.
    """

    name: str
    parallelism: int
    batches: int = 0
    rows_in: int | None = None
    rows_out: int | None = None
    rate_in: float | None = None
    rate_out: float | None = None
    arrival_rate: float | None = None
    service: float | None = None
    task_overhead: float | None = None
    service_cv: float | None = None
    arrival_cv: float | None = None
    batch_seconds: float | None = None
    wait: float | None = None
    batching: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    busy: float | None = None
    backlog_rows: int | None = None
    backlog_seconds: float | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    instances: tuple[InstanceMetrics, ...] = ()

    @property
    def in_batches(self) -> bool:
        """True if it works in batches, even if none ended in the window."""
        return bool(self.batches or self.parts)

    @property
    def hottest(self) -> KeyRange | None:
        """The part of the keys with the most rows; None if keys are not assigned in parts."""
        parts = [(i.part, i.rows) for i in self.instances]
        known = [(rows, part) for part, rows in parts if part is not None and rows is not None]
        total = sum(rows for rows, _ in known)
        if len(known) < 2 or len(known) < len(parts) or not total:
            return None
        rows, part = max(known, key=lambda one: one[0])
        return KeyRange(part, len(known), rows / total)

    @property
    def skew(self) -> float | None:
        """Coefficient of variation of the rows of the instances; None for fewer than two."""
        rows = [i.rows for i in self.instances if i.rows is not None]
        if len(rows) < 2 or not sum(rows):
            return None
        return statistics.pstdev(rows) / statistics.fmean(rows)


@dataclass(frozen=True)
class ChannelMetrics:
    """One channel as one reader sees it: an edge of the dataflow between two pipelines.

    writer, reader: operators, because these stay the same whatever is fused with them; latency:
    from when a row is written to the start of the batch that takes it; batching: part of that time
    that the reader's cadence caused.
    """

    writer: str
    reader: str
    backlog_rows: int | None = None
    backlog_seconds: float | None = None
    latency: float | None = None
    batching: float | None = None


@dataclass(frozen=True)
class ExecutorMetrics:
    """One executor over the window.

    busy: share of its slots at work; cpu: share of its slots' time on a processor, with Python;
    memory: share of its heap in use, on Spark the peak so far; io_bytes: bytes read and written
    per second; instances, state_parts: number of instances and state partitions of each pipeline on
    it; partitions: which state partitions these are, where known.
    """

    name: str
    slots: int
    busy: float | None = None
    cpu: float | None = None
    memory: float | None = None
    io_bytes: float | None = None
    instances: Mapping[str, int] = field(default_factory=dict)
    state_parts: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class LatencyMetrics:
    """Latency of one constraint over its window, in seconds."""

    constraint: str
    bound: float
    mean: float
    p50: float
    p95: float
    p99: float
    rows: int

    @property
    def met(self) -> bool:
        return self.mean <= self.bound


@dataclass(frozen=True)
class Snapshot(Shown):
    """The flow over the last `window` seconds, `at` seconds after its start.

    Counts of rows of the whole flow are totals since the start of the run directory.

    load: share of all slots at work; channels: by `writer>reader`; settled: False while the window
    holds a change of plan or its first batches, whose numbers say nothing about the plan; ending:
    the sources have been told to stop, and the flow runs dry; slot_seconds: instances times the
    time they were held so far; processor_seconds: processor time of all processes of the run, where
    all are on one machine; rows_repeated: rows that an at-least-once sink received again.
    """

    at: float
    window: float
    rows_offered: int | None
    rows_ingested: int
    rows_delivered: int
    rows_dead: int
    pipelines: Mapping[str, PipelineMetrics] = field(default_factory=dict)
    latency: Mapping[str, LatencyMetrics] = field(default_factory=dict)
    sinks: Mapping[str, int] = field(default_factory=dict)
    drained: bool = False
    load: float | None = None
    source_pipelines: frozenset[str] = frozenset()
    operators: Mapping[str, OperatorMetrics] = field(default_factory=dict)
    channels: Mapping[str, ChannelMetrics] = field(default_factory=dict)
    executors: Mapping[str, ExecutorMetrics] = field(default_factory=dict)
    settled: bool = True
    ending: bool = False
    slot_seconds: float | None = None
    rows_late: int | None = None
    processor_seconds: float | None = None
    rows_repeated: int = 0

    @property
    def throughput(self) -> float | None:
        """Rows per second taken in by the sources; None if that of one is unknown."""
        found = [self.pipelines.get(name) for name in sorted(self.source_pipelines)]
        rates = [None if one is None else one.rate_in for one in found]
        known = [rate for rate in rates if rate is not None]
        return sum(known) if known and len(known) == len(rates) else None
