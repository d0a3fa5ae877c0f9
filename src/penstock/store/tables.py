"""The SQLite tables of a history, derived from the dataclasses that they store.

A field with a number, a text or a truth value is a column; any other field is a JSON column. Each
mapping of a snapshot from names to values (pipelines, operators, ...) is a table. A column that
an older file lacks is added when the file is opened for writing; its old rows get the default of
the field.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cached_property
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from penstock.metrics.events import Event
from penstock.metrics.snapshot import Snapshot
from penstock.plan.transition import Transition
from penstock.store.serialization import plain, restored

FILE = "history.db"
JSON = "JSON"
LAST = 2**63 - 1  # the highest turn that can be
_TYPES: Mapping[Any, str] = {float: "REAL", int: "INTEGER", bool: "BOOLEAN", str: "TEXT"}


@dataclass(frozen=True)
class Column:
    """A column: its declared type, more SQL of its declaration, and the type of its field."""

    name: str
    type: str
    more: str = ""
    hint: Any = None

    @property
    def sql(self) -> str:
        return f'"{self.name}" {self.type} {self.more}'.rstrip()

    def read(self, value: Any) -> Any:
        if value is not None and self.type == JSON:
            return json.loads(value)
        return bool(value) if self.type == "BOOLEAN" and value is not None else value


@dataclass(frozen=True)
class Table:
    """A table: columns that identify a row, then the fields of a dataclass `kind`, if any."""

    name: str
    keys: tuple[Column, ...]
    columns: tuple[Column, ...]
    kind: type | None = None
    constraint: str = ""

    @property
    def all(self) -> tuple[Column, ...]:
        return (*self.keys, *self.columns)

    @cached_property
    def insert(self) -> str:
        names = ", ".join(f'"{c.name}"' for c in self.all)
        return f"INSERT INTO {self.name} ({names}) VALUES ({', '.join('?' * len(self.all))})"

    @cached_property
    def _writers(self) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
        return tuple((c.name, _as_json if c.type == JSON else _scalar) for c in self.columns)

    def row(self, keys: Sequence[Any], value: Any) -> tuple[Any, ...]:
        """The row for `insert`: the keys, then the fields of a dataclass or a mapping."""
        if isinstance(value, Mapping):
            return (*keys, *(write(value[name]) for name, write in self._writers))
        return (*keys, *(write(getattr(value, name)) for name, write in self._writers))

    @cached_property
    def _readers(self) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
        return tuple((c.name, _reader(c)) for c in self.columns)

    def value(self, row: Mapping[str, Any]) -> Any:
        """The dataclass stored in a row that `read` returned. Raises `InvalidInput`."""
        assert self.kind is not None
        return self.kind(**{name: read(row[name]) for name, read in self._readers if name in row})

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Create the table, or add the columns that it lacks."""
        parts = ", ".join(
            [*(c.sql for c in self.all), *([self.constraint] * bool(self.constraint))]
        )
        without = " WITHOUT ROWID" if self.constraint else ""
        connection.execute(f"CREATE TABLE IF NOT EXISTS {self.name} ({parts}){without}")
        known = {row[1] for row in connection.execute(f"PRAGMA table_info({self.name})")}
        for column in self.columns:
            if column.name not in known:
                connection.execute(f"ALTER TABLE {self.name} ADD COLUMN {column.sql}")

    def read(
        self,
        connection: sqlite3.Connection,
        first: int = 0,
        last: int = LAST,
        names: Sequence[str] | None = None,
        by: str = "turn",
    ) -> Iterator[dict[str, Any]]:
        """The rows in order, with the columns that this version knows.

        first, last: bounds of the column `by`, ignored if the table has no such column.
        """
        known = {c.name: c for c in self.all if names is None or c.name in names}
        there = [row[1] for row in connection.execute(f"PRAGMA table_info({self.name})")]
        columns = [known[name] for name in there if name in known]
        if not columns:  # an older file without this table
            return
        what = ", ".join(f'"{c.name}"' for c in columns)
        order = ", ".join(c.name for c in self.keys if c.name in ("number", "turn", "place")) or "1"
        where = f"WHERE {by} BETWEEN {first} AND {last}" if by in there else ""
        rows = connection.execute(f"SELECT {what} FROM {self.name} {where} ORDER BY {order}")
        for row in rows:
            yield {c.name: c.read(v) for c, v in zip(columns, row, strict=True)}


def _columns(kind: type, without: Sequence[str] = ()) -> tuple[Column, ...]:
    hints = get_type_hints(kind)
    return tuple(
        Column(f.name, _type(hints[f.name]), _default(f), hints[f.name])
        for f in fields(kind)
        if f.name not in without
    )


def _type(hint: Any) -> str:
    if get_origin(hint) is UnionType:
        (hint,) = (one for one in get_args(hint) if one is not NoneType)
    return _TYPES.get(hint, JSON)


def _default(field: Field[Any]) -> str:
    """The SQL default of a field, for rows that are older than it."""
    value = field.default
    if value is MISSING and field.default_factory is not MISSING:
        value = field.default_factory()
    if value is MISSING or value is None:
        return ""
    if isinstance(value, bool | int | float):
        return f"DEFAULT {value:d}" if isinstance(value, int) else f"DEFAULT {value!r}"
    text = value if isinstance(value, str) else json.dumps(plain(value))
    return "DEFAULT '{}'".format(text.replace("'", "''"))


def _reader(column: Column) -> Callable[[Any], Any]:
    """Column value to field value. NULL in a required float column stands for NaN or infinity."""
    if column.type == JSON:
        return lambda value: restored(column.hint, value)
    if column.hint is float:
        return lambda value: math.nan if value is None else value
    return lambda value: value


def _scalar(value: Any) -> Any:
    if value is None or type(value) in (int, bool):
        return value
    if not isinstance(value, float | str) and hasattr(value, "item"):  # a NumPy number
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None  # "not measured", as in JSON
    if isinstance(value, str) and not value.isascii():
        return value.encode(errors="backslashreplace").decode()
    return value


def _as_json(value: Any) -> str | None:
    return None if value is None else json.dumps(plain(value), allow_nan=False)


# --- the tables of a history --------------------------------------------------------------------

_TURN = Column("turn", "INTEGER", "PRIMARY KEY")
_OF_TURN = Column("turn", "INTEGER", "PRIMARY KEY REFERENCES snapshots (turn) ON DELETE CASCADE")
_PART = (
    Column("turn", "INTEGER", "NOT NULL REFERENCES snapshots (turn) ON DELETE CASCADE"),
    Column("place", "INTEGER", "NOT NULL"),
    Column("key", "TEXT", "NOT NULL"),
)


def _parts() -> dict[str, Table]:
    """One table for each mapping of a snapshot from names to dataclasses."""
    found = {}
    for name, hint in get_type_hints(Snapshot).items():
        kind = get_args(hint)[-1] if get_args(hint) else None
        if isinstance(kind, type) and is_dataclass(kind):
            found[name] = Table(name, _PART, _columns(kind), kind, "PRIMARY KEY (turn, place)")
    return found


PARTS = _parts()
PLANS = Table(
    "plans", (Column("plan", "INTEGER", "PRIMARY KEY"),), (Column("json", JSON, "UNIQUE"),)
)
SNAPSHOTS = Table(
    "snapshots",
    (
        _TURN,
        Column("run", "INTEGER"),
        Column("time", "REAL"),
        Column("plan", "INTEGER", "REFERENCES plans (plan)"),
        Column("news", "BOOLEAN"),
    ),
    _columns(Snapshot, without=tuple(PARTS)),
    Snapshot,
)
DECISIONS = Table(
    "decisions",
    (_OF_TURN, Column("time", "REAL")),
    (
        Column("at", "REAL"),
        Column("plan", "INTEGER", "REFERENCES plans (plan)"),
        Column("reason", "TEXT"),
        Column("numbers", JSON),
        Column("refused", "TEXT"),
        Column("vetoes", JSON),
        Column("wanted", "INTEGER", "REFERENCES plans (plan)"),
        Column("mode", "TEXT"),
        Column("error", "TEXT"),
    ),
)
TRANSITIONS = Table(
    "transitions", (_OF_TURN, Column("time", "REAL")), _columns(Transition), Transition
)
EVENTS = Table(
    "events",
    (
        Column("number", "INTEGER", "PRIMARY KEY"),
        Column("run", "INTEGER"),
        Column("turn", "INTEGER"),
        Column("time", "REAL"),
    ),
    _columns(Event),
    Event,
)
LOOP_STATE = Table(
    "loop_state",
    (Column("id", "INTEGER", "PRIMARY KEY CHECK (id = 1)"),),
    (Column("run", "INTEGER"), Column("data", JSON)),
)
"""What the control loop needs to go on when the run is resumed; one row, for the last run."""

ALL = (PLANS, SNAPSHOTS, *PARTS.values(), DECISIONS, TRANSITIONS, EVENTS)
