"""Regions: the longest chains that can be data-parallel as a whole (Joker's rules)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import State
from penstock.dataflow.schema import Schema
from penstock.dataflow.validation import known_schemas

Kind = Literal["source", "parallel", "pipeline"]


@dataclass(frozen=True)
class Region:
    """A chain of operators with one entry and one exit.

    A *source* region is one source. A *parallel* region can be replicated as a whole, its records
    partitioned by `key`. A *pipeline* region can only be cut into concurrent pipelines and has no
    key.
    """

    operators: tuple[str, ...]
    kind: Kind
    key: tuple[str, ...] = ()


def regions(graph: Graph, schemas: Mapping[str, Schema | None] | None = None) -> tuple[Region, ...]:
    """Return the regions of a valid dataflow in topological order; each operator is in one.

    `schemas` are output schemas known from elsewhere, in addition to declared and derived ones. An
    unknown schema is assumed not to contain the key, so a stateless operator stays outside the
    parallel region: safe, but the region may be shorter than possible.
    """
    known = known_schemas(graph, schemas)
    found = [region for chain in _chains(graph) for region in _cut(graph, known, chain)]
    position = {name: at for at, name in enumerate(graph.topological)}
    return tuple(sorted(found, key=lambda region: position[region.operators[0]]))


def _chains(graph: Graph) -> Iterable[list[str]]:
    """Return maximal chains: sources are alone; branches and joins separate chains."""
    chain_of: dict[str, list[str]] = {}
    chains: list[list[str]] = []
    for name in graph.topological:
        inputs = dict.fromkeys(graph[name].inputs)
        upstream = next(iter(inputs), None)
        if (
            upstream is not None
            and len(inputs) == 1
            and len(graph.successors[upstream]) == 1
            and graph[upstream].state is not State.SOURCE
        ):
            chain_of[name] = chain_of[upstream]
            chain_of[name].append(name)
        else:
            chain_of[name] = [name]
            chains.append(chain_of[name])
    return chains


def _cut(graph: Graph, known: Mapping[str, Schema | None], chain: list[str]) -> Iterator[Region]:
    """Cut a chain into parallel regions, as early and as long as possible, and the rest."""
    if graph[chain[0]].state is State.SOURCE:
        yield Region(tuple(chain), "source")
        return
    rest: list[str] = []
    at = 0
    while at < len(chain):
        if graph[chain[at]].state is not State.KEYED:
            rest.append(chain[at])
            at += 1
            continue
        key = graph[chain[at]].keys
        # The first keyed operator sets the key; operators before it are checked backwards.
        members = [chain[at]]
        while rest and _carries(graph, known, rest[-1], key):
            members.insert(0, rest.pop())
        if rest:
            yield Region(tuple(rest), "pipeline")
            rest = []
        at += 1
        while at < len(chain) and _carries(graph, known, chain[at], key):
            members.append(chain[at])
            at += 1
        yield Region(tuple(members), "parallel", key)
    if rest:
        yield Region(tuple(rest), "pipeline")


def _carries(
    graph: Graph, known: Mapping[str, Schema | None], name: str, key: tuple[str, ...]
) -> bool:
    """True if an operator can be in a parallel region with that key."""
    operator = graph[name]
    match operator.state:
        case State.KEYED:
            return _fold(key) <= _fold(operator.keys)
        case State.STATELESS:
            schemas = [known.get(i) for i in operator.inputs]
            return all(s is not None and _fold(key) <= _fold(s.names) for s in schemas)
        case _:
            return False


def _fold(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)
