"""Comparing rows of two results: as multisets, with the names and the case of nested fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any

from pyspark.sql import Row

from tests.differential.tables import FLUSH

_SHOWN = 5
_LAST_YEAR = 2090
"""Times after this year come from the row that closes the windows."""


def plain(value: Any) -> Any:
    """A value that can be compared and hashed: structs with field names, maps without an order."""
    if isinstance(value, Row):
        names = value.__fields__
        return tuple((name, plain(one)) for name, one in zip(names, value, strict=True))
    if isinstance(value, dict):
        pairs = ((plain(key), plain(one)) for key, one in value.items())
        return ("map", tuple(sorted(pairs, key=repr)))
    if isinstance(value, list | tuple):
        return ("array", *(plain(one) for one in value))
    if isinstance(value, bytearray | bytes):
        return bytes(value)
    if isinstance(value, float):
        return repr(value)  # NaN equals itself, and 0.0 is not -0.0
    return value


def last_by_key(rows: Iterable[Row], keys: Sequence[str]) -> list[Row]:
    """The last row of each key, for output that repeats a row when it changes."""
    found: dict[Any, Row] = {}
    for row in rows:
        found[tuple(plain(row[key]) for key in keys)] = row
    return list(found.values())


def without_flush(rows: Iterable[Row]) -> list[Row]:
    """Rows that do not come from the row that closes the windows."""
    return [row for row in rows if not _flushes(row)]


def difference(expected: Iterable[Row], found: Iterable[Row]) -> str:
    """What is missing from `found` and what is too much, as text; empty if they are the same."""
    wanted, got = Counter(map(plain, expected)), Counter(map(plain, found))
    if wanted == got:
        return ""
    missing, extra = wanted - got, got - wanted
    parts = [f"{wanted.total()} rows expected, {got.total()} found"]
    for what, rows in (("missing", missing), ("too much", extra)):
        if rows:
            parts.append(f"{rows.total()} {what}:")
            parts += [f"    {times} x {_shown(row)}" for row, times in _some(rows)]
    return "\n".join(parts)


def _some(rows: Counter[Any]) -> list[tuple[Any, int]]:
    return sorted(rows.items(), key=repr)[:_SHOWN]


def _shown(row: Any) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in row)


def _value(value: Any) -> str:
    return value.isoformat(" ") if isinstance(value, date | datetime) else repr(value)


def _flushes(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_flushes(one) for pair in value.items() for one in pair)
    if isinstance(value, list | tuple):
        return any(_flushes(one) for one in value)
    if isinstance(value, date | datetime):
        return value.year > _LAST_YEAR
    return isinstance(value, str) and FLUSH in value
