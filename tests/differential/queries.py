"""Random queries as values: steps over streams with columns of many types.

A query begins at a table called `one` and ends at a sink; a join brings in a table `two`. The
same value is interpreted as plain PySpark in batch mode and as a dataflow. Columns `Id` and
`eventTime` are kept by every step without state, so that filters can let the flush row pass and
windows have a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ID, TIME = "Id", "eventTime"

Columns = tuple[tuple[str, str], ...]
"""Names and types in Spark's SQL, in order."""


def ddl(columns: Columns) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in columns)


@dataclass(frozen=True)
class Where:
    """Keep rows by a SQL condition."""

    condition: str


@dataclass(frozen=True)
class Put:
    """Add a column by a SQL expression, or replace one."""

    name: str
    sql: str


@dataclass(frozen=True)
class Select:
    """Keep some columns, in this order."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Explode:
    """One row for each element of an array, which takes the place of the array."""

    name: str
    outer: bool


@dataclass(frozen=True)
class Map:
    """Change one column by a Python function of a record; `columns` come in and go out."""

    name: str
    kind: str
    columns: Columns = field(repr=False)


@dataclass(frozen=True)
class FlatMap:
    """As many copies of a record as its number says, by a Python function."""

    modulus: int
    columns: Columns = field(repr=False)


@dataclass(frozen=True)
class Filter:
    """Drop records by a Python function of a record."""

    modulus: int


@dataclass(frozen=True)
class Arrow:
    """Drop records by an Arrow function."""

    modulus: int
    columns: Columns = field(repr=False)


@dataclass(frozen=True)
class Union:
    """Two branches of the stream, brought together again."""

    one: tuple[Step, ...]
    two: tuple[Step, ...]


@dataclass(frozen=True)
class Join:
    """With the table `two` after some steps, on a column and a bound on time."""

    steps: tuple[Step, ...]
    key: str
    how: str
    seconds: int


@dataclass(frozen=True)
class Deduplicate:
    """Distinct values of some columns; with the time among them, old ones are forgotten."""

    names: tuple[str, ...]
    timed: bool


@dataclass(frozen=True)
class Process:
    """Number the records of each key with a stateful processor."""

    key: str
    kind: str


@dataclass(frozen=True)
class Window:
    """Event-time windows, in seconds. Without a delay there is no watermark of its own."""

    on: str
    size: int
    slide: int | None = None
    delay: int | None = None


@dataclass(frozen=True)
class Aggregate:
    """Group by columns, and by window if there is one; (name, SQL) of every aggregate.

    A window that is emitted once is followed by its start as a column `Start`.
    """

    names: tuple[str, ...]
    sums: tuple[tuple[str, str], ...]
    window: Window | None = None
    final: bool = False


Step = (
    Where
    | Put
    | Select
    | Explode
    | Map
    | FlatMap
    | Filter
    | Arrow
    | Union
    | Join
    | Deduplicate
    | Process
    | Aggregate
)


@dataclass(frozen=True)
class Query:
    """Steps from table `one` to the sink, and what the data and the session are like.

    late: seconds that a row may be behind the newest one before it; keys: columns by which the
    last row counts, if the output repeats what has changed.
    """

    one: Columns
    two: Columns
    steps: tuple[Step, ...]
    rows: int = 60
    late: int = 10
    seed: int = 0
    format: str = "json"
    zone: str = "UTC"

    @property
    def joins(self) -> bool:
        return any(isinstance(step, Join) for step in self.steps)

    @property
    def keys(self) -> tuple[str, ...]:
        for step in self.steps:
            if isinstance(step, Aggregate) and not step.final:
                return (*(("window",) if step.window else ()), *step.names)
        return ()

    def __str__(self) -> str:
        lines = [f"one: {ddl(self.one)}"]
        if self.joins:
            lines.append(f"two: {ddl(self.two)}")
        lines += [f"  {line}" for line in _lines(self.steps)]
        about = f"{self.rows} rows, {self.late} s late, seed {self.seed}"
        return "\n".join([*lines, f"{about}, {self.format}, {self.zone}"])


def _lines(steps: tuple[Step, ...]) -> list[str]:
    found = []
    for step in steps:
        match step:
            case Union(one, two):
                found += ["Union of", *(f"  {line}" for line in _lines(one))]
                found += ["and", *(f"  {line}" for line in _lines(two))]
            case Join(inner, key, how, seconds):
                found.append(f"Join {how} on `{key}` within {seconds} s with two after")
                found += [f"  {line}" for line in _lines(inner)]
            case _:
                found.append(str(step))
    return found
