"""Dataflows from plain edges, and what a window of them would show."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow, Stream
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import State
from penstock.metrics.snapshot import ExecutorMetrics, PipelineMetrics, Snapshot
from penstock.plan.limits import Limits
from penstock.plan.plan import Pipeline, Plan
from penstock.policies.base.policy import Context
from penstock.policies.shared import rates
from penstock.policies.shared.topology import Topology
from tests.strategies import WORDS, nothing

Edges = Mapping[str, Sequence[str]]
"""The inputs of each operator, upstream first; those without any are sources."""


def graph(inputs: Edges, sinks: Sequence[str] = (), most: Mapping[str, int] | None = None) -> Graph:
    """A sink `NAME-out` for each of `sinks` and for all that nobody reads."""
    flow = Dataflow("dag")
    streams: dict[str, Stream] = {}
    read = {name for names in inputs.values() for name in names}
    for name, found in inputs.items():
        bound = {"max_parallelism": (most or {}).get(name)}
        first, *others = [streams[i] for i in found] or [None]
        if first is None:
            streams[name] = flow.source(name, Generator(nothing, WORDS), **bound)
        elif others:
            streams[name] = first.union(name, *[o for o in others if o is not None], **bound)
        else:
            streams[name] = first.map(name, nothing, schema=WORDS, **bound)
    for name, stream in streams.items():
        if name in sinks or name not in read:
            stream.sink(f"{name}-out", Discard())
    return flow.graph


def plan(dag: Graph, instances: Mapping[str, int] | None = None, executors: int = 1) -> Plan:
    """Every operator its own pipeline, with its sink."""
    sinks = {o.inputs[0]: o.name for o in dag.sinks}
    pipelines = [
        Pipeline((o.name, sinks[o.name]) if o.name in sinks else (o.name,))
        for o in dag.operators
        if o.state is not State.SINK
    ]
    made = Plan(tuple(pipelines), executors)
    for name, count in (instances or {}).items():
        made = made.with_pipeline(name, parallelism=count)
    return made


def topology(inputs: Edges, sinks: Sequence[str] = ()) -> Topology:
    dag = graph(inputs, sinks)
    return Topology(dag, plan(dag))


def snapshot(
    found: Topology,
    measured: rates.Rates,
    executors: Mapping[str, ExecutorMetrics] | None = None,
    *,
    settled: bool = True,
) -> Snapshot:
    """The window that shows these rates."""
    pipelines = {}
    for name, rate in measured.items():
        p = found.pipelines[name].parallelism
        service = p / rate.capacity if rate.capacity else None
        busy = rate.processed / rate.capacity if rate.capacity else 0.0
        pipelines[name] = PipelineMetrics(
            name,
            p,
            rate_in=rate.processed,
            rate_out=rate.output,
            arrival_rate=rate.arrival,
            service=service,
            busy=busy,
        )
    return Snapshot(
        10.0,
        5.0,
        None,
        0,
        0,
        0,
        pipelines,
        executors=executors or {},
        source_pipelines=frozenset(found.sources),
        settled=settled,
    )


def context(
    found: Topology,
    measured: rates.Rates,
    limits: Limits | None = None,
    executors: Mapping[str, ExecutorMetrics] | None = None,
) -> Context:
    seen = (snapshot(found, measured, executors),)
    return Context(found.graph, found.plan, seen, 10.0, limits or Limits())


def random_dag(rng: random.Random, least: int = 4, most: int = 10) -> Edges:
    """One or two sources; each other operator reads one or two before it."""
    inputs: dict[str, tuple[str, ...]] = {}
    sources = rng.randint(1, 2)
    for at in range(rng.randint(least, most)):
        known = [*inputs]
        count = min(len(known), rng.choice((1, 1, 2)))
        inputs[f"o{at}"] = () if at < sources else tuple(rng.sample(known, count))
    return inputs


@st.composite
def dags(draw: st.DrawFn) -> Edges:
    return random_dag(random.Random(draw(st.integers(0, 2**32))), 1, 12)


@st.composite
def flows(draw: st.DrawFn) -> tuple[Topology, rates.Rates]:
    """A topology with random instances, and rates that settle in for random capacities."""
    inputs = draw(dags())
    dag = graph(inputs, [n for n in inputs if draw(st.booleans())])
    many = {name: draw(st.integers(1, 4)) for name in inputs}
    found = Topology(dag, plan(dag, many))
    number = st.integers(1, 1000).map(float)
    offered = {name: draw(st.integers(0, 1000).map(float)) for name in found.sources}
    capacity = {name: draw(number) for name in found.pipelines}
    selectivity = {name: draw(st.sampled_from((0.0, 0.5, 1.0, 2.0))) for name in found.pipelines}
    return found, rates.steady_state(found, offered, selectivity, capacity)


def parallelism(plan: Plan | None) -> dict[str, int]:
    assert plan is not None
    return {p.name: p.parallelism for p in plan.pipelines}
