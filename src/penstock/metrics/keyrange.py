"""A part of the keys of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KeyRange:
    """The keys whose hash falls into part `part` of `parts`, counted from 0.

    share: of all rows, how many have these keys.
    """

    part: int
    parts: int
    share: float

    def __str__(self) -> str:
        return f"part {self.part} of {self.parts}: {100 * self.share:.0f} % of the rows"
