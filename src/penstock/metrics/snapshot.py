"""Snapshots: everything measured over one window, as immutable values.

`None` means "not measured"; it is never written as 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PipelineMetrics:
    """One pipeline over the window. Rates are rows per second, times are seconds."""

    name: str
    parallelism: int
    batches: int = 0
    rows_in: int = 0
    rows_out: int | None = None
    rate_in: float = 0.0
    rate_out: float | None = None
    batch_seconds: float | None = None
    busy: float | None = None
    backlog_rows: int | None = None
    backlog_seconds: float | None = None
    state_rows: int | None = None
    state_bytes: int | None = None


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
class Snapshot:
    """The flow over the last `window` seconds, `at` seconds after its start; totals are so far.

    load: share of all slots at work over the window.
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

    @property
    def throughput(self) -> float:
        """Rows per second taken in by the sources' pipelines over the window."""
        return sum(p.rate_in for p in self.pipelines.values() if p.name in self.source_pipelines)

    source_pipelines: frozenset[str] = frozenset()
