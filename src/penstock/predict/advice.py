"""Replays recorded snapshots to a policy and returns what it would have decided."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from penstock.control.guard import Guard
from penstock.control.loop import ask_policy
from penstock.control.past_changes import PastChanges
from penstock.dataflow.graph import Graph
from penstock.metrics.snapshot import Snapshot
from penstock.plan.change import Change
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Context, Policy
from penstock.store.history import RecordedSnapshot
from penstock.store.serialization import plain
from penstock.store.turn import Review

NO_WAITING = Guard(cooldown=0, settle=0, undo=0)
"""Guard without waiting times, because advice is never applied."""


@dataclass(frozen=True)
class Advice:
    """A policy's decision at a time, reviewed by a guard; `plan` was in force."""

    at: float
    plan: Plan
    review: Review
    error: str | None = None

    @property
    def change(self) -> Change | None:
        """The change that would have been made; None if none."""
        after = self.review.decision.plan
        return None if after is None or after == self.plan else Change(self.plan, after)

    def to_json(self) -> dict[str, Any]:
        change = self.change
        found: dict[str, Any] = plain(
            {
                "at": self.at,
                **self.review.decision.to_json(),
                "changes": [] if change is None else [str(action) for action in change.actions],
                "vetoes": self.review.vetoes,
                "error": self.error,
            }
        )
        return found


def advise(policy: Policy, context: Context, guard: Guard = NO_WAITING) -> Advice:
    """Return a policy's decision after it has seen a context's snapshots in turn.

    The policy keeps its memory of turns under the plan in force, except those at which it wanted
    another plan: nobody applied it, so the policy should neither wait for it nor take it for
    refused.
    """
    memory: Any = None
    for turn in _turns(context):
        decision, after, error = ask_policy(policy, turn, memory)
        if decision.plan in (None, context.plan):
            memory = after
    review = guard.review(decision, context, PastChanges())
    return Advice(context.now, context.plan, review, error)


def _turns(context: Context) -> Iterator[Context]:
    """Yield the contexts of earlier turns under the same plan, then this one.

    Snapshots of an earlier plan stay visible in the context but are no turns, because the policy
    would attribute them to this plan.
    """
    shots = context.snapshots
    others = [at for at, shot in enumerate(shots[:-1]) if not _shows(shot, context.plan)]
    first = others[-1] + 1 if others else 0
    for at in range(first, len(shots) - 1):
        yield replace(context, snapshots=shots[: at + 1], now=shots[at].at)
    yield context


def _shows(snapshot: Snapshot, plan: Plan) -> bool:
    """True if a snapshot fits a plan: the same pipelines and instances."""
    instances = {pipeline.name: pipeline.parallelism for pipeline in plan.pipelines}
    return all(instances.get(n) == m.parallelism for n, m in snapshot.pipelines.items())


def replay(
    policy: Policy,
    graph: Graph,
    seen: Iterable[RecordedSnapshot],
    limits: Limits | Callable[[RecordedSnapshot], Limits],
    keep: int = 120,
) -> Iterator[Advice]:
    """Yield a policy's decision at each turn of a record, under the recorded plans.

    limits: the budget, or a function of the first turn of a run that returns it. A resumed run
    starts anew, without memory or earlier snapshots. There are no decisions while a run drains.
    """
    memory: Any = None
    held = Limits() if callable(limits) else limits
    recent: deque[Snapshot] = deque(maxlen=keep)
    for one in seen:
        if one.first:
            memory = None
            held = limits(one) if callable(limits) else limits
            recent.clear()
        if one.snapshot.ending:
            continue
        recent.append(one.snapshot)
        context = Context(graph, one.plan, tuple(recent), one.snapshot.at, held)
        decision, memory, error = ask_policy(policy, context, memory)
        review = NO_WAITING.review(decision, context, PastChanges())
        yield Advice(context.now, context.plan, review, error)
