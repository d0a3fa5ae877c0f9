"""What it cost to apply a plan."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.notebook_display import Shown


@dataclass(frozen=True)
class Transition(Shown):
    """The record of one applied change. Times are in seconds, `at` since the start of the run.

    duration: until the new plan was in force; phases: where the time went, including catching up
    afterwards; interruption: longest time without output of the changed pipelines; sink_gap: the
    same of any sink; usual_gap: that gap before the change; keys_moved: share of keys that another
    instance serves; backlog_left: rows waiting for the changed pipelines once the plan was in
    force. None is not measured. A transition is `settled` once output has come again and the
    backlog is back to what it was; until then `interruption` is only the sum of the phases.

    A pipeline is drained before it is stopped, so no row is replayed unless an engine says so.
    """

    at: float
    changes: tuple[str, ...]
    duration: float
    interruption: float
    reason: str = ""
    phases: tuple[tuple[str, float], ...] = field(default=())
    sink_gap: float | None = None
    usual_gap: float | None = None
    rows_replayed: int = 0
    state_rows_moved: int | None = None
    state_bytes_moved: int | None = None
    keys_moved: float | None = None
    backlog_left: int | None = None
    settled: bool = False

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        return {
            "at_s": round(data.pop("at"), 3),
            "changes": list(data.pop("changes")),
            **{f"{name}_ms": _ms(data.pop(name)) for name in _TIMES},
            "phases": {name: round(1000 * s, 1) for name, s in data.pop("phases")},
            **data,
        }


_TIMES = ("duration", "interruption", "sink_gap", "usual_gap")


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 1)
