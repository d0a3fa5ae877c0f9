"""Dataflows of operators that wait, for Spark on a machine of two cores.

Who waits needs no processor, so that instances are worth something as long as there are slots for
their tasks, of which a local master may have more than cores.
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
"""Instances of a component, so that no one takes all slots."""


@dataclass(frozen=True)
class Part:
    """A component: whom it reads, seconds that it waits for a row, and of how many one goes on.

    Without inputs it is a source, which does not wait. Whom nobody reads ends in a sink.
    """

    name: str
    inputs: tuple[str, ...] = ()
    seconds: float = 0.0
    one_of: int = 1

    @property
    def operators(self) -> tuple[str, ...]:
        """All but its sink: where streams meet, they are united first."""
        return (self.name, f"{self.name}-wait") if len(self.inputs) > 1 else (self.name,)


def chain(first: str, seconds: Mapping[str, float]) -> tuple[Part, ...]:
    """A source and components that wait so long, one behind the other."""
    names = (first, *seconds)
    later = zip(names, seconds.items(), strict=False)
    return (Part(first), *(Part(name, (up,), wait) for up, (name, wait) in later))


def flow(
    name: str, parts: Sequence[Part], load: str, most: int = _MOST, spouts: int = 1
) -> Dataflow:
    """The components as a dataflow; each source has the load, and so many instances at most."""
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
    """The sink that a component ends in."""
    return f"{part}-end"


def plan(parts: Sequence[Part], instances: Mapping[str, int] | None = None) -> Plan:
    """A pipeline for each component, with so many instances, one if nothing is said."""
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
    """Waits, and gives the row back."""

    seconds: float

    def __call__(self, record: Mapping[str, Any]) -> dict[str, Any]:
        time.sleep(self.seconds)
        return {"n": record["n"]}


@dataclass(frozen=True)
class Some:
    """Waits, and gives every so many-th row back."""

    seconds: float
    one_of: int

    def __call__(self, record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        time.sleep(self.seconds)
        if record["n"] % self.one_of == 0:
            yield {"n": record["n"]}


def numbers(rng: Any, index: Any, at: Any) -> dict[str, Any]:
    """The rows of a source: 0, 1, 2, and so on."""
    return {"n": index}
