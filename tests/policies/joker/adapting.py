"""Dataflows for organic adaptation, what it is shown of them, and one turn of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock import Dataflow, Discard, Plan
from penstock.dataflow.graph import Graph
from penstock.metrics.snapshot import OperatorMetrics, PipelineMetrics, Snapshot
from penstock.policies.base.policy import Context
from penstock.policies.joker.policy import Organic
from tests.engines.spark.flows import source


def word_count() -> Graph:
    flow = Dataflow("words")
    words = source(flow).filter("parse", lambda r: True).filter("split", lambda r: True)
    words.key_by("key").aggregate("count", n="count(*)").sink("out", Discard())
    return flow.graph


def region(length: int = 2) -> Graph:
    """A source and a region of so many operators with one key."""
    flow = Dataflow("region")
    stream = source(flow).key_by("key").deduplicate("o1")
    for at in range(2, length + 1):
        stream = stream.filter(f"o{at}", lambda r: True)
    stream.sink("out", Discard())
    return flow.graph


def tree() -> Graph:
    """A source that two regions read."""
    flow = Dataflow("tree")
    rows = source(flow)
    for side in ("left", "right"):
        stream = rows.key_by("key").deduplicate(side).filter(f"{side}-2", lambda r: True)
        stream.sink(f"{side}-out", Discard())
    return flow.graph


COSTS = {"numbers": 0.001, "parse": 0.01, "split": 0.004, "count": 0.006}


def shape(plan: Plan) -> dict[str, int]:
    return {"+".join(p.operators): p.parallelism for p in plan.pipelines}


def snapshot(
    plan: Plan,
    at: float,
    rate: Mapping[str, float] | float = 100.0,
    busy: Mapping[str, float | None] | None = None,
    costs: Mapping[str, float] | None = None,
    **settings: Any,
) -> Snapshot:
    """A window of 30 s, so that one is a whole profile; what is not named is idle."""
    metrics = {
        p.name: PipelineMetrics(
            p.name,
            p.parallelism,
            rate_in=rate if isinstance(rate, float) else rate[p.name],
            busy=(busy or {}).get(p.name, 0.1),
            **settings,
        )
        for p in plan.pipelines
    }
    operators = {name: OperatorMetrics(name, busy=cost) for name, cost in (costs or {}).items()}
    return Snapshot(at, 30.0, None, 0, 0, 0, pipelines=metrics, operators=operators)


def turn(
    policy: Organic, graph: Graph, plan: Plan, seen: Snapshot, memory: Any, **more: Any
) -> Any:
    return policy.decide(Context(graph, plan, (seen,), seen.at, **more), memory)
