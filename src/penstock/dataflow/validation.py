"""Validation: every reason why a dataflow cannot run, found at once and without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from penstock.dataflow import (
    connector_options,
    connectors,
    duration,
    function_checks,
)
from penstock.dataflow import (
    operators as joins,
)
from penstock.dataflow import operators as op
from penstock.dataflow import (
    schema as datatype,
)
from penstock.dataflow.graph import Constraint, CycleError, Expectation, Graph
from penstock.dataflow.operators import Operator, State
from penstock.dataflow.schema import Schema
from penstock.errors import InvalidDataflow, InvalidInput, Problem

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


def check(graph: Graph, schemas: Mapping[str, Schema | None] | None = None) -> None:
    """Raise `InvalidDataflow` with everything that `problems` finds."""
    found = problems(graph, schemas)
    if found:
        raise InvalidDataflow(graph.name, found)


def problems(
    graph: Graph, schemas: Mapping[str, Schema | None] | None = None
) -> tuple[Problem, ...]:
    """All problems of a dataflow, in the order the operators were written. Never raises.

    `schemas` are output schemas known from elsewhere, e.g. of native functions that Spark has
    resolved; they count like declared ones. What depends on an unknown schema is not judged.
    """
    sound, cycles = _sound(graph)
    known = known_schemas(graph, schemas)
    found = [
        Problem(message, operator.name, operator.written)
        for operator in graph.operators
        for message in _operator(operator, sound, known, schemas or {})
    ]
    found += _duplicates(graph)
    found += _shared_directories(graph)
    for cycle in cycles:
        loop = " -> ".join((*cycle, cycle[0]))
        message = f"it is part of the cycle {loop}; a dataflow has none: cut one of these edges"
        found.append(Problem(message, cycle[0], sound[cycle[0]].written))
    found += (
        Problem(f"constraint '{_word(c.first)}->{_word(c.last)}' {message}", None, c.written)
        for c in graph.constraints
        for message in _constraint(c, sound)
    )
    found += (
        Problem(f"expectation of '{_word(e.sink)}' {message}", None, e.written)
        for e in graph.expectations
        for message in _expectation(e, sound, known)
    )
    return (*_flow(graph), *found)


def misshapen(graph: Graph) -> Iterator[tuple[str, str]]:
    """What is wrong with a dataflow without looking at functions and schemas, and where.

    The places are those of its structure, e.g. `operators[2]`.
    """
    sound, cycles = _sound(graph)
    torn = [*_torn(graph, sound, cycles)]
    if torn:  # what else is wrong may be so because of that
        yield from torn
        return
    yield from (("name", message) for message in _name(graph.name))
    if not graph.sources:
        yield "operators", "none of them is a source"
    for at, operator in enumerate(graph.operators):
        for message in (*_name(operator.name), *_edges(operator, sound), *_bounds(operator)):
            yield f"operators[{at}]", f"'{operator.name}': {message}"
    for at, constraint in enumerate(graph.constraints):
        for message in _constraint(constraint, sound):
            yield f"constraints[{at}]", f"'{constraint.name}' {message}"


def _torn(
    graph: Graph, sound: Graph, cycles: Iterable[tuple[str, ...]]
) -> Iterator[tuple[str, str]]:
    """Names that are given twice or to nobody, and cycles."""
    places: dict[str, str] = {}
    for at, operator in enumerate(graph.operators):
        place = f"operators[{at}]"
        first = places.setdefault(operator.name, place)
        if first != place:
            yield place, f"the name '{operator.name}' is taken by {first}"
        for name in operator.inputs:
            if name not in graph:
                yield place, f"'{operator.name}': reads {_unknown_operator(name, sound)}"
    for cycle in cycles:
        yield places[cycle[0]], f"it is part of the cycle {' -> '.join((*cycle, cycle[0]))}"


def known_schemas(
    graph: Graph, schemas: Mapping[str, Schema | None] | None = None
) -> dict[str, Schema | None]:
    """The output schema of every operator as far as it can be told without Spark, else None.

    A schema in `schemas` wins over the declared one. Filters, unions, de-duplications and sinks
    pass on what comes in. Works on broken dataflows too: never raises.
    """
    sound, cycles = _sound(graph)
    tree = _without(sound, cycles)
    known: dict[str, Schema | None] = {}
    for name in tree.topological:
        operator = tree[name]
        given = (schemas or {}).get(name) or operator.schema
        if given is None and isinstance(
            operator.body, op.Filter | op.Union | op.Deduplicate | op.Write
        ):
            given = _passed_on([known[i] for i in operator.inputs])
        known[name] = given
    return known


def _passed_on(inputs: Iterable[Schema | None]) -> Schema | None:
    schemas = [s for s in inputs if s is not None]
    if len({_columns(s) for s in schemas}) != 1:
        return None
    return schemas[0]


# --- graph questions that a broken graph can answer --------------------------------------------


def _sound(graph: Graph) -> tuple[Graph, list[tuple[str, ...]]]:
    """The graph without repeated names and unknown inputs, and the cycles left in it."""
    first: dict[str, Operator] = {}
    for operator in graph.operators:
        if isinstance(operator.name, str):
            first.setdefault(operator.name, operator)
    sound = replace(
        graph,
        operators=tuple(
            replace(o, inputs=tuple(i for i in o.inputs if isinstance(i, str) and i in first))
            for o in first.values()
        ),
    )
    cycles: list[tuple[str, ...]] = []
    while True:
        try:
            _without(sound, cycles).topological  # noqa: B018
        except CycleError as error:
            cycles.append(error.cycle)
        else:
            return sound, cycles


def _without(graph: Graph, cycles: Iterable[tuple[str, ...]]) -> Graph:
    """The graph with the inputs of all operators on the cycles cut."""
    cut = {name for cycle in cycles for name in cycle}
    operators = tuple(replace(o, inputs=()) if o.name in cut else o for o in graph.operators)
    return replace(graph, operators=operators)


# --- the flow as a whole -----------------------------------------------------------------------


def _flow(graph: Graph) -> Iterator[Problem]:
    for message in _name(graph.name):
        yield Problem(f"the dataflow's {message}")
    if not graph.sources:
        yield Problem("the dataflow has no source: begin with flow.source(name, ...)")


def _name(name: Any) -> Iterator[str]:
    if not isinstance(name, str) or not name:
        yield "name is empty: give it one" if name in ("", None) else f"name {name!r} is no text"
    elif not _NAME.fullmatch(name):
        yield (
            f"name '{name}' cannot name a directory: use up to 100 letters (a to z), digits, '_', "
            "'-' and '.', not beginning with '-' or '.'"
        )


def _duplicates(graph: Graph) -> Iterator[Problem]:
    first: dict[str, Operator] = {}
    for operator in graph.operators:
        if not isinstance(operator.name, str):
            continue
        other = first.setdefault(operator.name, operator)
        if other is not operator:
            message = f"the name is taken by the operator at {other.written}; choose another"
            yield Problem(message, operator.name, operator.written)


def _shared_directories(graph: Graph) -> Iterator[Problem]:
    """Two sinks in one directory would take each other's files for their own."""
    first: dict[str, Operator] = {}
    for operator in graph.operators:
        sink = operator.body.sink if isinstance(operator.body, op.Write) else None
        if not isinstance(sink, connectors.FileSink):
            continue
        path = sink.path if "://" in sink.path else str(Path(sink.path).absolute())
        other = first.setdefault(path.rstrip("/"), operator)
        if other is not operator:
            message = (
                f"it writes to the same directory as '{other.name}' ({other.written}): {sink.path};"
                " give each sink one of its own"
            )
            yield Problem(message, operator.name, operator.written)


def _constraint(constraint: Constraint, sound: Graph) -> Iterator[str]:
    ends = (constraint.first, constraint.last)
    unknown = [name for name in ends if name not in _names(sound)]
    for name in unknown:
        yield f"names {_unknown_operator(name, sound)}"
    if not unknown and constraint.last not in sound.reachable(constraint.first):
        yield (
            f"spans operators that are not connected: no record goes from '{constraint.first}' "
            f"to '{constraint.last}'"
        )
    for what, value in (("latency", constraint.latency), ("window", constraint.window)):
        if not value > 0:
            yield f"has a {what} of {value} s: it must be positive"


def _expectation(
    expectation: Expectation, sound: Graph, known: Mapping[str, Schema | None]
) -> Iterator[str]:
    sink = expectation.sink
    if sink not in _names(sound):
        yield f"names {_unknown_operator(sink, sound)}"
    elif sound[sink].state is not State.SINK:
        yield f"needs a sink, but '{sink}' is a {sound[sink].form} operator"
    else:
        for key in expectation.keys:
            yield from _column("key", key, {sink: known.get(sink)})
    yield from _callable("oracle", expectation.oracle, "it", "tables by source")


# --- one operator ------------------------------------------------------------------------------


def _operator(
    operator: Operator,
    sound: Graph,
    known: Mapping[str, Schema | None],
    given: Mapping[str, Schema | None],
) -> Iterator[str]:
    """Messages about one operator; the graph around it is the sound part of the dataflow."""
    schemas = {i: known.get(i) for i in operator.inputs if isinstance(i, str)}
    yield from _name(operator.name)
    yield from _edges(operator, sound)
    yield from _bounds(operator)
    for key in operator.keys:
        yield from _column("key", key, schemas, grouped=True)
    yield from _body(operator, schemas)
    yield from _updates(operator, sound)
    if isinstance(operator.body, op.Aggregate):
        yield from _finality(operator, operator.body, sound)
    declared = given.get(operator.name) if isinstance(operator.name, str) else None
    yield from _repeated_columns(declared or operator.schema)


def _edges(operator: Operator, sound: Graph) -> Iterator[str]:
    for name in operator.inputs:
        if name not in _names(sound):
            yield f"reads {_unknown_operator(name, sound)}"
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
        return  # readers of a name that is written twice belong to the first
    readers = sound.successors[operator.name]
    if operator.state is State.SINK and readers:
        yield f"it is a sink and cannot be read by {_listed(readers)}"
    ends_at_sink = any(sound[n].state is State.SINK for n in sound.reachable(operator.name))
    if operator.state is State.SOURCE and not ends_at_sink:
        yield "its records reach no sink: end the stream with .sink(name, ...)"
    elif operator.state is not State.SINK and not readers and operator.inputs:
        yield "nothing reads its output and it is no sink: add .sink(name, ...) or remove it"


def _bounds(operator: Operator) -> Iterator[str]:
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
    """Messages about what an operator does, one case a form."""
    body = operator.body
    form = f"a{'n' if operator.form[0] in 'aeiou' else ''} {operator.form} operator"
    match body:
        case op.Read(source):
            if not isinstance(source, connectors.Source):
                yield f"{_kind(source)} is not a source: use Generator, Files, Kafka or Spark"
            elif isinstance(source, connectors.Generator):
                yield from _callable(
                    "make", source.make, "a generator", "a random generator", "numbers", "times"
                )
            elif not isinstance(source, connectors.Spark):
                yield from connector_options.unknown(source.format, "source", source.options)
        case op.Write(sink):
            if not isinstance(sink, connectors.Sink):
                yield f"{_kind(sink)} is not a sink: use e.g. Parquet, Console, Memory or Spark"
            elif isinstance(sink, connectors.ForeachBatch):
                given = ("the DataFrame of a batch", "its number")
                yield from _callable("function", sink.function, "a foreach-batch sink", *given)
            elif isinstance(sink, connectors.FileSink | connectors.Kafka):
                yield from connector_options.unknown(sink.format, "sink", sink.options)
                if isinstance(sink, connectors.FileSink):
                    yield from _partitions(sink.partition_by, schemas)
        case op.Frame(function, reject):
            yield from _callable("function", function, form, "a DataFrame")
            if reject is not None and operator.on_error is op.OnError.FAIL:
                yield (
                    "rows that reject names are set aside, and on_error='fail' does not change "
                    "that: leave one of the two out"
                )
        case op.Map(function) | op.FlatMap(function) | op.Filter(function):
            yield from _callable("function", function, form, _RECORD)
            yield from _tables(function, form, _RECORD, "pandas", "Arrow")
            if not isinstance(body, op.Filter):
                yield from _needs_schema(operator)
        case op.Arrow(function):
            yield from _callable("function", function, form, _BATCHES)
            yield from _tables(function, form, _BATCHES, "pandas")
            yield from _needs_schema(operator)
        case op.Process(processor, time_mode):
            yield from _callable("processor", processor, form)
            yield from _needs_schema(operator)
            yield from _one_of("time_mode", time_mode, _TIME_MODES)
        case op.Aggregate():
            yield from _aggregate(body, schemas)
        case op.Deduplicate(on, watermark):
            if (on is None) != (watermark is None):
                yield "'on' and 'watermark' go together: give both or none"
            if on is not None:
                yield from _column("watermark", on, schemas)
            if watermark is not None:
                yield from _duration("watermark", watermark, zero=True)
        case op.Join():
            yield from _join(operator, body, schemas)
        case op.Union():
            yield from _union(schemas)
        case _:
            pass


def _partitions(columns: Iterable[str], schemas: Mapping[str, Schema | None]) -> Iterator[str]:
    """Messages about the columns that a file sink makes directories of."""
    names = [name.lower() for name in columns]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"partitionBy names the column '{name}' twice"
    for column in dict.fromkeys(columns):
        yield from _column("partitionBy", column, schemas)
    for schema in schemas.values():
        if schema is None or not names:
            continue
        if set(names) >= _columns(schema):
            yield "partitionBy leaves no column for the files: partition by fewer"
        for field in schema.fields:
            nested = {"array", "map", "struct", "variant"}
            if field.name.lower() in names and datatype.read(field.type).kinds & nested:
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
    yield from _column("window", window.on, schemas)
    yield from _duration("window size", window.size)
    if window.watermark is not None:
        yield from _duration("watermark", window.watermark, zero=True)
    if window.slide is not None:
        yield from _duration("window slide", window.slide)
        size, slide = _seconds(window.size), _seconds(window.slide)
        if size is not None and slide is not None and 0 < size < slide:
            yield f"window slide {window.slide} is longer than the window of {window.size}"


def _finality(operator: Operator, body: op.Aggregate, sound: Graph) -> Iterator[str]:
    """Whether a group can ever be final: only a watermark on what it is grouped by closes it.

    A watermark may also come from upstream, from another stateful operator or from a DataFrame
    function. Whether it reaches this operator only Spark can tell, when the flow is started.
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
    """State over the updates of an aggregation would count every update as a new record."""
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
                f"it would take every update of '{name}' ({sound[name].written}) for a new record; "
                f"let '{name}' send each group once, by a window with a watermark and "
                "emit='final', or use a processor with takes_updates=True"
            )


def _upstream(operator: Operator, sound: Graph, through_state: bool = True) -> list[str]:
    """Operators upstream, nearest first; on request only as far as the next stateful ones."""
    found: dict[str, None] = {}
    waiting = [name for name in operator.inputs if name in _names(sound)]
    while waiting:
        name = waiting.pop(0)
        if name in found:
            continue
        found[name] = None
        if through_state or not sound[name].stateful:
            waiting += [i for i in sound[name].inputs if i in _names(sound)]
    return list(found)


def _join(operator: Operator, body: op.Join, schemas: Mapping[str, Schema | None]) -> Iterator[str]:
    refused = joins.refusal(body.how)
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
            yield from _column(f"{side}_watermark", mark[0], side_schema)
        yield from _duration(f"{side}_watermark", mark[1], zero=True)
    # Spark can null-pad a row only when it knows that no partner will come any more: from a
    # watermark on a key, or from a bound on time against the other side's watermark.
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
        if _columns(schema) != _columns(known[0][1]):
            yield (
                f"its inputs have different columns: '{known[0][0]}' has "
                f"{', '.join(known[0][1].names)} and '{name}' has {', '.join(schema.names)}"
            )


# --- words, columns, values --------------------------------------------------------------------


def _column(
    what: str, column: Any, schemas: Mapping[str, Schema | None], *, grouped: bool = False
) -> Iterator[str]:
    """Messages about a column that has to be in every known schema."""
    if not isinstance(column, str):
        yield f"{what} column {column!r} is no name: write the column's name as text"
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


def _callable(what: str, value: Callable[..., Any], form: str, *given: str) -> Iterator[str]:
    """Messages about something that `form` is to call with what is given, told in words."""
    if not callable(value):
        yield f"its {what} is {_kind(value)}, not a function"
    else:
        yield from function_checks.misfits(what, value, form, *given)


def _tables(function: Callable[..., Any], form: str, given: str, *libraries: str) -> Iterator[str]:
    """Messages about a function that says that it wants or returns tables of another library."""
    for library in libraries:
        found = function_checks.tables(function, library) if callable(function) else None
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


def _names(graph: Graph) -> tuple[str, ...]:
    # a tuple, not a mapping: whatever the user gave as a name can be looked up in it
    return tuple(graph.by_name)


def _unknown_operator(name: Any, graph: Graph) -> str:
    names = _names(graph)
    return f"'{_word(name)}', which is no operator of this dataflow{_suggestion(name, names)}"


def _suggestion(word: Any, candidates: Iterable[str]) -> str:
    close = get_close_matches(word, list(candidates), 1) if isinstance(word, str) else []
    return f"; did you mean '{close[0]}'?" if close else ""


def _columns(schema: Schema) -> frozenset[str]:
    return frozenset(name.lower() for name in schema.names)


def _word(name: Any) -> str:
    return name if isinstance(name, str) else repr(name)


def _kind(value: Any) -> str:
    return f"a value of type {type(value).__name__}"


def _listed(words: Iterable[str], quote: str = "'") -> str:
    return " and ".join(f"{quote}{word}{quote}" for word in words)
