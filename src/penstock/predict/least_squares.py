"""Least squares with coefficients that are not negative, and without the sway of outliers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator.queues import Floats, Indices

_ROUNDS = 20
_HUBER = 1.345
"""Deviations beyond so many standard deviations count less; 95 % as good where none is odd."""


def nonnegative(columns: Floats, values: Floats) -> Floats:
    """The x of at least 0 that makes |columns x - values| least (Lawson and Hanson, 1974).

    Starts with nothing and takes in the column that helps most, as long as one does; one whose
    coefficient falls below 0 on the way is put out again.
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
        found = _inside(columns, values, found, used)
    return found


def _inside(columns: Floats, values: Floats, found: Floats, used: npt.NDArray[np.bool_]) -> Floats:
    """Go as far towards the least squares of the used columns as nothing falls below 0."""
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
    """The same with Huber's weights: what is far off pulls no harder than what is a little off."""
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
"""Windows of a plan from which on more of them say no more: they look back as many seconds."""


def numbered(names: Sequence[Hashable]) -> Indices:
    """The same number for those that are the same."""
    order = {name: at for at, name in enumerate(dict.fromkeys(names))}
    return np.array([order[name] for name in names], np.intp)


def alike(groups: Indices) -> Floats:
    """Weights with which each group counts as much as the others, but for the smallest."""
    return np.asarray(1 / np.maximum(np.bincount(groups)[groups], FEW))


_OVERLAP = 5.0
"""Windows of 5 s, one a second: so many say what one says."""


def errors(columns: Floats, values: Floats, weights: Floats, found: Floats) -> Floats:
    """The standard error of each coefficient, from how far the usual value is off."""
    base = np.sqrt(weights)
    off = base * (values - columns @ found)
    freedom = max(1.0, len(values) / _OVERLAP - len(found))
    spread = (1.4826 * float(np.median(np.abs(off)))) ** 2 * len(values) / freedom
    inverse = np.linalg.pinv((columns * weights[:, None]).T @ columns)
    floor = np.finfo(float).tiny
    return np.sqrt(np.maximum(spread * np.diag(inverse), floor))
