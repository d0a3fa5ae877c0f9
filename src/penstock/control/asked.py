"""What somebody asked of a running flow; it goes before what the policy wants."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.request import Request


@dataclass(frozen=True)
class Asked:
    """A request, and how it came: `scripted` with the start of the run, or `asked` since."""

    how: str
    request: Request

    @property
    def reason(self) -> str:
        return f"{self.how}: {self.request}"


def nothing(at: float) -> Asked | None:
    """What was asked of a flow that nobody can talk to."""
    return None
