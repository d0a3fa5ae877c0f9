"""What a section can give back when little comes: instances first, then pipelines.

This is the way of growth backwards. A section is never made so small that its load would fill it
beyond `target`, which is well below what makes it grow, so that neither provokes the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.dataflow.graph import Graph
from penstock.models.attempts import Attempt
from penstock.models.growth import resized
from penstock.models.readings import Readings
from penstock.models.sections import Section
from penstock.plan import fusion
from penstock.plan.plan import Pipeline, Plan

Work = Mapping[str, float]
"""Instances that a pipeline could keep at work all the time, by its name."""


@dataclass(frozen=True)
class Shrinking:
    """How full the instances may become.

    homes: for each operator the sets of operators that may be one pipeline again.
    """

    target: float
    homes: Mapping[str, Sequence[frozenset[str]]]
    replicas: str = "pipeline"

    def attempts(
        self, section: Section, plan: Plan, graph: Graph, readings: Readings
    ) -> Iterator[Attempt]:
        """What to try, that which gives back most first."""
        pipelines = section.pipelines(plan)
        need = {p.name: r.need for p in pipelines if (r := readings.pipelines.get(p.name))}
        if any(need.get(p.name) is None for p in pipelines):
            return
        work = {p.name: p.parallelism * (need[p.name] or 0.0) for p in pipelines}
        yield from self._fewer(section, pipelines, graph, work)
        yield from self._merged(section, pipelines, graph, work)

    def _fewer(
        self, section: Section, pipelines: tuple[Pipeline, ...], graph: Graph, work: Work
    ) -> Iterator[Attempt]:
        """Fewer instances, in ever smaller steps."""
        wanted = {p.name: self._instances(graph, p.operators, work[p.name]) for p in pipelines}
        if self.replicas == "region":
            wanted = dict.fromkeys(wanted, max(wanted.values()))
        spare = {p.name: max(0, p.parallelism - wanted[p.name]) for p in pipelines}
        while any(spare.values()):
            after = tuple(resized(p, p.parallelism - spare[p.name]) for p in pipelines)
            numbers = {f"{p.name}.work": work[p.name] for p in pipelines if spare[p.name]}
            said = (
                f"{new.name} has work for {work[old.name]:.2f} instances: {old.parallelism} -> "
                f"{new.parallelism}, {work[old.name] / new.parallelism:.2f} full"
                for old, new in zip(pipelines, after, strict=True)
                if old.parallelism != new.parallelism
            )
            yield Attempt(section, pipelines, after, "; ".join(said), numbers)
            spare = {name: less // 2 for name, less in spare.items()}

    def _merged(
        self, section: Section, pipelines: tuple[Pipeline, ...], graph: Graph, work: Work
    ) -> Iterator[Attempt]:
        """Two pipelines as one, where that needs fewer instances."""
        holder = {name: p for p in pipelines for name in p.operators}
        for second in pipelines:
            inputs = (i for n in second.operators for i in graph[n].inputs)
            feeding = {holder[i].name: holder[i] for i in inputs if i in holder}
            for first in feeding.values():
                merged = (
                    None if first is second else self._whole(section, first, second, graph, work)
                )
                if merged is not None:
                    kept = (p for p in pipelines if p not in (first, second))
                    load = work[first.name] + work[second.name]
                    why = (
                        f"{first.name} and {second.name} have work for {load:.2f} instances: merged"
                        f" {first.parallelism} + {second.parallelism} -> {merged.parallelism}, "
                        f"{load / merged.parallelism:.2f} full"
                    )
                    numbers = {f"{p.name}.work": work[p.name] for p in (first, second)}
                    yield Attempt(section, pipelines, (*kept, merged), why, numbers)

    def _whole(
        self, section: Section, first: Pipeline, second: Pipeline, graph: Graph, work: Work
    ) -> Pipeline | None:
        """The pipeline of both, None where the rules or the load forbid it."""
        both = {*first.operators, *second.operators}
        if not any(both <= home for home in self.homes.get(first.name, ())):
            return None
        operators = tuple(name for name in section.operators if name in both)
        if not fusion.fits(graph, operators):
            return None
        wanted = self._instances(graph, operators, work[first.name] + work[second.name])
        ceiling = next((p.ceiling for p in (first, second) if p.ceiling is not None), None)
        most = [n for n in (fusion.bounds(graph, operators).most, ceiling) if n is not None]
        if wanted >= first.parallelism + second.parallelism or wanted > min([wanted, *most]):
            return None
        rows = [p.admission for p in (first, second) if p.admission is not None]
        cadence = max(first.cadence, second.cadence)
        return Pipeline(operators, wanted, min(rows, default=None), cadence, ceiling)

    def _instances(self, graph: Graph, operators: Sequence[str], work: float) -> int:
        """Instances that this much work fills to the target, no fewer than the bounds allow."""
        enough = math.ceil(work / self.target - 1e-9)
        return max(enough, fusion.bounds(graph, operators).least)
