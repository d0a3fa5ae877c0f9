"""The best static plan for a flow on Joker's machine, found by a model of its throughput.

A thread takes the time of a hop and of its operators for a tuple. The slowest pipeline limits the
flow, unless all hardware threads together are slower. So for any throughput the model knows how
many instances each pipeline needs, and which cuts of a region need the fewest threads. It examines
every throughput at which some pipeline is fully busy. The best plan is then run like any other. The
model may be slightly wrong, so the final plans of policies count as candidates, too
(`common.after`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from penstock.dataflow.operators import State
from penstock.dataflow.regions import regions
from penstock.plan.plan import Plan
from penstock_lab.experiments.experiment import Record, Setting
from penstock_lab.experiments.joker import common
from penstock_lab.experiments.play import Play
from penstock_lab.experiments.rivals import scaled
from penstock_lab.experiments.scenario import Scenario

Segment = tuple[str, ...]
"""Consecutive operators of a region that share a thread."""


@dataclass(frozen=True)
class BestPlan:
    """The static plan that lets most through: any cuts of all regions, any instances.

    seconds: how long it is run.
    """

    scenario: Scenario
    seconds: float = 30.0

    def __call__(self, setting: Setting) -> Sequence[Record]:
        play = Play(replace(self.scenario, seconds=self.seconds), plan=self.plan)
        return list(play(setting))

    @property
    def plan(self) -> Plan:
        """The plan with the highest throughput; ties go to fewer threads."""
        top = max(set(self._candidates()), key=self._worth)
        chosen = [s for region in self._regions for s in self._fewest(region, top)[1]]
        plan = common.fused(self.scenario.graph, *chosen)
        return scaled(plan, {plan.pipeline_of(s[0]).name: self._needs(s, top) for s in chosen})

    def _worth(self, throughput: float) -> tuple[float, int]:
        """Throughput of a plan on all threads, then the negative number of threads."""
        found = [self._fewest(region, throughput) for region in self._regions]
        work = sum(self._work(s, self._needs(s, throughput)) for _, cuts in found for s in cuts)
        work += sum(self._work((o.name,)) for o in self.scenario.graph.sources)
        return min(throughput, common.THREADS / work), -sum(n for n, _ in found)

    @cached_property
    def _regions(self) -> tuple[Segment, ...]:
        """Regions that may be cut or replicated; sources and sinks without cost may not."""
        graph = self.scenario.graph
        fixed = {o.name for o in (*graph.sources, *graph.sinks)}
        found = (tuple(n for n in r.operators if n not in fixed) for r in regions(graph))
        return tuple(f for f in found if f)

    def _candidates(self) -> Iterator[float]:
        """Every throughput at which some pipeline is fully busy."""
        for region in self._regions:
            for begin in range(len(region)):
                for end in range(begin + 1, len(region) + 1):
                    part = region[begin:end]
                    for n in range(1, common.THREADS + 1) if self._work(part) else ():
                        yield min(self._sources, 1 / (self._work(part, n) * self._share(part, n)))

    def _fewest(self, region: Segment, throughput: float) -> tuple[int, tuple[Segment, ...]]:
        """The cuts of a region that need the fewest threads; ties go to fewer cuts."""
        found: list[tuple[int, tuple[Segment, ...]]] = [(0, ())]
        for end in range(1, len(region) + 1):
            options = []
            for begin in range(end):
                threads, before = found[begin]
                last = region[begin:end]
                options.append((threads + self._needs(last, throughput), (*before, last)))
            found.append(min(options, key=lambda one: (one[0], len(one[1]))))
        return found[-1]

    def _needs(self, segment: Segment, throughput: float) -> int:
        """Number of instances that keep up with a throughput."""
        most = 1.0001 / throughput
        able = (
            n
            for n in range(1, 4 * common.THREADS)
            if self._work(segment, n) * self._share(segment, n) <= most
        )
        return next(able, 4 * common.THREADS)

    def _share(self, segment: Segment, instances: int) -> float:
        """Share of the tuples that the busiest instance gets."""
        graph = self.scenario.graph
        keyed = [n for n in segment if graph[n].state is State.KEYED]
        if not keyed:
            return 1 / instances
        known = self._shares.setdefault(keyed[0], {})
        if instances not in known:
            keys = self.scenario.model.cost(keyed[0]).keys
            known[instances] = float(keys.shares(instances).max())
        return known[instances]

    @cached_property
    def _shares(self) -> dict[str, dict[int, float]]:
        return {}

    @cached_property
    def _sources(self) -> float:
        """Tuples per second that the slowest source can emit."""
        steps = [self.scenario.model.cost(o.name) for o in self.scenario.graph.sources]
        return 1 / max(step.service.mean for step in steps)

    def _work(self, segment: Segment, instances: int = 1) -> float:
        """Thread seconds of all instances per tuple of a source."""
        graph, model = self.scenario.graph, self.scenario.model
        first, last = segment[0], segment[-1]
        each = model.hop + model.crowding * (instances - 1)
        hop = each * self._rows[first] if graph[first].inputs else 0.0
        if graph[first].inputs:
            readers = [r for r in graph.successors[last] if graph[r] not in graph.sinks]
            hop += model.send * self._rows[last] * model.cost(last).selectivity * len(readers)
        return hop + sum(self._rows[n] * model.cost(n).service.mean for n in segment)

    @cached_property
    def _rows(self) -> Mapping[str, float]:
        """Input tuples of each operator per tuple of a source."""
        graph, found = self.scenario.graph, dict[str, float]()
        for name in graph.topological:
            before = graph[name].inputs
            found[name] = (
                sum(found[b] * self.scenario.model.cost(b).selectivity for b in before)
                if before
                else 1.0
            )
        return found
