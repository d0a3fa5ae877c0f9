"""Sections: the parts of a plan that adapt independently.

A section is a region of the dataflow, or several regions that share pipelines. Different sections
share no pipelines, so a change of one does not touch another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from penstock.dataflow.graph import Graph
from penstock.plan.plan import Pipeline, Plan


@dataclass(frozen=True)
class Section:
    """Operators in topological order; entries: those without inputs in the section."""

    operators: tuple[str, ...]
    entries: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.operators[0]

    @cached_property
    def place(self) -> Mapping[str, int]:
        """Index of each operator in topological order."""
        return {name: at for at, name in enumerate(self.operators)}

    def pipelines(self, plan: Plan) -> tuple[Pipeline, ...]:
        """Pipelines of the section under a plan, in the order of their first operators."""
        held = (plan.pipeline_of(name) for name in self.operators)
        return tuple({pipeline.name: pipeline for pipeline in held}.values())


def sections(graph: Graph, plan: Plan, regions: Sequence[tuple[str, ...]]) -> tuple[Section, ...]:
    """Return all sections of a plan, upstream first except in cycles."""
    group = {name: name for name in graph.topological}

    def root(name: str) -> str:
        while group[name] != name:
            group[name] = group[group[name]]
            name = group[name]
        return name

    for together in (*regions, *(p.operators for p in plan.pipelines)):
        for name in together[1:]:
            group[root(name)] = root(together[0])
    members: dict[str, list[str]] = {}
    for name in graph.topological:
        members.setdefault(root(name), []).append(name)
    return tuple(_section(graph, tuple(operators)) for operators in members.values())


def representatives(graph: Graph, found: Sequence[Section]) -> Mapping[Section, frozenset[Section]]:
    """For each given section, the given sections furthest upstream of it, or itself.

    The input of those shows how all sections downstream of them perform. A section is furthest
    upstream if none of the others feeds it; if two feed each other, neither is upstream.
    """
    holder = {name: at for at, section in enumerate(found) for name in section.operators}
    fed = _fed(graph, holder)
    roots: dict[str, frozenset[int]] = {}
    result: list[set[int]] = [set() for _ in found]
    for name in graph.topological:
        above = [roots[i] for i in dict.fromkeys(graph[name].inputs)]
        roots[name] = above[0] if len(above) == 1 else frozenset().union(*above)
        own = holder.get(name)
        if own is not None and own not in fed:
            roots[name] = frozenset([own])
        if own is not None:
            result[own] |= roots[name]
    return {
        section: frozenset(found[root] for root in result[at] or {at})
        for at, section in enumerate(found)
    }


def _fed(graph: Graph, holder: Mapping[str, int]) -> set[int]:
    """Indices of sections that another section feeds."""
    none, several = -1, -2
    above: dict[str, int] = {}  # the only upstream section, or one of these two
    fed: set[int] = set()
    for name in graph.topological:
        seen = {above[i] for i in graph[name].inputs} - {none}
        own = holder.get(name, none)
        if own != none and seen - {own}:
            fed.add(own)
        seen |= {own} - {none}
        above[name] = none if not seen else seen.pop() if len(seen) == 1 else several
    return fed


def _section(graph: Graph, operators: tuple[str, ...]) -> Section:
    inside = set(operators)
    entries = (n for n in operators if not inside.intersection(graph[n].inputs))
    return Section(operators, tuple(entries))
