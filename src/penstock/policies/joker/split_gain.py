"""Where to split a pipeline, and the expected gain.

The cost of an operator is its share of the time that an instance of the pipeline is at work. The
rest of that time is overhead of the pipeline, which every part has after a split. The slowest part
bounds the throughput, so a split multiplies it by 1 / (overhead + cost of the costliest part).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import State
from penstock.plan.plan import Pipeline


@dataclass(frozen=True)
class Cut:
    """A pipeline split before an operator: upstream parts, and the part it begins.

    There is one upstream part for each input that the operator has in the pipeline. A sink is split
    off alone, and its input stays with the other sinks.
    """

    before: str
    parts: tuple[tuple[str, ...], ...]


def utility(shares: Sequence[float]) -> float:
    """Ratio of throughput after a split to before, from the costs of its parts.

    Costs that add up to more than 1 are a measuring error and are scaled down to 1.
    """
    whole = sum(shares)
    scale = max(1.0, whole)
    overhead = 1 - whole / scale
    slowest = overhead + max(shares) / scale
    return 1 / slowest if slowest > 0 else 1.0


def split_gains(
    graph: Graph, operators: Sequence[str], costs: Mapping[str, float]
) -> dict[str, float]:
    """Expected relative gain of throughput of a split before each possible operator.

    Operators of unknown cost count as overhead, as if every part had them.
    """
    whole = sum(costs.get(name, 0.0) for name in operators)
    feeding: dict[str, float] = {}  # cost of an operator and all its upstream operators
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
    """Return the split with the highest gain, and the gain; None without a split.

    Of equals, the first.
    """
    found = split_gains(graph, operators, costs)
    if not found:
        return None
    before = max(found, key=lambda name: found[name])
    return cut(graph, operators, before), found[before]


def cut(graph: Graph, operators: Sequence[str], before: str) -> Cut:
    """Split a pipeline before one of its operators; all parts are valid pipelines.

    Each upstream part is an in-tree that ends with an input of the operator.
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
    """Return the pipelines after a split; the one with the state keeps its ceiling."""
    return tuple(
        replace(
            pipeline,
            operators=part,
            ceiling=pipeline.ceiling if any(graph[n].stateful for n in part) else None,
        )
        for part in cut.parts
    )


def _feeding(graph: Graph, name: str, members: set[str]) -> set[str]:
    """An operator and everything upstream of it among the members."""
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
