"""How many dead letters a run may have before it says so loudly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from penstock.errors import InvalidInput

LEAST = 10
"""Fewer dead letters than these are never too many, so that one bad row of five is not."""


@dataclass(frozen=True)
class DeadLetters:
    """The dead letters of a run, against the rows that its sources took in meanwhile.

    An operator that makes several rows of one can leave more dead letters than rows came in, so
    `share` may be above 1. With `at_most` 1 there are never too many.
    """

    rows: int
    entered: int
    at_most: float = 0.1

    @property
    def share(self) -> float:
        if self.entered > 0:
            return self.rows / self.entered
        return 1.0 if self.rows else 0.0

    @property
    def too_many(self) -> bool:
        return self.at_most < 1 and self.rows >= LEAST and self.share > self.at_most

    @property
    def alarm(self) -> str | None:
        """What to tell while it is so; the same words however many they are."""
        if not self.too_many:
            return None
        return (
            f"more than {100 * self.at_most:g}% of the rows became dead letters: see dead/ in the "
            "run directory for the errors"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "share": round(self.share, 4),
            "at_most": self.at_most,
            "too_many": self.too_many,
        }


def limit(given: float | str) -> float:
    """Read the share that may become dead letters: from 0 to 1, or a percentage such as `5%`."""
    text = str(given).strip()
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = math.nan
    if isinstance(given, bool) or not 0 <= share <= 1:
        raise InvalidInput(
            f"the share of dead letters is '{given}': write a number from 0 to 1, e.g. 0.1, where "
            "1 allows any number of them"
        )
    return share
