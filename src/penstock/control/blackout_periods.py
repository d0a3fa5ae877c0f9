"""Quiet periods, in which nothing may change."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.dataflow import duration
from penstock.errors import InvalidInput

DAY = 24 * 3600.0
_OF_DAY = re.compile(r"\s*(\d{1,2}):(\d{2})\s*")


@dataclass(frozen=True)
class Quiet:
    """From `first` until before `last`, in seconds of the run, or of every day if `daily`.

    A daily period may go past midnight.
    """

    first: float
    last: float
    daily: bool = False

    def __post_init__(self) -> None:
        if self.daily:
            right = 0 <= self.first < DAY and 0 <= self.last <= DAY and self.first != self.last
        else:
            right = 0 <= self.first < self.last
        if not right:
            raise InvalidInput(f"the quiet period '{self}' has no end after its beginning")

    @classmethod
    def parse(cls, text: str) -> Quiet:
        """Read `22:00..06:00` (times of the day) or `10m..20m` (times of the run)."""
        first, dots, last = text.partition("..")
        if not dots:
            raise InvalidInput(
                f"cannot read the quiet period '{text}': write 22:00..06:00 (every day) or "
                "10m..20m (of the run)"
            )
        if ":" in text:
            return cls(_of_day(first, text), _of_day(last, text), daily=True)
        return cls(duration.seconds(first), duration.seconds(last))

    def holds(self, now: float, time_of_day: float | None) -> bool:
        """True if it is quiet at a second of the run and of the day (None: unknown)."""
        if not self.daily:
            return self.first <= now < self.last
        if time_of_day is None:
            return False
        if self.first < self.last:
            return self.first <= time_of_day < self.last
        return time_of_day >= self.first or time_of_day < self.last

    def __str__(self) -> str:
        write = clock_text if self.daily else duration.text
        return f"{write(self.first)}..{write(self.last)}"


def clock_text(time_of_day: float) -> str:
    """A time of the day as `03:12`."""
    minutes = int(time_of_day // 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _of_day(word: str, text: str) -> float:
    match = _OF_DAY.fullmatch(word)
    if match is None or int(match[2]) > 59 or int(match[1]) * 60 + int(match[2]) > 24 * 60:
        raise InvalidInput(
            f"cannot read the quiet period '{text}': '{word}' is no time of the day, write 06:30"
        )
    return 3600.0 * int(match[1]) + 60.0 * int(match[2])
