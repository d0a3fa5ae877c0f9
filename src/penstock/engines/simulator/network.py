"""The network between pipelines: queues, delays, and gathering of output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.dataflow.graph import Graph
from penstock.engines.simulator import queues
from penstock.engines.simulator.arrivals import SimulatedSource
from penstock.engines.simulator.executors import Placement
from penstock.engines.simulator.operator_work import Counts
from penstock.engines.simulator.queues import Floats, Numbers
from penstock.engines.simulator.records import RecordQueue, Records, concatenated
from penstock.plan.plan import Pipeline, Plan

_GOLDEN = 0.6180339887498949
"""Its multiples modulo 1 are spread evenly for any number of them."""


def phases(number: int) -> Floats:
    """Evenly spread starts of gathering intervals, as shares of the cadence."""
    return np.arange(number, dtype=np.float64) * _GOLDEN % 1.0


def shipped(time: Floats, phase: Floats, cadence: float) -> Floats:
    """End of the gathering interval into which each time falls."""
    return np.ceil((time - phase) / cadence) * cadence + phase


@dataclass(frozen=True)
class GatheringChannels:
    """Channels to a reader's instances, one from each instance of the writer.

    Each channel ships on its own what it gathered for a cadence, so a reader's instance gets the
    output of one writer's instance at a time.
    """

    writers: int
    cadence: float
    rng: np.random.Generator

    @cached_property
    def _phases(self) -> Floats:
        return phases(self.writers) * self.cadence

    def shipped(self, time: Floats) -> Floats:
        """When records are shipped that some instance of the writer wrote at a time."""
        return shipped(time, self._phases[self.rng.integers(self.writers, size=len(time))],
                       self.cadence)  # fmt: skip


Edge = tuple[str, str]
"""Writer and reader; for a source's own input from outside, the source twice."""


@dataclass(frozen=True)
class Outlet:
    """The way to one reader.

    begins: constraints whose latency counts from here; carries: constraints that continue;
    channels: where records are gathered on the way.
    """

    edge: Edge
    queue: RecordQueue
    delay: float
    begins: tuple[str, ...]
    carries: frozenset[str]
    channels: GatheringChannels | None = None

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
    """Records that leave a pipeline, unsorted.

    outputs: number of output records of each (None: one).
    """

    records: Records
    outputs: Counts | None

    def __getitem__(self, which: slice | Numbers) -> Leaving:
        return Leaving(self.records[which], None if self.outputs is None else self.outputs[which])

    @property
    def made(self) -> int:
        """Total number of output records."""
        return len(self.records) if self.outputs is None else int(self.outputs.sum())

    @property
    def each(self) -> Counts:
        """Number of output records of each."""
        return np.ones(len(self.records), np.int64) if self.outputs is None else self.outputs

    def repeated(self) -> Records:
        """The output records."""
        return self.records if self.outputs is None else self.records.repeated(self.outputs)

    def count(self, until: float) -> int:
        """Number of output records of all records that leave by a time."""
        go = self.records.time <= until
        return int(np.count_nonzero(go) if self.outputs is None else self.outputs[go].sum())


def emitted(leaving: Sequence[Leaving], until: float) -> Records:
    """Return the sorted output of a pipeline by a time."""
    if sum(one.made for one in leaving) > sum(len(one.records) for one in leaving):
        out = concatenated([one.records for one in leaving])
        order = queues.order(out.time)  # before they are repeated, so fewer are sorted
        out = out.take(np.repeat(order, np.concatenate([one.each for one in leaving])[order]))
    else:
        out = concatenated([one.repeated() for one in leaving]).by_time()
    if not len(out) or out.time[-1] <= until:
        return out
    return out[: int(np.searchsorted(out.time, until, "right"))]


class Network:
    """All queues of a dataflow; they and their contents survive changes of plan."""

    def __init__(
        self,
        graph: Graph,
        delay: float,
        sources: Mapping[str, SimulatedSource],
        between: float = 0.0,
    ) -> None:
        self._graph = graph
        self._delay, self._between = delay, between
        self.sources = sources
        self.queues: dict[Edge, RecordQueue] = {
            (writer, o.name): RecordQueue() for o in graph.operators for writer in o.inputs
        }

    def inlet(self, edge: Edge) -> RecordQueue | SimulatedSource:
        return self.sources[edge[1]] if edge[0] == edge[1] else self.queues[edge]

    def delay(self, edge: Edge, plan: Plan, placement: Placement) -> float:
        """Mean delay of an edge over all pairs of instances, in seconds."""
        if not self._between:
            return self._delay
        writer, reader = (plan.pipeline_of(name).name for name in edge)
        return self._delay + self._between * placement.apart(writer, reader)

    def gathers_by_channel(self, reader: Pipeline, plan: Plan) -> bool:
        """True if the writers gather the reader's input by channel.

        With a single writing instance, or for a source, an instance gathers its own input instead.
        """
        inputs = [self._graph[name].inputs for name in reader.operators]
        writers = {w for some in inputs for w in some} - {*reader.operators}
        several = all(plan.pipeline_of(writer).parallelism > 1 for writer in writers)
        return all(inputs) and several

    def outlet(
        self, edge: Edge, plan: Plan, placement: Placement, rng: np.random.Generator | None = None
    ) -> Outlet:
        """Return the way along an edge under a plan.

        rng: chooses the writing instance of each record where instances gather output.
        """
        graph, delay = self._graph, self.delay(edge, plan, placement)
        holds = plan.pipeline_of(edge[1]).operators
        ahead = graph.reachable(edge[1])
        begins = tuple(c.name for c in graph.constraints if c.first in holds)
        carries = frozenset(c.name for c in graph.constraints if c.last in ahead)
        channels, reader = None, plan.pipeline_of(edge[1])
        if rng is not None and reader.cadence and self.gathers_by_channel(reader, plan):
            channels = GatheringChannels(plan.pipeline_of(edge[0]).parallelism, reader.cadence, rng)
        return Outlet(edge, self.queues[edge], delay, begins, carries - {*begins}, channels)

    def __len__(self) -> int:
        """Number of records on their way, without those not yet taken from outside."""
        held = sum(len(s) for s in self.sources.values())
        return held + sum(map(len, self.queues.values()))


def begins(graph: Graph, plan: Plan, source: str) -> tuple[str, ...]:
    """Constraints whose latency counts from the due time of a source's records."""
    holds = plan.pipeline_of(source).operators
    return tuple(c.name for c in graph.constraints if c.first in holds)
