"""What an engine may offer beyond the port; the run is richer with it and works without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from penstock.metrics.events import Event
from penstock.metrics.snapshot import LatencyMetrics
from penstock.plan.transition import Transition


@runtime_checkable
class LatencyTotals(Protocol):
    """Keeps latency over the whole run, with true percentiles."""

    def latency_totals(self) -> Mapping[str, LatencyMetrics]:
        """By the name of the constraint; one that was not measured is missing."""


@runtime_checkable
class OwnTime(Protocol):
    """Has a time of its own, which passes when it is told to, however fast the machine is."""

    def drain_for(self, seconds: float) -> bool:
        """Take nothing more from outside, and let so many seconds of its time pass at most.

        Whether nothing is left in it; then it can be stopped.
        """


@runtime_checkable
class Transitions(Protocol):
    """Goes on watching a change after it is through: what came of it is known only later."""

    def transitions(self) -> tuple[Transition, ...]:
        """All changes of this run, with what is known of them by now."""


@runtime_checkable
class EventSource(Protocol):
    """Reports events, such as the restart of a pipeline or the loss of an executor."""

    def take_events(self) -> tuple[Event, ...]:
        """The events since the last call, oldest first; each is handed over once.

        May be called from any thread, and after `stop`.
        """


@runtime_checkable
class Evidence(Protocol):
    """Can say afterwards what went in and what came out, so that exactness can be judged."""

    def ingested(self) -> Mapping[str, int]:
        """Records taken from each generated source since the run directory was new."""

    def read_sink(self, sink: str) -> Iterator[Any] | None:
        """This run's rows of a sink in the order of writing, as Arrow tables or batches.

        None where they cannot be read back.
        """
