"""What a task costs for itself and what a row costs, told apart.

A batch of n rows in k tasks takes c·k + s·n seconds of work. More instances mean more tasks, so a
cost of tasks that were taken for one of rows would grow with the instances that it asks for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_SPREAD = 0.1
"""Rows per task must vary by this much, as a coefficient of variation, to tell the two apart."""

Sample = tuple[int, int, float]
"""Tasks, rows and seconds of one batch."""


def fixed_and_per_row(samples: Sequence[Sample]) -> tuple[float, float] | None:
    """The seconds of a task and of a row, neither below 0; None where they cannot be told apart."""
    if len(samples) < 3:
        return None
    tasks, rows, seconds = (np.array(column, dtype=float) for column in zip(*samples, strict=True))
    size = rows / np.maximum(tasks, 1)
    if not rows.sum() or size.std() < _SPREAD * size.mean():
        return None
    (fixed, per_row), *_ = np.linalg.lstsq(np.column_stack([tasks, rows]), seconds, rcond=None)
    if fixed < 0:
        return 0.0, float(seconds.sum() / rows.sum())
    if per_row < 0:
        return float(seconds.sum() / tasks.sum()), 0.0
    return float(fixed), float(per_row)
