"""Time as something that is passed in, so that tests need no waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """`now` never goes back and is for differences; `wall` is the time of day, for records.

    of_day: seconds since midnight where days are not those of this machine.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    wall: Callable[[], float] = time.time
    of_day: Callable[[], float] | None = None

    def time_of_day(self) -> float:
        """Seconds since midnight, where this process is."""
        if self.of_day is not None:
            return self.of_day()
        local = time.localtime(self.wall())
        return 3600.0 * local.tm_hour + 60.0 * local.tm_min + local.tm_sec
