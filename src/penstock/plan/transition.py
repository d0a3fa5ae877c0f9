"""What applying a plan cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Transition:
    """The record of one applied change; times in seconds, `at` since the start of the run.

    A pipeline is emptied before it is stopped, so nothing is replayed unless an engine says so;
    `state_rows_moved` is None where it was not measured.
    """

    at: float
    changes: tuple[str, ...]
    duration: float
    interruption: float
    reason: str = ""
    phases: tuple[tuple[str, float], ...] = field(default=())
    rows_replayed: int = 0
    state_rows_moved: int | None = None

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        return {
            "at_s": round(data.pop("at"), 3),
            "changes": list(data.pop("changes")),
            "duration_ms": round(1000 * data.pop("duration"), 1),
            "interruption_ms": round(1000 * data.pop("interruption"), 1),
            "phases": {name: round(1000 * s, 1) for name, s in data.pop("phases")},
            **data,
        }
