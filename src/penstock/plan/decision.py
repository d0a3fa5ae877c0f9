"""What a policy decides, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.notebook_display import Shown
from penstock.plan.plan import Plan

GAIN_ROWS, GAIN_SECONDS, UNDO = "gain_rows", "gain_seconds", "undo"
"""Keys of `Decision.numbers` that the guard reads.

GAIN_ROWS: expected gain in rows per second; GAIN_SECONDS: expected gain in seconds per row;
UNDO: 1 if the decision takes back an earlier change that was measured and did not pay."""


@dataclass(frozen=True)
class Decision(Shown):
    """A new plan, or None to keep the current one, with the reason in words and numbers."""

    plan: Plan | None
    reason: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "plan": None if self.plan is None else self.plan.to_json(),
            "reason": self.reason,
            "numbers": dict(self.numbers),
        }
