"""Checks that need Spark: schemas of native functions, connectors, functions to serialise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from penstock.dataflow import function_checks, validation
from penstock.dataflow import operators as op
from penstock.dataflow.connectors import Files, FileSink, Generator, Kafka, Spark
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Operator
from penstock.dataflow.schema import Schema
from penstock.engines.spark.channels import event_time
from penstock.engines.spark.channels.event_time import EventTimes, feeds_state
from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.queries.compiler import CompileError, Compiler, PendingFrame, struct_of
from penstock.engines.spark.session.pickling import pickled
from penstock.errors import InvalidDataflow, Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NATIVE = (op.Frame, op.Aggregate, op.Deduplicate, op.Join, op.Union)
"""Forms whose columns Spark follows from input to output."""

_PROCESSOR = ("init", "handleInputRows", "close")
"""What every processor has; that of timers only those that set some."""

_STATEFUL = {"Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit"}


@dataclass(frozen=True)
class Resolved:
    """The output schema of every operator, and where event time is."""

    schemas: Mapping[str, Schema]
    times: EventTimes = field(default_factory=EventTimes)


def check(graph: Graph, spark: SparkSession) -> Resolved:
    """Resolve all schemas, or raise `InvalidDataflow` with every problem found."""
    structural = validation.problems(graph)
    if structural:
        # Without a valid structure there is no order in which to resolve schemas.
        raise InvalidDataflow(graph.name, [*structural, *_unshippable(graph)])
    schemas, times, problems = _resolve(graph, spark)
    problems += validation.problems(graph, schemas)
    problems += _unshippable(graph) + _processors(graph) + _connectors(graph, spark)
    problems += _missing(graph)
    known = {name: schema for name, schema in schemas.items() if schema is not None}
    problems = problems or _event_times(graph, spark, known, times)
    if problems:
        raise InvalidDataflow(graph.name, list(dict.fromkeys(problems)))
    return Resolved(known, times)


def _resolve(
    graph: Graph, spark: SparkSession
) -> tuple[dict[str, Schema | None], EventTimes, list[Problem]]:
    """Apply every operator to an empty frame, sources first."""
    compiler = Compiler(graph, FileStore("unused"))
    schemas: dict[str, Schema | None] = {}
    columns: dict[str, StructType] = {}
    follows: dict[str, tuple[int | None, ...]] = {}
    problems: list[Problem] = []
    for name in graph.topological:
        operator = graph[name]
        inputs = [schemas[i] for i in operator.inputs]
        schemas[name] = None
        if any(schema is None for schema in inputs):
            continue  # the problem is upstream and is reported there
        try:
            frames = [
                event_time.empty(spark, columns.get(i) or struct_of(schema))
                for i, schema in zip(operator.inputs, inputs, strict=True)
                if schema is not None
            ]
            if operator.stateful:
                follows[name] = event_time.lags(operator, frames)
            schema, made = _output(compiler, operator, frames, spark)
            if made is not None and feeds_state(graph, name):
                columns[name] = event_time.kept(made, struct_of(schema))
            schemas[name] = schema
        except CompileError as error:
            problems.append(_problem(operator, str(error).split(": ", 1)[1]))
        except PySparkException as error:
            problems.append(_problem(operator, _first_line(error) + _hint(error)))
        except Exception as error:
            problems.append(
                _problem(operator, f"its function failed: {type(error).__name__}: {error}")
            )
    return schemas, EventTimes(columns, follows), problems


def _output(
    compiler: Compiler, operator: Operator, frames: list[DataFrame], spark: SparkSession
) -> tuple[Schema, StructType | None]:
    """An operator's output, and its Spark columns where they may hold event time."""
    body = operator.body
    if isinstance(body, op.Read):
        return _source_schema(operator, body, spark), None
    if isinstance(body, op.Write):
        return Schema.of(frames[0].schema), None
    declared = operator.schema
    if declared is not None and not isinstance(body, _NATIVE):
        return declared, None
    result = compiler.apply(operator, [PendingFrame(f) for f in frames]).frame()
    made = result.schema
    if isinstance(body, op.Frame):
        stateful = _stateful_node(result._jdf.queryExecution().analyzed())
        if stateful is not None:
            raise CompileError(
                operator,
                f"a DataFrame function must be stateless, this one holds a {stateful}; "
                "use key_by(...).aggregate, .deduplicate or .join for it",
            )
        if _streams(result._jdf.queryExecution().analyzed()) > 1:
            raise CompileError(
                operator,
                "its function uses its input more than once, which Spark would read as often; "
                "use explode(array(...)), or two operators and a union",
            )
        if _sets_watermark(result._jdf.queryExecution().analyzed()):
            made = event_time.by_rows(made)
        given = Schema.of(result.schema)
        if declared is not None and declared.names != given.names:
            raise CompileError(operator, f"it declares the schema ({declared}) and gives ({given})")
        return given, made
    if declared is not None:
        return declared, made if declared.names == Schema.of(made).names else None
    return Schema.of(made), made


def _processors(graph: Graph) -> list[Problem]:
    """Problems of stateful processors: not a processor, or one written for pandas."""
    found = []
    for operator in graph.operators:
        if not isinstance(operator.body, op.Process):
            continue
        try:
            made = operator.body.processor()
        except Exception as error:
            message = f"its processor cannot be made: {type(error).__name__}: {error}"
            found.append(_problem(operator, message))
        else:
            found += [_problem(operator, message) for message in _processor(made)]
    return found


def _processor(made: Any) -> Iterator[str]:
    if not all(callable(getattr(made, name, None)) for name in _PROCESSOR):
        yield (
            f"its processor makes a value of type {type(made).__name__}: give a class that derives "
            "from pyspark.sql.streaming.StatefulProcessor, or a function that makes one"
        )
        return
    calls: dict[str, tuple[str, ...]] = {
        "init": ("a handle",),
        "handleInputRows": ("a key", "its rows", "timers"),
        "handleExpiredTimer": ("a key", "timers", "the timer"),
        "close": (),
    }
    for method, given in calls.items():
        if not hasattr(made, method):
            continue
        yield from function_checks.call_problems(method, getattr(made, method), "Spark", *given)
        said = function_checks.table_annotation(getattr(made, method), "pandas", len(given))
        if said is not None:
            yield (
                f"its {method} is written for transformWithStateInPandas ({said}): here it gets an "
                "iterator of Rows, and yields Row(...)"
            )


def _event_times(
    graph: Graph, spark: SparkSession, schemas: Mapping[str, Schema], times: EventTimes
) -> list[Problem]:
    """Problems of stateful operators whose input has more than one event-time column.

    Spark reports that only when it runs the first batch. There is a channel between two stateful
    operators, so each is checked together with the stateless operators in front of it.
    """
    compiler = Compiler(graph, FileStore("unused"))
    frames: dict[str, DataFrame] = {}
    found = []

    def channel(name: str) -> DataFrame:
        return _opaque(spark, times.columns.get(name) or struct_of(schemas[name]))

    for name in graph.topological:
        operator = graph[name]
        if isinstance(operator.body, op.Write):
            continue
        if isinstance(operator.body, op.Read):
            frames[name] = channel(name)
            continue
        inputs = [frames[one] for one in operator.inputs]
        if operator.stateful and not any(_marked(_analyzed(one)) for one in inputs):
            frames[name] = channel(name)  # one of its own at most
            continue
        result = compiler.apply(operator, [PendingFrame(one) for one in inputs]).frame()
        frames[name] = channel(name) if operator.stateful else result
        columns = _several(spark, result) if operator.stateful else []
        if columns:
            found.append(
                _problem(
                    operator,
                    f"its input has more than one event-time column ({', '.join(columns)}), which "
                    "Spark refuses: call withWatermark on one of them alone, or drop the others "
                    "before this operator",
                )
            )
    return found


def _opaque(spark: SparkSession, columns: StructType) -> DataFrame:
    """A streaming frame with these columns that the optimiser cannot see through."""
    rate = spark.readStream.format("rate").load()
    return rate.mapInArrow(lambda batches: batches, columns)


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _several(spark: SparkSession, frame: DataFrame) -> list[str]:
    """The event-time columns that meet at a stateful node of a plan, if more than one.

    Unused columns are pruned first, as they are when Spark runs the plan.
    """
    session: Any = spark._jsparkSession
    return _at_state(session.sessionState().optimizer().execute(_analyzed(frame)))


def _at_state(plan: Any) -> list[str]:
    if not plan.isStreaming():
        return []
    below, name = _below(plan), str(plan.nodeName())
    if name == "Aggregate":
        groups = _elements(plan.groupingExpressions())
        sides = [_marks(_elements(one.references().toSeq()) for one in groups)]
    elif name in _STATEFUL or name.startswith("TransformWithState") or _joins_streams(plan):
        sides = [_marked(child) for child in below]
    else:
        sides = []
    at_once = [columns for columns in sides if len(columns) > 1]
    return at_once[0] if at_once else next((f for c in below if (f := _at_state(c))), [])


def _marked(plan: Any) -> list[str]:
    """The event-time columns in the output of a plan."""
    return _marks([_elements(plan.output())])


def _marks(attributes: Iterable[list[Any]]) -> list[str]:
    """The names of event-time columns, without duplicates."""
    marked = {
        one.exprId().id(): str(one.name())
        for group in attributes
        for one in group
        if one.metadata().contains(event_time.DELAY)
    }
    return sorted(marked.values())


def _elements(found: Any) -> list[Any]:
    """A Scala sequence as a list."""
    return [found.apply(at) for at in range(found.length())]


def _connectors(graph: Graph, spark: SparkSession) -> list[Problem]:
    """Problems of connectors, such as Kafka's, which is no part of pyspark."""
    jvm: Any = spark._jvm
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    if loader.getResource("org/apache/spark/sql/kafka010/KafkaSourceProvider.class") is not None:
        return []
    return [
        _problem(
            operator,
            "Spark's Kafka connector is missing; start with --conf spark.jars.packages="
            f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}",
        )
        for operator in graph.operators
        if isinstance(getattr(operator.body, "source", None), Kafka)
        or isinstance(getattr(operator.body, "sink", None), Kafka)
    ]


def _missing(graph: Graph) -> list[Problem]:
    """Local input directories that do not exist."""
    found = []
    for operator in graph.sources:
        source = operator.body.source if isinstance(operator.body, op.Read) else None
        if isinstance(source, Files) and "://" not in source.path:
            folder = source.path.split("*")[0].rpartition("/")[0] if "*" in source.path else ""
            if not Path(folder or source.path).exists():
                found.append(_problem(operator, f"there is no directory {source.path} to read"))
    return found


def make_directories(graph: Graph) -> None:
    """Create the directories of file sinks. Raises `InvalidInput` if one cannot be created."""
    problems = []
    for operator in graph.sinks:
        sink = operator.body.sink if isinstance(operator.body, op.Write) else None
        if isinstance(sink, FileSink) and "://" not in sink.path:
            try:
                Path(sink.path).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                message = f"it cannot write to {sink.path}: {error.strerror or error}"
                problems.append(_problem(operator, message))
    if problems:
        raise InvalidDataflow(graph.name, problems)


def _source_schema(operator: Operator, body: op.Read, spark: SparkSession) -> Schema:
    source = body.source
    if isinstance(source, Generator | Files | Kafka):
        return source.schema
    return Schema.of(foreign(spark, source).schema)


def foreign(
    spark: SparkSession, source: Files | Kafka | Spark, name: str | None = None
) -> DataFrame:
    """The stream of one of Spark's own sources."""
    reader = spark.readStream.format(source.format).options(**source.options)
    if name is not None:
        reader = reader.name(name)
    if isinstance(source, Files):
        return reader.schema(source.schema.ddl).load(source.path)
    if isinstance(source, Spark) and source.schema is not None:
        reader = reader.schema(source.schema.ddl)
    return reader.load()


def _below(plan: Any) -> list[Any]:
    return _elements(plan.children())


def _streams(plan: Any) -> int:
    """The number of streams that a plan reads."""
    if not plan.isStreaming():
        return 0
    return sum(_streams(child) for child in _below(plan)) or 1


def _stateful_node(plan: Any) -> str | None:
    if not plan.isStreaming():
        return None
    name = plan.nodeName()
    if name in _STATEFUL or _joins_streams(plan):
        return str(name).lower()
    return next((found for c in _below(plan) if (found := _stateful_node(c))), None)


def _joins_streams(plan: Any) -> bool:
    return bool(plan.nodeName() == "Join") and all(child.isStreaming() for child in _below(plan))


def _sets_watermark(plan: Any) -> bool:
    return plan.nodeName() == "EventTimeWatermark" or any(_sets_watermark(c) for c in _below(plan))


def _unshippable(graph: Graph) -> list[Problem]:
    """Functions that cannot be serialised for the workers, and the part that prevents it."""
    found = []
    for operator in graph.operators:
        for function in _shipped(operator):
            try:
                pickled(function)
            except Exception as error:
                culprit = _culprit(function)
                found.append(
                    _problem(
                        operator,
                        f"Spark cannot ship its function: {error}"
                        + (f" (it uses '{culprit}')" if culprit else "")
                        + "; create such things inside the function",
                    )
                )
    return found


def _shipped(operator: Operator) -> Iterator[Callable[..., Any]]:
    match operator.body:
        case op.Arrow(function) | op.Map(function) | op.FlatMap(function) | op.Filter(function):
            yield function
        case op.Process(processor):
            yield processor
        case op.Read(Generator() as generator):
            yield generator.make


def _culprit(function: Callable[..., Any]) -> str | None:
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    cells = getattr(function, "__closure__", None) or ()
    values = {n: c.cell_contents for n, c in zip(code.co_freevars, cells, strict=False)}
    globals_ = getattr(function, "__globals__", {})
    values |= {n: globals_[n] for n in code.co_names if n in globals_}
    for name, value in values.items():
        try:
            pickled(value)
        except Exception:
            return str(name)
    return None


def _problem(operator: Operator, message: str) -> Problem:
    return Problem(message, operator.name, operator.written)


def _hint(error: PySparkException) -> str:
    if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return ""
    return (
        " A view that the function makes belongs to the flow's own session: "
        "read it with df.sparkSession.sql(...)"
    )


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0]
