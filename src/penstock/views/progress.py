"""What a policy has to say while it works, in lines: for runs whose point is the policy."""

from __future__ import annotations

import re
from typing import TextIO

from penstock import text
from penstock.control.status import Status
from penstock.store.turn import Tick
from penstock.views.notices import News


class ProgressView:
    """Writes a line when a phase begins, when the policy says something else, and in between.

    Sentences that differ in their numbers alone are the same one, told again every `every` seconds.
    """

    def __init__(self, out: TextIO, every: float = 20.0) -> None:
        self._out = out
        self._every = every
        self._phase = ""
        self._tick: Tick | None = None
        self._said = ""
        self._written = 0.0
        self._news = News()

    def show(self, status: Status) -> None:
        if status.phase != self._phase:
            self._phase = status.phase
            if status.phase != "running":
                self._write(status, status.phase)
        if status.tick is None or status.tick is self._tick or status.phase != "running":
            return
        self._tick = status.tick
        for kind, news in self._news.of(status.tick):
            self._write(status, f"{kind}: {news}")
        self._say(status, status.tick)

    def close(self) -> None:
        self._out.flush()

    def _say(self, status: Status, tick: Tick) -> None:
        if tick.decision is None:
            return
        said = re.sub(r"[\d.]+", "#", tick.decision.reason)
        due = status.elapsed - self._written >= self._every
        if said != self._said or tick.transition is not None or due:
            self._said = said
            self._write(
                status, f"{tick.decision.reason} (in {text.rate(tick.snapshot.throughput)}/s)"
            )

    def _write(self, status: Status, what: str) -> None:
        self._written = status.elapsed
        line = text.line(f"{status.graph.name}: {what}")
        print(f"[{text.clock(status.elapsed):>5}] {line}", file=self._out)
        self._out.flush()
