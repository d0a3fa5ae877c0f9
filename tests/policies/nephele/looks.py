"""What the latency policy is shown: pipelines with a load and a wait, and what it decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.dataflow.graph import Graph
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan import fusion
from penstock.plan.decision import Decision
from penstock.plan.limits import Limits
from penstock.policies.base.policy import Context
from penstock.policies.nephele.policy import LatencyPolicy

PLAIN = LatencyPolicy(cadence_share=0.0)
"""Leaves cadences alone, so that only instances are looked at."""


def metrics(name: str, p: int, load: float, wait: float, task: float = 0.1) -> PipelineMetrics:
    """A pipeline that takes rows one by one, with a load of so many instances."""
    return PipelineMetrics(
        name,
        p,
        rate_in=100.0,
        arrival_rate=100.0,
        service=load / 100.0,
        wait=wait,
        batch_seconds=task,
        backlog_rows=0,
    )


def context(
    graph: Graph,
    found: Mapping[str, PipelineMetrics],
    limits: Limits | None = None,
    now: float = 100.0,
    **settings: Mapping[str, Any],
) -> Context:
    plan = fusion.finest_plan(graph)
    for name, m in found.items():
        plan = plan.with_pipeline(name, parallelism=m.parallelism, **settings.get(name, {}))
    idle = {
        p.name: PipelineMetrics(p.name, p.parallelism, arrival_rate=0.0, backlog_rows=0)
        for p in plan.pipelines
    }
    snapshot = Snapshot(now, 1.0, 0, 0, 0, 0, pipelines={**idle, **found})
    return Context(graph, plan, (snapshot,), now, limits or Limits())


def decided(seen: Context, policy: LatencyPolicy = PLAIN) -> Decision:
    return policy.decide(seen, None)[0]


def instances(decision: Decision, *names: str) -> tuple[int, ...]:
    assert decision.plan is not None, decision.reason
    return tuple(decision.plan.pipeline_of(name).parallelism for name in names)


def batches(p: int, load: float, overhead: float, cadence: float = 0.0) -> PipelineMetrics:
    """A pipeline that works in batches, in its steady state."""
    rho = load / p
    period = max(cadence, overhead / (1 - rho))
    return PipelineMetrics(
        "x",
        p,
        batches=10,
        rows_in=round(10 * 1000 * period),
        rate_in=1000.0,
        arrival_rate=1000.0,
        service=load / 1000,
        batch_seconds=overhead + rho * period,
        wait=period / 2,
        batching=period / 2 if cadence == period else 0.0,
        backlog_rows=0,
    )
