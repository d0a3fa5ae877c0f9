"""Event time across pipelines: which columns hold it, and how far it has come.

Inside one query Spark marks the columns that hold event time in their metadata, and hands the
watermark from one stateful operator to the next. A channel between two queries would lose both,
so it keeps them:

- The metadata stay with the channel's columns. `penstock.behind` is Penstock's own: rows that are
  still to come hold a time later than the channel's mark less so many milliseconds.
- The mark, in milliseconds since 1970, stands in the entries of the channel's log. It is the
  watermark that the writer's output keeps.

The reading query gets the mark as a row of its own, in a hidden column that only the watermark
looks at, so its watermark moves on even when no records come.
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
    """What the channels of a dataflow keep of event time.

    columns: by operator, the columns of its output with their metadata, where a stateful operator
    downstream may need these; follows: by stateful operator, for each of its inputs how many
    milliseconds its watermark stays behind the mark of the channel, None where it goes by the rows.
    """

    columns: Mapping[str, StructType] = field(default_factory=dict)
    follows: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)

    def marked(self, operator: str) -> bool:
        """Whether the output of an operator has a mark."""
        struct = self.columns.get(operator)
        return struct is not None and any(_known(f) for f in struct.fields)

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
    """Whether a stateful operator is downstream of an operator."""
    return any(graph[n].stateful for n in graph.reachable(name) - {name})


# --- columns ----------------------------------------------------------------------------------


def behind(frame: DataFrame, column: str) -> int | None:
    """How far a column may be behind the mark, in milliseconds; None if it has nothing to do with
    it."""
    found = next((f for f in frame.schema.fields if f.name.lower() == column.lower()), None)
    return None if found is None or BEHIND not in found.metadata else int(found.metadata[BEHIND])


def kept(struct: StructType, schema: StructType) -> StructType:
    """A channel's columns: the types of its schema, the metadata of the writer's output."""
    fields = []
    for have, made in zip(schema.fields, struct.fields, strict=True):
        # The fields of a window have metadata too, which its type in the schema has not.
        kind = _loose(made.dataType) if _known(made) else have.dataType
        fields.append(StructField(have.name, kind, True, made.metadata))
    return StructType(fields)


def noted(frame: DataFrame, size: str | None = None) -> DataFrame:
    """The output of a stateful operator, with its event-time columns known to be behind its mark.

    size: of its windows. A window that is still to come ends after the mark; its start is earlier
    by the size.
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
    """The input of a stateful operator, with its event time and how late it may be.

    Where the column follows the mark of a channel, the watermark does so too, and is not made of
    the rows a second time.
    """
    follows = behind(frame, column)
    if follows is None:
        return frame if watermark is None else frame.withWatermark(column, interval(watermark))
    columns = []
    for one in frame.schema.fields:
        metadata = {k: v for k, v in one.metadata.items() if k != DELAY}  # only one may have it
        if one.name.lower() == column.lower():
            kept = one.metadata.get(DELAY, 0)
            metadata[DELAY] = kept if watermark is None else milliseconds(watermark)
        columns.append(_as(F.col(f"`{one.name}`"), one.name, metadata))
    return frame.select(*columns)


def union(frames: Iterable[DataFrame]) -> list[DataFrame]:
    """Inputs of a union: a column follows a mark only if it does so in all of them."""
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
    """The same columns, none of which follows a mark: a function has set a watermark of its own."""
    return StructType([StructField(f.name, f.dataType, True, _with(f, None)) for f in struct])


def lags(operator: Operator, frames: list[DataFrame]) -> tuple[int | None, ...]:
    """For each input of a stateful operator, how far its watermark stays behind the mark."""
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


def _lag(frame: DataFrame, column: str, watermark: str | None) -> int | None:
    known = behind(frame, column)
    return None if known is None else known + (milliseconds(watermark) if watermark else 0)


def _least(frame: DataFrame) -> int | None:
    """Of the columns that hold event time for Spark."""
    found = [f.metadata[BEHIND] for f in frame.schema.fields if DELAY in f.metadata and _known(f)]
    return min(found, default=None)


# --- reading a channel ------------------------------------------------------------------------


def hidden(struct: StructType) -> StructType:
    """A channel's columns and the one that brings the mark."""
    return StructType([*struct.fields, StructField(MARK, TimestampType())])


def followed(frame: DataFrame, struct: StructType, lag: int) -> DataFrame:
    """Rows of a channel, with a watermark that follows its mark; `frame` has the hidden column."""
    marked = frame.withWatermark(MARK, f"{lag} milliseconds")
    # The watermark must see the row that brings the mark, so no condition may be pushed below it:
    # Spark moves none past one that is not deterministic.
    rows = marked.where(F.col(MARK).isNull() & (F.spark_partition_id() >= 0))
    # The watermark's column is the only one that Spark leaves its metadata.
    return rows.select(*(_column(f) for f in struct.fields))


def marked_again(frame: DataFrame, struct: StructType) -> DataFrame:
    """Rows of a channel whose watermark was made of rows upstream: it is made of them again."""
    for one in struct.fields:
        if DELAY in one.metadata and not _known(one) and isinstance(one.dataType, TimestampType):
            frame = frame.withWatermark(one.name, f"{one.metadata[DELAY]} milliseconds")
    return frame


def empty(spark: SparkSession, struct: StructType) -> DataFrame:
    """A streaming frame of those columns that never runs."""
    rate = spark.readStream.format("rate").load()
    nothing = (_as(F.lit(None).cast(f.dataType), f.name, f.metadata) for f in struct)
    return rate.select(*nothing)


# --- writing a channel ------------------------------------------------------------------------


def behind_join(plan: Any, watermark: int) -> int:
    """The watermark of what a stream-stream join puts out, which Spark reckons from its condition.

    plan: the physical plan of a batch, which has one join in it.
    """
    if plan.nodeName() == "StreamingSymmetricHashJoin":
        made = plan.produceOutputWatermark(watermark)
        return int(made.get()) if made.isDefined() else 0
    children = plan.children()
    found = (behind_join(children.apply(i), watermark) for i in range(children.length()))
    return min(found, default=watermark)


# --- durations --------------------------------------------------------------------------------


def milliseconds(text: str) -> int:
    """A duration in whole milliseconds, as Spark counts watermarks, rounded up."""
    return math.ceil(round(1000 * duration.seconds(text), 3))


def interval(text: str) -> str:
    """A duration as Spark writes it."""
    return f"{microseconds(text)} microseconds"


def microseconds(text: str) -> int:
    """A duration in whole microseconds, as Spark counts time in windows."""
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
    """A column under a name with just these metadata; without any it would keep those it has."""
    return column.alias(name, metadata={**metadata} or {"penstock.plain": True})


def _window_type(window: StructType, size: str | None) -> StructType:
    """A window's type, with what is known of its start and its end."""
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
    """A type in which everything may be NULL, as in a schema that is written as text."""
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

    An expression of a streaming query is fixed when the query starts. This one asks an object of
    the driver, which goes with the tasks of each batch as it is when they are sent.
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
            False,  # deterministic: it must not be worked out once and for all
        )
        self._call = jvm.org.apache.spark.sql.classic.ExpressionUtils.column(call)

    @property
    def column(self) -> Column:
        from pyspark.sql.classic.column import Column as Classic

        return Classic(self._call)

    def set(self, milliseconds: int) -> None:
        self._cell.set(0, milliseconds)


def late(on: str, size: int, slide: int, watermark: Column) -> Column:
    """Whether a record comes too late for at least one of its windows.

    on: a timestamp column; size, slide: of the windows, in microseconds.
    """
    at = F.unix_micros(F.col(f"`{on}`"))
    into = F.pmod(at, F.lit(slide))  # since the start of the last window that holds the record
    earlier = F.floor((F.lit(size - 1) - into) / F.lit(slide))
    first_end = at - into - earlier * slide + size
    return first_end <= watermark * 1000


def _object(package: Any, name: str) -> Any:
    """A singleton of Scala's."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
