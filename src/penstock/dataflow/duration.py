"""Durations as people and Spark write them: `250ms`, `2s`, `1m30s`, `10 seconds`, `1 minute`."""

from __future__ import annotations

import re

from penstock.errors import InvalidInput

_UNITS = {
    1e-6: ("us", "µs", "microsecond", "microseconds"),
    1e-3: ("ms", "msec", "msecs", "millisecond", "milliseconds"),
    1.0: ("s", "sec", "secs", "second", "seconds"),
    60.0: ("m", "min", "mins", "minute", "minutes"),
    3600.0: ("h", "hr", "hrs", "hour", "hours"),
    86_400.0: ("d", "day", "days"),
    604_800.0: ("w", "week", "weeks"),
}
_FACTORS = {name: factor for factor, names in _UNITS.items() for name in names}
_UNEVEN = ("month", "months", "year", "years")
_NUMBER = r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)"
_PART = re.compile(rf"\s*({_NUMBER})\s*([a-zµ]+)\s*", re.IGNORECASE)
_WHOLE = re.compile(rf"\s*(?:interval\s+)?((?:{_PART.pattern})+)", re.IGNORECASE)


def seconds(given: str | int | float) -> float:
    """Read a duration; a bare number is seconds.

    Units may be short or long, in any case. Several may follow each other, as in
    `1 minute 30 seconds`, after an optional `interval`, as in Spark. Raises `InvalidInput`.
    """
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(given)
    written = str(given)
    if re.fullmatch(rf"\s*{_NUMBER}\s*", written):
        return float(written)
    match = _WHOLE.fullmatch(written)
    parts = [] if match is None else _PART.findall(match[1])
    if any(unit.lower() in _UNEVEN for _, unit in parts):
        raise InvalidInput(
            f"cannot read the duration '{given}': months and years differ in length, write days"
        )
    if not parts or any(unit.lower() not in _FACTORS for _, unit in parts):
        raise InvalidInput(
            f"cannot read the duration '{given}': write it like 250ms, 2s, 5m or 1h, or as Spark "
            "does, 10 seconds"
        )
    return sum(float(number) * _FACTORS[unit.lower()] for number, unit in parts)


def text(value: float) -> str:
    """Write a duration the way `seconds` reads it."""
    if value < 1:
        return f"{value * 1000:g}ms"
    if value >= 3600 and value % 3600 == 0:
        return f"{value / 3600:g}h"
    if value >= 60 and value % 60 == 0:
        return f"{value / 60:g}m"
    return f"{value:g}s"
