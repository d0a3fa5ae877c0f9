"""What somebody asked of a running flow; it goes before what the policy wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from penstock.errors import Refused
from penstock.plan.decision import Decision
from penstock.plan.request import Mode, Request, RequestList, ScaleIn, ScaleOut, SetPolicyMode
from penstock.policies.base.policy import Context


@dataclass(frozen=True)
class Asked:
    """A request, and how it came: `scripted` with the start of the run, or `asked` since."""

    how: str
    request: Request

    @property
    def reason(self) -> str:
        return f"{self.how}: {self.request}"

    @property
    def mode(self) -> Mode | None:
        """The mode that it puts the policy in, None if it says nothing of that."""
        parts = self.request.requests if isinstance(self.request, RequestList) else (self.request,)
        modes = [part.mode for part in parts if isinstance(part, SetPolicyMode)]
        return modes[-1] if modes else None

    def decide(self, context: Context, policy: Any = None) -> Decision:
        """The decision that was asked for, always with a plan; `policy` is the one of the run.

        Raises `InvalidPlan` or `Refused`.
        """
        decision = decide(self.request, context, policy)
        why = f"; {decision.reason}" if decision.reason else ""
        return replace(decision, reason=f"{self.reason}{why}")


def decide(request: Request, context: Context, policy: Any = None) -> Decision:
    """What a request comes to, with its numbers if it needed any; the same plan if nothing changes.

    Raises `InvalidPlan`, or `Refused` with the reason if nobody knows how to do it.
    """
    match request:
        case RequestList(requests):
            return _one_after_the_other(requests, context, policy)
        case ScaleOut(executors):
            return _possible(_on_demand(policy, "scale_out")(context, executors))
        case ScaleIn(executors):
            return _possible(_on_demand(policy, "scale_in")(context, executors))
        case _:
            return Decision(request.apply(context.plan, context.graph), "")


def nothing(at: float) -> Asked | None:
    """What was asked of a flow that nobody can talk to."""
    return None


def _possible(decision: Decision) -> Decision:
    if decision.plan is None:
        raise Refused(decision.reason)
    return decision


def _one_after_the_other(requests: tuple[Request, ...], context: Context, policy: Any) -> Decision:
    """Each finds the plan that the one before it made, and the measurements of the first."""
    reasons: list[str] = []
    numbers: dict[str, float] = {}
    for request in requests:
        decision = decide(request, context, policy)
        numbers |= decision.numbers
        reasons += [decision.reason] if decision.reason else []
        if decision.plan is not None:
            context = replace(context, plan=decision.plan)
    return Decision(context.plan, "; ".join(reasons), numbers)


def _on_demand(policy: Any, name: str) -> Callable[[Context, int], Decision]:
    """How the policy of the run scales on demand, as it was set; Stela's usual way if it does not.

    Stela is loaded when it is first asked for: a run without it needs none of it.
    """
    policy = getattr(policy, "inner", policy)
    found: Callable[[Context, int], Decision] | None = getattr(policy, name, None)
    if found is None:
        found = getattr(import_module("penstock.policies.stela.policy"), name)
    assert found is not None
    return found
