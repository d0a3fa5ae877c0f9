"""Time as an argument, so that tests need not wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """Where a run gets its time from.

    now: seconds that never go back, for differences; wall: seconds since 1970, for records;
    of_day: seconds since midnight, where days are not those of this machine.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    wall: Callable[[], float] = time.time
    of_day: Callable[[], float] | None = None

    def time_of_day(self) -> float:
        """Return seconds since midnight, local time."""
        if self.of_day is not None:
            return self.of_day()
        local = time.localtime(self.wall())
        return 3600.0 * local.tm_hour + 60.0 * local.tm_min + local.tm_sec
