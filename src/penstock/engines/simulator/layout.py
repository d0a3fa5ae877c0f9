"""Stela's topologies, ready to be simulated: components, and what its Table I says of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean, pstdev

from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow, Stream
from penstock.engines.simulator.model import Model, Node, Step, Timing
from penstock.engines.simulator.scenario import Scenario, never
from penstock.engines.simulator.service import Gamma
from penstock.plan.plan import Pipeline, Plan

OFFERED = 2.5
"""What comes, in terms of what the slowest component can carry at first. The sources of the seed
emit as fast as they can, and no component can be more than doubled."""


@dataclass(frozen=True)
class Layout:
    """Components and who reads whom, in the order of the stream.

    tasks: the most instances of a component, executors: those it has at first, in Storm's words;
    machines: before the scaling, and after it; times: seconds of a tuple by component, where they
    are known, and varies: their coefficient of variation; passes: tuples out for one in, 1 where
    it says nothing; emits: tuples a second of each executor of a source, more than the components
    carry where it is None; spouts: executors of a source, None for as many as the others have.
    """

    name: str
    inputs: Mapping[str, tuple[str, ...]]
    tasks: int
    executors: int
    machines: tuple[int, int]
    times: Mapping[str, float] = field(default_factory=dict)
    varies: float = 0.5
    passes: Mapping[str, float] = field(default_factory=dict)
    emits: float | None = None
    spouts: int | None = None

    @cached_property
    def sinks(self) -> tuple[str, ...]:
        read = {name for names in self.inputs.values() for name in names}
        return tuple(name for name in self.inputs if name not in read)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        return tuple(name for name, before in self.inputs.items() if not before)

    @cached_property
    def visits(self) -> Mapping[str, float]:
        """Tuples that come to a component for each tuple of each source; every reader gets all."""
        found: dict[str, float] = {}
        for name, before in self.inputs.items():
            made = (found[up] * self.passes.get(up, 1.0) for up in before)
            found[name] = sum(made) if before else 1.0
        return found

    @property
    def first(self) -> Mapping[str, int]:
        """The executors of each component at first."""
        return {name: self._executors(name) for name in self.inputs}

    def _executors(self, name: str) -> int:
        source = not self.inputs[name]
        return self.spouts if source and self.spouts is not None else self.executors

    def offered(self, times: Mapping[str, float]) -> float:
        """Tuples a second that each source emits."""
        if self.emits is not None:
            return self.emits * self._executors(self.sources[0])
        return OFFERED * self.carries(times, self.first)

    def carries(self, times: Mapping[str, float], instances: Mapping[str, int]) -> float:
        """Tuples a second of each source that the slowest component can take."""
        needed = (self.visits[n] * t / instances[n] for n, t in times.items())
        return 1 / max(needed)

    def throughput(self, times: Mapping[str, float], instances: Mapping[str, int]) -> float:
        """Tuples a second of all sinks in the long run, where as much comes as in `scenario`."""
        found: dict[str, float] = {}
        for name, before in self.inputs.items():
            made = (found[up] * self.passes.get(up, 1.0) for up in before)
            comes = sum(made) if before else self.offered(times)
            most = instances[name] / times[name] if name in times else math.inf
            found[name] = min(comes, most)
        return math.fsum(found[name] for name in self.sinks)

    def scenario(
        self,
        times: Mapping[str, float],
        seconds: float,
        cores: int = 64,
        packed: bool = False,
        cpu: float = 1.0,
    ) -> Scenario:
        """Everything saturated. times: seconds of a tuple, by component but for the sources.

        Queues have no bound and machines have a core for every instance: in the seed congestion
        shows as more coming than is processed, and moving executors to other machines did not
        help because they were not short of resources. packed: components side by side, not mixed;
        cpu: the share of the times that needs a processor.
        """
        flow = Dataflow(self.name)
        streams: dict[str, Stream] = {}
        pipelines = []
        for name, before in self.inputs.items():
            operators = self._attach(flow, streams, name, before)
            pipelines.append(Pipeline(operators, self._executors(name)))
        steps = {
            name: Step(Gamma(time, self.varies), self.passes.get(name, 1.0), cpu=cpu)
            for name, time in times.items()
        }
        model = Model(
            steps,
            nodes=max(self.machines),
            node=Node(cores=cores),
            queue=None,
            packed=packed,
            timing=Timing(executor_start=10.0),
        )
        plan = Plan(tuple(pipelines), self.machines[0])
        return Scenario(flow.graph, plan, model, f"{self.offered(times):.3f}/s", seconds)

    def _attach(
        self, flow: Dataflow, streams: dict[str, Stream], name: str, before: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Add a component to a dataflow; the operators it is made of."""
        most = {"max_parallelism": max(self.tasks, self._executors(name))}
        if not before:
            streams[name] = flow.source(name, Generator(never, "n bigint"), **most)
            return (name,)
        first, *others = (streams[up] for up in before)
        if name in self.sinks and not others:
            first.sink(name, Discard(), **most)
            return (name,)
        if others:
            streams[name] = first.union(name, *others, **most)
        else:
            streams[name] = first.map(name, never, schema="n bigint", **most)
        if name not in self.sinks:
            return (name,)
        streams[name].sink(f"{name}-end", Discard(), **most)
        return (name, f"{name}-end")


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

NETWORK = Layout(
    "network",
    {
        "connections": (),
        "parse": ("connections",),
        "scans": ("parse",),
        "floods": ("parse",),
        "scores": ("scans", "floods"),
        "alert": ("scores",),
        "alerts": ("alert",),
    },
    tasks=8,
    executors=4,
    machines=(8, 9),
)
MICRO = (STAR, LINEAR, DIAMOND)
APPLICATIONS = (PAGE_LOAD, PROCESSING, NETWORK)


def slots(layout: Layout) -> int:
    """Instances that a new machine gets: as many as the others have on average."""
    return math.floor(sum(layout.first.values()) / layout.machines[0] + 0.5)
