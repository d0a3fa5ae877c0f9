"""What a policy wants, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.notebook_display import Shown
from penstock.plan.plan import Plan

GAIN_ROWS, GAIN_SECONDS, UNDO = "gain_rows", "gain_seconds", "undo"
"""Numbers for the guard: what a change is expected to gain in rows per second, or in seconds for
every row; and 1 if it takes back a change on purpose, because that was measured and did not pay."""


@dataclass(frozen=True)
class Decision(Shown):
    """A new plan, or None to leave things as they are, with the reason in words and numbers."""

    plan: Plan | None
    reason: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "plan": None if self.plan is None else self.plan.to_json(),
            "reason": self.reason,
            "numbers": dict(self.numbers),
        }
