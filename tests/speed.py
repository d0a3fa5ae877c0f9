"""How long something takes, whatever the machine: seconds of a machine of known speed."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# What the yardstick takes on the machine that the bounds of the tests were chosen for.
REFERENCE = 0.025
TRIES = 4


@dataclass(frozen=True)
class _Row:
    name: str
    value: float


def _yardstick() -> float:
    """Make, look up, add and sort small values, as the policies do with their operators."""
    start = time.process_time()
    rows = {f"o{at}": _Row(f"o{at}", at * 0.5) for at in range(20_000)}
    total = 0.0
    for row in sorted(rows.values(), key=lambda r: -r.value):
        total += rows[row.name].value
    assert total > 0
    return time.process_time() - start


def seconds(of: Callable[[], Any]) -> float:
    """The processor time of a call, scaled to the reference machine.

    The yardstick is measured right before and after the call, so a machine that is slow by
    itself, or because others use it, does not make a test fail.
    """
    # What other tests have left in memory is no work of this call: the collector passes it over.
    gc.collect()
    gc.freeze()
    try:
        before = _yardstick()
        start = time.process_time()
        of()
        taken = time.process_time() - start
        return taken * REFERENCE / max(before, _yardstick())
    finally:
        gc.unfreeze()


def within(most: float, of: Callable[[], Any]) -> bool:
    """Whether one of some tries takes less than `most` seconds of the reference machine."""
    return any(seconds(of) < most for _ in range(TRIES))
