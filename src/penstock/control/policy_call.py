"""Asking a policy, whoever wrote it."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

from penstock.plan.decision import Decision
from penstock.policies.base.policy import Context, Policy


def decided(policy: Policy, context: Context, memory: Any) -> tuple[Decision, Any, str | None]:
    """A decision, what to remember, and how the policy failed if it did.

    One that fails decides nothing and remembers what it did before: the flow goes on under its
    plan, and the policy is asked again next time.
    """
    try:
        decision, after = policy.decide(context, memory)
        if not isinstance(decision, Decision):
            raise TypeError(f"decide returned {type(decision).__name__}, not a Decision")
    except Exception as error:
        why = f"policy '{policy.name}' failed: {told(error)}"
        return Decision(None, why), memory, why
    return decision, after, None


def told(error: Exception) -> str:
    """An error of somebody's code in one line, with the place where it happened."""
    message = " ".join(str(error).split())
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {message}{place}"
