"""Stela's topologies: components, what its Table I says of them, and what they take."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, pstdev

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator.model import Keys
from penstock.engines.simulator.queues import Floats
from penstock_lab.experiments.stela.layout import Layout


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
    workers=12,
)
LINEAR = Layout("linear", _chain("source", "first", "second", "sink"), 12, 6, (6, 7), workers=24)
"""Three components behind the source: so many it has where its authors published it with the tasks,
executors and workers of Table I (github.com/flint-stone/storm-elasticity-topologies, in December
2014)."""

CHAIN = replace(LINEAR, inputs=_chain("source", "first", "second", "third", "sink"))
"""The same with one more, as it is shown on Spark."""

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
    workers=24,
)
_KEPT = 0.8
"""The share of the tuples that a filter of page load or processing lets through, by chance."""

_LINES = (28, 73, 121, 30, 6, 31, 10, 23)
"""Characters of the log lines that the sources of page load and processing emit, each as often as
the others, as published."""

_PAUSE = 0.05
"""Seconds that an executor of their sources waits before each line.

Table I's tasks, executors and workers of both are those of one published version, of 14 December
2014. In it components count to ten times the characters of a line, which takes them a microsecond,
so that sources are the slowest. How much sinks get varies with what filters let through: sources
have the coefficient of variation with which it varies as much here, where filters take turns."""

_WHOLE = fmean(_LINES) / 1000
_CUT = fmean(int(0.8 * n) for n in _LINES) / 1000
_VARIES = pstdev(_LINES) / fmean(_LINES)

PAGE_LOAD = Layout(
    "page-load",
    _chain("views", "transform", "filter", "join", "filter-2", "aggregate", "loads"),
    tasks=8,
    executors=4,
    machines=(7, 8),
    times={"views": _PAUSE},
    varies=math.sqrt(1 / _KEPT**2 - 1),
    passes={"filter": _KEPT, "filter-2": _KEPT},
    workers=28,
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
    times={"views": _PAUSE},
    varies=math.sqrt(_KEPT * (1 - _KEPT)) / (1 + _KEPT),
    passes={"filter": _KEPT},
    workers=32,
)
_BUSY = {"transform": _WHOLE, "filter": _CUT, "filter-2": _CUT, "aggregate": _CUT}

WAITING = (
    replace(
        PAGE_LOAD,
        name="page-load-waiting",
        times=_BUSY,
        varies=_VARIES,
    ),
    replace(
        PROCESSING,
        name="processing-waiting",
        times={"transform": _WHOLE, "filter": _CUT, "join-2": _CUT},
        varies=_VARIES,
    ),
)
"""Both with components as they were published before and after that, and sources that emit more
than these carry: a component waits a millisecond for each character. Transform, and `join-2` of
processing, which transforms, pass on four fifths of a line; other joins and sinks take no time."""

PAUSED = replace(WAITING[0], name="page-load-paused", times={"views": _PAUSE, **_BUSY})
"""Page load as it was published three days before, with Table I's settings too: sources pause, and
components wait."""

SCALING = replace(
    WAITING[0],
    name="page-load",
    tasks=15,
    executors=15,
    machines=(8, 4),
    workers=32,
    emits=1 / _PAUSE,
    spouts=30,
)
"""The last line of Table I, as published in 2015: twice as many executors of the source. So every
machine has the executors of one component, and two have those of the source: the seed says fewer
than two operators a machine, and that two machines were best to remove."""


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
    workers=32,
    cores=4,
)

EVEN = replace(NETWORK, name="network-even-keys", keys={})
"""The same with a join that deals its tuples out evenly."""

MICRO = (STAR, LINEAR, DIAMOND)
APPLICATIONS = (PAGE_LOAD, PROCESSING, NETWORK)
