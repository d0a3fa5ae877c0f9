"""What lies between pipelines: a queue for each edge of the dataflow, and the way to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.dataflow.graph import Graph
from penstock.engines.simulator import kernel
from penstock.engines.simulator.node import Placement
from penstock.engines.simulator.records import Numbers, Queue, Records, joined
from penstock.engines.simulator.source import Source
from penstock.engines.simulator.work import Counts
from penstock.plan.plan import Plan

Edge = tuple[str, str]
"""Writer and reader; a source reads its own edge, (s, s), from outside."""


@dataclass(frozen=True)
class Outlet:
    """The way to one reader.

    begins: constraints that count from here; carries: those that go on counting.
    """

    edge: Edge
    queue: Queue
    delay: float
    begins: tuple[str, ...]
    carries: frozenset[str]

    def put(self, records: Records) -> None:
        births = {name: b for name, b in records.births.items() if name in self.carries}
        births.update(dict.fromkeys(self.begins, records.time))
        time = records.time + self.delay if self.delay else records.time
        self.queue.put(Records(time, births))


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
        order = kernel.order(out.time)  # of those that there are before they are more
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

    def outlet(self, edge: Edge, plan: Plan, placement: Placement) -> Outlet:
        """The way along an edge under a plan: a pipeline's first operator stands for it."""
        graph, delay = self._graph, self.delay(edge, plan, placement)
        holds = plan.pipeline_of(edge[1]).operators
        ahead = graph.reachable(edge[1])
        begins = tuple(c.name for c in graph.constraints if c.first in holds)
        carries = frozenset(c.name for c in graph.constraints if c.last in ahead)
        return Outlet(edge, self.queues[edge], delay, begins, carries - {*begins})

    def __len__(self) -> int:
        """Records on their way, without those that no pipeline has taken from outside yet."""
        held = sum(len(s) for s in self.sources.values())
        return held + sum(map(len, self.queues.values()))


def begins(graph: Graph, plan: Plan, source: str) -> tuple[str, ...]:
    """The constraints that count from when a source's record is due."""
    holds = plan.pipeline_of(source).operators
    return tuple(c.name for c in graph.constraints if c.first in holds)
