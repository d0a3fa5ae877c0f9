"""The one interface of all policies."""

from __future__ import annotations

from typing import Any, Protocol

from penstock.control.context import Context
from penstock.plan.decision import Decision


class Policy(Protocol):
    """Looks at a context and decides; pure.

    A policy reads no clock, does no I/O and keeps nothing in itself: whatever it wants to know
    next time it returns as memory, and gets back then. The first time its memory is None.
    """

    @property
    def name(self) -> str:
        """The name it is asked for by."""

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        """A decision, and what to remember."""
