"""Changes for a section with a bottleneck: split its pipelines, or add instances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import State
from penstock.plan import fusion
from penstock.plan.plan import Pipeline, Plan
from penstock.policies.base.messages import listed
from penstock.policies.joker.sections import Section
from penstock.policies.joker.split_gain import (
    Cut,
    apply,
    best_cut,
)
from penstock.policies.joker.trials import SectionChange
from penstock.policies.shared.bottlenecks import PipelineReading, Readings, busy_text
from penstock.policies.shared.scaling import resized


@dataclass(frozen=True)
class GrowthRules:
    """Rules for resolving bottlenecks; the fields are options of the organic policy."""

    bottleneck: float = 0.8
    split_utility: float = 0.2
    order: str = "fusion-first"
    step: str = "double"
    replicas: str = "pipeline"
    stateless: bool = True
    sources: bool = True

    def bottlenecks(
        self, section: Section, plan: Plan, graph: Graph, readings: Readings
    ) -> tuple[Pipeline, ...]:
        """Pipelines of a section that are too busy."""
        return tuple(
            pipeline
            for pipeline in section.pipelines(plan)
            if (reading := readings.pipelines.get(pipeline.name)) is not None
            and reading.busy is not None
            and reading.busy > self.bottleneck
            and (self.sources or any(graph[n].inputs for n in pipeline.operators))
        )

    def attempts(
        self, section: Section, plan: Plan, graph: Graph, readings: Readings
    ) -> Iterator[SectionChange]:
        """Yield changes that resolve all bottlenecks of a section, best first."""
        busy = self.bottlenecks(section, plan, graph, readings)
        if not busy:
            return
        work = _Work(self, graph, section.pipelines(plan), busy, readings)
        for change in work.changes():
            after = tuple(part for p in work.pipelines for part in change.get(p.name, (p,)))
            if change:
                why, numbers = work.reason(change)
                yield SectionChange(
                    section, work.pipelines, after, why, numbers, work.promise(change)
                )

    def steps(self, parallelism: int) -> tuple[int, ...]:
        """Numbers of instances to add, largest first; smaller ones are tried on failure."""
        found = [1 if self.step == "one" else parallelism]
        while found[-1] > 1:
            found.append(found[-1] // 2)
        return tuple(found)


Change = Mapping[str, tuple[Pipeline, ...]]
"""Pipelines that replace a pipeline, by its name."""


@dataclass(frozen=True)
class _Work:
    """A section with its bottlenecks."""

    how: GrowthRules
    graph: Graph
    pipelines: tuple[Pipeline, ...]
    busy: tuple[Pipeline, ...]
    readings: Readings

    def changes(self) -> Iterator[Change]:
        match self.how.order:
            case "fusion":
                yield self.cut()
            case "fission":
                yield from self.expanded()
            case "fission-first":
                yield from self.expanded()
                yield self.cut()
            case _:
                larger = next(self.expanded(), {})
                cut = self.cut()
                # A bottleneck that cannot be split gets instances while another one is split.
                yield cut if self.how.replicas == "region" else {**larger, **cut}
                yield from self.expanded()

    def cut(self) -> Change:
        """Split every bottleneck where it gains enough; for whole regions, all or none."""
        found: dict[str, tuple[Pipeline, ...]] = {}
        for pipeline in self.busy:
            best = self._best[pipeline.name]
            if best is not None and best[1] > self._threshold(pipeline):
                found[pipeline.name] = apply(self.graph, pipeline, best[0])
        if self.how.replicas == "region" and len(found) < len(self.busy):
            return {}
        return found

    def _threshold(self, pipeline: Pipeline) -> float:
        """Gain required of a split; none if the pipeline cannot have more instances."""
        bounded = self._larger(pipeline, pipeline.parallelism + 1) is None
        return 0.0 if bounded and self.how.order != "fusion" else self.how.split_utility

    def expanded(self) -> Iterator[Change]:
        """Yield changes that add instances, in ever smaller steps."""
        whole = self.how.replicas == "region"
        grown = self.pipelines if whole else self.busy
        most = max(p.parallelism for p in grown)
        for at in range(len(self.how.steps(most))):
            found = {}
            for pipeline in grown:
                steps = self.how.steps(pipeline.parallelism)
                step = steps[min(at, len(steps) - 1)]
                larger = self._larger(pipeline, pipeline.parallelism + step)
                if larger is not None:
                    found[pipeline.name] = (larger,)
            yield found

    def reason(self, change: Change) -> tuple[str, dict[str, float]]:
        """Reason of a change, as a text and as numbers."""
        said, numbers = [], {}
        for pipeline in self.busy:
            busy = self.readings.pipelines[pipeline.name].busy or 0.0
            numbers[f"{pipeline.name}.busy"] = busy
            changed = _change_text(pipeline, change.get(pipeline.name))
            text = f"{changed}: {busy_text(pipeline.name, busy)}, limit {self.how.bottleneck:.0%}"
            if self.how.order != "fission":
                split, gain = self._split_text(pipeline)
                text = f"{text}; {split}"
                if gain is not None:
                    numbers[f"{pipeline.name}.split_gain"] = gain
            said.append(text)
        return listed(said, "; "), numbers

    def promise(self, change: Change) -> float:
        """Smallest expected relative gain among the bottlenecks that change."""
        gains = []
        for pipeline in self.busy:
            after = change.get(pipeline.name, ())
            best = self._best[pipeline.name]
            if len(after) == 1:
                gains.append(after[0].parallelism / pipeline.parallelism - 1)
            elif after and best is not None:
                gains.append(best[1])
        return min(gains, default=0.0)

    def _split_text(self, pipeline: Pipeline) -> tuple[str, float | None]:
        if len(pipeline.operators) == 1:
            return "its only operator cannot be split", None
        if not self._shares(pipeline):
            return "not split, because the costs of its operators are not measured", None
        best = self._best[pipeline.name]
        assert best is not None
        found, gain = best
        threshold = self._threshold(pipeline)
        return f"a split before {found.before} gains {gain:.0%}, {threshold:.0%} required", gain

    @cached_property
    def _best(self) -> Mapping[str, tuple[Cut, float] | None]:
        """Best split of each bottleneck, and its gain."""
        return {p.name: best_cut(self.graph, p.operators, self._shares(p)) for p in self.busy}

    def _shares(self, pipeline: Pipeline) -> Mapping[str, float]:
        return self.readings.pipelines.get(pipeline.name, PipelineReading()).shares

    def _larger(self, pipeline: Pipeline, wanted: int) -> Pipeline | None:
        """The pipeline with more instances within its bounds; None if that is impossible."""
        most = fusion.bounds(self.graph, pipeline.operators).most
        together = self.pipelines if self.how.replicas == "region" else (pipeline,)
        inside = (n for p in together for n in p.operators)
        keyed = any(self.graph[n].state is State.KEYED for n in inside)
        parallelism = wanted if most is None else min(wanted, most)
        if parallelism <= pipeline.parallelism or not (keyed or self.how.stateless):
            return None
        return resized(pipeline, parallelism)


def _change_text(pipeline: Pipeline, after: Sequence[Pipeline] | None) -> str:
    if after is None:
        return f"{pipeline.name} unchanged, it cannot have more instances"
    if len(after) > 1:
        return f"{pipeline.name} split into {' | '.join(listed(p.operators, '+') for p in after)}"
    return f"{pipeline.name} {pipeline.parallelism} -> {after[0].parallelism} instances"
