"""What a view is told while a flow runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.dataflow.graph import Graph
from penstock.plan.plan import Plan
from penstock.store.turn import Tick


@dataclass(frozen=True)
class Status:
    """A moment of a run. `phase` is starting, running, draining, stopping or verifying.

    `elapsed` and `seconds` (None: until stopped) count from the start of the flow; there is no
    tick and no plan before the first snapshot. `trouble` is what went wrong beside the flow, which
    goes on; `alarm` is what is wrong with its results.
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
        """The run as it is now; called about once a second, from one thread."""

    def close(self) -> None:
        """The run is over, well or not."""
