"""Events: what happened to a run besides its turns, such as a restart or a lost executor."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EventKind(StrEnum):
    """The kinds of events that Penstock itself reports; a view highlights those in `PROBLEMS`."""

    START = "start"
    RESUME = "resume"
    DRAIN = "drain"
    STOP = "stop"
    FAILED = "failed"
    RECOVERED = "recovered"
    RESTART = "restart"
    REFUSED = "refused"
    ROLLED_BACK = "rolled back"
    SOURCE_UNREACHABLE = "source unreachable"
    SOURCE_BACK = "source back"
    EXECUTOR_LOST = "executor lost"
    EXECUTOR_ADDED = "executor added"
    POLICY_FAILED = "policy failed"
    POLICY_RESET = "policy reset"


PROBLEMS = frozenset(
    {
        EventKind.FAILED,
        EventKind.RESTART,
        EventKind.REFUSED,
        EventKind.ROLLED_BACK,
        EventKind.SOURCE_UNREACHABLE,
        EventKind.EXECUTOR_LOST,
        EventKind.POLICY_FAILED,
        EventKind.POLICY_RESET,
    }
)

ROUTINE = frozenset({EventKind.START, EventKind.RESUME, EventKind.DRAIN, EventKind.STOP})
"""Events of every run: its start and its end."""


@dataclass(frozen=True)
class Event:
    """Something that happened at a second of the run, on the clock that `Snapshot.at` uses.

    kind: an `EventKind`, or a word of an engine's own; text: one line for a person;
    pipeline: the pipeline it happened to, None if it concerns the whole run.
    """

    at: float
    kind: str
    text: str
    pipeline: str | None = None

    @property
    def is_problem(self) -> bool:
        return self.kind in PROBLEMS
