"""What a further instance costs: where instances share a machine, each makes batches longer.

With c seconds more for every instance a row takes 3/2 c p + a/(p - b) seconds, which is least at
p = b + sqrt(a / (3/2 c)). Beyond that, an instance costs more than it saves. What c is shows when
the number of instances changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from penstock.models.station import Station

_WEIGHT = 0.3
_SPREAD = 1.5

Overheads = Mapping[int, float]
"""Seconds of a batch beside its rows, by the number of instances that it had."""


def noted(known: Overheads, station: Station) -> Overheads:
    """With one more measurement, newer ones counting more than older ones."""
    if not station.overhead:
        return known
    p = station.parallelism
    old = known.get(p, station.overhead)
    return {**known, p: old + _WEIGHT * (station.overhead - old)}


def each(known: Overheads) -> float:
    """Seconds that an instance adds to a batch: the slope of the least squares, if it rises.

    Numbers of instances that hardly differ tell nothing.
    """
    if not known or max(known) < _SPREAD * min(known):
        return 0.0
    middle = sum(known) / len(known)
    mean = sum(known.values()) / len(known)
    rise = sum((p - middle) * (seconds - mean) for p, seconds in known.items())
    return max(0.0, rise / sum((p - middle) ** 2 for p in known))


def useful(station: Station, seconds: float) -> int | None:
    """The most instances that make rows faster; None if there is no such limit.

    seconds: what each adds to a batch.
    """
    if not seconds:
        return None
    least = math.floor(station.load) + 1
    best = math.floor(station.load + math.sqrt(station.a / (1.5 * seconds)))

    def takes(instances: int) -> float:
        return 1.5 * seconds * instances + station.a / (instances - station.load)

    return min((max(least, best), max(least, best + 1)), key=takes)
