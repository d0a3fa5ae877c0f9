"""The interface of all policies, and the context that they decide on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from penstock.dataflow.graph import Graph
from penstock.metrics.snapshot import Snapshot
from penstock.plan.decision import Decision
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


class Policy(Protocol):
    """Looks at a context and decides; pure.

    A policy reads no clock, does no I/O and keeps nothing in itself: whatever it wants to know
    next time it returns as memory, and gets back then. The first time its memory is None.
    """

    @property
    def name(self) -> str:
        """The name it is asked for by."""

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        """A decision, and what to remember."""


@runtime_checkable
class OnDemand(Protocol):
    """A policy that can also be asked for more or fewer executors.

    The decision has no plan if that is impossible; its reason says why.
    """

    def scale_out(self, context: Context, executors: int) -> Decision:
        """A plan with so many executors more."""

    def scale_in(self, context: Context, executors: int) -> Decision:
        """A plan with so many executors fewer."""
