"""A tiny plant for closed loops: operators with costs, a cost of each hop, and so many cores.

A row costs each pipeline the sum of its operators and one `hop`; a pipeline with p instances has
p seconds of work a second, all together have `cores`. Whatever is slowest bounds the throughput,
and what is offered and not taken waits at the sources. Selectivity scales what goes on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from penstock.dataflow.graph import Graph
from penstock.metrics.snapshot import OperatorMetrics, PipelineMetrics, Snapshot
from penstock.plan import fusion
from penstock.plan.decision import Decision
from penstock.plan.limits import Limits
from penstock.plan.plan import Pipeline, Plan
from penstock.policies.base.policy import Context, Policy


@dataclass
class Plant:
    """One flow; `noise` multiplies what is measured of a snapshot's rates."""

    graph: Graph
    costs: Mapping[str, float]
    plan: Plan
    hop: float = 0.0
    cores: float = math.inf
    selectivity: Mapping[str, float] = field(default_factory=dict)
    offered: Callable[[float], float] = lambda at: math.inf
    refuse: Callable[[Plan], bool] = lambda plan: False
    limits: Limits = field(default_factory=Limits)
    noise: Iterator[float] = field(default_factory=lambda: itertools.repeat(1.0))
    operators_measured: bool = True
    at: float = 0.0
    backlog: float = 0.0
    history: list[tuple[float, Plan, Decision]] = field(default_factory=list)

    @cached_property
    def rows(self) -> dict[str, float]:
        """Rows through each operator for a row from each source."""
        found: dict[str, float] = {}
        for name in self.graph.topological:
            inputs = self.graph[name].inputs
            into = sum(found[i] * self.selectivity.get(i, 1.0) for i in inputs) if inputs else 1.0
            found[name] = into
        return found

    def work(self, pipeline: Pipeline) -> float:
        """Seconds of work of a pipeline for a row from each source."""
        rows = self.rows
        own = sum(rows[n] * self.costs.get(n, 0.0) for n in pipeline.operators)
        return own + self.hop * self.entering(pipeline)

    def entering(self, pipeline: Pipeline) -> float:
        rows = self.rows
        inside = set(pipeline.operators)
        heads = (n for n in inside if not any(i in inside for i in self.graph[n].inputs))
        return sum(rows[n] for n in heads)

    def capacity(self, plan: Plan) -> float:
        """Rows per second from each source that a plan can sustain."""
        work = {p: self.work(p) for p in plan.pipelines}
        bounds = [p.parallelism / w for p, w in work.items() if w]
        return min([*bounds, self.cores / (sum(work.values()) or math.inf)], default=math.inf)

    def step(self, seconds: float) -> Snapshot:
        """Let time pass and measure it."""
        offered = self.offered(self.at)
        sustained = self.capacity(self.plan)
        rate = min(sustained, offered + self.backlog / seconds)
        if offered < math.inf:
            self.backlog += (offered - rate) * seconds
        elif rate < offered:
            self.backlog = rate * 1000
        self.at += seconds
        factor = next(self.noise)
        full = max(rate * self.work(p) / p.parallelism for p in self.plan.pipelines)
        stretch = 1.0 if rate < sustained else 1 / full  # waiting for a core is busy too
        pipelines, operators = {}, {}
        rows = self.rows
        for p in self.plan.pipelines:
            rate_in = rate * self.entering(p) * factor
            service = self.work(p) / self.entering(p)
            source = any(not self.graph[n].inputs for n in p.operators)
            waiting = self.backlog / rate if source else 0.0
            pipelines[p.name] = PipelineMetrics(
                p.name,
                p.parallelism,
                rate_in=rate_in,
                arrival_rate=min(offered, 1e9) * self.entering(p) * factor if source else rate_in,
                service=service * stretch,
                busy=min(1.0, rate * self.work(p) / p.parallelism * stretch),
                backlog_rows=round(self.backlog) if source else 0,
                backlog_seconds=waiting,
            )
            for n in p.operators:
                busy = rate * rows[n] * self.costs.get(n, 0.0) / p.parallelism * stretch
                operators[n] = OperatorMetrics(n, rate_in=rate * rows[n] * factor, busy=busy)
        names = frozenset(self.plan.pipeline_of(s.name).name for s in self.graph.sources)
        return Snapshot(
            self.at,
            seconds,
            None,
            0,
            0,
            0,
            pipelines=pipelines,
            source_pipelines=names,
            operators=operators if self.operators_measured else {},
        )

    def run(self, policy: Policy, seconds: float, every: float = 5.0) -> list[Decision]:
        """Turn the loop for a while; returns the decisions that were carried out."""
        memory, recent = getattr(self, "memory", None), []
        done = []
        for _ in range(int(seconds / every)):
            recent.append(self.step(every))
            context = Context(self.graph, self.plan, tuple(recent[-20:]), self.at, self.limits)
            decision, memory = policy.decide(context, memory)
            assert decision.plan is None or {*decision.numbers} - {"undo"}, decision
            self.history.append((self.at, self.plan, decision))
            if decision.plan is not None and decision.plan != self.plan:
                fusion.check(decision.plan, self.graph)
                if not self.refuse(decision.plan):
                    self.plan = decision.plan
                    done.append(decision)
        self.memory = memory
        return done


def all_plans(graph: Graph, slots: int) -> Iterator[Plan]:
    """Every valid plan with no more instances than that, of every fusion."""
    for plan, sizes in _sizes(graph, slots):
        pipelines = zip(plan.pipelines, sizes, strict=True)
        yield Plan(tuple(Pipeline(p.operators, n) for p, n in pipelines))


def best_capacity(plant: Plant, slots: int) -> float:
    """What the best of all plans sustains."""
    work: dict[Pipeline, float] = {}
    best = 0.0
    for plan, sizes in _sizes(plant.graph, slots):
        for pipeline in plan.pipelines:
            if pipeline not in work:
                work[pipeline] = plant.work(pipeline)
        needs = [work[p] for p in plan.pipelines]
        slowest = min(n / w for n, w in zip(sizes, needs, strict=True) if w)
        best = max(best, min(slowest, plant.cores / sum(needs)))
    return best


def _sizes(graph: Graph, slots: int) -> Iterator[tuple[Plan, tuple[int, ...]]]:
    edges = [(i, o.name) for o in graph.operators for i in o.inputs]
    seen = set()
    for chosen in itertools.product((False, True), repeat=len(edges)):
        along = {edge for edge, fused in zip(edges, chosen, strict=True) if fused}
        plan = fusion.fuse(graph, lambda a, b, along=along: (a, b) in along)  # type: ignore[misc]
        if plan in seen:
            continue
        seen.add(plan)
        choices = [_choices(graph, p, slots) for p in plan.pipelines]
        for sizes in _within(choices, slots):
            yield plan, sizes


def _within(choices: list[range], slots: int) -> Iterator[tuple[int, ...]]:
    """One of each with no larger sum."""
    if not choices:
        yield ()
        return
    rest = sum(c.start for c in choices[1:])
    for size in range(choices[0].start, min(choices[0].stop - 1, slots - rest) + 1):
        yield from ((size, *more) for more in _within(choices[1:], slots - size))


def _choices(graph: Graph, pipeline: Pipeline, slots: int) -> range:
    limits = fusion.bounds(graph, pipeline.operators)
    return range(limits.least, min(slots, limits.most or slots) + 1)
