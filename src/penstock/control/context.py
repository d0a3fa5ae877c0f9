"""What a policy sees."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.dataflow.graph import Graph
from penstock.metrics.snapshot import Snapshot
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan


@dataclass(frozen=True)
class Context:
    """The dataflow, the plan in force, recent snapshots (oldest first) and the time of the run.

    `now` is in seconds since the start, on the clock that `Snapshot.at` uses. The constraints are
    the graph's own; `limits` is what a plan may use.
    """

    graph: Graph
    plan: Plan
    snapshots: tuple[Snapshot, ...]
    now: float
    limits: Limits = field(default_factory=Limits)

    @property
    def latest(self) -> Snapshot | None:
        return self.snapshots[-1] if self.snapshots else None
