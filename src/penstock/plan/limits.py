"""What a plan may use at most, and how a plan is cut to fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.dataflow.graph import Graph
from penstock.errors import InvalidInput
from penstock.plan import fusion
from penstock.plan.plan import Pipeline, Plan


@dataclass(frozen=True)
class Limits:
    """A budget: instances in all, and executors. None is no limit.

    executor_slots: how many instances one executor runs at a time, where that is known.
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
        """Why a plan is more than the budget, None if it is not."""
        if self.slots is not None and plan.slots > self.slots:
            return f"{plan.slots} instances, the budget is {self.slots}"
        if self.executors is not None and plan.executors > self.executors:
            return f"{plan.executors} executors, the budget is {self.executors}"
        return None


def within(limits: Limits, plan: Plan, before: Plan, graph: Graph) -> Plan | None:
    """The nearest plan that the budget allows, None if even the least is more than it.

    What the plan adds to the one before it is cut first, the largest addition most; only then
    are pipelines cut below what they had, the largest most. None goes below its bounds.
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
    """The amounts with one after the other taken from the largest, until they add up to `total`.

    Among equals the last one gives first.
    """
    if sum(amounts) <= total:
        return list(amounts)
    low, high = 0, max(amounts)
    while low < high:  # the highest level at which the sum is not above the total
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
    """What the same pipeline had; one that is made of others begins with nothing."""
    same = (p.parallelism for p in before.pipelines if p.operators == pipeline.operators)
    return next(same, 0)
