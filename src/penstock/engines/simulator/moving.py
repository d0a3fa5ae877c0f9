"""Instances that go to another executor, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engines.simulator.arrays import Numbers
from penstock.engines.simulator.model import Timing
from penstock.engines.simulator.node import Placement, moved


@dataclass(frozen=True)
class Move:
    """Instances of a pipeline that are started elsewhere and read their state there.

    pause: seconds for which they stand still; rows and bytes: of their state.
    """

    instances: Numbers
    pause: float
    rows: int = 0
    bytes: float = 0.0


def moves(
    before: Placement,
    after: Placement,
    state: dict[str, tuple[int, float]],
    timing: Timing,
    *,
    batched: bool = False,
) -> dict[str, Move]:
    """What moves between two placements, by pipeline; state: rows and bytes of each, even over its
    instances.

    batched: tasks of a batch are started anew each time, wherever there is room, so only state
    has to move.
    """
    found = {}
    for name, which in moved(before, after).items():
        rows, size = state.get(name, (0, 0.0))
        if batched and not rows:
            continue
        share = len(which) / len(before.hosts[name])
        pause = timing.restart + share * size / timing.state_rate
        found[name] = Move(which, pause, round(share * rows), share * size)
    return found
