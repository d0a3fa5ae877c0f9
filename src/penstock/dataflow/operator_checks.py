"""What is wrong with one operator of a dataflow, as messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from penstock.dataflow import connector_options, connectors, duration, function_checks
from penstock.dataflow import operators as op
from penstock.dataflow import schema as types
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Operator, State
from penstock.dataflow.schema import Schema
from penstock.errors import InvalidInput

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_RECORD = "a record as a dictionary"
_BATCHES = "an iterator of Arrow record batches"
_TIME_MODES = ("none", "processing_time", "event_time")
_NEEDS_WATERMARK = {
    "left_outer": ("right",),
    "left_semi": ("right",),
    "right_outer": ("left",),
    "full_outer": ("left", "right"),
}


def operator_problems(
    operator: Operator,
    sound: Graph,
    known: Mapping[str, Schema | None],
    given: Mapping[str, Schema | None],
) -> Iterator[str]:
    """Yield messages about one operator; `sound` is the sound part of the dataflow."""
    schemas = {i: known.get(i) for i in operator.inputs if isinstance(i, str)}
    yield from name_problems(operator.name)
    yield from edge_problems(operator, sound)
    yield from bound_problems(operator)
    for key in operator.keys:
        yield from column_problems("key", key, schemas, grouped=True)
    yield from _body(operator, schemas)
    yield from _updates(operator, sound)
    if isinstance(operator.body, op.Aggregate):
        yield from _finality(operator, operator.body, sound)
    declared = given.get(operator.name) if isinstance(operator.name, str) else None
    yield from _repeated_columns(declared or operator.schema)


def edge_problems(operator: Operator, sound: Graph) -> Iterator[str]:
    for name in operator.inputs:
        if name not in names_of(sound):
            yield f"reads {unknown_operator(name, sound)}"
    count, body = len(operator.inputs), operator.body
    if operator.state is State.SOURCE:
        if count:
            yield "it is a source and cannot have an input"
    elif count == 0:
        yield "it has no input"
    elif isinstance(body, op.Join):
        if count != 2:
            yield f"a join needs exactly 2 inputs, found {count}"
    elif isinstance(body, op.Union | op.Barrier):
        if count < 2:
            yield f"a {operator.form} needs at least 2 inputs, found {count}"
    elif count != 1:
        yield f"a {operator.form} operator needs exactly 1 input, found {count}; use a union first"
    for name in dict.fromkeys(i for i in operator.inputs if isinstance(i, str)):
        if operator.inputs.count(name) > 1 and name in sound:
            yield f"it reads '{name}' twice: put an operator of its own in front of one of the ends"
    if not isinstance(operator.name, str) or sound[operator.name].body is not operator.body:
        return  # readers of a repeated name belong to the first operator
    readers = sound.successors[operator.name]
    if operator.state is State.SINK and readers:
        yield f"it is a sink and cannot be read by {_listed(readers)}"
    ends_at_sink = any(sound[n].state is State.SINK for n in sound.reachable(operator.name))
    if operator.state is State.SOURCE and not ends_at_sink:
        yield "its records reach no sink: end the stream with .sink(name, ...)"
    elif operator.state is not State.SINK and not readers and operator.inputs:
        yield "nothing reads its output and it is no sink: add .sink(name, ...) or remove it"


def bound_problems(operator: Operator) -> Iterator[str]:
    least, most = operator.bounds.least, operator.bounds.most
    if least < 1:
        yield f"min_parallelism is {least}, it must be at least 1"
    if operator.state is State.GLOBAL and (least > 1 or most != 1):
        yield (
            f"it keeps one state for all records and runs as one instance: parallelism "
            f"{operator.bounds} is impossible; give it a key or max_parallelism=1"
        )
    elif most is not None and most < least:
        yield f"min_parallelism {least} is above max_parallelism {most}"


def _body(operator: Operator, schemas: Mapping[str, Schema | None]) -> Iterator[str]:
    """Yield messages about what an operator does, one case per form."""
    body = operator.body
    form = f"a{'n' if operator.form[0] in 'aeiou' else ''} {operator.form} operator"
    match body:
        case op.Read(source):
            if not isinstance(source, connectors.Source):
                yield f"{_kind(source)} is not a source: use Generator, Files, Kafka or Spark"
            elif isinstance(source, connectors.Generator):
                yield from callable_problems(
                    "make", source.make, "a generator", "a random generator", "numbers", "times"
                )
            elif not isinstance(source, connectors.Spark):
                yield from connector_options.unknown(source.format, "source", source.options)
        case op.Write(sink):
            if not isinstance(sink, connectors.Sink):
                yield f"{_kind(sink)} is not a sink: use e.g. Parquet, Console, Memory or Spark"
            elif isinstance(sink, connectors.ForeachBatch):
                given = ("the DataFrame of a batch", "its number")
                yield from callable_problems(
                    "function", sink.function, "a foreach-batch sink", *given
                )
            elif isinstance(sink, connectors.FileSink | connectors.Kafka):
                yield from connector_options.unknown(sink.format, "sink", sink.options)
                if isinstance(sink, connectors.FileSink):
                    yield from _partitions(sink.partition_by, schemas)
        case op.Frame(function, reject):
            yield from callable_problems("function", function, form, "a DataFrame")
            if reject is not None and operator.on_error is op.OnError.FAIL:
                yield (
                    "rows that 'reject' selects become dead letters, also with on_error='fail': "
                    "remove one of the two"
                )
        case op.Map(function) | op.FlatMap(function) | op.Filter(function):
            yield from callable_problems("function", function, form, _RECORD)
            yield from _tables(function, form, _RECORD, "pandas", "Arrow")
            if not isinstance(body, op.Filter):
                yield from _needs_schema(operator)
        case op.Arrow(function):
            yield from callable_problems("function", function, form, _BATCHES)
            yield from _tables(function, form, _BATCHES, "pandas")
            yield from _needs_schema(operator)
        case op.Process(processor, time_mode):
            yield from callable_problems("processor", processor, form)
            yield from _needs_schema(operator)
            yield from _one_of("time_mode", time_mode, _TIME_MODES)
        case op.Aggregate():
            yield from _aggregate(body, schemas)
        case op.Deduplicate(on, watermark):
            if (on is None) != (watermark is None):
                yield "'on' and 'watermark' go together: give both or none"
            if on is not None:
                yield from column_problems("watermark", on, schemas)
            if watermark is not None:
                yield from _duration("watermark", watermark, zero=True)
        case op.Join():
            yield from _join(operator, body, schemas)
        case op.Union():
            yield from _union(schemas)
        case _:
            pass


def _partitions(columns: Iterable[str], schemas: Mapping[str, Schema | None]) -> Iterator[str]:
    """Yield messages about the columns by which a file sink is partitioned."""
    names = [name.lower() for name in columns]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"partitionBy names the column '{name}' twice"
    for column in dict.fromkeys(columns):
        yield from column_problems("partitionBy", column, schemas)
    for schema in schemas.values():
        if schema is None or not names:
            continue
        if set(names) >= column_names(schema):
            yield "partitionBy leaves no column for the files: name fewer columns"
        for field in schema.fields:
            nested = {"array", "map", "struct", "variant"}
            if field.name.lower() in names and types.read(field.type).kinds & nested:
                yield (
                    f"partitionBy column '{field.name}' has the type {field.type}, which cannot "
                    "be the name of a directory: choose a column of a simple type"
                )


def _aggregate(body: op.Aggregate, schemas: Mapping[str, Schema | None]) -> Iterator[str]:
    if not body.columns:
        yield "it aggregates nothing: give at least one column, e.g. n='count(*)'"
    yield from _one_of("emit", body.emit, ("update", "final"))
    window = body.window
    if window is None:
        return
    yield from column_problems("window", window.on, schemas)
    yield from _duration("window size", window.size)
    if window.watermark is not None:
        yield from _duration("watermark", window.watermark, zero=True)
    if window.slide is not None:
        yield from _duration("window slide", window.slide)
        size, slide = _seconds(window.size), _seconds(window.slide)
        if size is not None and slide is not None and 0 < size < slide:
            yield f"window slide {window.slide} is longer than the window of {window.size}"


def _finality(operator: Operator, body: op.Aggregate, sound: Graph) -> Iterator[str]:
    """Yield a message if no group can ever be final, which takes a watermark.

    A watermark may also come from upstream, from another stateful operator or a DataFrame
    function; whether it reaches this operator, only Spark can tell at the start of the flow.
    """
    if body.emit != "final" or (body.window is not None and body.window.watermark is not None):
        return
    above = (sound[name].body for name in _upstream(operator, sound))
    if any(isinstance(b, op.Frame | op.Aggregate | op.Deduplicate | op.Join) for b in above):
        return
    if body.window is None:
        yield "emit='final' needs a window: without one a group is never final"
    else:
        yield (
            "emit='final' needs a watermark, without one no window is ever closed: "
            "write window(..., watermark='10s')"
        )


def _updates(operator: Operator, sound: Graph) -> Iterator[str]:
    """Yield a message if a stateful operator would count updates as new records."""
    if operator.takes_updates:
        if not isinstance(operator.body, op.Process):
            yield (
                "takes_updates=True is for processors, which can tell an update from a new "
                f"record; a {operator.form} operator cannot"
            )
        return
    if not operator.stateful:
        return
    for name in _upstream(operator, sound, through_state=False):
        body = sound[name].body
        if isinstance(body, op.Aggregate) and body.emit == "update":
            yield (
                f"it would count every update of '{name}' ({sound[name].written}) as a new record; "
                f"let '{name}' emit each group once, by a window with a watermark and "
                "emit='final', or use a processor with takes_updates=True"
            )


def _upstream(operator: Operator, sound: Graph, through_state: bool = True) -> list[str]:
    """Return operators upstream, nearest first; optionally up to the next stateful ones."""
    found: dict[str, None] = {}
    waiting = [name for name in operator.inputs if name in names_of(sound)]
    while waiting:
        name = waiting.pop(0)
        if name in found:
            continue
        found[name] = None
        if through_state or not sound[name].stateful:
            waiting += [i for i in sound[name].inputs if i in names_of(sound)]
    return list(found)


def _join(operator: Operator, body: op.Join, schemas: Mapping[str, Schema | None]) -> Iterator[str]:
    refused = op.join_refusal(body.how)
    if refused is not None:
        yield refused
    marks = {"left": body.left_watermark, "right": body.right_watermark}
    for at, (side, mark) in enumerate(marks.items()):
        if mark is None:
            continue
        if not isinstance(mark, tuple | list) or len(mark) != 2:
            yield f"{side}_watermark is written as (column, delay), found {mark!r}"
            marks[side] = None
            continue
        if at < len(operator.inputs):
            side_schema = {str(operator.inputs[at]): schemas.get(operator.inputs[at])}
            yield from column_problems(f"{side}_watermark", mark[0], side_schema)
        yield from _duration(f"{side}_watermark", mark[1], zero=True)
    # Spark can emit a row with nulls only once it knows that no partner will come: from a
    # watermark on a key, or from a bound on time against the watermark of the other side.
    on_key = any(mark is not None and mark[0] in operator.keys for mark in marks.values())
    needed = _NEEDS_WATERMARK.get(body.how, ()) if isinstance(body.how, str) else ()
    missing = [f"{side}_watermark" for side in needed if marks[side] is None]
    if body.condition is None and needed:
        missing.append("a condition that bounds time")
    if missing and not on_key:
        yield f"a {body.how} join also needs {_listed(missing, quote='')}: Spark refuses it without"


def _union(schemas: Mapping[str, Schema | None]) -> Iterator[str]:
    known = [(name, schema) for name, schema in schemas.items() if schema is not None]
    for name, schema in known[1:]:
        if column_names(schema) != column_names(known[0][1]):
            yield (
                f"its inputs have different columns: '{known[0][0]}' has "
                f"{', '.join(known[0][1].names)} and '{name}' has {', '.join(schema.names)}"
            )


def name_problems(name: Any) -> Iterator[str]:
    if not isinstance(name, str) or not name:
        yield "name is empty: give it one" if name in ("", None) else f"name {name!r} is no text"
    elif not _NAME.fullmatch(name):
        yield (
            f"name '{name}' cannot name a directory: use up to 100 letters (a to z), digits, '_', "
            "'-' and '.', not beginning with '-' or '.'"
        )


# --- words, columns, values --------------------------------------------------------------------


def column_problems(
    what: str, column: Any, schemas: Mapping[str, Schema | None], *, grouped: bool = False
) -> Iterator[str]:
    """Yield messages about a column that must be in every known schema."""
    if not isinstance(column, str):
        yield f"{what} column {column!r} is no name: write the name as text"
        return
    for name, schema in schemas.items():
        if schema is None:
            continue
        found = schema.get(column)
        if found is None:
            yield (
                f"{what} column '{column}' is not in '{name}', whose columns are "
                f"{', '.join(schema.names)}{_suggestion(column, schema.names)}"
            )
        elif grouped and not found.hashable:
            yield (
                f"{what} column '{column}' has the type {found.type}, which Spark cannot group "
                "by: use a column with a comparable type"
            )


def _repeated_columns(schema: Schema | None) -> Iterator[str]:
    names = [name.lower() for name in schema.names] if schema is not None else []
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"its schema has the column '{name}' {names.count(name)} times"


def _needs_schema(operator: Operator) -> Iterator[str]:
    if operator.schema is None:
        yield f"a {operator.form} operator needs schema=..., e.g. schema='word string, n bigint'"


def callable_problems(
    what: str, value: Callable[..., Any], form: str, *given: str
) -> Iterator[str]:
    """Yield messages about a value that `form` calls with the given arguments, in words."""
    if not callable(value):
        yield f"its {what} is {_kind(value)}, not a function"
    else:
        yield from function_checks.call_problems(what, value, form, *given)


def _tables(function: Callable[..., Any], form: str, given: str, *libraries: str) -> Iterator[str]:
    """Yield messages about a function annotated with tables of another library."""
    for library in libraries:
        found = function_checks.table_annotation(function, library) if callable(function) else None
        if found is not None:
            written = f"its function is written for {library} ({found})"
            yield f"{written}, and {form} calls it with {given}"


def _one_of(what: str, value: Any, allowed: tuple[str, ...]) -> Iterator[str]:
    if value not in allowed:
        yield f"{what} is {value!r}, it must be one of {', '.join(allowed)}"


def _duration(what: str, value: Any, *, zero: bool = False) -> Iterator[str]:
    seconds = _seconds(value)
    if seconds is None:
        yield f"cannot read the {what} {value!r}: write it like 250ms, 2s, 5m or 1h"
    elif not (seconds > 0 or (zero and seconds == 0)):
        yield f"{what} {value} must {'not be negative' if zero else 'be positive'}"


def _seconds(value: Any) -> float | None:
    try:
        return duration.seconds(value)
    except InvalidInput:
        return None


def names_of(graph: Graph) -> tuple[str, ...]:
    # A tuple, not a mapping: names that users give may not be hashable.
    return tuple(graph.by_name)


def unknown_operator(name: Any, graph: Graph) -> str:
    names = names_of(graph)
    return f"'{quotable(name)}', which is no operator of this dataflow{_suggestion(name, names)}"


def _suggestion(word: Any, candidates: Iterable[str]) -> str:
    close = get_close_matches(word, list(candidates), 1) if isinstance(word, str) else []
    return f"; did you mean '{close[0]}'?" if close else ""


def column_names(schema: Schema) -> frozenset[str]:
    return frozenset(name.lower() for name in schema.names)


def quotable(name: Any) -> str:
    return name if isinstance(name, str) else repr(name)


def _kind(value: Any) -> str:
    return f"a value of type {type(value).__name__}"


def _listed(words: Iterable[str], quote: str = "'") -> str:
    return " and ".join(f"{quote}{word}{quote}" for word in words)
