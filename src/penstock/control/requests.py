"""Requests to a running flow, scripted before it starts or made while it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from penstock.dataflow import duration
from penstock.errors import InvalidInput, Refused
from penstock.plan.decision import Decision
from penstock.plan.request import Request, RequestList, ScaleIn, ScaleOut, parse
from penstock.policies.base import registry
from penstock.policies.base.policy import Context, Policy
from penstock.store.turn import UserRequest


def decision_for(request: UserRequest, context: Context, policy: Policy | None = None) -> Decision:
    """The decision that carries out a user's request; it always has a plan.

    policy: the policy of the run, which is asked to scale out and in if it can.
    Raises `InvalidPlan` or `Refused`.
    """
    decision = decide(request.request, context, policy)
    why = f"; {decision.reason}" if decision.reason else ""
    return replace(decision, reason=f"{request.reason}{why}")


def decide(request: Request, context: Context, policy: Policy | None = None) -> Decision:
    """The plan that a request leads to, with the numbers it is based on.

    The plan is the one in force if nothing changes. Raises `InvalidPlan` or `Refused`.
    """
    match request:
        case RequestList(requests):
            return _in_sequence(requests, context, policy)
        case ScaleOut(executors):
            return _or_refused(registry.on_demand(policy).scale_out(context, executors))
        case ScaleIn(executors):
            return _or_refused(registry.on_demand(policy).scale_in(context, executors))
        case _:
            return Decision(request.apply(context.plan, context.graph), "")


def no_request(at: float) -> UserRequest | None:
    """The next request of a flow that nobody can talk to: None."""
    return None


def _or_refused(decision: Decision) -> Decision:
    if decision.plan is None:
        raise Refused(decision.reason)
    return decision


def _in_sequence(
    requests: tuple[Request, ...], context: Context, policy: Policy | None
) -> Decision:
    """Apply each request to the plan that the one before it made; all see the same snapshots."""
    reasons: list[str] = []
    numbers: dict[str, float] = {}
    for request in requests:
        decision = decide(request, context, policy)
        numbers |= decision.numbers
        reasons += [decision.reason] if decision.reason else []
        if decision.plan is not None:
            context = replace(context, plan=decision.plan)
    return Decision(context.plan, "; ".join(reasons), numbers)


# --- scripts ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScriptedChange:
    """A request, and the second of the run at which it is made."""

    at: float
    request: Request

    def __str__(self) -> str:
        return f"{duration.text(self.at)}:{self.request}"


def parse_change(text: str) -> ScriptedChange:
    """Read `20s:count=4`. Raises `InvalidInput`."""
    when, colon, what = text.partition(":")
    if not colon:
        raise InvalidInput(
            f"cannot read the change '{text}': write the time and the change, as in 20s:count=4"
        )
    at = duration.seconds(when)
    if at < 0:
        raise InvalidInput(f"the change '{text}' comes before the start of the run")
    return ScriptedChange(at, parse(what))


class Script:
    """Scripted changes in the order of their times; those due at the same time are one change."""

    def __init__(self, changes: Iterable[ScriptedChange] = ()) -> None:
        self._left = sorted(changes, key=lambda change: change.at)

    @property
    def left(self) -> tuple[str, ...]:
        """The changes that are still to come, as they were written."""
        return tuple(str(change) for change in self._left)

    def due(self, at: float) -> bool:
        return bool(self._left) and self._left[0].at <= at

    def take(self, at: float) -> UserRequest | None:
        """Remove and return what is due, or None."""
        due: list[Request] = []
        while self.due(at):
            due.append(self._left.pop(0).request)
        if not due:
            return None
        return UserRequest("scripted", due[0] if len(due) == 1 else RequestList(tuple(due)))
