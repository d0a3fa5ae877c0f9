"""The instances of a budget dealt out anew, when it is used up and something is still too busy.

Work is what a pipeline does now: instances times the share of time they are busy. The fullest
pipeline bounds the throughput, so instances are dealt to make the fullest as empty as can be, and
neighbours are merged where that evens out more: two pipelines cannot share an instance, one can.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Bounds
from penstock.plan import fusion
from penstock.plan.plan import Pipeline, Plan
from penstock.policies.base.messages import listed
from penstock.policies.joker.sections import Section
from penstock.policies.joker.shrinking import Homes, merged, neighbours
from penstock.policies.joker.trials import SectionChange, configuration
from penstock.policies.shared.bottlenecks import Readings
from penstock.policies.shared.scaling import resized

Reals = npt.NDArray[np.float64]
Pair = tuple[Pipeline, Pipeline]

_MERGES = 20
"""Merges in one go, at most: enough for any flow that a person writes, and soon done."""

_TRIED = 8
"""Neighbours of the fullest pipeline with which it is tried together, those with least to do."""

_NEAR = 1e-12
"""Levels that differ by a smaller share are the same."""


def distributed(work: Sequence[float], bounds: Sequence[Bounds], budget: int) -> list[int] | None:
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


def fullest_share(work: Reals, least: Reals, most: Reals, budget: int) -> float | None:
    """How full the fullest is when a budget is `dealt`; None if the budget does not do.

    Found by bisection over all at once, which is quick enough to try many deals.
    """
    if least.sum() > budget:
        return None
    high = float((work / np.maximum(least, 1)).max())
    low = max(float((work / most).max()), float(work.sum()) / budget)

    def sizes(full: float) -> Reals:
        return np.maximum(least, np.ceil(work / full - 1e-9)) if full > 0 else least

    while high - low > _NEAR * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if sizes(middle).sum() > budget else (middle, high)
    if low > 0 and sizes(low).sum() <= budget:
        high = low
    return float((work / np.maximum(np.minimum(sizes(high), most), 1)).max())


@dataclass(frozen=True)
class _Deal:
    """Pipelines sized to a budget; `level` is how full the fullest is.

    pairs: neighbours, writer first; work: instances that each keeps at work; overhead: how many of
    these are not for its operators.
    """

    pipelines: tuple[Pipeline, ...]
    pairs: Sequence[Pair]
    work: Mapping[str, float]
    overhead: Mapping[str, float]
    level: float


def redistributed(
    found: Iterable[Section],
    plan: Plan,
    graph: Graph,
    readings: Readings,
    budget: int,
    homes: Homes,
) -> tuple[tuple[SectionChange, ...], float]:
    """An attempt for every section that changes, and by which share throughput should rise."""
    order = {name: section for section in found for name in section.operators}
    busy = {p.name: r.busy for p in plan.pipelines if (r := readings.pipelines.get(p.name))}
    if any(busy.get(p.name) is None for p in plan.pipelines):
        return (), 0.0
    work = {p.name: p.parallelism * (busy[p.name] or 0.0) for p in plan.pipelines}
    overhead = {p.name: p.parallelism * _overhead(p, readings) for p in plan.pipelines}
    now = max(work[p.name] / p.parallelism for p in plan.pipelines)
    dealer = _Dealer(order, graph, budget, homes)
    pairs = [*neighbours(plan.pipelines, graph)]
    best = deal = dealer.deal(plan.pipelines, pairs, work, overhead)
    if best is None:
        return (), 0.0
    for _ in range(_MERGES):  # one merge alone may gain nothing where several do
        if deal is None:
            break
        best = deal if deal.level < best.level * (1 - 1e-9) else best
        deal = dealer.merged(deal)
    gain = now / best.level - 1 if best.level else 0.0
    return _attempts(plan, best, order, gain), gain


def _overhead(pipeline: Pipeline, readings: Readings) -> float:
    """Share of the time at work that is for no operator; 0 where one of them is not measured."""
    reading = readings.pipelines[pipeline.name]
    if reading.busy is None or not set(pipeline.operators) <= set(reading.costs):
        return 0.0
    return max(0.0, reading.busy - sum(reading.costs.values()))


@dataclass(frozen=True)
class _Dealer:
    """Deals of one budget; what it has found out about pipelines is not asked twice."""

    order: Mapping[str, Section]
    graph: Graph
    budget: int
    homes: Homes
    known: dict[tuple[str, ...], Bounds] = field(default_factory=dict)
    wholes: dict[tuple[tuple[str, ...], tuple[str, ...]], Pipeline | None] = field(
        default_factory=dict
    )

    def bounds(self, pipeline: Pipeline) -> Bounds:
        operators = pipeline.operators
        if operators not in self.known:
            self.known[operators] = fusion.bounds(self.graph, operators)
        return self.known[operators]

    def whole(self, pair: Pair) -> Pipeline | None:
        """Two neighbours as one pipeline; None if that is forbidden."""
        first, second = pair
        key = first.operators, second.operators
        if key not in self.wholes:
            place = self.order[first.name].place
            self.wholes[key] = merged(first, second, place, self.graph, self.homes)
        return self.wholes[key]

    def deal(
        self,
        pipelines: tuple[Pipeline, ...],
        pairs: Sequence[Pair],
        work: Mapping[str, float],
        overhead: Mapping[str, float],
    ) -> _Deal | None:
        bounds = [self.bounds(p) for p in pipelines]
        sizes = distributed([work[p.name] for p in pipelines], bounds, self.budget)
        if sizes is None:
            return None
        made = tuple(
            p if p.parallelism == n else resized(p, n)
            for p, n in zip(pipelines, sizes, strict=True)
        )
        level = max(work[p.name] / p.parallelism for p in made)
        return _Deal(made, pairs, work, overhead, level)

    def merged(self, deal: _Deal) -> _Deal | None:
        """The best deal with one merge more: of the fullest, or of the two with least to do.

        The one evens out what is short, the other frees an instance for it. Both save the overhead
        of one pipeline.
        """
        table = _Table.of(deal, [self.bounds(p) for p in deal.pipelines])
        best: Pair | None = None
        lowest = math.inf
        for pair in self._candidates(deal):
            whole = self.whole(pair)
            assert whole is not None
            found = table.with_merged(pair, _load(deal, pair)[0], self.bounds(whole), self.budget)
            if found is not None and (best is None or found < lowest):
                best, lowest = pair, found
        if best is None:
            return None
        whole = self.whole(best)
        assert whole is not None
        gone = {p.name for p in best}
        kept = tuple(p for p in deal.pipelines if p.name not in gone)
        load, stays = _load(deal, best)
        work, overhead = {**deal.work, whole.name: load}, {**deal.overhead, whole.name: stays}
        return self.deal((*kept, whole), _merged(deal.pairs, gone, whole), work, overhead)

    def _candidates(self, deal: _Deal) -> Iterator[Pair]:
        """The two with least to do, and the fullest with some of its neighbours."""
        fullest = max(deal.pipelines, key=lambda p: deal.work[p.name] / p.parallelism).name
        pairs = sorted(
            deal.pairs,
            key=lambda pair: deal.work[pair[0].operators[0]] + deal.work[pair[1].operators[0]],
        )
        least = next((pair for pair in pairs if self.whole(pair) is not None), None)
        if least is None:
            return
        yield least
        beside = (
            pair
            for pair in pairs
            if fullest in (pair[0].operators[0], pair[1].operators[0]) and pair is not least
        )
        yield from islice((pair for pair in beside if self.whole(pair) is not None), _TRIED)


def _merged(pairs: Iterable[Pair], gone: Container[str], whole: Pipeline) -> list[Pair]:
    """The neighbours when some pipelines are one."""
    found = []
    for pair in pairs:
        first, second = pair[0].operators[0] in gone, pair[1].operators[0] in gone
        if first and second:
            continue
        if first or second:
            pair = (whole, pair[1]) if first else (pair[0], whole)
        found.append(pair)
    return found


def _load(deal: _Deal, pair: Pair) -> tuple[float, float]:
    """The work of two pipelines as one, and how much of it is not for its operators."""
    first, second = (p.name for p in pair)
    saved, stays = sorted((deal.overhead[first], deal.overhead[second]))
    return deal.work[first] + deal.work[second] - saved, stays


@dataclass(frozen=True)
class _Table:
    """Work and bounds of the pipelines of a deal as arrays; `at` is where each stands."""

    at: Mapping[str, int]
    work: Reals
    least: Reals
    most: Reals

    @classmethod
    def of(cls, deal: _Deal, bounds: Sequence[Bounds]) -> _Table:
        """With room for one more at the end."""
        most = [math.inf if b.most is None else b.most for b in bounds]
        return cls(
            {p.name: at for at, p in enumerate(deal.pipelines)},
            np.array([*(deal.work[p.name] for p in deal.pipelines), 0.0]),
            np.array([*(b.least for b in bounds), 0.0], dtype=np.float64),
            np.array([*most, math.inf]),
        )

    def with_merged(self, pair: Pair, load: float, bounds: Bounds, budget: int) -> float | None:
        """The level when two are one with such a load and such bounds."""
        gone = [self.at[p.name] for p in pair]
        work, least, most = self.work.copy(), self.least.copy(), self.most.copy()
        work[gone], least[gone], most[gone] = 0.0, 0.0, math.inf
        work[-1], least[-1] = load, bounds.least
        most[-1] = math.inf if bounds.most is None else bounds.most
        return fullest_share(work, least, most, budget)


def _attempts(
    plan: Plan, deal: _Deal, order: Mapping[str, Section], gain: float
) -> tuple[SectionChange, ...]:
    after: dict[int, tuple[Section, list[Pipeline]]] = {}
    for pipeline in deal.pipelines:
        section = order[pipeline.name]  # by identity, for one may have thousands of operators
        after.setdefault(id(section), (section, []))[1].append(pipeline)
    attempts = []
    for section, pipelines in after.values():
        before = section.pipelines(plan)
        if configuration(before) != configuration(pipelines):
            sizes = listed((f"{listed(p.operators, '+')}={p.parallelism}" for p in pipelines), ", ")
            why = f"the budget dealt out anew should gain {gain:.0%}: {sizes}"
            attempts.append(SectionChange(section, before, tuple(pipelines), why, {"gain": gain}))
    return tuple(attempts)
