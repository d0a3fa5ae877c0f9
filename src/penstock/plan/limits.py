"""Budgets for plans, and how a plan is cut to fit one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.dataflow.graph import Graph
from penstock.errors import InvalidInput
from penstock.plan import fusion
from penstock.plan.plan import Pipeline, Plan


@dataclass(frozen=True)
class Limits:
    """A budget: most instances in all, and most executors. None is no limit.

    executor_slots: instances that one executor runs at a time, if known.
    """

    slots: int | None = None
    executors: int | None = None
    executor_slots: int | None = None

    def __post_init__(self) -> None:
        for word in ("slots", "executors", "executor_slots"):
            value = getattr(self, word)
            if value is not None and value < 1:
                raise InvalidInput(f"a budget of {value} {word.replace('_', ' ')} runs nothing")

    def exceeded(self, plan: Plan) -> str | None:
        """Return why a plan exceeds the budget, or None."""
        if self.slots is not None and plan.slots > self.slots:
            return f"{plan.slots} instances, the budget is {self.slots}"
        if self.executors is not None and plan.executors > self.executors:
            return f"{plan.executors} executors, the budget is {self.executors}"
        return None


def within(limits: Limits, plan: Plan, before: Plan, graph: Graph) -> Plan | None:
    """Return the nearest plan within the budget; None if no plan is.

    Instances that the plan adds to `before` are cut first, the largest additions most. Only then
    are pipelines cut below what they had, the largest most. No pipeline goes below its bounds.
    """
    if limits.executors is not None and plan.executors > limits.executors:
        plan = replace(plan, executors=limits.executors)
    if limits.slots is None or plan.slots <= limits.slots:
        return plan
    wanted = [p.parallelism for p in plan.pipelines]
    least = [fusion.bounds(graph, p.operators).least for p in plan.pipelines]
    had = [_instances(before, p) for p in plan.pipelines]
    kept = [max(low, min(w, h)) for low, w, h in zip(least, wanted, had, strict=True)]
    if sum(least) > limits.slots:
        return None
    floor = kept if sum(kept) <= limits.slots else least
    top = wanted if floor is kept else kept
    above = [most - low for most, low in zip(top, floor, strict=True)]
    left = levelled(above, limits.slots - sum(floor))
    return replace(
        plan,
        pipelines=tuple(
            replace(pipeline, parallelism=low + more)
            for pipeline, low, more in zip(plan.pipelines, floor, left, strict=True)
        ),
    )


def levelled(amounts: Sequence[int], total: int) -> list[int]:
    """Reduce the largest amounts, one unit at a time, until the sum is at most `total`.

    Among equal amounts, the last one is reduced first.
    """
    if sum(amounts) <= total:
        return list(amounts)
    low, high = 0, max(amounts)
    while low < high:  # find the highest cap at which the sum is within the total
        level = (low + high + 1) // 2
        if sum(min(a, level) for a in amounts) <= total:
            low = level
        else:
            high = level - 1
    left = [min(a, low) for a in amounts]
    spare = total - sum(left)
    for at, amount in enumerate(amounts):
        if spare > 0 and amount > low:
            left[at] += 1
            spare -= 1
    return left


def _instances(before: Plan, pipeline: Pipeline) -> int:
    """Return the instances of the same pipeline in `before`; 0 if it is new."""
    same = (p.parallelism for p in before.pipelines if p.operators == pipeline.operators)
    return next(same, 0)
