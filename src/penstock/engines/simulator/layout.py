"""Stela's topologies, ready to be simulated: components, and what its Table I says of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

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
    machines: before the scaling, and after it.
    """

    name: str
    inputs: Mapping[str, tuple[str, ...]]
    tasks: int
    executors: int
    machines: tuple[int, int]

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
            found[name] = sum(found[up] for up in before) if before else 1.0
        return found

    def carries(self, times: Mapping[str, float], instances: Mapping[str, int]) -> float:
        """Tuples a second of each source that the slowest component can take."""
        needed = (self.visits[n] * t / instances[n] for n, t in times.items())
        return 1 / max(needed)

    def throughput(self, times: Mapping[str, float], instances: Mapping[str, int]) -> float:
        """Tuples a second of all sinks in the long run, where as much comes as in `scenario`."""
        offered = OFFERED * self.carries(times, dict.fromkeys(self.inputs, self.executors))
        found: dict[str, float] = {}
        for name, before in self.inputs.items():
            comes = sum(found[up] for up in before) if before else offered
            most = instances[name] / times[name] if name in times else math.inf
            found[name] = min(comes, most)
        return math.fsum(found[name] for name in self.sinks)

    def scenario(
        self, times: Mapping[str, float], seconds: float, cores: int = 64, packed: bool = False
    ) -> Scenario:
        """Everything saturated. times: seconds of a tuple, by component but for the sources.

        Queues have no bound and machines have a core for every instance: in the seed congestion
        shows as more coming than is processed, and moving executors to other machines did not
        help because they were not short of resources. packed: components side by side, not mixed.
        """
        flow = Dataflow(self.name)
        streams: dict[str, Stream] = {}
        pipelines = []
        for name, before in self.inputs.items():
            operators = self._attach(flow, streams, name, before)
            pipelines.append(Pipeline(operators, self.executors))
        model = Model(
            {name: Step(Gamma(time, 0.5)) for name, time in times.items()},
            nodes=max(self.machines),
            node=Node(cores=cores),
            queue=None,
            packed=packed,
            timing=Timing(executor_start=10.0),
        )
        start = self.carries(times, dict.fromkeys(self.inputs, self.executors))
        plan = Plan(tuple(pipelines), self.machines[0])
        return Scenario(flow.graph, plan, model, f"{OFFERED * start:.3f}/s", seconds)

    def _attach(
        self, flow: Dataflow, streams: dict[str, Stream], name: str, before: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Add a component to a dataflow; the operators it is made of."""
        most = {"max_parallelism": self.tasks}
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
PAGE_LOAD = Layout(
    "page-load",
    _chain("views", "transform", "filter", "join", "filter-2", "aggregate", "loads"),
    tasks=8,
    executors=4,
    machines=(7, 8),
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
)
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
    return math.floor(len(layout.inputs) * layout.executors / layout.machines[0] + 0.5)
