"""Durations as people write them: `250ms`, `2s`, `1.5m`, `1h`, or `90` for seconds."""

from __future__ import annotations

import re

from penstock.errors import InvalidInput

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_PATTERN = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*(ms|s|min|m|h|)\s*")


def seconds(given: str | int | float) -> float:
    """Read a duration; a bare number is seconds."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(given)
    match = _PATTERN.fullmatch(str(given))
    if match is None:
        raise InvalidInput(f"cannot read the duration '{given}': write it like 250ms, 2s, 5m or 1h")
    return float(match[1]) * _UNITS[match[2]]


def text(value: float) -> str:
    """Write a duration the way `seconds` reads it."""
    if value < 1:
        return f"{value * 1000:g}ms"
    if value >= 3600 and value % 3600 == 0:
        return f"{value / 3600:g}h"
    if value >= 60 and value % 60 == 0:
        return f"{value / 60:g}m"
    return f"{value:g}s"
