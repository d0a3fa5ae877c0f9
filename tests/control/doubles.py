"""Stand-ins for time and engine, so that a run of a minute takes no time."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.app import run
from penstock.clock import Clock
from penstock.control.status import Status
from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.errors import FlowFailed
from penstock.metrics.snapshot import Snapshot
from penstock.plan.plan import Plan
from penstock.plan.transition import Transition
from penstock.store.mailbox import is_running
from penstock.testing import MemoryEngine


def flow(name: str = "numbers", limit: int | None = None) -> Dataflow:
    made = Dataflow(name)
    source = Generator(lambda rng, index, at: {"n": index}, "n bigint", "100/s", limit=limit)
    numbers = made.source("numbers", source).map("double", lambda r: r, schema="n bigint")
    numbers.sink("out", Discard())
    made.constrain("numbers", "double", latency="1s")
    return made


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


class LossyEngine(MemoryEngine):
    """Makes dead letters of a part of what it takes in."""

    def __init__(self, lost: float, before: int = 0) -> None:
        super().__init__()
        self._lost, self._before = lost, before

    def observe(self) -> Snapshot:
        seen = super().observe()
        return replace(seen, rows_dead=self._before + int(self._lost * seen.rows_ingested))


class SlowEngine(MemoryEngine):
    """Takes as long for a change as it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.changing, self.may_end = threading.Event(), threading.Event()

    def apply(self, plan: Plan, reason: str = "") -> Transition:
        self.changing.set()
        assert self.may_end.wait(timeout=20)
        return super().apply(plan, reason)


@contextmanager
def running(run_dir: Path, engine: MemoryEngine) -> Iterator[None]:
    """`flow()` runs in another thread, ten times as fast, and can be asked; it ends with this."""
    over = threading.Event()

    def sleep(seconds: float) -> None:
        time.sleep(seconds / 10)
        engine.advance(round(seconds, 6) or 0.001)

    def now() -> float:
        return time.monotonic() + (1e9 if over.is_set() else 0.0)

    def whole() -> None:
        run(flow(), engine=engine, seconds=1e6, run_dir=run_dir, clock=Clock(now, sleep))

    thread = threading.Thread(target=whole)
    thread.start()
    try:
        until = time.monotonic() + 20
        while not is_running(run_dir):
            assert time.monotonic() < until
            time.sleep(0.01)
        yield
    finally:
        over.set()
        thread.join(timeout=20)
    assert not thread.is_alive()
