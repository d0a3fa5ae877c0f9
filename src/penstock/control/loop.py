"""The control loop: observe, decide, review, apply, record. It imports no engine and no clock."""

from __future__ import annotations

import logging
import re
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.control.guard import Guard
from penstock.control.past_changes import PastChanges, RefusedPlan
from penstock.control.requests import decision_for, no_request
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
from penstock.policies.base.policy import Context, Policy
from penstock.store.turn import Tick, UserRequest

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ControlSettings:
    """The budget, the guard, and what the policy may do at first."""

    limits: Limits = field(default_factory=Limits)
    guard: Guard = field(default_factory=Guard)
    mode: Mode = Mode.ON


@dataclass(frozen=True)
class LoopState:
    """What the loop knows from one turn to the next; a resumed run continues with it.

    now: the loop's time in seconds, which goes on where the run before ended; memory: what the
    policy remembers; past: what was changed; recent: the last snapshots; snapshot_offset: seconds
    from the engine's clock to the loop's. The times of `past` and `recent` are the loop's.
    """

    now: float = 0.0
    memory: Any = None
    past: PastChanges = field(default_factory=PastChanges)
    recent: tuple[Snapshot, ...] = ()
    snapshot_offset: float = 0.0


DEFAULT_SETTINGS = ControlSettings()
NEW = LoopState()


def control(
    engine: Engine,
    graph: Graph,
    policy: Policy,
    *,
    now: Callable[[], float],
    wait: Callable[[], bool],
    record: Callable[[Tick], None],
    requests: Callable[[float], UserRequest | None] = no_request,
    settings: ControlSettings = DEFAULT_SETTINGS,
    time_of_day: Callable[[], float | None] = lambda: None,
    keep: int = 120,
    state: LoopState = NEW,
    save: Callable[[LoopState], None] = lambda state: None,
) -> None:
    """Run the loop as long as `wait` returns True.

    `wait` blocks until the next turn is due; `now` is the time of the run in seconds; every turn
    goes to `record`, and what the next one needs to `save`. If `requests` returns a request, it is
    carried out instead of the policy's decision. A policy sees the last `keep` snapshots.
    `FlowFailed` from the engine ends the loop and is passed on.
    """
    began, before = state.now, None
    memory, past, mode = state.memory, state.past, settings.mode
    recent: deque[Snapshot] = deque(state.recent, maxlen=keep)
    while wait():
        snapshot = engine.observe()
        recent.append(_shifted(snapshot, state.snapshot_offset))
        at = now()
        context = Context(graph, engine.plan, tuple(recent), began + at, settings.limits)
        past = replace(_updated(past, engine, began), began=began, time_of_day=time_of_day())
        request = requests(at)
        tick = Tick(at, context.plan, snapshot, mode=mode, request=request, memory=memory)
        if request is not None:
            tick = _apply(engine, _decide_request(request, policy, settings.guard, context, tick))
            mode = mode if tick.refused is not None else request.mode or mode
        elif mode is Mode.OFF:
            tick = replace(tick, decision=Decision(None, f"policy '{policy.name}' is off"))
        else:
            decision, memory, error = ask_policy(policy, context, memory)
            review = settings.guard.review(decision, context, past)
            tick = replace(
                tick, decision=review.decision, review=review, error=error, memory=memory
            )
            tick = tick if mode is Mode.ADVISE else _apply(engine, tick)
        past = _with_turn(past, tick, engine.plan, began + now())
        tick = replace(tick, events=(*take_events(engine), *_own_events(tick, before)))
        save(LoopState(began + now(), memory, past, tuple(recent), state.snapshot_offset))
        record(tick)
        before = tick
    save(LoopState(began + now(), memory, past, tuple(recent), state.snapshot_offset))


def ask_policy(policy: Policy, context: Context, memory: Any) -> tuple[Decision, Any, str | None]:
    """The policy's decision, its new memory, and how it failed, if it did.

    A policy that fails decides nothing and keeps its memory: the flow goes on under its plan, and
    the policy is asked again in the next turn.
    """
    try:
        decision, after = policy.decide(context, memory)
        if not isinstance(decision, Decision):
            raise TypeError(f"decide returned {type(decision).__name__}, not a Decision")
    except Exception as error:
        log.debug("policy %r failed", policy.name, exc_info=True)
        why = f"policy '{policy.name}' failed: {error_line(error)}"
        return Decision(None, why), memory, why
    return decision, after, None


def error_line(error: Exception) -> str:
    """An error of somebody else's code in one line, with the place where it was raised."""
    message = " ".join(str(error).split())
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {message}{place}"


def take_events(engine: Engine) -> tuple[Event, ...]:
    """The engine's events since they were last taken; none if it reports no events."""
    return engine.take_events() if isinstance(engine, EventSource) else ()


def _decide_request(
    request: UserRequest, policy: Policy, guard: Guard, context: Context, tick: Tick
) -> Tick:
    """The turn with the decision that was asked for, or with the reason why there is none."""
    try:
        decision = decision_for(request, context, policy)
    except (InvalidPlan, Refused) as refusal:
        return replace(tick, decision=Decision(None, request.reason), refused=str(refusal))
    except Exception as error:  # a policy decides some requests: it must not end the flow
        why = f"'{request.request}' cannot be decided: {error_line(error)}"
        return replace(tick, decision=Decision(None, request.reason), refused=why)
    why_not = None if decision.plan is None else guard.permit(decision.plan, context)
    if why_not is not None:
        return replace(tick, decision=replace(decision, plan=None), refused=why_not)
    return replace(tick, decision=decision)


def _apply(engine: Engine, tick: Tick) -> Tick:
    """Carry the decision out. If the engine refuses it, the flow goes on under its plan."""
    decision = tick.decision
    if decision is None or decision.plan is None or decision.plan == tick.plan:
        return tick
    log.info("%s: %s", Change(tick.plan, decision.plan), decision.reason)
    try:
        return replace(tick, transition=engine.apply(decision.plan, decision.reason))
    except (InvalidPlan, Refused) as refusal:
        return replace(tick, refused=str(refusal))


def _shifted(snapshot: Snapshot, offset: float) -> Snapshot:
    return replace(snapshot, at=snapshot.at + offset) if offset else snapshot


def _updated(past: PastChanges, engine: Engine, began: float) -> PastChanges:
    """The past with what the engine has found out since about the changes of this run."""
    if not isinstance(engine, Transitions):
        return past
    return past.with_outcomes(engine.transitions(), since=began)


def _with_turn(past: PastChanges, tick: Tick, plan: Plan, now: float) -> PastChanges:
    """The past with this turn in it; `plan` is in force after it."""
    if tick.transition is not None and (change := Change(tick.plan, plan)):
        return replace(past.with_change(now, change, tick.transition), refused=None)
    if tick.refused is not None and tick.decision is not None and tick.decision.plan is not None:
        return replace(past, refused=RefusedPlan(now, tick.decision.plan, tick.refused))
    return past


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
