"""The status of a run, and the interface of the views that show it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.dataflow.graph import Graph
from penstock.plan.plan import Plan
from penstock.store.turn import Tick


@dataclass(frozen=True)
class Status:
    """A run at one moment. `phase` is starting, running, draining, stopping or verifying.

    elapsed, seconds (None: until stopped): since the start of the flow; tick, plan: None before
    the first snapshot; trouble: a problem that does not affect the flow, such as a history that
    cannot be written; alarm: a problem with its results.
    """

    graph: Graph
    engine: str
    policy: str
    phase: str
    elapsed: float
    seconds: float | None
    run_dir: Path
    plan: Plan | None = None
    tick: Tick | None = None
    trouble: str | None = None
    alarm: str | None = None


class View(Protocol):
    """Shows a run to somebody."""

    def show(self, status: Status) -> None:
        """Show the run as it is now; called about once a second, always from one thread."""

    def close(self) -> None:
        """Called once, when the run is over or has failed."""
