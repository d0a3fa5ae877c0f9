"""Simulated runs that are recorded as any other, so that a fit can be compared with the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.app import run
from penstock.dataflow.connectors import Generator, Memory
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.engines.simulator.arrivals import Deterministic
from penstock.engines.simulator.distributions import Constant
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Keys, Machine, MicroBatch, Model, OperatorCost
from penstock.plan import fusion
from penstock.plan.plan import Plan
from tests.strategies import nothing

BATCH = MicroBatch(
    planning=0.02, log=0.01, commit=0.015, partition=0.004, task=0.03, row=4e-5, job=0.08
)
NODE = Machine(cores=4, processors=2.0)
STEPS = {
    "read": OperatorCost(Constant(0.0)),
    "call": OperatorCost(Constant(0.006), cpu=0.05),
    "compute": OperatorCost(Constant(0.002), selectivity=2.0),
    "count": OperatorCost(Constant(0.0005), keys=Keys(500, skew=0.8)),
}
CHANGES = ("20s:split compute", "40s:read=2, compute=3", "60s:fuse call compute, read=4")


def flow(keyed: bool = False) -> Graph:
    made = Dataflow("recorded")
    stream = made.source("read", Generator(nothing, "k string", "40/s"))
    stream = stream.map("call", dict, schema="k string")
    stream = stream.flat_map("compute", list, schema="k string")
    if keyed:
        stream = stream.key_by("k").aggregate("count", n="count(*)")
    stream.sink("out", Memory())
    made.constrain("call", "count" if keyed else "compute", latency="2s", window="10s")
    return made.graph


def simulated(
    run_dir: Path,
    graph: Graph,
    *,
    batch: MicroBatch = BATCH,
    node: Machine = NODE,
    load: str = "points:0=40,40=40,40=120,60=120,60=60,80=60,80=100",
    changes: Sequence[str] = CHANGES,
    seconds: float = 100.0,
    plan: Plan | None = None,
    policy: str = "static",
    steps: Mapping[str, OperatorCost] = STEPS,
    **terms: Any,
) -> Path:
    """Record a run in batches."""
    model = Model(steps, node=node, arrivals=Deterministic(), queue=None, batch=batch)
    engine = SimulatorEngine(model, seed=1)
    run(
        graph,
        policy=policy,
        plan=plan or fusion.default_plan(graph, 1),
        engine=engine,
        load=load,
        seconds=seconds,
        changes=changes,
        run_dir=run_dir,
        verify=False,
        clock=engine.clock,
        **terms,
    )
    return run_dir
