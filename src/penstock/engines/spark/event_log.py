"""The events of a run: logged at once, and kept until the control loop takes them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from penstock.metrics.events import Event, EventKind

log = logging.getLogger(__name__)


class EventLog:
    """Events may be added from any thread. `clock` tells the seconds since the start of the run."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waiting: deque[Event] = deque(maxlen=1000)

    def add(self, kind: EventKind, text: str, pipeline: str | None = None) -> None:
        event = Event(self._clock(), kind, text, pipeline)
        self._waiting.append(event)
        log.log(logging.WARNING if event.is_problem else logging.INFO, "%s: %s", kind, text)

    def take(self) -> tuple[Event, ...]:
        """The events since the last call, oldest first."""
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        return tuple(taken)
