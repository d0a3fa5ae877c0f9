"""Redistributes an exhausted budget of instances while a pipeline is too busy.

Work is the number of instances that a pipeline keeps busy: its instances times their utilisation.
The pipeline with the highest utilisation bounds the throughput, so the distribution minimises it.
Adjacent pipelines are merged if that helps, because only a merged pipeline can share an instance.
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
from penstock.policies.joker.shrinking import Groups, merged, neighbours
from penstock.policies.joker.trials import SectionChange, configuration
from penstock.policies.shared.bottlenecks import Readings
from penstock.policies.shared.scaling import resized

Reals = npt.NDArray[np.float64]
Pair = tuple[Pipeline, Pipeline]

_MERGES = 20
"""Maximum merges per redistribution: enough for hand-written flows, and fast."""

_TRIED = 8
"""Number of neighbours, by least work, that the busiest pipeline may merge with."""

_NEAR = 1e-12
"""Relative difference below which two utilisations are equal."""


def distributed(work: Sequence[float], bounds: Sequence[Bounds], budget: int) -> list[int] | None:
    """Return instances that minimise the highest utilisation; None if over budget.

    Each instance goes to the busiest pipeline. Once that one is at its bound, further instances
    cannot raise the throughput and are not distributed.
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
    """Return the highest utilisation after `distributed`; None if over budget.

    Computed by bisection, which is fast enough to compare many distributions.
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
class _Distribution:
    """A distribution of the budget; `level` is its highest utilisation.

    pairs: adjacent pipelines, upstream first; work: instances that each pipeline keeps busy;
    overhead: how many of these are for no operator.
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
    groups: Groups,
) -> tuple[tuple[SectionChange, ...], float]:
    """Return the changes by section, and the expected relative gain of throughput."""
    order = {name: section for section in found for name in section.operators}
    busy = {p.name: r.busy for p in plan.pipelines if (r := readings.pipelines.get(p.name))}
    if any(busy.get(p.name) is None for p in plan.pipelines):
        return (), 0.0
    work = {p.name: p.parallelism * (busy[p.name] or 0.0) for p in plan.pipelines}
    overhead = {p.name: p.parallelism * _overhead(p, readings) for p in plan.pipelines}
    now = max(work[p.name] / p.parallelism for p in plan.pipelines)
    distributor = _Distributor(order, graph, budget, groups)
    pairs = [*neighbours(plan.pipelines, graph)]
    best = distribution = distributor.distribute(plan.pipelines, pairs, work, overhead)
    if best is None:
        return (), 0.0
    for _ in range(_MERGES):  # several merges may gain where one does not
        if distribution is None:
            break
        best = distribution if distribution.level < best.level * (1 - 1e-9) else best
        distribution = distributor.merged(distribution)
    gain = now / best.level - 1 if best.level else 0.0
    return _attempts(plan, best, order, gain), gain


def _overhead(pipeline: Pipeline, readings: Readings) -> float:
    """Share of busy time that no operator accounts for; 0 if one is not measured."""
    reading = readings.pipelines[pipeline.name]
    if reading.busy is None or not set(pipeline.operators) <= set(reading.costs):
        return 0.0
    return max(0.0, reading.busy - sum(reading.costs.values()))


@dataclass(frozen=True)
class _Distributor:
    """Creates distributions of one budget, and caches bounds and merged pipelines."""

    order: Mapping[str, Section]
    graph: Graph
    budget: int
    groups: Groups
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
        """Merge two adjacent pipelines; None if that is not allowed."""
        first, second = pair
        key = first.operators, second.operators
        if key not in self.wholes:
            place = self.order[first.name].place
            self.wholes[key] = merged(first, second, place, self.graph, self.groups)
        return self.wholes[key]

    def distribute(
        self,
        pipelines: tuple[Pipeline, ...],
        pairs: Sequence[Pair],
        work: Mapping[str, float],
        overhead: Mapping[str, float],
    ) -> _Distribution | None:
        bounds = [self.bounds(p) for p in pipelines]
        sizes = distributed([work[p.name] for p in pipelines], bounds, self.budget)
        if sizes is None:
            return None
        made = tuple(
            p if p.parallelism == n else resized(p, n)
            for p, n in zip(pipelines, sizes, strict=True)
        )
        level = max(work[p.name] / p.parallelism for p in made)
        return _Distribution(made, pairs, work, overhead, level)

    def merged(self, distribution: _Distribution) -> _Distribution | None:
        """Return the best distribution with one more merge, or None.

        Candidates are the busiest pipeline with a neighbour, which evens out the load, and the two
        with the least work, which frees an instance. Both save the overhead of one pipeline.
        """
        table = _Table.of(distribution, [self.bounds(p) for p in distribution.pipelines])
        best: Pair | None = None
        lowest = math.inf
        for pair in self._candidates(distribution):
            whole = self.whole(pair)
            assert whole is not None
            found = table.with_merged(
                pair, _load(distribution, pair)[0], self.bounds(whole), self.budget
            )
            if found is not None and (best is None or found < lowest):
                best, lowest = pair, found
        if best is None:
            return None
        whole = self.whole(best)
        assert whole is not None
        gone = {p.name for p in best}
        kept = tuple(p for p in distribution.pipelines if p.name not in gone)
        load, stays = _load(distribution, best)
        work, overhead = (
            {**distribution.work, whole.name: load},
            {**distribution.overhead, whole.name: stays},
        )
        return self.distribute(
            (*kept, whole), _merged(distribution.pairs, gone, whole), work, overhead
        )

    def _candidates(self, distribution: _Distribution) -> Iterator[Pair]:
        """Yield the pair with the least work, and the busiest pipeline with neighbours."""
        fullest = max(
            distribution.pipelines, key=lambda p: distribution.work[p.name] / p.parallelism
        ).name
        pairs = sorted(
            distribution.pairs,
            key=lambda pair: (
                distribution.work[pair[0].operators[0]] + distribution.work[pair[1].operators[0]]
            ),
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
    """Adjacent pairs after some pipelines were merged into one."""
    found = []
    for pair in pairs:
        first, second = pair[0].operators[0] in gone, pair[1].operators[0] in gone
        if first and second:
            continue
        if first or second:
            pair = (whole, pair[1]) if first else (pair[0], whole)
        found.append(pair)
    return found


def _load(distribution: _Distribution, pair: Pair) -> tuple[float, float]:
    """Work of two pipelines once merged, and how much of it is overhead."""
    first, second = (p.name for p in pair)
    saved, stays = sorted((distribution.overhead[first], distribution.overhead[second]))
    return distribution.work[first] + distribution.work[second] - saved, stays


@dataclass(frozen=True)
class _Table:
    """Work and bounds of all pipelines as arrays; `at` is the index of each."""

    at: Mapping[str, int]
    work: Reals
    least: Reals
    most: Reals

    @classmethod
    def of(cls, distribution: _Distribution, bounds: Sequence[Bounds]) -> _Table:
        """Arrays with room for a merged pipeline at the end."""
        most = [math.inf if b.most is None else b.most for b in bounds]
        return cls(
            {p.name: at for at, p in enumerate(distribution.pipelines)},
            np.array([*(distribution.work[p.name] for p in distribution.pipelines), 0.0]),
            np.array([*(b.least for b in bounds), 0.0], dtype=np.float64),
            np.array([*most, math.inf]),
        )

    def with_merged(self, pair: Pair, load: float, bounds: Bounds, budget: int) -> float | None:
        """Highest utilisation after merging two pipelines into one with this load."""
        gone = [self.at[p.name] for p in pair]
        work, least, most = self.work.copy(), self.least.copy(), self.most.copy()
        work[gone], least[gone], most[gone] = 0.0, 0.0, math.inf
        work[-1], least[-1] = load, bounds.least
        most[-1] = math.inf if bounds.most is None else bounds.most
        return fullest_share(work, least, most, budget)


def _attempts(
    plan: Plan, distribution: _Distribution, order: Mapping[str, Section], gain: float
) -> tuple[SectionChange, ...]:
    after: dict[int, tuple[Section, list[Pipeline]]] = {}
    for pipeline in distribution.pipelines:
        section = order[
            pipeline.name
        ]  # by identity, because hashing thousands of operators is slow
        after.setdefault(id(section), (section, []))[1].append(pipeline)
    attempts = []
    for section, pipelines in after.values():
        before = section.pipelines(plan)
        if configuration(before) != configuration(pipelines):
            sizes = listed((f"{listed(p.operators, '+')}={p.parallelism}" for p in pipelines), ", ")
            why = f"{sizes}: the budget redistributed, expected gain {gain:.0%}"
            attempts.append(SectionChange(section, before, tuple(pipelines), why, {"gain": gain}))
    return tuple(attempts)
