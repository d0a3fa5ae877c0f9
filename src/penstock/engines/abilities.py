"""Optional abilities of an engine; a run shows more with them and works without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from penstock.metrics.events import Event
from penstock.metrics.snapshot import LatencyMetrics
from penstock.plan.transition import Transition


@runtime_checkable
class LatencyTotals(Protocol):
    """Measures latency over the whole run, with true percentiles."""

    def latency_totals(self) -> Mapping[str, LatencyMetrics]:
        """Metrics by constraint; one without measurements is missing."""


@runtime_checkable
class OwnTime(Protocol):
    """Has simulated time, which passes only when it is advanced."""

    def drain_for(self, seconds: float) -> bool:
        """Close the sources and advance until the flow is empty or time is up.

        Returns True if it is empty and can be stopped.
        """


@runtime_checkable
class Transitions(Protocol):
    """Updates transitions after the change, when their effects become known."""

    def transitions(self) -> tuple[Transition, ...]:
        """All transitions of this run, with what is known so far."""


@runtime_checkable
class EventSource(Protocol):
    """Reports events, such as the restart of a pipeline or the loss of an executor."""

    def take_events(self) -> tuple[Event, ...]:
        """The events since the last call, oldest first; each is handed over once.

        May be called from any thread, and after `stop`.
        """


@runtime_checkable
class Evidence(Protocol):
    """Counts its input and reads its output back, to verify exactness."""

    def ingested(self) -> Mapping[str, int]:
        """Records taken from each generated source since the run directory was new."""

    def read_sink(self, sink: str) -> Iterator[Any] | None:
        """Return this run's rows of a sink in the order of writing.

        As Arrow tables or batches; None if they cannot be read back.
        """
