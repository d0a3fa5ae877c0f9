"""Where a flow stands that a simulation goes on with: rows that wait, and state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.dataflow.graph import Graph
from penstock.engines.simulator.arrays import Floats
from penstock.engines.simulator.model import Keys
from penstock.engines.simulator.network import Edge
from penstock.engines.simulator.records import Records
from penstock.engines.simulator.simulation import Simulation
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan.plan import Pipeline, Plan

_ALL = 40.0
"""Records for each key after which none has been missed."""


@dataclass(frozen=True)
class Waiting:
    """Rows that wait, and the seconds over which they came, evenly."""

    rows: int
    seconds: float = 0.0

    def times(self, now: float) -> Floats:
        share = np.arange(self.rows, dtype=np.float64) / max(self.rows, 1)
        return now - self.seconds * (1.0 - share)


@dataclass(frozen=True)
class Beginning:
    """What is there at the start of a simulation.

    waiting: by edge of the dataflow, a source's own being (s, s); state: rows by operator. For a
    constraint that began before the edge, a row that waits there counts from when it came to it:
    what it took until then is not known.
    """

    waiting: Mapping[Edge, Waiting] = field(default_factory=dict)
    state: Mapping[str, int] = field(default_factory=dict)

    @property
    def owed(self) -> int:
        """Rows that wait at sources."""
        return sum(w.rows for (writer, reader), w in self.waiting.items() if writer == reader)

    def put_into(self, sim: Simulation, plan: Plan) -> None:
        """Bring a simulation that has not begun to there."""
        for edge, waiting in self.waiting.items():
            if edge[0] == edge[1]:
                sim.sources[edge[1]].owe(waiting.rows, waiting.seconds)
            else:
                times = waiting.times(sim.now)
                births = dict.fromkeys(_counting(sim.graph, plan, edge), times)
                sim.network.queues[edge].put(Records(times, births))
        for name, rows in self.state.items():
            step = sim.model.step(name)
            seen = _seen(step.keys, rows)
            sim.ledger.seen[name] = seen
            sim.ledger.made[name] = seen * step.ratio.numerator // step.ratio.denominator


def of(graph: Graph, plan: Plan, snapshot: Snapshot) -> Beginning:
    """Where a snapshot under a plan says that a flow stands."""
    waiting: dict[Edge, Waiting] = {}
    state: dict[str, int] = {}
    for pipeline in plan.pipelines:
        metrics = snapshot.pipelines.get(pipeline.name)
        if metrics is None:
            continue
        for edge, rows in _rows(graph, pipeline, metrics, snapshot).items():
            if rows:
                waiting[edge] = Waiting(rows, min(_came_over(metrics), snapshot.at))
        holder = next((name for name in pipeline.operators if graph[name].stateful), None)
        if holder is not None and metrics.state_rows:
            state[holder] = metrics.state_rows
    return Beginning(waiting, state)


def _came_over(metrics: PipelineMetrics) -> float:
    """Seconds over which what waits has come."""
    if metrics.arrival_rate and metrics.backlog_rows:
        return metrics.backlog_rows / metrics.arrival_rate
    return metrics.backlog_seconds or 0.0


def _rows(
    graph: Graph, pipeline: Pipeline, metrics: PipelineMetrics, snapshot: Snapshot
) -> dict[Edge, int]:
    """Rows before a pipeline by edge: as channels say; the others share what is left evenly."""
    inside = set(pipeline.operators)
    edges = [
        (writer, name)
        for name in pipeline.operators
        for writer in dict.fromkeys(graph[name].inputs or (name,))
        if writer not in inside or writer == name
    ]
    found: dict[Edge, int] = {}
    for writer, name in edges:
        channel = snapshot.channels.get(f"{writer}>{name}")
        if channel is not None and channel.backlog_rows is not None:
            found[writer, name] = channel.backlog_rows
    unknown = [edge for edge in edges if edge not in found]
    left = max(0, (metrics.backlog_rows or 0) - sum(found.values()))
    for at, edge in enumerate(unknown):
        found[edge] = left * (at + 1) // len(unknown) - left * at // len(unknown)
    return found


def _counting(graph: Graph, plan: Plan, edge: Edge) -> list[str]:
    """The constraints that count for what waits on an edge."""
    holds, ahead = plan.pipeline_of(edge[1]).operators, graph.reachable(edge[1])
    return [
        c.name
        for c in graph.constraints
        if c.last in ahead and (c.first in holds or edge[0] in graph.reachable(c.first))
    ]


def _seen(keys: Keys, rows: int) -> int:
    """About how many records it takes until so many keys have come up: `Keys.seen` turned round."""
    if rows >= keys.number:
        return round(_ALL * keys.number)
    return round(-keys.number * math.log1p(-rows / keys.number))
