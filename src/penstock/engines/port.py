"""The engine port: what the control loop needs of any engine, and nothing more."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from penstock.dataflow.graph import Graph
from penstock.metrics.snapshot import Snapshot
from penstock.plan.plan import Plan
from penstock.plan.transition import Transition


class Engine(Protocol):
    """Runs one dataflow under a plan that may change while it runs.

    An engine starts in the state *new*; `start` makes it *running* and `stop` makes it *stopped*
    for good. Calls in the wrong state raise `Refused`.
    """

    @property
    def name(self) -> str:
        """The engine's name in summaries."""

    @property
    def plan(self) -> Plan:
        """The plan in force. After a refused `apply` it is the one before."""

    def start(self, graph: Graph, plan: Plan | None, run_dir: Path) -> None:
        """Start, or go on where the run directory stopped or crashed.

        With `plan=None` a resumed run continues under its last plan and a new one gets the
        engine's default. A directory of another dataflow raises `RunDirectoryError` and is
        left alone.
        """

    def apply(self, plan: Plan, reason: str = "") -> Transition:
        """Move to another plan while records flow. A plan equal to the one in force costs nothing.

        Raises `InvalidPlan` or `Refused`, and then nothing has changed.
        """

    def observe(self) -> Snapshot:
        """What was measured up to now. May be called from any thread, and after `stop`."""

    def stop(self, drain: bool = True) -> None:
        """Stop. With `drain` the sources stop first and every record in flight reaches its sink.

        Without, whatever is in flight is kept in the run directory. Stopping twice is harmless;
        a second call with `drain=False` cuts a draining one short.
        """
