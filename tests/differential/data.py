"""Random rows for random queries: nulls, empty and odd values, late rows and duplicates."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from tests.differential.queries import ID, TIME, Columns, Query, ddl
from tests.differential.tables import END, FLUSH, Table, at, parts_of

PARTS = 3
FLUSH_ID = 60_000_001
"""Remainder 1 whatever it is divided by, so that every filter lets it pass."""

TEXTS = ("", "a", "A", "ß", "日本", "🙂", "null", "with space")


def tables_of(query: Query) -> dict[str, Table]:
    """The tables that a query reads."""
    found = {"one": _table(query, "one", query.one)}
    if query.joins:
        found["two"] = _table(query, "two", query.two)
    return found


def _table(query: Query, name: str, columns: Columns) -> Table:
    choose = random.Random(f"{name} {query.seed}")
    rows: list[Mapping[str, Any]] = []
    clock = 0.0
    for number in range(query.rows):
        clock += choose.choice((0, 0.5, 3))
        when = at(round(clock - choose.uniform(0, query.late), 3))
        rest = {n: value(choose, kind) for n, kind in columns if n not in (ID, TIME)}
        rows.append({ID: number, TIME: when, **rest})
        if choose.random() < 0.15:
            rows.append(rows[-1])
    last = {name: full(kind) for name, kind in columns}
    flush = {**last, ID: FLUSH_ID, TIME: END}
    return Table(ddl(columns), parts_of(rows, PARTS), flush, query.format)


def value(choose: random.Random, kind: str) -> Any:
    """Any value of a type; often null."""
    if choose.random() < 0.2:
        return None
    inside = _inside(kind)
    match kind.partition("<")[0].partition("(")[0]:
        case "string":
            return choose.choice(TEXTS)
        case "int" | "bigint":
            return choose.randint(-3, 3)
        case "decimal":
            return Decimal(choose.randint(-99_999, 99_999)) / 100
        case "boolean":
            return choose.random() < 0.5
        case "double":
            return choose.choice((0.0, -1.5, 0.1, 12_345.678))
        case "date":
            return date(2026, 3, 28) + timedelta(days=choose.randint(0, 3))
        case "timestamp":
            return at(choose.randint(-50_000, 50_000))
        case "array":
            return [value(choose, inside) for _ in range(choose.randint(0, 3))]
        case "map":
            keys = choose.sample(("a", "B", "ß"), choose.randint(0, 3))
            return {key: value(choose, inside.partition(",")[2]) for key in keys}
        case _:
            return {name: value(choose, one) for name, one in _fields(inside)}


def full(kind: str) -> Any:
    """A value without nulls and empty parts, for the flush row."""
    inside = _inside(kind)
    match kind.partition("<")[0].partition("(")[0]:
        case "string":
            return FLUSH
        case "int" | "bigint":
            return FLUSH_ID
        case "decimal":
            return Decimal("12345678.90")
        case "boolean":
            return True
        case "double":
            return 0.5
        case "date":
            return END.date()
        case "timestamp":
            return END
        case "array":
            return [full(inside)]
        case "map":
            return {"a": full(inside.partition(",")[2])}
        case _:
            return {name: full(one) for name, one in _fields(inside)}


def _inside(kind: str) -> str:
    return kind[kind.index("<") + 1 : -1] if "<" in kind else ""


def _fields(inside: str) -> list[tuple[str, str]]:
    """The fields of a struct, split at the commas outside of brackets."""
    depth, start, parts = 0, 0, []
    for place, char in enumerate(inside):
        depth += (char == "<") - (char == ">")
        if char == "," and depth == 0:
            parts.append(inside[start:place])
            start = place + 1
    parts.append(inside[start:])
    return [(name, kind) for name, _, kind in (part.partition(":") for part in parts)]
