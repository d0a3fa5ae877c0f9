"""Two neighbouring pipelines as one, where the rules of fusion and the homes of operators allow it.

The homes of an operator are the sets of operators that may be one pipeline with it: its region,
and what ran with it when the flow was started.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from penstock.dataflow.graph import Graph
from penstock.plan import fusion
from penstock.plan.plan import Pipeline

Homes = Mapping[str, Sequence[frozenset[str]]]


def neighbours(pipelines: Iterable[Pipeline], graph: Graph) -> Iterator[tuple[Pipeline, Pipeline]]:
    """Every pipeline with each one that it reads, writer first."""
    found = tuple(pipelines)
    holder = {name: p for p in found for name in p.operators}
    for reader in found:
        inputs = (i for name in reader.operators for i in graph[name].inputs)
        writers = {holder[i].name: holder[i] for i in inputs if i in holder}
        yield from ((w, reader) for w in writers.values() if w is not reader)


def together(
    first: Pipeline, second: Pipeline, place: Mapping[str, int], graph: Graph, homes: Homes
) -> Pipeline | None:
    """One pipeline of a writer and its reader with the least parallelism; None if forbidden.

    `place` is where operators stand in topological order. The pipeline gets the smaller admission,
    the longer cadence, and the ceiling of the one with the state.
    """
    both = {*first.operators, *second.operators}
    if not any(both <= home for home in homes.get(first.name, ())):
        return None
    operators = tuple(sorted(both, key=place.__getitem__))
    if not fusion.fits(graph, operators):
        return None
    rows = [p.admission for p in (first, second) if p.admission is not None]
    ceiling = first.ceiling if second.ceiling is None else second.ceiling
    cadence = max(first.cadence, second.cadence)
    least = Pipeline(operators, 1, min(rows, default=None), cadence, ceiling)
    return resized(least, fusion.bounds(graph, operators).least)


def resized(pipeline: Pipeline, parallelism: int) -> Pipeline:
    """The same pipeline with other instances; a ceiling that was set is raised where it must."""
    ceiling = None if pipeline.ceiling is None else max(pipeline.ceiling, parallelism)
    return replace(pipeline, parallelism=parallelism, ceiling=ceiling)
