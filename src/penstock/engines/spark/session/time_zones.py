"""Conversion of datetimes without a time zone in timestamp columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

Convert = Callable[[Any], Any]
_UTC = ("UTC", "Etc/UTC")


def in_zone(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> Iterable[dict[str, Any]]:
    """Rows in which datetimes without a zone are local time in the zone of their column.

    Arrow would take them for UTC.
    """

    def leaf(kind: pa.DataType) -> Convert | None:
        if kind.tz in _UTC:
            return None
        zone = _zone(kind.tz)
        return lambda value: value.replace(tzinfo=zone) if _naive(value) else value

    return _rows(rows, schema, leaf)


def collected(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> Iterable[dict[str, Any]]:
    """Rows as `DataFrame.collect` returns them, with timestamps in this process's time zone."""

    def leaf(kind: pa.DataType) -> Convert | None:
        return lambda value: value.astimezone(UTC) if _naive(value) else value

    return _rows(rows, schema, leaf)


def _naive(value: Any) -> bool:
    return isinstance(value, datetime) and value.tzinfo is None


def _zone(name: str) -> tzinfo:
    if name[:1] in "+-":
        found: tzinfo = pa.lib.string_to_tzinfo(name)
        return found
    return ZoneInfo(name)


def _rows(
    rows: Iterable[dict[str, Any]],
    schema: pa.Schema,
    leaf: Callable[[pa.DataType], Convert | None],
) -> Iterable[dict[str, Any]]:
    every = {field.name: _through(field.type, leaf) for field in schema}
    converts = {name: convert for name, convert in every.items() if convert is not None}
    if not converts:
        return rows
    return [
        {**row, **{n: convert(row[n]) for n, convert in converts.items() if n in row}}
        for row in rows
    ]


def _through(kind: pa.DataType, leaf: Callable[[pa.DataType], Convert | None]) -> Convert | None:
    """The conversion of all timestamps inside a value of a type; None if it has none."""
    if pa.types.is_timestamp(kind):
        return leaf(kind) if kind.tz is not None else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _of_list(_through(kind.value_type, leaf))
    if pa.types.is_map(kind):
        return _of_map(_through(kind.key_type, leaf), _through(kind.item_type, leaf))
    if pa.types.is_struct(kind):
        fields = [kind.field(n) for n in range(kind.num_fields)]
        return _of_struct({f.name: _through(f.type, leaf) for f in fields})
    return None


def _of_list(inner: Convert | None) -> Convert | None:
    if inner is None:
        return None
    return lambda value: [inner(v) for v in value] if isinstance(value, list | tuple) else value


def _of_map(key: Convert | None, item: Convert | None) -> Convert | None:
    if key is None and item is None:
        return None
    keyed, valued = key or _same, item or _same

    def convert(value: Any) -> Any:
        pairs = value.items() if isinstance(value, dict) else value
        return pairs and [(keyed(k), valued(v)) for k, v in pairs]

    return convert


def _of_struct(every: dict[str, Convert | None]) -> Convert | None:
    inner = {name: convert for name, convert in every.items() if convert is not None}
    if not inner:
        return None

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {**value, **{n: c(value[n]) for n, c in inner.items() if n in value}}

    return convert


def _same(value: Any) -> Any:
    return value
