"""The control loop: observe, decide, review, apply, remember. It imports no engine and no clock."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.control.guard import Guard, Reviewed
from penstock.control.past_changes import Attempt, Past
from penstock.control.policy_call import decided, told
from penstock.control.requests import Asked, nothing
from penstock.dataflow.graph import Graph
from penstock.engines.abilities import EventSource, Transitions
from penstock.engines.port import Engine
from penstock.errors import InvalidPlan, Refused
from penstock.metrics.events import Event, EventKind
from penstock.metrics.snapshot import Snapshot
from penstock.plan.change import Change
from penstock.plan.decision import Decision
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.plan.request import Mode
from penstock.plan.transition import Transition
from penstock.policies.base.policy import Context, Policy


@dataclass(frozen=True)
class Tick:
    """One turn of the loop. `plan` was in force while `snapshot` was measured.

    decision: what was decided, and carried out unless `refused` says why not; review: what the
    guard made of the policy's decision; mode: what the policy may do; error: how the policy
    failed; asked: whether somebody asked for it; memory: what the policy remembers after it;
    events: what happened since the turn before. A turn without a decision comes from a flow that
    only drains.
    """

    at: float
    plan: Plan
    snapshot: Snapshot
    decision: Decision | None = None
    transition: Transition | None = None
    refused: str | None = None
    review: Reviewed | None = None
    mode: Mode = Mode.ON
    error: str | None = None
    asked: Asked | None = None
    memory: Any = None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Rules:
    """What a run is held to: the budget, the guard, and what the policy may do at first."""

    limits: Limits = field(default_factory=Limits)
    guard: Guard = field(default_factory=Guard)
    mode: Mode = Mode.ON


USUAL = Rules()


def control(
    engine: Engine,
    graph: Graph,
    policy: Policy,
    *,
    now: Callable[[], float],
    wait: Callable[[], bool],
    record: Callable[[Tick], None],
    asked: Callable[[float], Asked | None] = nothing,
    rules: Rules = USUAL,
    time_of_day: Callable[[], float | None] = lambda: None,
    keep: int = 120,
) -> None:
    """Turn the loop as long as `wait` says so.

    `wait` blocks until the next turn is due and returns False when the run is to end; `now`
    is the time of the run in seconds; every turn goes to `record`. In a turn for which somebody
    has `asked` something, that is done, and the policy is not. A policy sees the last `keep`
    snapshots. `FlowFailed` from the engine ends the loop and is passed on.
    """
    memory: Any = None
    before: Tick | None = None
    past, mode = Past(), rules.mode
    recent: deque[Snapshot] = deque(maxlen=keep)
    while wait():
        snapshot = engine.observe()
        recent.append(snapshot)
        context = Context(graph, engine.plan, tuple(recent), now(), rules.limits)
        past = replace(_known_by_now(engine, past), time_of_day=time_of_day())
        request = asked(context.now)
        tick = Tick(context.now, context.plan, snapshot, mode=mode, asked=request, memory=memory)
        if request is not None:
            tick = _executed(engine, _asked(request, policy, rules.guard, context, tick))
            mode = mode if tick.refused is not None else request.mode or mode
        elif mode is Mode.OFF:
            tick = replace(tick, decision=Decision(None, f"policy '{policy.name}' is off"))
        else:
            decision, memory, error = decided(policy, context, memory)
            review = rules.guard.review(decision, context, past)
            tick = replace(
                tick, decision=review.decision, review=review, error=error, memory=memory
            )
            tick = tick if mode is Mode.ADVISE else _executed(engine, tick)
        past = _after(past, tick, engine.plan, now())
        tick = replace(tick, events=(*taken_events(engine), *_own_events(tick, before)))
        record(tick)
        before = tick


def taken_events(engine: Engine) -> tuple[Event, ...]:
    """The engine's events since they were last taken; none if it reports no events."""
    return engine.take_events() if isinstance(engine, EventSource) else ()


def _own_events(tick: Tick, before: Tick | None) -> Iterator[Event]:
    """Refusals and failures of the policy, unless the turn before had the same."""
    if _is_new(tick.refused, before.refused if before else None):
        reason = "" if tick.decision is None else tick.decision.reason
        text = f"{reason}: {tick.refused}" if reason else str(tick.refused)
        yield Event(tick.at, EventKind.REFUSED, " ".join(text.split()))
    if _is_new(tick.error, before.error if before else None):
        yield Event(tick.at, EventKind.POLICY_FAILED, str(tick.error))


def _is_new(text: str | None, before: str | None) -> bool:
    """True if there is a text and it differs from the one before in more than its numbers."""
    return text is not None and re.sub(r"\d+", "#", text) != re.sub(r"\d+", "#", before or "")


def _asked(request: Asked, policy: Policy, guard: Guard, context: Context, tick: Tick) -> Tick:
    """The decision that was asked for, or why it cannot be."""
    try:
        decision = request.decide(context, policy)
    except (InvalidPlan, Refused) as refusal:
        return replace(tick, decision=Decision(None, request.reason), refused=str(refusal))
    except Exception as error:  # a policy decides some requests: it must not end the flow
        why = f"'{request.request}' cannot be decided: {told(error)}"
        return replace(tick, decision=Decision(None, request.reason), refused=why)
    why_not = None if decision.plan is None else guard.permit(decision.plan, context)
    if why_not is not None:
        return replace(tick, decision=replace(decision, plan=None), refused=why_not)
    return replace(tick, decision=decision)


def _executed(engine: Engine, tick: Tick) -> Tick:
    """Carry the decision out. A refusal is an outcome like any other: the flow goes on."""
    decision = tick.decision
    if decision is None or decision.plan is None or decision.plan == tick.plan:
        return tick
    try:
        return replace(tick, transition=engine.apply(decision.plan, decision.reason))
    except (InvalidPlan, Refused) as refusal:
        return replace(tick, refused=str(refusal))


def _known_by_now(engine: Engine, past: Past) -> Past:
    return past.known_by_now(engine.transitions()) if isinstance(engine, Transitions) else past


def _after(past: Past, tick: Tick, plan: Plan, now: float) -> Past:
    """The past with this turn in it; `plan` is in force after it."""
    if tick.transition is not None and (change := Change(tick.plan, plan)):
        return replace(past.with_made(now, change, tick.transition), refused=None)
    if tick.refused is not None and tick.decision is not None and tick.decision.plan is not None:
        return replace(past, refused=Attempt(now, tick.decision.plan, tick.refused))
    return past
