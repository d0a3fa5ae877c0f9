"""Validation: find every reason why a dataflow cannot run, at once and without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from penstock.dataflow import connectors
from penstock.dataflow import operators as op
from penstock.dataflow.graph import Constraint, CycleError, Expectation, Graph
from penstock.dataflow.operator_checks import (
    bound_problems,
    callable_problems,
    column_names,
    column_problems,
    edge_problems,
    name_problems,
    names_of,
    operator_problems,
    quotable,
    unknown_operator,
)
from penstock.dataflow.operators import Operator, State
from penstock.dataflow.schema import Schema
from penstock.errors import InvalidDataflow, Problem


def check(graph: Graph, schemas: Mapping[str, Schema | None] | None = None) -> None:
    """Raise `InvalidDataflow` if `problems` finds any."""
    found = problems(graph, schemas)
    if found:
        raise InvalidDataflow(graph.name, found)


def problems(
    graph: Graph, schemas: Mapping[str, Schema | None] | None = None
) -> tuple[Problem, ...]:
    """Return all problems of a dataflow, in the order of its operators. Never raises.

    `schemas` are output schemas known from elsewhere, e.g. of native functions that Spark has
    resolved; they count as declared. What depends on an unknown schema is not checked.
    """
    sound, cycles = _sound(graph)
    known = known_schemas(graph, schemas)
    found = [
        Problem(message, operator.name, operator.written)
        for operator in graph.operators
        for message in operator_problems(operator, sound, known, schemas or {})
    ]
    found += _duplicates(graph)
    found += _shared_directories(graph)
    for cycle in cycles:
        loop = " -> ".join((*cycle, cycle[0]))
        message = f"it is part of the cycle {loop}; a dataflow has none: cut one of these edges"
        found.append(Problem(message, cycle[0], sound[cycle[0]].written))
    found += (
        Problem(f"constraint '{quotable(c.first)}->{quotable(c.last)}' {message}", None, c.written)
        for c in graph.constraints
        for message in _constraint(c, sound)
    )
    found += (
        Problem(f"expectation of '{quotable(e.sink)}' {message}", None, e.written)
        for e in graph.expectations
        for message in _expectation(e, sound, known)
    )
    return (*_flow(graph), *found)


def structure_problems(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield problems of the structure alone, without functions and schemas, as (place, message).

    A place is that of the JSON structure, e.g. `operators[2]`.
    """
    sound, cycles = _sound(graph)
    torn = [*_reference_problems(graph, sound, cycles)]
    if torn:  # further problems may only follow from these
        yield from torn
        return
    yield from (("name", message) for message in name_problems(graph.name))
    if not graph.sources:
        yield "operators", "none of them is a source"
    for at, operator in enumerate(graph.operators):
        for message in (
            *name_problems(operator.name),
            *edge_problems(operator, sound),
            *bound_problems(operator),
        ):
            yield f"operators[{at}]", f"'{operator.name}': {message}"
    for at, constraint in enumerate(graph.constraints):
        for message in _constraint(constraint, sound):
            yield f"constraints[{at}]", f"'{constraint.name}' {message}"


def _reference_problems(
    graph: Graph, sound: Graph, cycles: Iterable[tuple[str, ...]]
) -> Iterator[tuple[str, str]]:
    """Yield repeated names, unknown inputs and cycles."""
    places: dict[str, str] = {}
    for at, operator in enumerate(graph.operators):
        place = f"operators[{at}]"
        first = places.setdefault(operator.name, place)
        if first != place:
            yield place, f"the name '{operator.name}' is taken by {first}"
        for name in operator.inputs:
            if name not in graph:
                yield place, f"'{operator.name}': reads {unknown_operator(name, sound)}"
    for cycle in cycles:
        yield places[cycle[0]], f"it is part of the cycle {' -> '.join((*cycle, cycle[0]))}"


def known_schemas(
    graph: Graph, schemas: Mapping[str, Schema | None] | None = None
) -> dict[str, Schema | None]:
    """Return the output schema of every operator; None where only Spark can tell.

    A schema in `schemas` overrides the declared one. Filters, unions, de-duplications and sinks
    pass on the schema of their input. Never raises, also for an invalid dataflow.
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
    if len({column_names(s) for s in schemas}) != 1:
        return None
    return schemas[0]


# --- the sound part of an invalid graph --------------------------------------------------------


def _sound(graph: Graph) -> tuple[Graph, list[tuple[str, ...]]]:
    """Return the graph without repeated names and unknown inputs, and its cycles."""
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
    """Return the graph without the inputs of operators that are on a cycle."""
    cut = {name for cycle in cycles for name in cycle}
    operators = tuple(replace(o, inputs=()) if o.name in cut else o for o in graph.operators)
    return replace(graph, operators=operators)


# --- the flow as a whole -----------------------------------------------------------------------


def _flow(graph: Graph) -> Iterator[Problem]:
    for message in name_problems(graph.name):
        yield Problem(f"the dataflow's {message}")
    if not graph.sources:
        yield Problem("the dataflow has no source: begin with flow.source(name, ...)")


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
    """Yield sinks that share a directory: each would take the files of both for its own."""
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
    unknown = [name for name in ends if name not in names_of(sound)]
    for name in unknown:
        yield f"names {unknown_operator(name, sound)}"
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
    if sink not in names_of(sound):
        yield f"names {unknown_operator(sink, sound)}"
    elif sound[sink].state is not State.SINK:
        yield f"needs a sink, but '{sink}' is a {sound[sink].form} operator"
    else:
        for key in expectation.keys:
            yield from column_problems("key", key, {sink: known.get(sink)})
    yield from callable_problems("oracle", expectation.oracle, "it", "tables by source")
