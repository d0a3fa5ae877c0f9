"""State in which a simulation starts: a saved one, or that of another run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from penstock import files
from penstock.dataflow.graph import Graph
from penstock.engines.simulator.model import Keys
from penstock.engines.simulator.network import Edge
from penstock.engines.simulator.queues import Floats
from penstock.engines.simulator.records import Records
from penstock.engines.simulator.simulation import Simulation
from penstock.errors import RunDirectoryError
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan.plan import Pipeline, Plan

_ALL = 40.0
"""Records for each key after which every key has occurred."""


@dataclass(frozen=True)
class WaitingRows:
    """Rows that wait, and the seconds over which they arrived, evenly."""

    rows: int
    seconds: float = 0.0

    def times(self, now: float) -> Floats:
        """Arrival times of the rows."""
        share = np.arange(self.rows, dtype=np.float64) / max(self.rows, 1)
        return now - self.seconds * (1.0 - share)


@dataclass(frozen=True)
class InitialState:
    """Waiting rows and state at the start of a simulation.

    waiting: by edge of the dataflow, where (s, s) is a source's own; state: rows by operator. For a
    constraint that begins upstream of an edge, latency counts from a row's arrival at the edge: its
    age before that is not known.
    """

    waiting: Mapping[Edge, WaitingRows] = field(default_factory=dict)
    state: Mapping[str, int] = field(default_factory=dict)

    @property
    def owed(self) -> int:
        """Number of rows that wait at sources."""
        return sum(w.rows for (writer, reader), w in self.waiting.items() if writer == reader)

    def apply_to(self, sim: Simulation, plan: Plan) -> None:
        """Apply it to a simulation that has not begun."""
        for edge, waiting in self.waiting.items():
            if edge[0] == edge[1]:
                sim.sources[edge[1]].owe(waiting.rows, waiting.seconds)
            else:
                times = waiting.times(sim.now)
                births = dict.fromkeys(_counting(sim.graph, plan, edge), times)
                sim.network.queues[edge].put(Records(times, births))
        for name, rows in self.state.items():
            cost = sim.model.cost(name)
            seen = _seen(cost.keys, rows)
            sim.counts.seen[name] = seen
            sim.counts.made[name] = seen * cost.ratio.numerator // cost.ratio.denominator


def state_of(graph: Graph, plan: Plan, snapshot: Snapshot) -> InitialState:
    """Return the state of a flow that a snapshot under a plan shows."""
    waiting: dict[Edge, WaitingRows] = {}
    state: dict[str, int] = {}
    for pipeline in plan.pipelines:
        metrics = snapshot.pipelines.get(pipeline.name)
        if metrics is None:
            continue
        for edge, rows in _rows(graph, pipeline, metrics, snapshot).items():
            if rows:
                waiting[edge] = WaitingRows(rows, min(_arrival_time(metrics), snapshot.at))
        holder = next((name for name in pipeline.operators if graph[name].stateful), None)
        if holder is not None and metrics.state_rows:
            state[holder] = metrics.state_rows
    return InitialState(waiting, state)


def _arrival_time(metrics: PipelineMetrics) -> float:
    """Seconds over which the waiting rows arrived."""
    if metrics.arrival_rate and metrics.backlog_rows:
        return metrics.backlog_rows / metrics.arrival_rate
    return metrics.backlog_seconds or 0.0


def _rows(
    graph: Graph, pipeline: Pipeline, metrics: PipelineMetrics, snapshot: Snapshot
) -> dict[Edge, int]:
    """Rows that wait before a pipeline, by edge.

    Channels report their own; the other edges share the rest evenly.
    """
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
    """Constraints that count latency for rows on an edge."""
    holds, ahead = plan.pipeline_of(edge[1]).operators, graph.reachable(edge[1])
    return [
        c.name
        for c in graph.constraints
        if c.last in ahead and (c.first in holds or edge[0] in graph.reachable(c.first))
    ]


def _seen(keys: Keys, rows: int) -> int:
    """Mean number of records until some keys have occurred (see `Keys.seen`)."""
    if rows >= keys.number:
        return round(_ALL * keys.number)
    return round(-keys.number * math.log1p(-rows / keys.number))


class SavedState:
    """The file `simulator.json` of a run directory, to resume a simulation."""

    def __init__(self, run_dir: Path, graph: Graph) -> None:
        self._file = run_dir / "simulator.json"
        self._graph = graph
        self._starts = 0

    def read(self) -> dict[str, Any]:
        """Return its contents, empty if there is no file."""
        saved: dict[str, Any] = json.loads(self._file.read_text()) if self._file.exists() else {}
        if saved and saved["fingerprint"] != self._graph.fingerprint:
            raise RunDirectoryError(
                f"{self._file.parent} belongs to another dataflow or version, '{saved['flow']}'; "
                "use another run directory"
            )
        self._starts = saved.get("starts", 0)
        return saved

    def restore(self, sim: Simulation, saved: dict[str, Any]) -> None:
        """Bring a new simulation to where the last one stopped."""
        if not saved:
            return
        sim.now = saved["clock"]
        sim.delivered.update(saved["delivered"])
        sim.counts.seen.update(saved["seen"])
        sim.counts.made.update(saved["made"])
        for name, mark in saved["sources"].items():
            sim.sources[name].go_to(mark)
            sim.sources[name].put_back(_records(mark["back"]))
        for writer, reader, records in saved["queues"]:
            sim.network.queues[writer, reader].put(_records(records))

    def write(self, sim: Simulation) -> None:
        """Save a simulation; no records may be inside its pipelines."""
        data = {
            "flow": self._graph.name,
            "fingerprint": self._graph.fingerprint,
            "starts": self._starts + 1,
            "plan": sim.plan.to_json(),
            "clock": sim.now,
            "delivered": dict(sim.delivered),
            "seen": dict(sim.counts.seen),
            "made": dict(sim.counts.made),
            "sources": {
                name: {**source.mark(), "back": _columns(source.given_back())}
                for name, source in sim.sources.items()
            },
            "queues": [
                [*edge, _columns(queue.all())]
                for edge, queue in sim.network.queues.items()
                if len(queue)
            ],
        }
        self._file.parent.mkdir(parents=True, exist_ok=True)
        files.write_json(self._file, data, indent=None)


def _columns(records: Records) -> dict[str, Any]:
    births = {name: b.tolist() for name, b in records.births.items()}
    keys = {name: k.tolist() for name, k in records.keys.items()}
    return {"time": records.time.tolist(), "births": births, "keys": keys}


def _records(data: dict[str, Any]) -> Records:
    births = {name: np.array(b, dtype=np.float64) for name, b in data["births"].items()}
    keys = {name: np.array(k, dtype=np.intp) for name, k in data.get("keys", {}).items()}
    return Records(np.array(data["time"], dtype=np.float64), births, keys)
