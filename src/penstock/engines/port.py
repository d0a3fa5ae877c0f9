"""The engine port: what the control loop needs of any engine."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from penstock.dataflow.graph import Graph
from penstock.metrics.snapshot import Snapshot
from penstock.plan.plan import Plan
from penstock.plan.transition import Transition


class Engine(Protocol):
    """Runs one dataflow under a plan that may change while it runs.

    An engine begins in the state *new*; `start` makes it *running* and `stop` makes it *stopped*
    for good. Calls in the wrong state raise `Refused`.
    """

    @property
    def name(self) -> str:
        """Name of the engine in summaries."""

    @property
    def plan(self) -> Plan:
        """The plan in force, unchanged by a refused `apply`."""

    def start(self, graph: Graph, plan: Plan | None, run_dir: Path) -> None:
        """Start, or resume where the run directory stopped or crashed.

        With `plan=None` a resumed run continues under its last plan and a new one gets the engine's
        default. Raises `RunDirectoryError` if the directory belongs to another dataflow, and leaves
        it alone.
        """

    def apply(self, plan: Plan, reason: str = "") -> Transition:
        """Change to another plan while records flow.

        A plan equal to the one in force costs nothing. Raises `InvalidPlan` or `Refused`, and then
        nothing has changed.
        """

    def observe(self) -> Snapshot:
        """Return the metrics up to now; allowed from any thread, and after `stop`."""

    def stop(self, drain: bool = True) -> None:
        """Stop the flow.

        With `drain`, the sources are closed first and every record reaches its sink. Without, the
        records in flight are kept in the run directory. Stopping twice is harmless; a second call
        with `drain=False` cuts a drain short.
        """
