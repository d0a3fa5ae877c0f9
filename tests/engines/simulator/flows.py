"""Small flows and engines for the tests of the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Generator, Memory
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import MicroBatch, Model, OperatorCost
from penstock.plan.plan import Pipeline, Plan
from tests.strategies import nothing

BATCH = MicroBatch(planning=0.05, log=0.02, commit=0.03, partition=0.01, task=0.02)

FOREVER = 1e9
"""A window that holds a whole test."""


def chain(*names: str, latency: str = "1s") -> Graph:
    """A source `in`, the named operators and a sink `out`, with a constraint over all of them."""
    flow = Dataflow("chain")
    stream = flow.source("in", Generator(nothing, "v string"))
    for name in names:
        stream = stream.frame(name, nothing)
    stream.sink("out", Memory())
    flow.constrain(names[0], names[-1], latency=latency, window=FOREVER)
    return flow.graph


def keyed() -> Graph:
    flow = Dataflow("keyed")
    stream = flow.source("in", Generator(nothing, "k string"))
    stream.key_by("k").aggregate("count", n="count(*)").sink("out", Memory())
    flow.constrain("count", "count", latency="1s", window=FOREVER)
    return flow.graph


def apart(*pipelines: tuple[str, int], executors: int | None = None) -> Plan:
    """The source alone, every operator its own pipeline, the sink with the last."""
    names = [name for name, _ in pipelines]
    last = len(names) - 1
    found = [Pipeline(("in",))] + [
        Pipeline((name, "out") if at == last else (name,), count)
        for at, (name, count) in enumerate(pipelines)
    ]
    return Plan(tuple(found), executors or sum(count for _, count in pipelines))


def started(
    graph: Graph,
    plan: Plan,
    steps: Mapping[str, OperatorCost],
    load: str,
    run_dir: Path,
    *,
    window: float = FOREVER,
    seed: int = 1,
    options: Mapping[str, Any] | None = None,
    **model: Any,
) -> SimulatorEngine:
    """An engine that runs; it has as many nodes as the plan needs."""
    full = Model(steps, **{"nodes": plan.executors, "queue": None, **model})
    engine = SimulatorEngine(full, load=load, seed=seed, window=window, **(options or {}))
    engine.start(graph, plan, run_dir)
    return engine
