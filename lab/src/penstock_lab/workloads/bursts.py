"""Bursts: unusual records during the first tenth of every period."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.errors import InvalidInput


class Bursts(NamedTuple):
    """For each record: whether it is due in a burst, and the number of the latest burst, from 0."""

    hot: npt.NDArray[np.bool_]
    number: npt.NDArray[np.int64]


def bursts(at: npt.NDArray[np.float64], every: float) -> Bursts:
    """The bursts for records that are due at these times; `every` 0 means no bursts.

    A record without a due time counts as due at once.
    """
    since = np.where(np.isfinite(at), at, 0.0)
    if not every:
        return Bursts(np.zeros(len(since), dtype=bool), np.zeros(len(since), dtype=np.int64))
    return Bursts(np.mod(since, every) < every / 10, (since // every).astype(np.int64))


def check_every(every: float) -> None:
    """Raise `InvalidInput` if this is not a valid time between bursts."""
    if not 0 <= every < float("inf"):
        raise InvalidInput(f"bursts {every:g} seconds apart: write a number of seconds, or 0")
