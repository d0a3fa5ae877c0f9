"""Non-negative least squares, robust to outliers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator.queues import Floats, Indices

_ROUNDS = 20
_HUBER = 1.345
"""Residuals beyond this many standard deviations get less weight.

95 % efficient for normally distributed errors.
"""


def nonnegative(columns: Floats, values: Floats) -> Floats:
    """Return the x >= 0 that minimises |columns x - values|.

    The active-set method of Lawson and Hanson (1974): starts with no column and adds the one that
    helps most as long as one does; a column whose coefficient falls below 0 on the way is removed
    again.
    """
    count = columns.shape[1]
    found = np.zeros(count)
    used = np.zeros(count, bool)
    scale = np.abs(columns).max(initial=0.0) * np.abs(values).max(initial=0.0)
    for _ in range(3 * count + 1):
        gain = columns.T @ (values - columns @ found)
        gain[used] = -np.inf
        best = int(np.argmax(gain)) if count else 0
        if not count or gain[best] <= 1e-12 * scale * len(values):
            break
        used[best] = True
        found = _bounded_step(columns, values, found, used)
    return found


def _bounded_step(
    columns: Floats, values: Floats, found: Floats, used: npt.NDArray[np.bool_]
) -> Floats:
    """Move towards the least squares of the used columns, but no coefficient below 0."""
    while used.any():
        wanted = np.zeros_like(found)
        wanted[used] = np.linalg.lstsq(columns[:, used], values, rcond=None)[0]
        below = used & (wanted <= 0)
        if not below.any():
            return wanted
        step = np.min(found[below] / np.maximum(found[below] - wanted[below], 1e-300))
        found = found + step * (wanted - found)
        used &= found > 1e-15 * max(1.0, float(found.max()))
        found = np.where(used, found, 0.0)
    return np.zeros_like(found)


def robust(columns: Floats, values: Floats, weights: Floats | None = None) -> Floats:
    """Non-negative least squares with Huber's weights.

    Large outliers count no more than moderate ones.
    """
    base = np.ones(len(values)) if weights is None else np.sqrt(weights)
    found = nonnegative(columns * base[:, None], values * base)
    for _ in range(_ROUNDS):
        off = base * (values - columns @ found)
        spread = 1.4826 * float(np.median(np.abs(off))) if len(off) else 0.0
        if spread <= 1e-12 * max(1e-12, float(np.abs(values * base).max(initial=0.0))):
            break
        trust = np.minimum(1.0, _HUBER * spread / np.maximum(np.abs(off), 1e-300))
        scale = base * np.sqrt(trust)
        again = nonnegative(columns * scale[:, None], values * scale)
        if np.allclose(again, found, rtol=1e-6, atol=0):
            break
        found = again
    return found


FEW = 5
"""Number of windows of a plan beyond which more windows add no information.

They overlap: each covers the same number of past seconds.
"""


def group_numbers(names: Sequence[Hashable]) -> Indices:
    """Return an index for each name, equal for equal names."""
    order = {name: at for at, name in enumerate(dict.fromkeys(names))}
    return np.array([order[name] for name in names], np.intp)


def group_weights(groups: Indices) -> Floats:
    """Weights that make all groups count alike, except small ones."""
    return np.asarray(1 / np.maximum(np.bincount(groups)[groups], FEW))


_OVERLAP = 5.0
"""Overlap of windows: they last 5 s and start every second."""


def standard_errors(columns: Floats, values: Floats, weights: Floats, found: Floats) -> Floats:
    """Standard error of each coefficient, from the median deviation of the values."""
    base = np.sqrt(weights)
    off = base * (values - columns @ found)
    freedom = max(1.0, len(values) / _OVERLAP - len(found))
    spread = (1.4826 * float(np.median(np.abs(off)))) ** 2 * len(values) / freedom
    inverse = np.linalg.pinv((columns * weights[:, None]).T @ columns)
    floor = np.finfo(float).tiny
    return np.sqrt(np.maximum(spread * np.diag(inverse), floor))
