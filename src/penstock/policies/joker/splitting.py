"""Where to split a pipeline, and what a split should gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import State
from penstock.plan.plan import Pipeline


@dataclass(frozen=True)
class Cut:
    """A pipeline cut in front of an operator: what fed it, and the part that begins with it.

    An operator with several inputs in the pipeline leaves a part for each of them. A sink is cut
    off alone, and what it reads stays with the other sinks.
    """

    before: str
    parts: tuple[tuple[str, ...], ...]


def utility(shares: Sequence[float]) -> float:
    """Throughput after a cut over throughput before it, from the costs of its parts.

    Costs that add up to more than 1 are measured amiss; they are taken in proportion.
    """
    whole = sum(shares)
    scale = max(1.0, whole)
    overhead = 1 - whole / scale
    slowest = overhead + max(shares) / scale
    return 1 / slowest if slowest > 0 else 1.0


def split_gains(
    graph: Graph, operators: Sequence[str], costs: Mapping[str, float]
) -> dict[str, float]:
    """By which share throughput would rise with a cut in front of each operator that has one.

    An operator without a cost counts as overhead: nobody knows which part it would burden.
    """
    whole = sum(costs.get(name, 0.0) for name in operators)
    feeding: dict[str, float] = {}  # the cost of an operator and of all that feeds it
    found: dict[str, float] = {}
    for name in operators:
        own = costs.get(name, 0.0)
        inside = [i for i in dict.fromkeys(graph[name].inputs) if i in feeding]
        off = [own] if _is_sink(graph, name) else [feeding[i] for i in inside]
        feeding[name] = own + sum(feeding[i] for i in inside)
        if inside:
            found[name] = utility([*off, max(0.0, whole - sum(off))]) - 1
    return found


def best_cut(
    graph: Graph, operators: Sequence[str], costs: Mapping[str, float]
) -> tuple[Cut, float] | None:
    """The cut that gains most, the earliest of equals, and its gain; None if there is no cut."""
    found = split_gains(graph, operators, costs)
    if not found:
        return None
    before = max(found, key=lambda name: found[name])
    return cut(graph, operators, before), found[before]


def cut(graph: Graph, operators: Sequence[str], before: str) -> Cut:
    """A valid pipeline cut in front of one of its operators.

    Every part is valid too: it is an in-tree whose tail is what the operator reads, or it is what
    is left of the whole.
    """
    members = set(operators)
    inside = [i for i in dict.fromkeys(graph[before].inputs) if i in members]
    if _is_sink(graph, before):
        groups = [members - {before}, {before}]
    else:
        off = [_feeding(graph, i, members) for i in inside]
        groups = [*off, members.difference(*off)]
    return Cut(before, tuple(tuple(n for n in operators if n in group) for group in groups))


def apply(graph: Graph, pipeline: Pipeline, cut: Cut) -> tuple[Pipeline, ...]:
    """The pipelines after a cut: all keep the settings, the one with the state its ceiling."""
    return tuple(
        replace(
            pipeline,
            operators=part,
            ceiling=pipeline.ceiling if any(graph[n].stateful for n in part) else None,
        )
        for part in cut.parts
    )


def _feeding(graph: Graph, name: str, members: set[str]) -> set[str]:
    """An operator and all that feeds it among the members."""
    found: set[str] = set()
    stack = [name]
    while stack:
        current = stack.pop()
        if current not in found:
            found.add(current)
            stack.extend(i for i in graph[current].inputs if i in members)
    return found


def _is_sink(graph: Graph, name: str) -> bool:
    return graph[name].state is State.SINK
