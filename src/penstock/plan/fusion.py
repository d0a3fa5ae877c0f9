"""Fusion: which operators may run as one pipeline, and the plans that follow.

A pipeline is an in-tree: every operator but the *tail* has exactly one successor, which is in the
pipeline too. The tail is the last operator that is no sink; sinks that read the tail may be fused
with it. A sink may also be a pipeline of its own, and a native one (`Spark(...)`) has to be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from penstock.dataflow.connectors import Spark
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Bounds, State, Write
from penstock.dataflow.regions import regions
from penstock.dataflow.schema import Schema
from penstock.errors import InvalidPlan
from penstock.plan.plan import Pipeline, Plan

_FEW = 4
"""Most reasons in one message; the rest is counted."""


def check(plan: Plan, graph: Graph) -> None:
    """Raise `InvalidPlan`, with the reasons, if the plan does not fit the dataflow."""
    found = misfits(plan, graph)
    if found:
        more = [f"and {len(found) - _FEW} more reasons"] if len(found) > _FEW else []
        why = "; ".join([*found[:_FEW], *more])
        raise InvalidPlan(f"the plan does not fit the dataflow '{graph.name}': {why}")


def misfits(plan: Plan, graph: Graph) -> list[str]:
    """Return every reason why the plan does not fit a valid dataflow."""
    reasons = [*_coverage(plan, graph)]
    for pipeline in plan.pipelines:
        if all(name in graph for name in pipeline.operators):
            found = [*_shape(graph, pipeline.operators), *_settings(graph, pipeline)]
            reasons += [f"pipeline '{pipeline.name}': {reason}" for reason in found]
    return reasons


# Why no valid plan has a cycle between its pipelines. An edge between two pipelines leaves from a
# tail, because every other operator has its only successor inside and sinks have none. It enters
# at an operator from which the tail of that pipeline is reached (or at a sink that is a pipeline
# of its own, where every path ends; a fused sink is read from inside only). So a cycle of
# pipelines would lead from tail to tail and back to the first: a cycle of operators, which a valid
# dataflow does not have.


def fits(graph: Graph, operators: Sequence[str]) -> bool:
    """True if these operators, in this order, can be one pipeline."""
    return not any(_shape(graph, operators))


def bounds(graph: Graph, operators: Iterable[str]) -> Bounds:
    """Return the parallelism that all operators allow; `most < least` if there is none."""
    given = [graph[name].bounds for name in operators]
    most = [b.most for b in given if b.most is not None]
    if any(graph[name].state is State.GLOBAL for name in operators):
        most.append(1)
    return Bounds(max((b.least for b in given), default=1), min(most, default=None))


def normalise(plan: Plan, graph: Graph) -> Plan:
    """Return the same plan with operators and pipelines in topological order."""
    place = {name: at for at, name in enumerate(graph.topological)}
    last = len(place)
    pipelines = [
        replace(p, operators=tuple(sorted(p.operators, key=lambda name: place.get(name, last))))
        for p in plan.pipelines
    ]
    ordered = sorted(pipelines, key=lambda p: place.get(p.operators[0], last))
    return replace(plan, pipelines=tuple(ordered))


def default_plan(graph: Graph, parallelism: int, executors: int = 1) -> Plan:
    """Return the plan with the fewest pipelines.

    An operator with several inputs is fused with as many upstream pipelines as the rules allow, in
    the order of its inputs; the others feed it through a channel.
    """
    return fuse(graph, lambda upstream, name: True, parallelism, executors)


def finest_plan(graph: Graph, parallelism: int = 1, executors: int = 1) -> Plan:
    """Return a plan with a pipeline for each operator; sinks stay with what they read."""
    return fuse(graph, lambda upstream, name: _is_sink(graph, name), parallelism, executors)


def region_plan(
    graph: Graph, schemas: Mapping[str, Schema | None] | None = None, executors: int = 1
) -> Plan:
    """Return Joker's first plan: one pipeline per region, with one instance each.

    Sinks stay with what they read. A region with several stateful operators is cut before each but
    the first, because a pipeline holds at most one.
    """
    region = {name: at for at, r in enumerate(regions(graph, schemas)) for name in r.operators}
    return fuse(
        graph,
        lambda upstream, name: region[upstream] == region[name] or _is_sink(graph, name),
        1,
        executors,
    )


def fuse(
    graph: Graph, along: Callable[[str, str], bool], parallelism: int = 1, executors: int = 1
) -> Plan:
    """Return the plan that fuses along every edge where `along(upstream, operator)` is true.

    An edge where the rules forbid fusion stays a channel. Operators are visited in topological
    order. Parallelism is clipped to the bounds of each pipeline; ceilings are left to the engine.
    """
    place = {name: at for at, name in enumerate(graph.topological)}
    group: dict[str, tuple[str, ...]] = {}
    for name in graph.topological:
        group[name] = (name,)
        for upstream in dict.fromkeys(graph[name].inputs):
            if not along(upstream, name):
                continue
            joined = tuple(sorted({*group[upstream], *group[name]}, key=place.__getitem__))
            if not any(_shape(graph, joined)):
                group |= dict.fromkeys(joined, joined)
    pipelines = []
    for operators in dict.fromkeys(group[name] for name in graph.topological):
        limits = bounds(graph, operators)
        most = parallelism if limits.most is None else min(parallelism, limits.most)
        pipelines.append(Pipeline(operators, max(most, limits.least)))
    return Plan(tuple(pipelines), executors)


# --- reasons -----------------------------------------------------------------------------------


def _coverage(plan: Plan, graph: Graph) -> Iterator[str]:
    count = Counter(name for pipeline in plan.pipelines for name in pipeline.operators)
    for name in graph.topological:
        if count[name] == 0:
            yield f"operator '{name}' is in no pipeline"
    for name, times in count.items():
        if name not in graph:
            yield f"'{name}' is no operator of the dataflow"
        elif times > 1:
            yield f"operator '{name}' is in pipelines {times} times, it must be in exactly one"


def _shape(graph: Graph, operators: Sequence[str]) -> Iterator[str]:
    """Yield the reasons why these operators, in this order, cannot be one pipeline."""
    members = set(operators)
    yield from _order(graph, operators)
    body = [name for name in operators if not _is_sink(graph, name)]
    sinks = [name for name in operators if _is_sink(graph, name)]
    if not body and len(sinks) > 1:
        yield f"it holds only sinks ({', '.join(sinks)}); each has to be a pipeline of its own"
    tail = body[-1] if body else None
    for name in body[:-1]:
        readers = graph.successors[name]
        if len(readers) != 1:
            yield (
                f"'{name}' is read by {len(readers)} operators ({', '.join(readers)}), so nothing "
                "can follow it in its pipeline but sinks"
            )
        elif readers[0] not in members:
            yield f"'{name}' is not connected to the rest: its reader '{readers[0]}' is outside"
        elif readers[0] in sinks:
            yield f"'{name}' is not connected to '{tail}': only the sink '{readers[0]}' reads it"
    if tail is not None:
        for name in sinks:
            # a sink behind another member has been reported with that member
            if not members & set(graph[name].inputs):
                yield f"sink '{name}' is not connected to the rest: its input is outside"
    stateful = [name for name in operators if graph[name].stateful]
    if len(stateful) > 1:
        yield f"it holds {len(stateful)} stateful operators ({', '.join(stateful)}), at most 1 fits"
    limits = bounds(graph, operators)
    if limits.most is not None and limits.most < limits.least:
        yield (
            f"its operators cannot be fused: one needs at least {limits.least} instances "
            f"and another allows at most {limits.most}"
        )
    if tail is not None:
        yield from _native_sinks(graph, sinks)


def _order(graph: Graph, operators: Sequence[str]) -> Iterator[str]:
    place = {name: at for at, name in enumerate(operators)}
    for name in operators:
        for upstream in graph[name].inputs:
            if place.get(upstream, -1) > place[name]:
                yield f"'{upstream}' must be listed before '{name}', which reads it"


def _native_sinks(graph: Graph, sinks: list[str]) -> Iterator[str]:
    """Yield a reason for each native sink that is fused with other operators.

    Spark's `writeStream` ends a query, and its sink recognises batches by their ids in that query.
    Alone in its pipeline, the sink keeps its query and the ids through all changes of the plan.
    """
    for name in sinks:
        body = graph[name].body
        if isinstance(body, Write) and isinstance(body.sink, Spark):
            yield (
                f"the native sink '{name}' must be a pipeline of its own: it recognises batches by "
                "their ids in its query, and would skip batches of another query as old ones"
            )


def _settings(graph: Graph, pipeline: Pipeline) -> Iterator[str]:
    limits = bounds(graph, pipeline.operators)
    empty = limits.most is not None and limits.most < limits.least
    above = limits.most is not None and pipeline.parallelism > limits.most
    if not empty and (pipeline.parallelism < limits.least or above):
        yield f"parallelism {pipeline.parallelism} is outside its bounds {limits}"
    states = {graph[name].state for name in pipeline.operators}
    if pipeline.ceiling is None:
        return
    if State.GLOBAL in states:
        if pipeline.ceiling != 1:
            yield f"a ceiling of {pipeline.ceiling} is impossible: its global state has 1 partition"
    elif State.KEYED not in states:
        yield f"a ceiling of {pipeline.ceiling} needs a stateful operator, it has none"


def _is_sink(graph: Graph, name: str) -> bool:
    return graph[name].state is State.SINK
