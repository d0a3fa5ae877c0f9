"""The policy interface, and the context that a policy decides on."""

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
    """Everything a policy may base a decision on.

    plan: the plan in force; snapshots: recent measurements, oldest first; now: seconds since the
    start of the run, on the clock of `Snapshot.at`; limits: the resources a plan may use. Latency
    constraints are part of the graph.
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
    """Decides on the next plan. A policy is a pure function of context and memory.

    It reads no clock, does no I/O and has no state of its own. What it needs in the next turn it
    returns as memory, and receives back then; in the first turn memory is None. An attribute
    `memory_type` makes the memory survive a restart of the run: see `policies.base.memory`.
    """

    @property
    def name(self) -> str:
        """Name in the registry and on the command line."""

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        """Return a decision and the memory for the next turn."""


@runtime_checkable
class OnDemand(Protocol):
    """A policy that can also be asked for more or fewer executors.

    The decision has no plan if that is impossible; its reason says why.
    """

    def scale_out(self, context: Context, executors: int) -> Decision:
        """A plan with so many executors more."""

    def scale_in(self, context: Context, executors: int) -> Decision:
        """A plan with so many executors fewer."""
