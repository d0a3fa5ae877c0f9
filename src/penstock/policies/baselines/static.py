"""The policy that never changes the plan: the baseline for all others."""

from __future__ import annotations

from typing import Any

from penstock.plan.decision import Decision
from penstock.policies.base.policy import Context


class Static:
    """Keep the plan that the flow was started with."""

    name = "static"

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        return Decision(None, "static keeps its plan"), memory
