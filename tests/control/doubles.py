"""Stand-ins for time and engine, so that a run of a minute takes no time."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from penstock.control.clock import Clock
from penstock.control.status import Status
from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.engines.memory import MemoryEngine
from penstock.errors import FlowFailed
from penstock.metrics.snapshot import Snapshot


def flow(name: str = "numbers", limit: int | None = None) -> Dataflow:
    made = Dataflow(name)
    source = Generator(lambda rng, index, at: {"n": index}, "n bigint", "100/s", limit=limit)
    numbers = made.source("numbers", source).map("double", lambda r: r, schema="n bigint")
    numbers.sink("out", Discard())
    made.constrain("numbers", "double", latency="1s")
    return made


class FakeTime:
    """A clock that goes on when somebody sleeps, and takes an engine along."""

    def __init__(self, engine: MemoryEngine, at: Mapping[float, Callable[[], Any]] | None = None):
        self.time = 1000.0
        self.engine = engine
        self.events = sorted((1000.0 + when, what) for when, what in (at or {}).items())
        self.clock = Clock(now=lambda: self.time, sleep=self.sleep, wall=lambda: 1.7e9 + self.time)

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        if seconds > 1e-6:  # what is left over by rounding would be a window without records
            self.engine.advance(round(seconds, 6))
        while self.events and self.events[0][0] <= self.time:
            self.events.pop(0)[1]()


class FailingEngine(MemoryEngine):
    """Fails when it is looked at the fourth time."""

    looked = 0
    stopped: bool | None = None

    def observe(self) -> Snapshot:
        self.looked += 1
        if self.looked == 4:
            raise FlowFailed("operator 'double' (flow.py:7) failed: boom")
        return super().observe()

    def stop(self, drain: bool = True) -> None:
        self.stopped = drain
        super().stop(drain)


class StuckEngine(MemoryEngine):
    """Drains for ever, presses Ctrl-C meanwhile, and ends only when it is cut short."""

    def __init__(self) -> None:
        super().__init__()
        self._cut = threading.Event()
        self.calls: list[bool] = []

    def stop(self, drain: bool = True) -> None:
        self.calls.append(drain)
        if not drain:
            self._cut.set()
            super().stop(drain=False)
            return
        os.kill(os.getpid(), signal.SIGINT)
        self._cut.wait(timeout=20)


class TellingEngine(MemoryEngine):
    """Says what went in and what came out."""

    def __init__(self, rows: Mapping[str, int], found: Any) -> None:
        super().__init__()
        self._told, self._found = rows, found

    def ingested(self) -> Mapping[str, int]:
        return self._told

    def read_sink(self, sink: str) -> Iterator[Any] | None:
        return iter([self._found])


class Watcher:
    """A view that remembers."""

    def __init__(self) -> None:
        self.seen: list[Status] = []
        self.closed = 0

    def show(self, status: Status) -> None:
        self.seen.append(status)

    def close(self) -> None:
        self.closed += 1

    @property
    def phases(self) -> list[str]:
        return list(dict.fromkeys(s.phase for s in self.seen))
