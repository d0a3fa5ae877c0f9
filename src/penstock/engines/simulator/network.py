"""What lies between pipelines: a queue for each edge, the way to it, and gathered output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.dataflow.graph import Graph
from penstock.engines.simulator import queues
from penstock.engines.simulator.arrays import Floats, Numbers
from penstock.engines.simulator.machines import Placement
from penstock.engines.simulator.operator_work import Counts
from penstock.engines.simulator.records import Queue, Records, joined
from penstock.engines.simulator.source import Source
from penstock.plan.plan import Pipeline, Plan

_GOLDEN = 0.6180339887498949
"""Multiples of it, without what is before the point, are spread evenly however many there are."""


def phases(number: int) -> Floats:
    """When each of so many begins to gather, as a share of the cadence: not all together."""
    return np.arange(number, dtype=np.float64) * _GOLDEN % 1.0


def shipped(time: Floats, phase: Floats, cadence: float) -> Floats:
    """When the gathering ends that records of a time fall into, by when it began."""
    return np.ceil((time - phase) / cadence) * cadence + phase


@dataclass(frozen=True)
class Channels:
    """The channels to each instance of a reader, one from each instance that writes to it.

    Each ships on its own what it has gathered for a cadence, so an instance gets at once what one
    of those before it had for it, and not what all of them had. That those ship to one instance
    when they ship to another is no matter to either.
    """

    writers: int
    cadence: float
    rng: np.random.Generator

    @cached_property
    def _phases(self) -> Floats:
        return phases(self.writers) * self.cadence

    def shipped(self, time: Floats) -> Floats:
        """When records are shipped that some instance or other has written at a time."""
        return shipped(time, self._phases[self.rng.integers(self.writers, size=len(time))],
                       self.cadence)  # fmt: skip


Edge = tuple[str, str]
"""Writer and reader; a source reads its own edge, (s, s), from outside."""


@dataclass(frozen=True)
class Outlet:
    """The way to one reader.

    begins: constraints that count from here; carries: those that go on counting; channels: where
    records are gathered on the way.
    """

    edge: Edge
    queue: Queue
    delay: float
    begins: tuple[str, ...]
    carries: frozenset[str]
    channels: Channels | None = None

    def put(self, records: Records) -> None:
        births = {name: b for name, b in records.births.items() if name in self.carries}
        births.update(dict.fromkeys(self.begins, records.time))
        time = records.time + self.delay if self.delay else records.time
        if self.channels is None:
            self.queue.put(Records(time, births))
            return
        shipped = self.channels.shipped(time)
        self.queue.gathered += float(shipped.sum() - time.sum())
        self.queue.put(Records(shipped, births).by_time())


@dataclass(frozen=True)
class Leaving:
    """Records that leave a pipeline, in no order; outputs: records that come of each."""

    records: Records
    outputs: Counts | None

    def __getitem__(self, which: slice | Numbers) -> Leaving:
        return Leaving(self.records[which], None if self.outputs is None else self.outputs[which])

    @property
    def made(self) -> int:
        """Records that come of all of them."""
        return len(self.records) if self.outputs is None else int(self.outputs.sum())

    @property
    def each(self) -> Counts:
        """Records that come of each, in numbers."""
        return np.ones(len(self.records), np.int64) if self.outputs is None else self.outputs

    def repeated(self) -> Records:
        """The records that come of them."""
        return self.records if self.outputs is None else self.records.repeated(self.outputs)

    def count(self, until: float) -> int:
        """Records that come of those that leave by a time."""
        go = self.records.time <= until
        return int(np.count_nonzero(go) if self.outputs is None else self.outputs[go].sum())


def emitted(leaving: Sequence[Leaving], until: float) -> Records:
    """What goes out of a pipeline by a time, in order: every record as often as it is to."""
    if sum(one.made for one in leaving) > sum(len(one.records) for one in leaving):
        out = joined([one.records for one in leaving])
        order = queues.order(out.time)  # of those that there are before they are more
        out = out.take(np.repeat(order, np.concatenate([one.each for one in leaving])[order]))
    else:
        out = joined([one.repeated() for one in leaving]).by_time()
    if not len(out) or out.time[-1] <= until:
        return out
    return out[: int(np.searchsorted(out.time, until, "right"))]


class Network:
    """All queues of a dataflow. They outlive plans: what waits in them waits on."""

    def __init__(
        self, graph: Graph, delay: float, sources: Mapping[str, Source], between: float = 0.0
    ) -> None:
        self._graph = graph
        self._delay, self._between = delay, between
        self.sources = sources
        self.queues: dict[Edge, Queue] = {
            (writer, o.name): Queue() for o in graph.operators for writer in o.inputs
        }

    def inlet(self, edge: Edge) -> Queue | Source:
        return self.sources[edge[1]] if edge[0] == edge[1] else self.queues[edge]

    def delay(self, edge: Edge, plan: Plan, placement: Placement) -> float:
        """Seconds along an edge, on average over all pairs of instances."""
        if not self._between:
            return self._delay
        writer, reader = (plan.pipeline_of(name).name for name in edge)
        return self._delay + self._between * placement.apart(writer, reader)

    def in_channels(self, reader: Pipeline, plan: Plan) -> bool:
        """Whether what comes to a pipeline is gathered by channel, before it is shipped.

        Where one instance writes, or nobody here does, an instance gets at once all that was
        gathered for it, and gathers it itself as well.
        """
        inputs = [self._graph[name].inputs for name in reader.operators]
        writers = {w for some in inputs for w in some} - {*reader.operators}
        several = all(plan.pipeline_of(writer).parallelism > 1 for writer in writers)
        return all(inputs) and several

    def outlet(
        self, edge: Edge, plan: Plan, placement: Placement, rng: np.random.Generator | None = None
    ) -> Outlet:
        """The way along an edge under a plan: a pipeline's first operator stands for it.

        rng: says which instance has written a record, where instances gather what they write.
        """
        graph, delay = self._graph, self.delay(edge, plan, placement)
        holds = plan.pipeline_of(edge[1]).operators
        ahead = graph.reachable(edge[1])
        begins = tuple(c.name for c in graph.constraints if c.first in holds)
        carries = frozenset(c.name for c in graph.constraints if c.last in ahead)
        channels, reader = None, plan.pipeline_of(edge[1])
        if rng is not None and reader.cadence and self.in_channels(reader, plan):
            channels = Channels(plan.pipeline_of(edge[0]).parallelism, reader.cadence, rng)
        return Outlet(edge, self.queues[edge], delay, begins, carries - {*begins}, channels)

    def __len__(self) -> int:
        """Records on their way, without those that no pipeline has taken from outside yet."""
        held = sum(len(s) for s in self.sources.values())
        return held + sum(map(len, self.queues.values()))


def begins(graph: Graph, plan: Plan, source: str) -> tuple[str, ...]:
    """The constraints that count from when a source's record is due."""
    holds = plan.pipeline_of(source).operators
    return tuple(c.name for c in graph.constraints if c.first in holds)
