"""Dataflows of operators that wait, for Spark on a machine with two cores.

Waiting needs no CPU, so more instances help as long as there are slots for their tasks, and a local
master may have more slots than cores.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow, Stream
from penstock.plan.plan import Pipeline, Plan

_ROW = "n bigint"

_MOST = 12
"""Largest parallelism of a component, so that none takes all slots."""


@dataclass(frozen=True)
class Part:
    """A component: its inputs, its wait per row in seconds; it emits one of every so many rows.

    Without inputs it is a source, which does not wait. Components that nobody reads end in a sink.
    """

    name: str
    inputs: tuple[str, ...] = ()
    seconds: float = 0.0
    one_of: int = 1

    @property
    def operators(self) -> tuple[str, ...]:
        """Its operators without the sink; several inputs are united first."""
        return (self.name, f"{self.name}-wait") if len(self.inputs) > 1 else (self.name,)


def chain(first: str, seconds: Mapping[str, float]) -> tuple[Part, ...]:
    """A source and a chain of components with these waits."""
    names = (first, *seconds)
    later = zip(names, seconds.items(), strict=False)
    return (Part(first), *(Part(name, (up,), wait) for up, (name, wait) in later))


def flow(
    name: str, parts: Sequence[Part], load: str, most: int = _MOST, spouts: int = 1
) -> Dataflow:
    """The components as a dataflow; each source has the load and at most `spouts` instances."""
    made = Dataflow(name)
    streams: dict[str, Stream] = {}
    for part in parts:
        if part.inputs:
            streams[part.name] = _attached(part, [streams[up] for up in part.inputs], most)
        else:
            source = Generator(numbers, _ROW, load)
            streams[part.name] = made.source(part.name, source, max_parallelism=spouts)
    for part in _last(parts):
        streams[part.name].sink(sink(part.name), Discard())
    return made


def sink(part: str) -> str:
    """The name of the sink of a component."""
    return f"{part}-end"


def plan(parts: Sequence[Part], instances: Mapping[str, int] | None = None) -> Plan:
    """A plan with a pipeline for each component; the default parallelism is 1."""
    ends = _last(parts)
    return Plan(
        tuple(
            Pipeline(
                part.operators + (sink(part.name),) * (part in ends),
                (instances or {}).get(part.name, 1),
            )
            for part in parts
        )
    )


def _last(parts: Sequence[Part]) -> tuple[Part, ...]:
    read = {up for part in parts for up in part.inputs}
    return tuple(part for part in parts if part.name not in read)


def _attached(part: Part, streams: Sequence[Stream], most: int) -> Stream:
    first, *others = streams
    if others:
        first = first.union(part.name, *others, max_parallelism=most)
    name = part.operators[-1]
    if part.one_of > 1:
        some = Some(part.seconds, part.one_of)
        return first.flat_map(name, some, schema=_ROW, max_parallelism=most)
    return first.map(name, Waits(part.seconds), schema=_ROW, max_parallelism=most)


@dataclass(frozen=True)
class Waits:
    """Waits and returns the row."""

    seconds: float

    def __call__(self, record: Mapping[str, Any]) -> dict[str, Any]:
        time.sleep(self.seconds)
        return {"n": record["n"]}


@dataclass(frozen=True)
class Some:
    """Waits and returns one of every so many rows."""

    seconds: float
    one_of: int

    def __call__(self, record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        time.sleep(self.seconds)
        if record["n"] % self.one_of == 0:
            yield {"n": record["n"]}


def numbers(rng: Any, index: Any, at: Any) -> dict[str, Any]:
    """The rows of a source: 0, 1, 2, ..."""
    return {"n": index}
