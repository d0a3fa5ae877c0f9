"""A topology of Storm's as Stela describes it, ready to be simulated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow, Stream
from penstock.engines.simulator.distributions import Constant, Gamma, Service
from penstock.engines.simulator.model import Keys, Machine, Model, OperatorCost, Timing
from penstock.plan.plan import Pipeline, Plan
from penstock_lab.experiments.scenario import Scenario, never

OFFERED = 2.5
"""What comes, in terms of what the slowest component can carry at first. The sources of the seed
emit as fast as they can, but for a pause that some make before each tuple, which is their time; and
no component can be more than doubled."""


_KEYED = "-keyed"
"""Behind the name of a component: the operator in it that has keys."""

_ROW = "n bigint"


@dataclass(frozen=True)
class Layout:
    """Components and who reads whom, in the order of the stream.

    tasks: the most instances of a component, executors: those it has at first, in Storm's words;
    machines: before the scaling, and after it; times: seconds of a tuple by component, where they
    are known, and varies: their coefficient of variation; passes: tuples out for one in, 1 where
    it says nothing; keys: of components to which a tuple goes by its key; emits: tuples a second of
    each executor of a source, more than the components carry where it is None; spouts: executors of
    a source, None for as many as the others have; workers: processes that executors run in; cores:
    of a machine.
    """

    name: str
    inputs: Mapping[str, tuple[str, ...]]
    tasks: int
    executors: int
    machines: tuple[int, int]
    times: Mapping[str, float] = field(default_factory=dict)
    varies: float = 0.5
    passes: Mapping[str, float] = field(default_factory=dict)
    keys: Mapping[str, Keys] = field(default_factory=dict)
    emits: float | None = None
    spouts: int | None = None
    workers: int = 1
    cores: int = 1

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
        done = self._done(times, instances)
        return math.fsum(done[name] for name in self.sinks)

    def traffic(self, times: Mapping[str, float]) -> Mapping[str, float]:
        """Tuples a second on all links of each component at first, in and out."""
        done = self._done(times, self.first)
        out = {name: done[name] * self.passes.get(name, 1.0) for name in self.inputs}
        links = [(up, name) for name, before in self.inputs.items() for up in before]
        return {name: math.fsum(out[a] for a, b in links if name in (a, b)) for name in self.inputs}

    def _done(
        self, times: Mapping[str, float], instances: Mapping[str, int]
    ) -> Mapping[str, float]:
        """Tuples a second that each component works through in the long run."""
        found: dict[str, float] = {}
        for name, before in self.inputs.items():
            made = (found[up] * self.passes.get(up, 1.0) for up in before)
            comes = sum(made) if before else self.offered(times)
            most = 1 / times[name] if name in times else math.inf
            number = instances.get(name, self._executors(name))
            found[name] = sum(min(comes * s, most) for s in self._shares(name, number))
        return found

    def _shares(self, name: str, instances: int) -> Sequence[float]:
        """The share of the tuples that each instance gets."""
        if name not in self.keys:
            return [1 / instances] * instances
        return [float(share) for share in self.keys[name].shares(instances)]

    def scenario(
        self,
        times: Mapping[str, float],
        seconds: float,
        cores: int = 64,
        packed: bool = False,
        cpu: float = 1.0,
    ) -> Scenario:
        """Everything saturated. times: seconds of a tuple, by component.

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
            name + _KEYED * (name in self.keys): OperatorCost(
                self._service(times.get(name, 0.0)),
                self.passes.get(name, 1.0),
                self.keys.get(name, Keys()),
                cpu=cpu,
            )
            for name in {**times, **self.passes}
        }
        model = Model(
            steps,
            nodes=max(self.machines),
            node=Machine(cores=cores),
            queue=None,
            packed=packed,
            stays=True,
            timing=Timing(executor_start=10.0),
        )
        plan = Plan(tuple(pipelines), self.machines[0])
        return Scenario(flow.graph, plan, model, f"{self.offered(times):.3f}/s", seconds)

    def _service(self, time: float) -> Service:
        return Gamma(time, self.varies) if time else Constant()

    def _attach(
        self, flow: Dataflow, streams: dict[str, Stream], name: str, before: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Add a component to a dataflow; the operators it is made of."""
        most = {"max_parallelism": max(self.tasks, self._executors(name))}
        if not before:
            streams[name] = flow.source(name, Generator(never, _ROW), **most)
            return (name,)
        first, *others = (streams[up] for up in before)
        if name in self.sinks and not others and name not in self.keys:
            first.sink(name, Discard(), **most)
            return (name,)
        if others:
            streams[name] = first.union(name, *others, **most)
        else:
            streams[name] = first.map(name, never, schema=_ROW, **most)
        operators: tuple[str, ...] = (name,)
        if name in self.keys:
            keyed = streams[name].key_by("n")
            streams[name] = keyed.aggregate(
                f"{name}{_KEYED}",
                m="count(*)",
                schema=_ROW,
                max_parallelism=most["max_parallelism"],
            )
            operators += (f"{name}{_KEYED}",)
        if name in self.sinks:
            streams[name].sink(f"{name}-end", Discard(), **most)
            operators += (f"{name}-end",)
        return operators


def slots(layout: Layout) -> int:
    """Instances that a new machine gets: as many as the others have on average."""
    return math.floor(sum(layout.first.values()) / layout.machines[0] + 0.5)
