"""Random dataflows and plans for Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from penstock.dataflow.connectors import Discard, Generator, Memory, Spark
from penstock.dataflow.flow import Dataflow, KeyedStream, Stream
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Aggregate
from penstock.plan import fusion
from penstock.plan.plan import Plan

few = settings(max_examples=30, deadline=None)
"""Enough examples to find a mistake, few enough for a fast suite."""

WORDS = "word string, n bigint"
SCHEMAS = (WORDS, "word string", "n bigint, at timestamp", None)
STEPS = ("frame", "filter", "map", "aggregate", "deduplicate", "process_all", "union", "join")


def nothing(*_: Any) -> Any:
    """A function for operators that never run."""


@st.composite
def dataflows(draw: st.DrawFn, steps: int = 7) -> Graph:
    """A valid dataflow: chains, branches, unions, joins, several sources and sinks.

    Some schemas are unknown, some operators are bounded, some sinks are Spark's own.
    """
    flow = Dataflow("random")
    streams: list[tuple[Stream, str | None]] = []
    for at in range(draw(st.integers(1, 3))):
        schema = draw(st.sampled_from((WORDS, *SCHEMAS[:3])))
        streams.append((flow.source(f"s{at}", Generator(nothing, schema)), schema))
    for at in range(draw(st.integers(0, steps))):
        streams.append(_step(draw, f"o{at}", streams))
    read = {name for operator in flow.graph.operators for name in operator.inputs}
    for stream, _ in streams:
        sinks = draw(st.sampled_from((0, 0, 0, 1)) if stream.name in read else st.integers(1, 2))
        for at in range(sinks):
            sink = draw(st.sampled_from((Memory(), Discard(), Spark("noop"))))
            stream.sink(f"{stream.name}-sink{at}", sink)
    return flow.graph


def _step(
    draw: st.DrawFn, name: str, streams: list[tuple[Stream, str | None]]
) -> tuple[Stream, str | None]:
    # what nobody reads yet is drawn more often, so that chains and confluences of chains, which
    # can be fused, are as frequent as branches, which cannot
    read = {name for operator in streams[0][0]._flow.graph.operators for name in operator.inputs}
    unread = [pair for pair in streams if pair[0].name not in read]
    usual = draw(st.sampled_from((True, True, False)))
    candidates = unread if usual and unread else streams
    stream, schema = draw(st.sampled_from(candidates))
    others = [o for o, same in candidates if same == schema and o is not stream]
    others = others or [o for o, same in streams if same == schema and o is not stream]
    updates = _sends_updates(stream)
    if updates:  # state behind these is refused
        form = draw(st.sampled_from(("frame", "filter", "map", "process_all")))
    else:
        others = [o for o in others if not _sends_updates(o)]
        form = draw(st.sampled_from((*STEPS, "union", "join") if others else STEPS[:-2]))
    bounds: dict[str, Any] = {}
    if form != "process_all":
        bounds["max_parallelism"] = draw(st.sampled_from((None, None, 1, 2, 4)))
        bounds["min_parallelism"] = draw(st.integers(1, bounds["max_parallelism"] or 2))
    after = draw(st.sampled_from(SCHEMAS))
    match form:
        case "frame":
            return stream.frame(name, nothing, schema=after, **bounds), after
        case "filter":
            return stream.filter(name, nothing, **bounds), schema
        case "map":
            return stream.map(name, nothing, schema=WORDS, **bounds), WORDS
        case "process_all":
            made = stream.process_all(name, nothing, schema=WORDS, takes_updates=updates)
            return made, WORDS
        case "aggregate":
            return keyed(stream, schema).aggregate(name, "count(*)", schema=after, **bounds), after
        case "deduplicate":
            return keyed(stream, schema).deduplicate(name, **bounds), schema
        case "union":
            return stream.union(name, draw(st.sampled_from(others)), **bounds), schema
        case _:
            other = keyed(draw(st.sampled_from(others)), schema)
            return keyed(stream, schema).join(name, other, schema=after, **bounds), after


def _sends_updates(stream: Stream) -> bool:
    """Whether records of a stream may be updates of an aggregation."""
    graph, waiting = stream._flow.graph, [stream.name]
    while waiting:
        operator = graph[waiting.pop()]
        if isinstance(operator.body, Aggregate):
            return True
        waiting += () if operator.stateful else operator.inputs
    return False


def keyed(stream: Stream, schema: str | None) -> KeyedStream:
    """A stream keyed by the first column of its schema."""
    return stream.key_by("word" if schema is None else schema.split()[0])


@st.composite
def plans(draw: st.DrawFn, graph: Graph) -> Plan:
    """A valid plan for a dataflow: fused along some edges, with settings within the rules."""
    often = st.sampled_from((True, True, False))
    edges = {(i, o.name): draw(often) for o in graph.operators for i in o.inputs}
    plan = fusion.fuse(graph, lambda upstream, name: edges[upstream, name])
    for pipeline in plan.pipelines:
        limits = fusion.bounds(graph, pipeline.operators)
        plan = plan.with_pipeline(
            pipeline.name,
            parallelism=draw(st.integers(limits.least, limits.most or limits.least + 3)),
            admission=draw(st.sampled_from((None, 100, 200))),
            cadence=draw(st.sampled_from((0.0, 0.5, 2.0))),
        )
    executors = draw(st.integers(1, 3))
    return Plan(tuple(draw(st.permutations(plan.pipelines))), executors)


NAMES = st.one_of(
    st.sampled_from(("dateTime", "DateTime", "a b", "tick`s", "x.y", "a<b,c>:d", "größe", "1st")),
    st.text("aBcXyZ_", min_size=1, max_size=5),
)
"""Column names in mixed case, some of which SQL takes only in quotes."""


def spark_structs(simple: tuple[Any, ...]) -> Any:
    """A random `StructType` of nested types whose names differ in more than their case."""
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructField, StructType

    fields = st.lists(NAMES, min_size=1, max_size=4, unique_by=str.lower)

    def structs(inside: Any) -> Any:
        field = st.tuples(inside, st.booleans())
        return fields.flatmap(
            lambda names: st.tuples(*(field for _ in names)).map(
                lambda kinds: StructType(
                    [StructField(n, *kind) for n, kind in zip(names, kinds, strict=True)]
                )
            )
        )

    decimals = st.integers(1, 38).map(lambda digits: DecimalType(digits, digits // 2))
    kinds = st.recursive(
        st.sampled_from(simple) | decimals,
        lambda inside: (
            structs(inside)
            | st.builds(ArrayType, inside, st.booleans())
            | st.builds(MapType, st.sampled_from(simple), inside, st.booleans())
        ),
        max_leaves=6,
    )
    return structs(kinds)
