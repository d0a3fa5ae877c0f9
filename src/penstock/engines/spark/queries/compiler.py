"""Compiles operators to Spark DataFrames: one function for each form of operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType, TimestampType

from penstock.dataflow import operators as op
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import OnError, Operator
from penstock.dataflow.schema import Schema
from penstock.engines.spark.channels import event_time
from penstock.engines.spark.channels.event_time import (
    DELAY,
    LATE,
    Watermark,
    feeds_state,
    interval,
    late,
    microseconds,
)
from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.measuring.operator_meter import MeterReports
from penstock.engines.spark.queries.dead_letters import Desk
from penstock.engines.spark.queries.record_functions import RecordStep, RecordSteps
from penstock.engines.spark.queries.stateful_processors import (
    ALL,
    ORDER,
    BarrierProcessor,
    GuardedProcessor,
)
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, GroupedData

OUT = "penstock_out"
"""Name of the observation that counts the output rows of a pipeline."""

IN = "penstock_in_"
"""Prefix of the observations that count the rows of one of Spark's own sources."""

REJECT = "penstock_reject_"
"""Prefix of the observations that collect the rejected rows of a native operator."""

CLOCK = "penstock_clock"
"""Name of the observation of the latest event time in a batch, in milliseconds since 1970."""

_TIMER_SECONDS = 0.5


KEPT = "penstock_kept_"
"""Prefix of the observations that keep the columns of a stateful operator in use."""


class CompileError(PenstockError):
    """An operator could not be compiled to a DataFrame."""

    def __init__(self, operator: Operator, message: str) -> None:
        self.operator = operator
        super().__init__(f"operator '{operator.name}' ({operator.written}): {message}")


@dataclass(frozen=True)
class Compiler:
    """Compiles the operators of one pipeline.

    dead: where dead letters are written; mail: where measurements of Python operators are sent,
    None to take none; late records are counted against `watermark`, if given; clocked: a clock
    makes the watermark of the stateful operator (see `event_clock`).
    """

    graph: Graph
    dead: FileStore
    epoch: int = 0
    mail: MeterReports | None = None
    watermark: Watermark | None = None
    clocked: bool = False

    def tail(
        self, operators: tuple[str, ...], read: Callable[[Operator, str], DataFrame]
    ) -> DataFrame:
        """The output of a pipeline as a DataFrame.

        `read(operator, input)` gives the DataFrame of a source (input "") or of a channel.
        """
        inside = set(operators)
        last = [n for n in operators if not isinstance(self.graph[n].body, op.Write)][-1:]
        frames: dict[str, PendingFrame] = {}
        result: PendingFrame | None = None
        for name in operators:
            operator = self.graph[name]
            if isinstance(operator.body, op.Write):
                if result is None:  # a sink alone
                    result = PendingFrame(read(operator, operator.inputs[0]))
                continue
            if isinstance(operator.body, op.Read):
                result = PendingFrame(read(operator, ""))
            else:
                inputs = [
                    frames[i] if i in inside else PendingFrame(read(operator, i))
                    for i in operator.inputs
                ]
                result = self.apply(operator, inputs)
            if isinstance(operator.body, op.Aggregate | op.Join) and name not in last:
                result = PendingFrame(_unpruned(name, result.frame()))
            frames[name] = result
        assert result is not None
        return result.frame().observe(OUT, F.count(F.lit(1)).alias("rows"))

    def apply(self, operator: Operator, inputs: list[PendingFrame]) -> PendingFrame:
        """Apply one operator to its inputs."""
        body = operator.body
        if isinstance(body, op.PYTHON_BODIES):
            return inputs[0].then(self._stage(operator, inputs[0]), operator.schema)
        frames = [i.frame() for i in inputs]
        match body:
            case op.Frame():
                return PendingFrame(self._frame(operator, body, frames[0]))
            case op.Aggregate(emit=emit, window=window):
                result = self._aggregate(operator, body, frames[0])
                if emit == "final" and feeds_state(self.graph, operator.name):
                    result = event_time.noted(result, window.size if window else None)
                return PendingFrame(result)
            case op.Deduplicate():
                return PendingFrame(
                    self._noted(operator, self._deduplicate(operator, body, frames[0]))
                )
            case op.Join():
                return PendingFrame(
                    self._noted(operator, _join(operator, body, frames[0], frames[1]))
                )
            case op.Union():
                return PendingFrame(reduce(lambda a, b: a.unionByName(b), event_time.union(frames)))
            case op.Process():
                return PendingFrame(self._process(operator, body, frames[0]))
            case op.Barrier():
                return PendingFrame(_barrier(operator, frames))
        raise AssertionError(body)

    def _noted(self, operator: Operator, frame: DataFrame) -> DataFrame:
        return event_time.noted(frame) if feeds_state(self.graph, operator.name) else frame

    def _aggregate(self, operator: Operator, body: op.Aggregate, frame: DataFrame) -> DataFrame:
        groups: list[Any] = [F.col(k) for k in operator.keys]
        window, on = body.window, None
        if window is not None:
            on = next((f for f in frame.schema.fields if f.name.lower() == window.on.lower()), None)
            frame = self._timed(frame, window.on, window.watermark)
            size, slide = window.size, window.slide or window.size
            groups.insert(0, F.window(window.on, interval(size), interval(slide)))
            if self.watermark is not None and on and isinstance(on.dataType, TimestampType):
                too_late = late(
                    on.name, microseconds(size), microseconds(slide), self.watermark.column
                )
                frame = frame.observe(LATE, F.count_if(too_late).alias("rows"))
        result = frame.groupBy(*groups).agg(*_columns(body.columns))
        if body.emit == "final" and not any(DELAY in f.metadata for f in result.schema.fields):
            raise CompileError(
                operator,
                "emit='final' needs a watermark on what it groups by, without one no group is ever "
                "final: write window(..., watermark='10s')",
            )
        return result

    def _timed(self, frame: DataFrame, column: str, watermark: str | None) -> DataFrame:
        """The input of a stateful operator with its event time."""
        if not self.clocked:
            return event_time.timed(frame, column, watermark)
        latest = F.max(F.unix_millis(F.col(f"`{column}`"))).alias("latest")
        return event_time.as_event_time(frame.observe(CLOCK, latest), column, watermark)

    def _deduplicate(self, operator: Operator, body: op.Deduplicate, frame: DataFrame) -> DataFrame:
        if body.on is None or body.watermark is None:
            return frame.dropDuplicates(list(operator.keys))
        marked = self._timed(frame, body.on, body.watermark)
        return marked.dropDuplicatesWithinWatermark(list(operator.keys))

    def _frame(self, operator: Operator, body: op.Frame, frame: DataFrame) -> DataFrame:
        from pyspark.sql import DataFrame

        result = body.function(frame)
        if not isinstance(result, DataFrame):
            raise CompileError(
                operator, f"its function must return a DataFrame, got {type(result).__name__}"
            )
        result = _inside(frame, result)
        if body.reject is None:
            return result
        bad = F.coalesce(F.expr(body.reject), F.lit(False))
        letter = F.when(bad, F.to_json(F.struct("*"), {"ignoreNullFields": "false"}))
        result = result.observe(REJECT + operator.name, F.collect_list(letter).alias("letters"))
        return result.filter(~bad)

    def desk(self, operator: Operator) -> Desk:
        return Desk(
            operator.name,
            str(operator.written),
            operator.on_error is OnError.FAIL,
            self.dead,
            self.epoch,
        )

    def _stage(self, operator: Operator, before: PendingFrame) -> RecordStep:
        assert isinstance(operator.body, op.PYTHON_BODIES)
        schema = operator.schema
        struct = before.struct() if schema is None else struct_of(schema)
        arrow = to_arrow_schema(struct, timezone=_zone(before.base))
        return RecordStep(operator.body, arrow, self.desk(operator), self.mail)

    def _process(self, operator: Operator, body: op.Process, frame: DataFrame) -> DataFrame:
        assert operator.schema is not None
        modes = {"none": "None", "processing_time": "ProcessingTime", "event_time": "EventTime"}
        processor = GuardedProcessor(
            body.processor(),
            self.desk(operator),
            tuple(frame.columns),
            to_arrow_schema(struct_of(operator.schema), timezone=_zone(frame)),
            self.mail,
        )
        return _grouped(operator, _ordered(frame)).transformWithState(
            processor, struct_of(operator.schema), "Append", modes[body.time_mode]
        )


@dataclass(frozen=True)
class PendingFrame:
    """A DataFrame and Python steps that will be applied to it in one Python worker."""

    base: DataFrame
    stages: tuple[RecordStep, ...] = ()
    schema: Schema | None = None

    def then(self, stage: RecordStep, schema: Schema | None) -> PendingFrame:
        return PendingFrame(self.base, (*self.stages, stage), schema or self.schema)

    def struct(self) -> StructType:
        return self.base.schema if self.schema is None else struct_of(self.schema)

    def frame(self) -> DataFrame:
        if not self.stages:
            return self.base
        return self.base.mapInArrow(RecordSteps(self.stages), self.struct())


def _zone(frame: DataFrame) -> str:
    """The time zone in which Spark passes timestamps to Python."""
    return str(frame.sparkSession.conf.get("spark.sql.session.timeZone"))


def _inside(frame: DataFrame, result: DataFrame) -> DataFrame:
    """The result, moved to the session of the frame that it was made from.

    A function may start from a DataFrame of the user's own session, such as a static table that it
    joins to the stream; the query must not run in that session.
    """
    from pyspark.sql import DataFrame

    spark: Any = frame.sparkSession
    if result.sparkSession is spark:
        return result
    datasets = spark._jvm.org.apache.spark.sql.classic.Dataset
    plan = result._jdf.queryExecution().analyzed()
    return DataFrame(datasets.ofRows(spark._jsparkSession, plan), spark)


def _unpruned(name: str, frame: DataFrame) -> DataFrame:
    """Use every column once, so that all of them stay in the state.

    Spark keeps in an operator's state only columns that are used downstream. The layout of the
    state would then change when downstream operators move to another pipeline.
    """
    plain = [f.name for f in frame.schema.fields if "map<" not in f.dataType.simpleString()]
    maps = [f.name for f in frame.schema.fields if f.name not in plain]
    used = [F.max(F.hash(*(F.col(f"`{c}`") for c in plain))).alias("used")] if plain else []
    used += [F.count_if(F.col(f"`{c}`").isNull()).alias(c) for c in maps]
    return frame.observe(KEPT + name, *used)


def struct_of(schema: Schema) -> StructType:
    """A schema as Spark's own type."""
    return cast(StructType, StructType.fromDDL(schema.ddl))


def output_mode(graph: Graph, operators: tuple[str, ...]) -> str:
    """Spark's output mode for a pipeline: that of its only stateful operator."""
    for name in operators:
        body = graph[name].body
        if isinstance(body, op.Aggregate):
            return "append" if body.emit == "final" else "update"
    return "append"


def needs(graph: Graph, operators: tuple[str, ...]) -> tuple[dict[str, str], float]:
    """Spark settings for a pipeline's query, and the shortest time between its batches in seconds.

    Batches without input run only where time alone can produce output: windows that close, joins
    and timers. Timers of processing time could fire at any moment, so without a shortest time
    Spark would run such batches without a pause.
    """
    alone, least, ordered = False, 0.0, False
    for name in operators:
        # A watermark that this pipeline no longer needs may be needed downstream.
        alone |= graph[name].stateful and feeds_state(graph, name)
        match graph[name].body:
            case op.Aggregate(emit="final") | op.Process(time_mode="event_time"):
                alone = True
            case op.Join(how=how) if how != "inner":
                alone = True
            case op.Process(time_mode="processing_time"):
                alone, least = True, _TIMER_SECONDS
        ordered |= isinstance(graph[name].body, op.Process | op.Barrier)
    settings = {
        "spark.sql.streaming.noDataMicroBatches.enabled": str(alone).lower(),
        "spark.sql.streaming.unsupportedOperationCheck": str(not ordered).lower(),
    }
    return settings, least


def _columns(given: tuple[Any, ...]) -> list[Column]:
    return [F.expr(c) if isinstance(c, str) else c() if callable(c) else c for c in given]


def _ordered(frame: DataFrame) -> DataFrame:
    """The frame with the position of each row in its batch as another column.

    Spark rejects this function in streams, because its values mean nothing across batches; `needs`
    turns that check off.
    """
    return frame.withColumn(ORDER, F.monotonically_increasing_id())


def _grouped(operator: Operator, frame: DataFrame) -> GroupedData:
    if operator.keys:
        return frame.groupBy(*operator.keys)
    return frame.withColumn(ALL, F.lit(0)).groupBy(ALL)


def _join(operator: Operator, body: op.Join, left: DataFrame, right: DataFrame) -> DataFrame:
    """Join on keys and condition. Keys appear once; right columns with a taken name are renamed."""
    if body.left_watermark is not None:
        left = event_time.timed(left, *body.left_watermark)
    if body.right_watermark is not None:
        right = event_time.timed(right, *body.right_watermark)
    one, two = left.alias("l"), right.alias("r")
    # Batch mode never joins null to null. Streams do, unless Spark filters nulls out first.
    equal = (F.col(f"l.{k}") == F.col(f"r.{k}") for k in operator.keys)
    on = reduce(lambda a, b: a & b, (*equal, *(F.col(f"l.{k}").isNotNull() for k in operator.keys)))
    if body.condition is not None:
        on = on & F.expr(body.condition)
    joined = one.join(two, on, body.how)
    if body.how == "left_semi":
        return joined
    keys = [F.coalesce(f"l.{k}", f"r.{k}").alias(k) for k in operator.keys]
    lefts = [F.col(f"l.{c}") for c in left.columns if c not in operator.keys]
    rights = [
        F.col(f"r.{c}").alias(f"{c}_right" if c in left.columns else c)
        for c in right.columns
        if c not in operator.keys
    ]
    return joined.select(*keys, *lefts, *rights)


def _barrier(operator: Operator, frames: list[DataFrame]) -> DataFrame:
    """Tag every record with its port, union all ports, and pair the records up in state."""
    ports = operator.inputs
    schemas = tuple(frame.schema for frame in frames)
    keys = [StructField(k, frames[0].schema[k].dataType) for k in operator.keys]
    output = StructType([*keys, *(StructField(p, s) for p, s in zip(ports, schemas, strict=True))])
    tagged = []
    for port, frame in enumerate(frames):
        structs = [
            (F.struct("*") if i == port else F.lit(None)).cast(s).alias(f"__in{i}")
            for i, s in enumerate(schemas)
        ]
        tagged.append(frame.select(*operator.keys, F.lit(port).alias("__port"), *structs))
    together = reduce(lambda a, b: a.union(b), tagged)
    return _grouped(operator, _ordered(together)).transformWithState(
        BarrierProcessor(operator.keys, ports, schemas), output, "Append", "None"
    )
