"""What a plan may use at most."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import InvalidInput
from penstock.plan.plan import Plan


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
