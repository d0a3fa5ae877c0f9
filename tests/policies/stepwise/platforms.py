"""A platform given as a function of the plan, for the tests of stepwise profiling."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from penstock import Dataflow, Discard, Plan
from penstock.dataflow.graph import Graph
from penstock.metrics.snapshot import LatencyMetrics, PipelineMetrics, Snapshot
from penstock.plan import fusion
from penstock.plan.decision import Decision
from penstock.plan.limits import Limits
from penstock.policies.base.policy import Context
from penstock.policies.stepwise.policy import Stepwise
from tests.engines.spark.flows import source


def linear() -> Graph:
    flow = Dataflow("linear")
    stream = source(flow)
    for name in ("a", "b", "c"):
        stream = stream.frame(name, lambda df: df)
    stream.sink("out", Discard())
    return flow.graph


def sizes(plan: Plan) -> tuple[int, ...]:
    return tuple(p.parallelism for p in plan.pipelines)


class Table:
    """A platform given as a function from a plan to throughput, latency over its bound, and times.

    Every turn is a window of one second; what is measured varies by one per cent.
    """

    def __init__(
        self,
        graph: Graph,
        answer: Callable[[Plan], tuple[float, float]],
        service: Callable[[Plan, str], float] = lambda plan, name: 0.001,
        plan: Plan | None = None,
    ) -> None:
        self.graph, self.answer, self.service = graph, answer, service
        self.plan = plan or fusion.finest_plan(graph)
        self.rng = random.Random(7)
        self.limits = Limits()
        self.at = 0.0
        self.memory: Any = None
        self.tried: list[tuple[int, ...]] = []
        self.said: list[str] = []
        self.refuse = False
        self.offered: float | None = None

    def snapshot(self) -> Snapshot:
        self.at += 1.0
        rate, late = self.answer(self.plan)
        rate *= self.rng.uniform(0.99, 1.01)
        pipelines = {
            p.name: PipelineMetrics(
                p.name,
                p.parallelism,
                batches=2,
                rows_in=int(rate),
                rate_in=rate,
                arrival_rate=self.offered,
                service=self.service(self.plan, p.name),
            )
            for p in self.plan.pipelines
        }
        seconds = late * 0.5
        latency = LatencyMetrics("a->c", 0.5, seconds, seconds, seconds, seconds, 10)
        names = frozenset(self.plan.pipeline_of(s.name).name for s in self.graph.sources)
        return Snapshot(
            self.at,
            1.0,
            None,
            0,
            0,
            0,
            pipelines=pipelines,
            latency={"a->c": latency},
            source_pipelines=names,
        )

    def turn(self, policy: Stepwise) -> Decision:
        seen = self.snapshot()
        context = Context(self.graph, self.plan, (seen,), self.at, self.limits)
        decision, self.memory = policy.decide(context, self.memory)
        assert decision.plan is None or {*decision.numbers} - {"undo"}, decision
        self.said.append(decision.reason)
        if decision.plan is not None:
            fusion.check(decision.plan, self.graph)
            if not self.refuse:
                self.plan = decision.plan
        return decision

    def run(self, policy: Stepwise, turns: int = 2000) -> None:
        for _ in range(turns):
            self.turn(policy)
            if self.memory.phase == "done":
                return
        raise AssertionError("profiling did not end")


def carried(cores: float, costs: dict[str, float]) -> Callable[[Plan], tuple[float, float]]:
    """Pipelines bound by their instances, all of them by the cores, and crowding costs."""

    def answer(plan: Plan) -> tuple[float, float]:
        work = {p.name: costs[p.name] for p in plan.pipelines}
        slowest = min(p.parallelism / work[p.name] for p in plan.pipelines)
        crowd = max(1.0, sum(sizes(plan)) / (2 * cores))
        rate = min(slowest, cores / sum(work.values())) / crowd**0.5
        waiting = plan.pipeline_of("numbers").parallelism / costs["numbers"] > rate * 1.05
        admission = plan.pipeline_of("numbers").admission
        return (rate, 1.4 if waiting and admission is None else 0.7)

    return answer
