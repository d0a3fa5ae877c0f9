"""A tiny model of a running flow, to drive policies in a closed loop without an engine.

Every pipeline is a queue: what comes beyond what it can do piles up, and a row waits for the pile
before it and, in a steady state, as long as Kingman's formula says. With an overhead it works in
batches instead: a batch has what came during the last one, or during a cadence. With crowding, each
instance makes the batches of its pipeline longer by so many seconds.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock import Dataflow, Discard, Generator
from penstock.dataflow.graph import Graph
from penstock.metrics.snapshot import ExecutorMetrics, PipelineMetrics, Snapshot
from penstock.plan import fusion
from penstock.plan.decision import Decision
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Context, Policy
from penstock.policies.shared import queueing
from penstock.policies.shared.topology import Topology


def nothing(*_: Any) -> Any:
    """A function for operators that never run."""


def chain(*names: str, latency: float | None = 1.0, **bounds: Mapping[str, int]) -> Graph:
    """A source, operators in a row and a sink; the constraint is over all of it."""
    flow = Dataflow("chain")
    stream = flow.source("numbers", Generator(nothing, "n bigint"))
    for name in names:
        stream = stream.map(name, nothing, schema="n bigint", **bounds.get(name, {}))
    stream.sink("out", Discard())
    if latency is not None:
        flow.constrain("numbers", "out", latency=latency)
    return flow.graph


@dataclass
class Flow:
    """A flow of queues under a plan. `service` is by pipeline; `rate` a function of time."""

    graph: Graph
    service: Mapping[str, float]
    rate: Callable[[float], float]
    overhead: Mapping[str, float] = field(default_factory=dict)
    crowding: float = 0.0
    selectivity: Mapping[str, float] = field(default_factory=dict)
    noise: float = 0.0
    step: float = 1.0
    slots: int = 4
    plan: Plan = field(init=False)
    at: float = 0.0
    snapshots: list[Snapshot] = field(default_factory=list)
    plans: list[tuple[float, Plan]] = field(default_factory=list)
    backlog: dict[str, float] = field(default_factory=dict)
    rng: random.Random = field(default_factory=lambda: random.Random(5))
    changed: bool = False

    def __post_init__(self) -> None:
        self.plan = fusion.finest_plan(self.graph)

    def run(self, policy: Policy, seconds: float, limits: Limits | None = None) -> list[Decision]:
        """Let a policy decide once a step; returns its decisions that changed something."""
        memory, made = getattr(self, "_memory", None), []
        until = self.at + seconds
        while self.at < until:
            self.observe()
            seen = tuple(self.snapshots[-60:])
            context = Context(self.graph, self.plan, seen, self.at, limits or Limits())
            decision, memory = policy.decide(context, memory)
            assert decision.plan is None or {*decision.numbers} - {"undo"}, decision
            if decision.plan is not None and decision.plan != self.plan:
                fusion.check(decision.plan, self.graph)
                self.plan, self.changed = decision.plan, True
                self.plans.append((self.at, decision.plan))
                made.append(decision)
        self._memory = memory
        return made

    def observe(self) -> None:
        """Let a step pass."""
        self.at += self.step
        topology = Topology(self.graph, self.plan)
        out: dict[str, float] = {}
        found = {}
        for name in topology.pipelines:
            fed = topology.upstream[name]
            come = sum(out[up] for up in fed) if fed else self.rate(self.at)
            found[name], out[name] = self._pipeline(name, come)
        count = sum(p.parallelism for p in self.plan.pipelines)
        executors = {
            f"{i}": self._executor(f"{i}", count, found) for i in range(self.plan.executors)
        }
        self.snapshots.append(
            Snapshot(
                self.at,
                self.step,
                None,
                0,
                0,
                0,
                pipelines=found,
                executors=executors,
                settled=not self.changed,
                source_pipelines=frozenset(topology.sources),
            )
        )
        self.changed = False

    def _pipeline(self, name: str, come: float) -> tuple[PipelineMetrics, float]:
        pipeline = self.plan.pipeline_of(name)
        p, service = pipeline.parallelism, self.service.get(name, 1e-6)
        most = p / service
        waiting = self.backlog.get(name, 0.0)
        done = min(come + waiting / self.step, most)
        waiting = max(0.0, waiting + (come - done) * self.step)
        self.backlog[name] = waiting
        rho, overhead = come * service / p, self.overhead.get(name, 0.0)
        overhead += self.crowding * p if overhead else 0.0
        blur = 1 + self.noise * self.rng.uniform(-1, 1)
        if overhead:
            in_turn = overhead / (1 - min(rho, 0.99))
            period = max(pipeline.cadence, in_turn)
            batch = overhead + min(rho, 0.99) * period
            wait = period / 2  # of which as much is gathering as the pipeline is idle
            gathering = wait - min(batch, period) ** 2 / (2 * period)
            batches = max(1, round(1000 * self.step / period))
            rows = round(1000 * self.step * done)
        else:
            queue = queueing.kingman(come / p, service, 1.0, 1.0)
            wait = min(queue, 1.0) if math.isfinite(queue) else 0.0
            batch, gathering, batches, rows = service, 0.0, 0, round(done * self.step)
        selectivity = self.selectivity.get(name, 1.0)
        metrics = PipelineMetrics(
            name,
            p,
            batches=batches,
            rows_in=rows,
            rate_in=done,
            rate_out=done * selectivity,
            arrival_rate=come * blur,
            service=service,
            service_cv=1.0,
            arrival_cv=1.0,
            batch_seconds=batch,
            wait=wait * blur + waiting * service / p,
            batching=gathering,
            busy=min(1.0, rho),
            backlog_rows=round(waiting),
        )
        return metrics, done * selectivity

    def _executor(
        self, name: str, instances: int, found: Mapping[str, PipelineMetrics]
    ) -> ExecutorMetrics:
        """Executors share the work evenly."""
        work = sum((m.busy or 0.0) * m.parallelism for m in found.values())
        load = min(1.0, work / (self.plan.executors * self.slots))
        hosted = {n: max(1, m.parallelism // self.plan.executors) for n, m in found.items()}
        return ExecutorMetrics(name, self.slots, load, load, 0.1, None, hosted)

    def latency(self) -> float:
        """Of the last step, over all pipelines."""
        found = self.snapshots[-1].pipelines.values()
        return sum((m.wait or 0.0) + (m.batch_seconds or 0.0) for m in found)

    def instances(self, name: str) -> int:
        return self.plan.pipeline_of(name).parallelism
