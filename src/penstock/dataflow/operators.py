"""Operators: the logical steps of a dataflow, as frozen values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from penstock.dataflow.connectors import Sink, Source
from penstock.dataflow.schema import Schema
from penstock.errors import UNKNOWN, InvalidInput, Location

_SPELLINGS = {
    "inner": ("inner",),
    "left_outer": ("left", "leftouter"),
    "right_outer": ("right", "rightouter"),
    "full_outer": ("outer", "full", "fullouter"),
    "left_semi": ("semi", "leftsemi"),
}
JOIN_KINDS = tuple(_SPELLINGS)
"""The kinds of stream-stream joins that Spark has."""

_BATCH_ONLY = {"cross": "cross", "anti": "left_anti", "leftanti": "left_anti"}
_BY_SPELLING = {one: kind for kind, spellings in _SPELLINGS.items() for one in spellings}


def canonical_join(how: Any) -> Any:
    """Return the canonical spelling: `leftOuter`, `LEFT OUTER` and `left` are `left_outer`.

    An unknown kind is returned unchanged; `join_refusal` says what is wrong with it.
    """
    return _BY_SPELLING.get(_plain(how), how)


def join_refusal(how: Any) -> str | None:
    """Return why streams cannot be joined that way, or None."""
    if how in JOIN_KINDS:
        return None
    known = ", ".join(JOIN_KINDS)
    if _plain(how) in _BATCH_ONLY:
        return f"Spark has no {_BATCH_ONLY[_plain(how)]} join of two streams, only {known}"
    return f"how is {how!r}, it must be one of {known}"


def _plain(how: Any) -> str:
    return "".join(how.lower().replace("_", " ").split()) if isinstance(how, str) else ""


class State(Enum):
    """What an operator remembers, which decides whether it can be data-parallel."""

    SOURCE = "source"
    STATELESS = "stateless"
    KEYED = "keyed"
    GLOBAL = "global"
    SINK = "sink"


class Latency(Enum):
    """How latency is measured: per record, or from a read to the next write."""

    READ_READY = "read-ready"
    READ_WRITE = "read-write"


class Selectivity(Enum):
    """What the output volume depends on."""

    PROPORTIONAL = "proportional"
    WORKLOAD = "workload-dependent"
    LOGIC = "logic-dependent"


class OnError(Enum):
    """What happens to a record that a Python operator cannot process."""

    DEAD_LETTER = "dead-letter"
    FAIL = "fail"


# --- bodies: what an operator does, one class per form -----------------------------------------


@dataclass(frozen=True)
class Read:
    """Read records from a source."""

    source: Source


@dataclass(frozen=True)
class Write:
    """Write records to a sink."""

    sink: Sink


@dataclass(frozen=True)
class Frame:
    """A DataFrame function. Rows that fulfil `reject` become dead letters."""

    function: Callable[[Any], Any]
    reject: str | None = None


@dataclass(frozen=True)
class Arrow:
    """An Arrow function: an iterator of record batches in, one out."""

    function: Callable[[Any], Any]


@dataclass(frozen=True)
class Map:
    """One record in, one out; records are dictionaries."""

    function: Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class FlatMap:
    """One record in, any number out."""

    function: Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class Filter:
    """Keep the records for which the function is true."""

    function: Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class Window:
    """Event-time windows over column `on`; records later than `watermark` are dropped.

    Without a watermark no record is dropped and every window is kept, as in Spark.
    """

    on: str
    size: str
    slide: str | None = None
    watermark: str | None = None


@dataclass(frozen=True)
class Aggregate:
    """Spark's own aggregation by key, and by window if there is one.

    `emit` says when a group is emitted: "update" at every change, "final" once, when the watermark
    closes its window.
    """

    columns: tuple[Any, ...]  # Spark columns, SQL text, or functions without arguments
    window: Window | None = None
    emit: str = "update"


@dataclass(frozen=True)
class Process:
    """A `pyspark.sql.streaming.StatefulProcessor` class, by key or (global) over everything."""

    processor: Callable[[], Any]
    time_mode: str = "none"


@dataclass(frozen=True)
class Deduplicate:
    """Pass on the first record of each key; forget keys older than the watermark, if any."""

    on: str | None = None
    watermark: str | None = None


@dataclass(frozen=True)
class Join:
    """A stream-stream join on equal keys; `condition` is SQL over the aliases l and r.

    `how` may be in any of Spark's spellings and is stored in one of them, e.g. `left_outer`.
    """

    how: str = "inner"
    condition: str | None = None
    left_watermark: tuple[str, str] | None = None
    right_watermark: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "how", canonical_join(self.how))


@dataclass(frozen=True)
class Union:
    """All records of all inputs."""


@dataclass(frozen=True)
class Barrier:
    """The n-th records of all inputs together, one struct column per input."""


Body = (
    Read
    | Write
    | Frame
    | Arrow
    | Map
    | FlatMap
    | Filter
    | Aggregate
    | Process
    | Deduplicate
    | Join
    | Union
    | Barrier
)

PYTHON_BODIES = (Arrow, Map, FlatMap, Filter)
"""Stateless bodies that run in Python over Arrow."""


@dataclass(frozen=True)
class Bounds:
    """The parallelism that an operator allows; `most` is None if unbounded."""

    least: int = 1
    most: int | None = None

    def __str__(self) -> str:
        return f"{self.least}..{'' if self.most is None else self.most}"


@dataclass(frozen=True)
class Estimate:
    """Seconds per record in an operator and records out per record in, for simulations."""

    seconds: float
    selectivity: float = 1.0

    def __post_init__(self) -> None:
        if not (0 <= self.seconds < math.inf and 0 <= self.selectivity < math.inf):
            raise InvalidInput(f"{self}: both numbers must be finite and not negative")


@dataclass(frozen=True)
class Operator:
    """One step of a dataflow.

    inputs: names of operators; takes_updates: the operator knows that a row of an aggregation
    replaces the earlier row of its group; written: where the user wrote it.
    """

    name: str
    body: Body
    inputs: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    schema: Schema | None = None
    bounds: Bounds = field(default_factory=Bounds)
    latency: Latency = Latency.READ_READY
    selectivity: Selectivity = Selectivity.PROPORTIONAL
    on_error: OnError = OnError.DEAD_LETTER
    written: Location = UNKNOWN
    estimate: Estimate | None = None
    takes_updates: bool = False

    @property
    def form(self) -> str:
        """The kind of body in lower case, e.g. `flat-map`."""
        return "".join(f"-{c.lower()}" if c.isupper() else c for c in type(self.body).__name__)[1:]

    @property
    def state(self) -> State:
        match self.body:
            case Read():
                return State.SOURCE
            case Write():
                return State.SINK
            case Aggregate() | Process() | Deduplicate() | Join() | Barrier():
                return State.KEYED if self.keys else State.GLOBAL
            case _:
                return State.STATELESS

    @property
    def stateful(self) -> bool:
        return self.state in (State.KEYED, State.GLOBAL)
