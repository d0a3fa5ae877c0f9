"""The control loop: observe, decide, apply, remember. No engine and no clock is imported here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from penstock.control.asked import Asked, nothing
from penstock.control.context import Context
from penstock.dataflow.graph import Graph
from penstock.engines.port import Engine
from penstock.errors import InvalidPlan, Refused
from penstock.metrics.snapshot import Snapshot
from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.plan.transition import Transition
from penstock.policies.policy import Policy


@dataclass(frozen=True)
class Tick:
    """One turn of the loop. `plan` was in force while `snapshot` was measured.

    `refused` says why a decision was not carried out. A turn without a decision comes from a
    flow that only drains.
    """

    at: float
    plan: Plan
    snapshot: Snapshot
    decision: Decision | None = None
    transition: Transition | None = None
    refused: str | None = None


def control(
    engine: Engine,
    graph: Graph,
    policy: Policy,
    *,
    now: Callable[[], float],
    wait: Callable[[], bool],
    record: Callable[[Tick], None],
    asked: Callable[[float], Asked | None] = nothing,
    keep: int = 120,
) -> None:
    """Turn the loop as long as `wait` says so.

    `wait` blocks until the next turn is due and returns False when the run is to end; `now`
    is the time of the run in seconds; every turn goes to `record`. In a turn for which somebody
    has `asked` something, that is done, and the policy is not. A policy sees the last `keep`
    snapshots. `FlowFailed` from the engine ends the loop and is passed on.
    """
    memory: Any = None
    recent: deque[Snapshot] = deque(maxlen=keep)
    while wait():
        snapshot = engine.observe()
        recent.append(snapshot)
        tick = Tick(now(), engine.plan, snapshot)
        request = asked(tick.at)
        if request is not None:
            tick = _decided_by(request, tick, graph)
        else:
            context = Context(graph, tick.plan, tuple(recent), tick.at)
            decision, memory = policy.decide(context, memory)
            tick = replace(tick, decision=decision)
        record(_execute(engine, tick))


def _decided_by(asked: Asked, tick: Tick, graph: Graph) -> Tick:
    """The decision that was asked for, or why it cannot be."""
    try:
        plan = asked.request.apply(tick.plan, graph)
    except (InvalidPlan, Refused) as refusal:
        return replace(tick, decision=Decision(None, asked.reason), refused=str(refusal))
    return replace(tick, decision=Decision(plan, asked.reason))


def _execute(engine: Engine, tick: Tick) -> Tick:
    """Carry the decision out. A refusal is an outcome like any other: the flow goes on."""
    decision = tick.decision
    if decision is None or decision.plan is None or decision.plan == tick.plan:
        return tick
    try:
        return replace(tick, transition=engine.apply(decision.plan, decision.reason))
    except (InvalidPlan, Refused) as refusal:
        return replace(tick, refused=str(refusal))
