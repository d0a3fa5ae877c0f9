"""The instances of a budget dealt out anew, when it is used up and something is still too busy.

Work is what a pipeline does now: instances times the share of time they are busy. The fullest
pipeline bounds the throughput, so instances are dealt to make the fullest as empty as can be, and
neighbours are merged where that evens out more: two pipelines cannot share an instance, one can.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.dataflow.graph import Graph
from penstock.dataflow.operator import Bounds
from penstock.models.attempts import Attempt, configuration, listed
from penstock.models.merging import Homes, neighbours, resized, together
from penstock.models.readings import Readings
from penstock.models.sections import Section
from penstock.plan import fusion
from penstock.plan.plan import Pipeline, Plan

_MERGES = 20
"""Merges in one go, at most: enough for any flow that a person writes, and soon done."""


def dealt(work: Sequence[float], bounds: Sequence[Bounds], budget: int) -> list[int] | None:
    """Instances that make the fullest as empty as can be; None if the budget does not do.

    Each in turn goes to the fullest that stands one more; when that one stands no more, the
    others cannot help the throughput and what is left is not dealt.
    """
    sizes = [b.least for b in bounds]
    left = budget - sum(sizes)
    if left < 0:
        return None
    queue = [(-w / n, at) for at, (w, n) in enumerate(zip(work, sizes, strict=True))]
    heapq.heapify(queue)
    for _ in range(left):
        at = queue[0][1]
        most = bounds[at].most
        if work[at] == 0 or (most is not None and sizes[at] >= most):
            break
        sizes[at] += 1
        heapq.heapreplace(queue, (-work[at] / sizes[at], at))
    return sizes


@dataclass(frozen=True)
class _Deal:
    """Pipelines sized to a budget; `level` is how full the fullest is.

    work: instances that each keeps at work; overhead: how many of these are not for its operators.
    """

    pipelines: tuple[Pipeline, ...]
    work: Mapping[str, float]
    overhead: Mapping[str, float]
    level: float


def rebalanced(
    found: Iterable[Section],
    plan: Plan,
    graph: Graph,
    readings: Readings,
    budget: int,
    homes: Homes,
) -> tuple[tuple[Attempt, ...], float]:
    """An attempt for every section that changes, and by which share throughput should rise."""
    order = {name: section for section in found for name in section.operators}
    busy = {p.name: r.busy for p in plan.pipelines if (r := readings.pipelines.get(p.name))}
    if any(busy.get(p.name) is None for p in plan.pipelines):
        return (), 0.0
    work = {p.name: p.parallelism * (busy[p.name] or 0.0) for p in plan.pipelines}
    overhead = {p.name: p.parallelism * _overhead(p, readings) for p in plan.pipelines}
    now = max(work[p.name] / p.parallelism for p in plan.pipelines)
    best = deal = _deal(plan.pipelines, work, overhead, graph, budget)
    if best is None:
        return (), 0.0
    for _ in range(_MERGES):  # one merge alone may gain nothing where several do
        if deal is None:
            break
        best = deal if deal.level < best.level * (1 - 1e-9) else best
        deal = _merged(deal, order, graph, budget, homes)
    gain = now / best.level - 1 if best.level else 0.0
    return _attempts(plan, best, order, gain), gain


def _overhead(pipeline: Pipeline, readings: Readings) -> float:
    """Share of the time at work that is for no operator; 0 where one of them is not measured."""
    reading = readings.pipelines[pipeline.name]
    if reading.busy is None or not set(pipeline.operators) <= set(reading.costs):
        return 0.0
    return max(0.0, reading.busy - sum(reading.costs.values()))


def _deal(
    pipelines: tuple[Pipeline, ...],
    work: Mapping[str, float],
    overhead: Mapping[str, float],
    graph: Graph,
    budget: int,
) -> _Deal | None:
    bounds = [fusion.bounds(graph, p.operators) for p in pipelines]
    sizes = dealt([work[p.name] for p in pipelines], bounds, budget)
    if sizes is None:
        return None
    made = tuple(resized(p, n) for p, n in zip(pipelines, sizes, strict=True))
    return _Deal(made, work, overhead, max(work[p.name] / p.parallelism for p in made))


def _merged(
    deal: _Deal, order: Mapping[str, Section], graph: Graph, budget: int, homes: Homes
) -> _Deal | None:
    """The best deal with one merge more: of the fullest pipeline, or of the two with least to do.

    The one evens out what is short, the other frees an instance for it. Both save the overhead
    of one pipeline.
    """
    fullest = max(deal.pipelines, key=lambda p: deal.work[p.name] / p.parallelism)
    best: _Deal | None = None
    cheapest = math.inf
    for first, second in neighbours(deal.pipelines, graph):
        load = deal.work[first.name] + deal.work[second.name]
        if load >= cheapest and fullest not in (first, second):
            continue
        section = order[first.name]
        whole = together(first, second, section.place, graph, homes)
        if whole is None:
            continue
        cheapest = min(cheapest, load)
        kept = tuple(p for p in deal.pipelines if p not in (first, second))
        saved, stays = sorted((deal.overhead[first.name], deal.overhead[second.name]))
        work = {**deal.work, whole.name: load - saved}
        overhead = {**deal.overhead, whole.name: stays}
        found = _deal((*kept, whole), work, overhead, graph, budget)
        if found is not None and (best is None or found.level < best.level):
            best = found
    return best


def _attempts(
    plan: Plan, deal: _Deal, order: Mapping[str, Section], gain: float
) -> tuple[Attempt, ...]:
    after: dict[Section, list[Pipeline]] = {}
    for pipeline in deal.pipelines:
        after.setdefault(order[pipeline.name], []).append(pipeline)
    attempts = []
    for section, pipelines in after.items():
        before = section.pipelines(plan)
        if configuration(before) != configuration(pipelines):
            sizes = listed((f"{listed(p.operators, '+')}={p.parallelism}" for p in pipelines), ", ")
            why = f"the budget dealt out anew should gain {gain:.0%}: {sizes}"
            attempts.append(Attempt(section, before, tuple(pipelines), why, {"gain": gain}))
    return tuple(attempts)
