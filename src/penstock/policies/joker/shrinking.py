"""Changes that release resources under low load: fewer instances, then merges.

The reverse of growth. The utilisation of what remains stays below `target`, which is well below the
utilisation at which a section grows, so that the two do not alternate.

Two pipelines may be merged if one of the groups of their operators contains both: a region, or a
pipeline the flow was started with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from penstock.dataflow.graph import Graph
from penstock.plan import fusion
from penstock.plan.plan import Pipeline, Plan
from penstock.policies.base.messages import listed
from penstock.policies.joker.sections import Section
from penstock.policies.joker.trials import SectionChange
from penstock.policies.shared.bottlenecks import Readings
from penstock.policies.shared.scaling import resized

Groups = Mapping[str, Sequence[frozenset[str]]]


def neighbours(pipelines: Iterable[Pipeline], graph: Graph) -> Iterator[tuple[Pipeline, Pipeline]]:
    """Yield every pair of adjacent pipelines, upstream first."""
    found = tuple(pipelines)
    holder = {name: p for p in found for name in p.operators}
    for reader in found:
        inputs = (i for name in reader.operators for i in graph[name].inputs)
        writers = {holder[i].name: holder[i] for i in inputs if i in holder}
        yield from ((w, reader) for w in writers.values() if w is not reader)


def merged(
    first: Pipeline, second: Pipeline, place: Mapping[str, int], graph: Graph, groups: Groups
) -> Pipeline | None:
    """Merge adjacent pipelines, with minimal parallelism; None if not allowed.

    place: index of each operator in topological order. The result gets the smaller admission, the
    longer cadence, and the ceiling of the pipeline that has state.
    """
    both = {*first.operators, *second.operators}
    if not any(both <= group for group in groups.get(first.name, ())):
        return None
    operators = tuple(sorted(both, key=place.__getitem__))
    if not fusion.fits(graph, operators):
        return None
    rows = [p.admission for p in (first, second) if p.admission is not None]
    ceiling = first.ceiling if second.ceiling is None else second.ceiling
    cadence = max(first.cadence, second.cadence)
    least = Pipeline(operators, 1, min(rows, default=None), cadence, ceiling)
    return resized(least, fusion.bounds(graph, operators).least)


Work = Mapping[str, float]
"""Instances that the load of a pipeline keeps busy, by its name."""


@dataclass(frozen=True)
class ShrinkRules:
    """Rules for giving resources back.

    target: utilisation that the remaining instances may reach; groups: for each operator, sets of
    operators that may run as one pipeline; worth: the share of its instances that a section must
    give back for a change to be worth it; replicas: see the organic policy.
    """

    target: float
    groups: Groups
    worth: float = 0.0
    replicas: str = "pipeline"

    def attempts(
        self, section: Section, plan: Plan, graph: Graph, readings: Readings
    ) -> Iterator[SectionChange]:
        """Yield changes for a section, the one that gives back most first."""
        pipelines = section.pipelines(plan)
        need = {p.name: r.need for p in pipelines if (r := readings.pipelines.get(p.name))}
        if any(need.get(p.name) is None for p in pipelines):
            return
        work = {p.name: p.parallelism * (need[p.name] or 0.0) for p in pipelines}
        enough = self.worth * sum(p.parallelism for p in pipelines)
        fewer = self._fewer(section, pipelines, graph, work)
        merged = self._merged(section, pipelines, graph, work)
        yield from (attempt for attempt in chain(fewer, merged) if -attempt.slots > enough)

    def _fewer(
        self, section: Section, pipelines: tuple[Pipeline, ...], graph: Graph, work: Work
    ) -> Iterator[SectionChange]:
        """Yield changes to fewer instances, in ever smaller steps."""
        wanted = {p.name: self._instances(graph, p.operators, work[p.name]) for p in pipelines}
        if self.replicas == "region":
            wanted = dict.fromkeys(wanted, max(wanted.values()))
        spare = {p.name: max(0, p.parallelism - wanted[p.name]) for p in pipelines}
        while any(spare.values()):
            after = tuple(resized(p, p.parallelism - spare[p.name]) for p in pipelines)
            numbers = {f"{p.name}.work": work[p.name] for p in pipelines if spare[p.name]}
            said = (
                f"{new.name} {old.parallelism} -> {new.parallelism} instances: work for "
                f"{work[old.name]:.2f}, expected {work[old.name] / new.parallelism:.0%} busy"
                for old, new in zip(pipelines, after, strict=True)
                if old.parallelism != new.parallelism
            )
            yield SectionChange(section, pipelines, after, listed(said), numbers)
            spare = {name: less // 2 for name, less in spare.items()}

    def _merged(
        self, section: Section, pipelines: tuple[Pipeline, ...], graph: Graph, work: Work
    ) -> Iterator[SectionChange]:
        """Yield merges of two pipelines that need fewer instances as one."""
        for first, second in neighbours(pipelines, graph):
            whole = merged(first, second, section.place, graph, self.groups)
            if whole is None:
                continue
            load = work[first.name] + work[second.name]
            wanted = self._instances(graph, whole.operators, load)
            most = fusion.bounds(graph, whole.operators).most
            before = first.parallelism + second.parallelism
            if wanted >= before or (most is not None and wanted > most):
                continue
            kept = (p for p in pipelines if p not in (first, second))
            why = (
                f"{first.name} and {second.name} merged, {before} -> {wanted} instances: work for "
                f"{load:.2f}, expected {load / wanted:.0%} busy"
            )
            numbers = {f"{p.name}.work": work[p.name] for p in (first, second)}
            after = (*kept, resized(whole, wanted))
            yield SectionChange(section, pipelines, after, why, numbers)

    def _instances(self, graph: Graph, operators: Sequence[str], work: float) -> int:
        """Fewest instances within the bounds that stay below the target utilisation."""
        enough = math.ceil(work / self.target - 1e-9)
        return max(enough, fusion.bounds(graph, operators).least)
