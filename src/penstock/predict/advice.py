"""What a policy would have decided: snapshots played to it again, of a run or of one case."""

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

UNHURRIED = Guard(cooldown=0, settle=0, undo=0)
"""What was advised was not done, so there is nothing to wait for."""


@dataclass(frozen=True)
class Advice:
    """What a policy wanted at one moment, and what a guard made of it; `plan` was in force."""

    at: float
    plan: Plan
    review: Review
    error: str | None = None

    @property
    def change(self) -> Change | None:
        """What would have been changed."""
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


def advise(policy: Policy, context: Context, guard: Guard = UNHURRIED) -> Advice:
    """What a policy decides in the end that has seen the snapshots of a context one by one.

    It remembers the turns since the plan has been in force, but none at which it wanted another:
    nobody did what it wanted, and it should neither wait for that nor take it for refused.
    """
    memory: Any = None
    for turn in _turns(context):
        decision, after, error = ask_policy(policy, turn, memory)
        if decision.plan in (None, context.plan):
            memory = after
    review = guard.review(decision, context, PastChanges())
    return Advice(context.now, context.plan, review, error)


def _turns(context: Context) -> Iterator[Context]:
    """The contexts that lead to this one, which is the last of them.

    What was measured under another plan can be looked back at, but is no turn: a policy would
    take it for what this plan does.
    """
    shots = context.snapshots
    others = [at for at, shot in enumerate(shots[:-1]) if not _shows(shot, context.plan)]
    first = others[-1] + 1 if others else 0
    for at in range(first, len(shots) - 1):
        yield replace(context, snapshots=shots[: at + 1], now=shots[at].at)
    yield context


def _shows(snapshot: Snapshot, plan: Plan) -> bool:
    """Whether what was measured can be of a plan: these pipelines, with as many instances."""
    instances = {pipeline.name: pipeline.parallelism for pipeline in plan.pipelines}
    return all(instances.get(n) == m.parallelism for n, m in snapshot.pipelines.items())


def replay(
    policy: Policy,
    graph: Graph,
    seen: Iterable[RecordedSnapshot],
    limits: Limits | Callable[[RecordedSnapshot], Limits],
    keep: int = 120,
) -> Iterator[Advice]:
    """What a policy decides, turn by turn, with its memory; the plans are those of the record.

    limits: the budget, or the one of the run that a turn begins. A run that was continued begins
    anew: with no memory, and with no snapshots of the one before. Nobody is asked while it ends.
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
        review = UNHURRIED.review(decision, context, PastChanges())
        yield Advice(context.now, context.plan, review, error)
