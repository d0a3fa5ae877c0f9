"""Stela's topologies: components, what its Table I says of them, and what they take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, pstdev

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator.layout import Layout
from penstock.engines.simulator.model import Floats, Keys


def _chain(*names: str) -> dict[str, tuple[str, ...]]:
    return {name: names[at - 1 : at] if at else () for at, name in enumerate(names)}


STAR = Layout(
    "star",
    {
        "north": (),
        "south": (),
        "centre": ("north", "south"),
        "east": ("centre",),
        "west": ("centre",),
    },
    tasks=4,
    executors=2,
    machines=(4, 5),
)
LINEAR = Layout("linear", _chain("source", "first", "second", "third", "sink"), 12, 6, (6, 7))
DIAMOND = Layout(
    "diamond",
    {
        "source": (),
        **dict.fromkeys(("first", "second", "third", "fourth"), ("source",)),
        "sink": ("first", "second", "third", "fourth"),
    },
    tasks=8,
    executors=4,
    machines=(6, 7),
)
_LINES = (28, 73, 121, 30, 6, 31, 10, 23)
"""Characters of the log lines that the sources of page load and processing emit, each as often as
the others, in the topologies that the seed's authors have published
(github.com/flint-stone/storm-elasticity-topologies). A component waits a millisecond for each
character: transform, which passes on four fifths of a line; filter, which passes on four tuples
of five; aggregate. Joins and sinks but `join-2` of processing, which transforms, take no time."""

_WHOLE = fmean(_LINES) / 1000
_CUT = fmean(int(0.8 * n) for n in _LINES) / 1000
_VARIES = pstdev(_LINES) / fmean(_LINES)

PAGE_LOAD = Layout(
    "page-load",
    _chain("views", "transform", "filter", "join", "filter-2", "aggregate", "loads"),
    tasks=8,
    executors=4,
    machines=(7, 8),
    times={"transform": _WHOLE, "filter": _CUT, "filter-2": _CUT, "aggregate": _CUT},
    varies=_VARIES,
    passes={"filter": 0.8, "filter-2": 0.8},
)
PROCESSING = Layout(
    "processing",
    {
        "views": (),
        "transform": ("views",),
        "filter": ("transform",),
        "join-1": ("filter",),
        "failures": ("join-1",),
        "join-2": ("transform",),
        "normalise": ("join-2",),
        "times": ("normalise",),
    },
    tasks=8,
    executors=4,
    machines=(8, 9),
    times={"transform": _WHOLE, "filter": _CUT, "join-2": _CUT},
    varies=_VARIES,
    passes={"filter": 0.8},
)
SCALING = replace(PAGE_LOAD, tasks=15, executors=15, machines=(8, 4), emits=20.0, spouts=30)
"""The last line of Table I, as published: twice as many executors of the source, each of which
waits 50 ms between two lines. So every machine has the executors of one component, and two have
those of the source: the seed says fewer than two operators a machine, and that two machines were
best to remove."""


@dataclass(frozen=True)
class Counts(Keys):
    """The counts by which network monitoring joins: one for successes, one to ten for failures.

    So 55 % of the tuples have the same one. Storm hashes them to tasks, and gives each executor as
    many tasks that follow each other.
    """

    number: int = 10

    @cached_property
    def _weights(self) -> Floats:
        return np.array([0.05, 0.55] + [0.05] * 8)

    def places(self, instances: int) -> npt.NDArray[np.intp]:
        return (31 + np.arange(self.number)) % 8 * instances // 8


_WORDS = (28, 36, 30, 31, 23, 18, 5, 25, 16, 15, 10, 5, 37, 8, 12, 15, 20, 16, 13)
"""Characters of the messages in the connections that network monitoring reads, as published. Half
of the connections failed. Verdicts have 21 characters, of which the functors cut a fifth each."""

_MESSAGE, _VERDICT = fmean(_WORDS) / 1000, 0.021

NETWORK = Layout(
    "network",
    {
        "connections": (),
        "parse": ("connections",),
        "failed": ("parse",),
        "failures": ("failed",),
        "aggregate": ("failures",),
        "filter": ("aggregate",),
        "functor": ("filter",),
        "succeeded": ("parse",),
        "successes": ("succeeded",),
        "join": ("functor", "successes"),
    },
    tasks=8,
    executors=4,
    machines=(8, 9),
    times={
        "failed": _MESSAGE / 2,
        "failures": _MESSAGE,
        "aggregate": _VERDICT,
        "filter": _VERDICT,
        "functor": 0.016,
        "succeeded": _MESSAGE / 2,
        "successes": _MESSAGE,
        "join": (_VERDICT + 0.012) / 2,
    },
    varies=pstdev(_WORDS) / fmean(_WORDS),
    passes={"failed": 0.5, "succeeded": 0.5},
    keys={"join": Counts()},
)

EVEN = replace(NETWORK, name="network-even-keys", keys={})
"""The same with a join that deals its tuples out evenly."""

MICRO = (STAR, LINEAR, DIAMOND)
APPLICATIONS = (PAGE_LOAD, PROCESSING, NETWORK)
