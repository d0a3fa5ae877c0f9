"""Rivals of adaptive policies: Spark's dynamic allocation, and the best static plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, ClassVar

from penstock.metrics.snapshot import PipelineMetrics
from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Context
from penstock.policies.shared.topology import Topology


@dataclass(frozen=True)
class Requested:
    """State of dynamic allocation: since when tasks are pending or executors idle, next step."""

    pending: float | None = None
    last: float = -float("inf")
    step: int = 1
    idle: float | None = None


@dataclass(frozen=True)
class DynamicAllocation:
    """Executors as Spark's dynamic allocation requests them.

    Once tasks have been pending for `backlog` seconds, and then every `sustained` seconds, it
    requests 1, 2, 4, 8 ... more executors. Executors that were idle for `idle` seconds are removed;
    rows go to all instances, so either all executors are idle or none. A task counts as pending if
    the backlog would keep the instances busy for more than a second. Every core of an executor runs
    an instance of every pipeline that may grow. The times are Spark's defaults
    (`spark.dynamicAllocation.*`); most: the largest number of executors.
    """

    most: int
    cores: int = 4
    backlog: float = 1.0
    sustained: float = 1.0
    idle: float = 60.0

    name: ClassVar[str] = "dynamic-allocation"

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        seen = context.latest
        if seen is None:
            return Decision(None, "nothing measured yet"), memory
        before = memory or Requested()
        topology, now = Topology(context.graph, context.plan), context.now
        grows = [n for n in topology.pipelines if self._elastic(topology, n)]
        outside = sum(seen.pipelines[n].backlog_rows or 0 for n in seen.source_pipelines)
        waiting = any(_behind(seen.pipelines[n], outside) > 1.0 for n in grows)
        busy = any((seen.pipelines[n].busy or 0) > 0 for n in grows)
        pending = (now if before.pending is None else before.pending) if waiting else None
        idle = None if busy else (now if before.idle is None else before.idle)
        after = Requested(pending, before.last, before.step if waiting else 1, idle)
        executors = self._executors(context.plan, grows)
        if pending is not None and executors < self.most:
            due = pending + self.backlog if before.step == 1 else before.last + self.sustained
            if now >= due:
                more = min(self.most, executors + after.step)
                after = replace(after, last=now, step=2 * after.step)
                said = f"tasks are pending for {now - pending:.0f} s: executors {executors} -> "
                plan = self._plan(context.plan, grows, topology, more)
                return Decision(plan, f"{said}{more}"), after
        if idle is not None and now - idle >= self.idle and executors > 1:
            said = f"nothing to do for {now - idle:.0f} s: executors {executors} -> 1"
            return Decision(self._plan(context.plan, grows, topology, 1), said), after
        return Decision(None, "tasks are pending" if waiting else "no task is pending"), after

    def _elastic(self, topology: Topology, name: str) -> bool:
        bounds = topology.bounds(name)
        return bounds.most is None or bounds.most > bounds.least

    def _executors(self, plan: Plan, grows: Iterable[str]) -> int:
        most = max((plan.pipeline_of(n).parallelism for n in grows), default=1)
        return -(-most // self.cores)

    def _plan(self, plan: Plan, grows: list[str], topology: Topology, executors: int) -> Plan:
        wanted = {n: _bounded(topology, n, executors * self.cores) for n in grows}
        return scaled(plan, wanted)


def _behind(seen: PipelineMetrics, outside: int) -> float:
    """Seconds for which the backlog, including `outside` rows, would keep all instances busy."""
    return ((seen.backlog_rows or 0) + outside) * (seen.service or 0.0) / seen.parallelism


def _bounded(topology: Topology, name: str, instances: int) -> int:
    bounds = topology.bounds(name)
    most = instances if bounds.most is None else min(bounds.most, instances)
    return max(bounds.least, most)


def scaled(plan: Plan, instances: Mapping[str, int]) -> Plan:
    """The plan with other parallelism."""
    pipelines = tuple(
        replace(p, parallelism=instances.get(p.name, p.parallelism)) for p in plan.pipelines
    )
    return replace(plan, pipelines=pipelines)


Found = tuple[int, ...]
Score = Callable[[Mapping[str, int]], float]
"""Rates the parallelism of all pipelines; higher is better."""


def best_static(
    choices: Mapping[str, range],
    score: Score,
    start: Mapping[str, int] | None = None,
    *,
    exhaustive: int = 256,
    patience: int = 64,
    allowed: Callable[[Mapping[str, int]], bool] = lambda found: True,
) -> dict[str, int]:
    """The static plan with the highest score among all allowed ones.

    With at most `exhaustive` choices, all are tried. Otherwise the best plan so far is varied:
    instances are added to a pipeline, removed, or moved to another, in steps that are halved. If
    nothing improves, the next best plans are varied, `patience` of them, since it can take several
    changes before one shows an effect. Ties go to the plan with fewer instances. Each score is
    computed once.
    """
    names, known = tuple(choices), dict[Found, tuple[float, int]]()

    def able(found: Found) -> bool:
        inside = all(n in choices[name] for name, n in zip(names, found, strict=True))
        return inside and allowed(dict(zip(names, found, strict=True)))

    def worth(found: Found) -> tuple[float, int]:
        if found not in known:
            known[found] = (score(dict(zip(names, found, strict=True))), -sum(found))
        return known[found]

    if math.prod(map(len, choices.values())) <= exhaustive:
        best = max((f for f in product(*choices.values()) if able(f)), key=worth)
        return dict(zip(names, best, strict=True))
    first = start or {name: some[len(some) // 2] for name, some in choices.items()}
    best = tuple(first[name] for name in names)
    step = max(1, *(len(some) // 4 for some in choices.values()))
    while step:
        best = _varied(best, partial(_able_near, able, step), worth, patience)
        step //= 2
    return dict(zip(names, best, strict=True))


def _varied(
    start: Found,
    near: Callable[[Found], Iterable[Found]],
    worth: Callable[[Found], tuple[float, int]],
    patience: int,
) -> Found:
    """Best-first search that stops after `patience` steps without improvement."""
    best, left = start, patience
    seen, open_ones = {start}, [start]
    while open_ones and left >= 0:
        one = max(open_ones, key=worth)
        open_ones.remove(one)
        fresh = [f for f in dict.fromkeys(near(one)) if f not in seen]
        seen.update(fresh)
        open_ones += fresh
        top = max(fresh, key=worth, default=best)
        best, left = (top, patience) if worth(top) > worth(best) else (best, left - 1)
    return best


def _able_near(able: Callable[[Found], bool], step: int, found: Found) -> Iterable[Found]:
    return filter(able, _near(found, step))


def _near(found: Found, step: int) -> Iterable[Found]:
    """Neighbours: one number changed by a step, or a step moved from one number to another."""
    for at in range(len(found)):
        for by in (step, -step):
            one = list(found)
            one[at] += by
            yield tuple(one)
            for other in range(len(found)):
                if other != at:
                    two = list(one)
                    two[other] -= by
                    yield tuple(two)
