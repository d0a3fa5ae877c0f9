"""Whether two series of observations differ: Welch's t-test.

The only statistics needed here, so it is written out instead of depending on SciPy: the tail of
Student's distribution is a regularised incomplete beta function, computed as a continued fraction.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

Difference = Literal["increased", "unchanged", "decreased"]


def compare(
    before: Sequence[float], after: Sequence[float], level: float = 0.05, least: float = 0.0
) -> Difference:
    """Compare means: a difference counts if significant and above the share `least`."""
    old, new = statistics.fmean(before), statistics.fmean(after)
    if abs(new - old) <= least * abs(old) or p_value(before, after) >= level:
        return "unchanged"
    return "increased" if new > old else "decreased"


def p_value(one: Sequence[float], other: Sequence[float]) -> float:
    """p-value of the difference of two means, by Welch's t-test.

    0 or 1 for series without variance; 1 if a series has only one observation.
    """
    difference = statistics.fmean(one) - statistics.fmean(other)
    if min(len(one), len(other)) < 2:
        return 1.0
    errors = [statistics.variance(series) / len(series) for series in (one, other)]
    total = sum(errors)
    if total == 0:
        return 1.0 if difference == 0 else 0.0
    freedom = 1 / sum(  # of shares, whose squares do not underflow
        (error / total) ** 2 / (len(series) - 1)
        for error, series in zip(errors, (one, other), strict=True)
    )
    return incomplete_beta(
        freedom / 2, 0.5, freedom / (freedom + difference * (difference / total))
    )


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function, by Lentz's continued fraction."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges faster on the other side
        return 1 - incomplete_beta(b, a, 1 - x)
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log + a * math.log(x) + b * math.log1p(-x)) / a
    tiny = 1e-300
    value, c, d = 1.0, 1.0, 0.0
    for m in range(400):
        for even in (True, False):
            if even:
                term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)) if m else 1.0
            else:
                term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            value *= c * d
        if abs(1 - c * d) < 1e-14:
            break
    return front * (value - 1)
