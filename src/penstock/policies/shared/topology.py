"""The pipelines of a plan as a graph, in topological order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Bounds, State
from penstock.plan import fusion
from penstock.plan.plan import Pipeline, Plan


@dataclass(frozen=True)
class Topology:
    """A dataflow under a plan. A pipeline has the name of its first operator."""

    graph: Graph
    plan: Plan

    @cached_property
    def pipelines(self) -> Mapping[str, Pipeline]:
        """Pipelines by name, upstream before downstream."""
        # A pipeline is read at its tail only (see plan/fusion.py), so the tails order them.
        place = {name: at for at, name in enumerate(self.graph.topological)}

        def tail(pipeline: Pipeline) -> int:
            body = [n for n in pipeline.operators if self.graph[n].state is not State.SINK]
            return max(place[name] for name in body or pipeline.operators)

        return {p.name: p for p in sorted(self.plan.pipelines, key=tail)}

    @cached_property
    def feeds(self) -> Mapping[str, Mapping[str, int]]:
        """Upstream pipelines of each pipeline, with the number of operators reading each."""
        return {
            p.name: Counter(
                self.plan.pipeline_of(i).name
                for operator in p.operators
                for i in dict.fromkeys(self.graph[operator].inputs)
                if i not in p.operators
            )
            for p in self.plan.pipelines
        }

    @cached_property
    def upstream(self) -> Mapping[str, tuple[str, ...]]:
        """Upstream pipelines of each pipeline."""
        return {name: tuple(feeds) for name, feeds in self.feeds.items()}

    @cached_property
    def downstream(self) -> Mapping[str, tuple[str, ...]]:
        """Downstream pipelines of each pipeline."""
        found: dict[str, list[str]] = {name: [] for name in self.pipelines}
        for name in self.pipelines:
            for upstream in self.upstream[name]:
                found[upstream].append(name)
        return {name: tuple(readers) for name, readers in found.items()}

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Pipelines that hold a source of the dataflow."""
        inside = {self.plan.pipeline_of(s.name).name for s in self.graph.sources}
        return tuple(name for name in self.pipelines if name in inside)

    @cached_property
    def outlets(self) -> Mapping[str, int]:
        """Number of sinks in each pipeline that has any."""
        count = Counter(self.plan.pipeline_of(s.name).name for s in self.graph.sinks)
        return {name: count[name] for name in self.pipelines if name in count}

    @property
    def sinks(self) -> tuple[str, ...]:
        """Pipelines that hold a sink of the dataflow."""
        return tuple(self.outlets)

    def bounds(self, pipeline: str) -> Bounds:
        """Bounds on the parallelism of a pipeline."""
        return fusion.bounds(self.graph, self.pipelines[pipeline].operators)

    def between(self, first: str, last: str) -> tuple[str, ...]:
        """Pipelines on any path from one operator to another, including both, in order."""
        if first not in self._behind:
            self._behind[first] = self.graph.reachable(first)
        behind, graph = self._behind[first], self.graph
        path = {last} & behind
        stack = [*path]
        while stack:
            for name in graph[stack.pop()].inputs:
                if name in behind and name not in path:
                    path.add(name)
                    stack.append(name)
        inside = {self._holders[name] for name in path}
        return tuple(name for name in self.pipelines if name in inside)

    @cached_property
    def _behind(self) -> dict[str, frozenset[str]]:
        """Operators downstream of an operator; filled on demand."""
        return {}

    @cached_property
    def _holders(self) -> Mapping[str, str]:
        """Name of the pipeline that holds each operator."""
        return {operator: p.name for p in self.plan.pipelines for operator in p.operators}
