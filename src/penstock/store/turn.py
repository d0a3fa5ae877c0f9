"""One turn of the control loop as a value: what was measured, decided and done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.metrics.events import Event
from penstock.metrics.snapshot import Snapshot
from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.plan.request import Mode, Request, RequestList, SetPolicyMode
from penstock.plan.transition import Transition


@dataclass(frozen=True)
class Veto:
    """A rule of the guard that forbids a change, and why."""

    rule: str
    reason: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.reason}"


@dataclass(frozen=True)
class Review:
    """What the guard made of a policy's decision.

    decision: the decision in force, without a plan if there are vetoes; wanted: the policy's
    own decision; capped: how its plan was reduced to the budget, None if it was not.
    """

    decision: Decision
    wanted: Decision
    vetoes: tuple[Veto, ...] = ()
    capped: str | None = None


@dataclass(frozen=True)
class UserRequest:
    """A request and its origin: `scripted` with the start of the run, or `asked` while it runs."""

    origin: str
    request: Request

    @property
    def reason(self) -> str:
        return f"{self.origin}: {self.request}"

    @property
    def mode(self) -> Mode | None:
        """The policy mode that this request sets, or None."""
        parts = self.request.requests if isinstance(self.request, RequestList) else (self.request,)
        modes = [part.mode for part in parts if isinstance(part, SetPolicyMode)]
        return modes[-1] if modes else None


@dataclass(frozen=True)
class Tick:
    """One turn of the control loop. `plan` was in force while `snapshot` was measured.

    decision: carried out unless `refused` says why not, None while the flow only drains;
    review: what the guard made of the policy's decision; mode: what the policy may do; error:
    how the policy failed; request: what a user asked for in this turn; memory: the policy's
    memory after it; events: what happened since the turn before.
    """

    at: float
    plan: Plan
    snapshot: Snapshot
    decision: Decision | None = None
    transition: Transition | None = None
    refused: str | None = None
    review: Review | None = None
    mode: Mode = Mode.ON
    error: str | None = None
    request: UserRequest | None = None
    memory: Any = None
    events: tuple[Event, ...] = ()
