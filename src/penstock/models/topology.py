"""The pipelines of a plan as a graph: what scales, in the order in which records meet it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from penstock.dataflow.graph import Graph
from penstock.dataflow.operator import Bounds
from penstock.plan import fusion
from penstock.plan.plan import Pipeline, Plan


@dataclass(frozen=True)
class Topology:
    """A dataflow under a plan. Pipelines are named by their first operator, as everywhere."""

    graph: Graph
    plan: Plan

    @cached_property
    def pipelines(self) -> Mapping[str, Pipeline]:
        """By name, each after all that feed it."""
        order: list[str] = []

        def visit(name: str) -> None:
            if name not in order:
                for upstream in self.upstream[name]:
                    visit(upstream)
                order.append(name)

        for pipeline in self.plan.pipelines:
            visit(pipeline.name)
        return {name: self.plan.pipeline_of(name) for name in order}

    @cached_property
    def upstream(self) -> Mapping[str, tuple[str, ...]]:
        """The pipelines that a pipeline reads, each once."""
        return {
            p.name: tuple(
                dict.fromkeys(
                    self.plan.pipeline_of(i).name
                    for operator in p.operators
                    for i in self.graph[operator].inputs
                    if i not in p.operators
                )
            )
            for p in self.plan.pipelines
        }

    @cached_property
    def downstream(self) -> Mapping[str, tuple[str, ...]]:
        """The pipelines that read a pipeline."""
        return {
            name: tuple(other for other in self.pipelines if name in self.upstream[other])
            for name in self.pipelines
        }

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Pipelines that hold a source of the dataflow."""
        inside = {self.plan.pipeline_of(s.name).name for s in self.graph.sources}
        return tuple(name for name in self.pipelines if name in inside)

    @cached_property
    def sinks(self) -> tuple[str, ...]:
        """Pipelines that hold a sink of the dataflow."""
        inside = {self.plan.pipeline_of(s.name).name for s in self.graph.sinks}
        return tuple(name for name in self.pipelines if name in inside)

    def bounds(self, pipeline: str) -> Bounds:
        """The parallelism that a pipeline can stand."""
        return fusion.bounds(self.graph, self.pipelines[pipeline].operators)

    def between(self, first: str, last: str) -> tuple[str, ...]:
        """The pipelines on a path from one operator to another, in order, with both ends."""
        path, stack = {last}, [last]
        while stack:
            new = [i for i in self.graph[stack.pop()].inputs if i not in path]
            path.update(new)
            stack += new
        path &= self.graph.reachable(first)
        return tuple(name for name, p in self.pipelines.items() if path.intersection(p.operators))
