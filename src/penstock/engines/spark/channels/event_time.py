"""Event time across pipelines: its columns, and its watermarks in channels.

Inside one query Spark marks event-time columns in their metadata, and passes the watermark from
one stateful operator to the next. A channel between two queries would lose both, so it keeps them:

- The metadata are kept with the channel's columns. `penstock.behind` is Penstock's own: later rows
  hold a time after the channel's mark minus so many milliseconds.
- The mark, in milliseconds since 1970, is in the entries of the channel's log. It is the watermark
  that the writer's output obeys.

The reading query receives the mark as a row of its own, in a hidden column that only its watermark
reads, so the watermark advances even if no records arrive.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.dataflow import duration
from penstock.dataflow import operators as op
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Operator
from penstock.engines.spark.channels.channel import MARK

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

BEHIND = "penstock.behind"
DELAY = "spark.watermarkDelayMs"


@dataclass(frozen=True)
class EventTimes:
    """The event time that the channels of a dataflow keep.

    columns: by operator, the columns of its output with their metadata, if a stateful operator
    downstream may need them; follows: by stateful operator, for each of its inputs, the lag of its
    watermark behind the channel's mark in milliseconds, None if it follows the rows; clocks: by
    stateful operator whose watermark follows the rows of a union of branches, their origin (see
    `event_clock`) and the lag of the watermark in milliseconds.
    """

    columns: Mapping[str, StructType] = field(default_factory=dict)
    follows: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    clocks: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def marked(self, operator: str) -> bool:
        """True if the output of an operator has a mark."""
        struct = self.columns.get(operator)
        return struct is not None and any(_known(f) for f in struct.fields)

    def notes_origins(self, graph: Graph, writer: str) -> bool:
        """True if the channel of an operator's output has to say where its rows come from."""
        if not self.clocks:
            return False
        after = graph.reachable(writer)
        return any(
            stateful in after and writer != origin and writer in graph.reachable(origin)
            for stateful, (origin, _) in self.clocks.items()
        )

    def lag(self, graph: Graph, stateful: Operator | None, reader: str, writer: str) -> int | None:
        """The lag behind the mark of a channel, for the pipeline of a stateful operator.

        reader and writer are the ends of the channel.
        """
        if stateful is None or not self.marked(writer):
            return None
        for port, lag in zip(stateful.inputs, self.follows.get(stateful.name, ()), strict=False):
            direct = reader == stateful.name and writer == port
            if direct or (reader != stateful.name and port in graph.reachable(reader)):
                return lag
        return None


def feeds_state(graph: Graph, name: str) -> bool:
    """True if a stateful operator is downstream of an operator."""
    return any(graph[n].stateful for n in graph.reachable(name) - {name})


# --- columns ----------------------------------------------------------------------------------


def behind(frame: DataFrame, column: str) -> int | None:
    """The lag of a column behind the mark in milliseconds; None if it does not follow it."""
    found = next((f for f in frame.schema.fields if f.name.lower() == column.lower()), None)
    return None if found is None or BEHIND not in found.metadata else int(found.metadata[BEHIND])


def kept(struct: StructType, schema: StructType) -> StructType:
    """A channel's columns: the types of its schema, the metadata of the writer's output."""
    fields = []
    for have, made in zip(schema.fields, struct.fields, strict=True):
        # The fields of a window have metadata, which its type in the schema lacks.
        kind = _loose(made.dataType) if _known(made) else have.dataType
        fields.append(StructField(have.name, kind, True, made.metadata))
    return StructType(fields)


def noted(frame: DataFrame, size: str | None = None) -> DataFrame:
    """The output of a stateful operator, with the lag of its event-time columns in their metadata.

    size: of its windows. A later window ends after the mark; its start is earlier by the size.
    """
    for one in frame.schema.fields:
        if DELAY not in one.metadata:
            continue
        column = F.col(f"`{one.name}`")
        if isinstance(one.dataType, StructType):
            column = column.cast(_window_type(one.dataType, size))
        frame = frame.withColumn(one.name, _as(column, one.name, _with(one, 0)))
    return frame


def timed(frame: DataFrame, column: str, watermark: str | None) -> DataFrame:
    """The input of a stateful operator with its event-time column and watermark.

    If the column follows the mark of a channel, so does the watermark, instead of the rows.
    """
    if behind(frame, column) is None:
        return frame if watermark is None else frame.withWatermark(column, interval(watermark))
    return as_event_time(frame, column, watermark)


def as_event_time(frame: DataFrame, column: str, watermark: str | None) -> DataFrame:
    """The same rows with this column as their only event time, whose watermark exists already."""
    columns = []
    for one in frame.schema.fields:
        metadata = {k: v for k, v in one.metadata.items() if k != DELAY}  # only one may
        if one.name.lower() == column.lower():
            kept = one.metadata.get(DELAY, 0)
            metadata[DELAY] = kept if watermark is None else milliseconds(watermark)
        columns.append(_as(F.col(f"`{one.name}`"), one.name, metadata))
    return frame.select(*columns)


def union(frames: Iterable[DataFrame]) -> list[DataFrame]:
    """Inputs of a union: a column follows a mark only if it does in all of them."""
    given = list(frames)
    lags = [{f.name.lower(): f.metadata.get(BEHIND) for f in g.schema.fields} for g in given]
    result = []
    for frame in given:
        for one in frame.schema.fields:
            found = [lag.get(one.name.lower()) for lag in lags]
            if BEHIND not in one.metadata or found == [one.metadata[BEHIND]] * len(found):
                continue
            known = [lag for lag in found if lag is not None]
            worst = max(known) if len(known) == len(found) else None
            column = F.col(f"`{one.name}`")
            frame = frame.withColumn(one.name, _as(column, one.name, _with(one, worst)))
        result.append(frame)
    return result


def by_rows(struct: StructType) -> StructType:
    """The same columns without lags, for a function that has set a watermark of its own."""
    return StructType([StructField(f.name, f.dataType, True, _with(f, None)) for f in struct])


def lags(operator: Operator, frames: list[DataFrame]) -> tuple[int | None, ...]:
    """The lag of the watermark behind the mark, for each input of a stateful operator."""
    match operator.body:
        case op.Aggregate(window=None):
            found = [behind(frames[0], key) for key in operator.keys]
            return (next((lag for lag in found if lag is not None), None),)
        case op.Aggregate(window=op.Window(on=on, watermark=watermark)):
            return (_lag(frames[0], on, watermark),)
        case op.Deduplicate(on=str(on), watermark=watermark):
            return (_lag(frames[0], on, watermark),)
        case op.Join(left_watermark=left, right_watermark=right):
            sides = zip(frames, (left, right), strict=True)
            return tuple(_lag(f, *side) if side else _least(f) for f, side in sides)
    return tuple(_least(frame) for frame in frames)


def own_delay(operator: Operator, frame: DataFrame) -> int | None:
    """The delay of a watermark that an operator makes of its rows' timestamps, in milliseconds."""
    match operator.body:
        case op.Aggregate(window=op.Window(on=on, watermark=str(watermark))):
            column = on
        case op.Deduplicate(on=str(on), watermark=str(watermark)):
            column = on
        case _:
            return None
    made = next((f for f in frame.schema.fields if f.name.lower() == column.lower()), None)
    if made is None or _known(made) or not isinstance(made.dataType, TimestampType):
        return None
    return milliseconds(watermark)


def _lag(frame: DataFrame, column: str, watermark: str | None) -> int | None:
    known = behind(frame, column)
    return None if known is None else known + (milliseconds(watermark) if watermark else 0)


def _least(frame: DataFrame) -> int | None:
    """The smallest lag of the event-time columns."""
    found = [f.metadata[BEHIND] for f in frame.schema.fields if DELAY in f.metadata and _known(f)]
    return min(found, default=None)


# --- reading a channel ------------------------------------------------------------------------


def hidden(struct: StructType) -> StructType:
    """A channel's columns and the hidden one that carries the mark."""
    return StructType([*struct.fields, StructField(MARK, TimestampType())])


def followed(frame: DataFrame, struct: StructType, lag: int) -> DataFrame:
    """Rows of a channel, with a watermark that follows its mark; `frame` has the hidden column."""
    marked = frame.withWatermark(MARK, f"{lag} milliseconds")
    # The watermark must see the row that carries the mark, so no filter may be pushed below it:
    # Spark moves none past one that is not deterministic.
    rows = marked.where(F.col(MARK).isNull() & (F.spark_partition_id() >= 0))
    # Only the watermark's column keeps its metadata in Spark.
    return rows.select(*(_column(f) for f in struct.fields))


def marked_again(frame: DataFrame, struct: StructType) -> DataFrame:
    """Rows of a channel with a watermark from the rows, as upstream."""
    for one in struct.fields:
        if DELAY in one.metadata and not _known(one) and isinstance(one.dataType, TimestampType):
            frame = frame.withWatermark(one.name, f"{one.metadata[DELAY]} milliseconds")
    return frame


def empty(spark: SparkSession, struct: StructType) -> DataFrame:
    """A streaming frame with these columns, never to be run."""
    rate = spark.readStream.format("rate").load()
    nothing = (_as(F.lit(None).cast(f.dataType), f.name, f.metadata) for f in struct)
    return rate.select(*nothing)


# --- writing a channel ------------------------------------------------------------------------


def behind_join(plan: Any, watermark: int) -> int:
    """The watermark of a stream-stream join's output, which Spark derives from its condition.

    plan: the physical plan of a batch with one join.
    """
    if plan.nodeName() == "StreamingSymmetricHashJoin":
        made = plan.produceOutputWatermark(watermark)
        return int(made.get()) if made.isDefined() else 0
    children = plan.children()
    found = (behind_join(children.apply(i), watermark) for i in range(children.length()))
    return min(found, default=watermark)


# --- durations --------------------------------------------------------------------------------


def milliseconds(text: str) -> int:
    """A duration in whole milliseconds, rounded up, as Spark does for watermarks."""
    return math.ceil(round(1000 * duration.seconds(text), 3))


def interval(text: str) -> str:
    """A duration as Spark writes it."""
    return f"{microseconds(text)} microseconds"


def microseconds(text: str) -> int:
    """A duration in whole microseconds, as Spark does for windows."""
    return round(1e6 * duration.seconds(text))


# --- details ----------------------------------------------------------------------------------


def _known(one: StructField) -> bool:
    return BEHIND in one.metadata


def _with(one: StructField, lag: int | None) -> dict[str, Any]:
    """A column's metadata with another lag."""
    rest = {k: v for k, v in one.metadata.items() if k != BEHIND}
    return rest if lag is None else {**rest, BEHIND: lag}


def _column(one: StructField) -> Column:
    return _as(F.col(f"`{one.name}`"), one.name, one.metadata)


def _as(column: Column, name: str, metadata: Mapping[str, Any]) -> Column:
    """A renamed column with exactly these metadata."""
    return column.alias(name, metadata={**metadata} or {"penstock.plain": True})


def _window_type(window: StructType, size: str | None) -> StructType:
    """A window's type with the lags of its start and its end."""
    fields = []
    for one in window.fields:
        lag = one.metadata.get(BEHIND)
        if lag is None and one.name == "end":
            lag = 0
        if lag is None and one.name == "start" and size is not None:
            lag = milliseconds(size)
        fields.append(StructField(one.name, one.dataType, one.nullable, _with(one, lag)))
    return StructType(fields)


def _loose(kind: DataType) -> DataType:
    """The type with all fields nullable, as in a schema written as text."""
    match kind:
        case StructType():
            fields = [StructField(f.name, _loose(f.dataType), True, f.metadata) for f in kind]
            return StructType(fields)
        case ArrayType():
            return ArrayType(_loose(kind.elementType), True)
        case MapType():
            return MapType(_loose(kind.keyType), _loose(kind.valueType), True)
    return kind


LATE = "penstock_late"
"""Name of the observation that counts late records."""


class Watermark:
    """A watermark that expressions read while a batch runs, in milliseconds since 1970.

    Expressions of a streaming query are fixed when it starts. This one reads an object of the
    driver that is serialised anew with the tasks of each batch.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._cell = jvm.java.util.concurrent.atomic.AtomicLongArray(1)
        types, expressions = jvm.org.apache.spark.sql.types, jvm.org.apache.spark.sql.catalyst
        literal = _object(expressions.expressions, "Literal")
        cell = literal.fromObject(self._cell, types.ObjectType(self._cell.getClass()))
        sequence = jvm.PythonUtils.toSeq
        call = expressions.expressions.objects.Invoke(
            cell,
            "get",
            _object(types, "LongType"),
            sequence([literal.apply(0)]),
            sequence([_object(types, "IntegerType")]),
            False,  # propagateNull
            False,  # returnNullable
            False,  # deterministic: it must not be evaluated only once
        )
        self._call = jvm.org.apache.spark.sql.classic.ExpressionUtils.column(call)

    @property
    def column(self) -> Column:
        from pyspark.sql.classic.column import Column as Classic

        return Classic(self._call)

    def set(self, milliseconds: int) -> None:
        self._cell.set(0, milliseconds)


def late(on: str, size: int, slide: int, watermark: Column) -> Column:
    """True if a record is too late for at least one of its windows.

    on: a timestamp column; size, slide: of the windows, in microseconds.
    """
    at = F.unix_micros(F.col(f"`{on}`"))
    into = F.pmod(at, F.lit(slide))  # since the start of the last window that holds the record
    earlier = F.floor((F.lit(size - 1) - into) / F.lit(slide))
    first_end = at - into - earlier * slide + size
    return first_end <= watermark * 1000


def _object(package: Any, name: str) -> Any:
    """A Scala object."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
