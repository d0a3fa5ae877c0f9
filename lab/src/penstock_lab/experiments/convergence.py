"""How long a flow took to calm down after a change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

SPREAD = 0.05
"""Standard deviation, as a share of the average, within which throughput counts as calm."""

_SWINGS = 4


def convergence_time(
    times: Sequence[float],
    throughput: Sequence[float],
    start: float,
    *,
    average: float | None = None,
    spread: float = SPREAD,
) -> float | None:
    """Seconds from the start of a change until throughput has settled; None if it never does.

    It has settled when it has been twice above and twice below its average after the change, in
    turn, and has stayed about it with a standard deviation of at most `spread` all that while.
    A sample at the average counts as either. The average is that of the second half of what
    follows the change, in which the dip of the change itself has passed, unless it is given.
    """
    if len(times) != len(throughput):
        raise ValueError(f"{len(times)} times for {len(throughput)} samples")
    after = [(t, x) for t, x in zip(times, throughput, strict=True) if t >= start]
    if len(after) < _SWINGS:
        return None
    if average is None:
        average = fmean(x for _, x in after[len(after) // 2 :])
    bound = spread * abs(average)
    apart = [x - average for _, x in after]
    for last, (at, _) in enumerate(after):
        if _calm(apart[: last + 1], bound):
            return at - start
    return None


def _calm(apart: Sequence[float], bound: float) -> bool:
    """Whether some stretch that ends here swings often enough and not too far."""
    squares, swings, side = 0.0, 0, 0
    for count, x in enumerate(reversed(apart), start=1):
        squares += x * x
        here = 0 if abs(x) <= 1e-9 * bound else int(math.copysign(1, x))
        if here == 0 or here != side:  # a sample at the average is on the side that is due
            swings, side = swings + 1, here or -side
        if swings >= _SWINGS and math.sqrt(squares / count) <= bound:
            return True
    return False
