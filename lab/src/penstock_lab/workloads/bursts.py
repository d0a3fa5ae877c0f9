"""Bursts: for the first tenth of every so many seconds what comes is not what comes usually."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.errors import InvalidInput


class Bursts(NamedTuple):
    """Of each record, whether it is due in a burst, and the number of the last one, from 0."""

    hot: npt.NDArray[np.bool_]
    number: npt.NDArray[np.int64]


def bursts(at: npt.NDArray[np.float64], every: float) -> Bursts:
    """The bursts of records that are due at these times; none if they are 0 seconds apart.

    A record that is never due is due at once.
    """
    since = np.where(np.isfinite(at), at, 0.0)
    if not every:
        return Bursts(np.zeros(len(since), dtype=bool), np.zeros(len(since), dtype=np.int64))
    return Bursts(np.mod(since, every) < every / 10, (since // every).astype(np.int64))


def check_every(every: float) -> None:
    """Raise `InvalidInput` for what is no time between bursts."""
    if not 0 <= every < float("inf"):
        raise InvalidInput(f"bursts {every:g} seconds apart: write a number of seconds, or 0")
