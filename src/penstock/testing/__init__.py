"""For the tests of your own policies and engines.

`MemoryEngine` runs a dataflow in numbers, `fake_clock` makes a run of an hour take no time, and
`penstock.testing.contract`, which needs pytest, tests what every engine must do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from penstock.clock import Clock
from penstock.engines.memory import MemoryEngine

__all__ = ["MemoryEngine", "fake_clock"]


class _Advancing(Protocol):
    """An engine with a time of its own."""

    def advance(self, seconds: float) -> object: ...


def fake_clock(engine: _Advancing, at: Mapping[float, Callable[[], Any]] | None = None) -> Clock:
    """A clock for `penstock.run` on which sleeping takes no time and advances the engine.

    at: functions to call once that many seconds have passed, such as one that asks for a change.
    """
    now = start = 1000.0
    events = sorted((at or {}).items())

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        if seconds > 1e-6:  # a rest from rounding would be a window without rows
            engine.advance(round(seconds, 6))
        while events and start + events[0][0] <= now:
            events.pop(0)[1]()

    return Clock(now=lambda: now, sleep=sleep, wall=lambda: 1.7e9 + now)
