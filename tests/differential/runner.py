"""Running a dataflow on Spark while its input arrives in parts and its plan changes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import Dataflow, Plan
from penstock.dataflow.graph import Graph
from penstock.engines.spark.engine import SparkEngine
from penstock.errors import InvalidPlan, Refused
from penstock.plan import fusion
from penstock.plan import request as requests
from tests.differential.tables import Table
from tests.engines.spark.flows import until

CUTS = ("fused", "finest", "random")
PATIENCE = 60.0
"""Seconds until what has arrived must have been read."""


@dataclass(frozen=True)
class Course:
    """How a dataflow is run: where it is cut into pipelines, and how many changes come while it
    runs. The seed decides which."""

    cut: str = "fused"
    changes: int = 0
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.cut}, {self.changes} changes, seed {self.seed}"

    def plan(self, graph: Graph) -> Plan:
        """The plan it starts with."""
        choose = random.Random(f"plan {self.seed}")
        parallelism = choose.choice((1, 2, 3))
        match self.cut:
            case "fused":
                return fusion.default_plan(graph, parallelism)
            case "finest":
                return fusion.finest_plan(graph, parallelism)
            case _:
                edges = [(i, o.name) for o in graph.operators for i in o.inputs]
                fused = {edge for edge in edges if choose.random() < 0.5}
                return fusion.fuse(graph, lambda *edge: edge in fused, parallelism)

    def requests(self, graph: Graph) -> list[requests.Request]:
        """The changes, in their order; some of them may not be possible when they come."""
        choose = random.Random(f"changes {self.seed}")
        return [random_request(choose, graph) for _ in range(self.changes)]


def random_request(choose: random.Random, graph: Graph) -> requests.Request:
    """Anything that can be asked of a plan on one machine."""
    steps = [o.name for o in graph.operators if o.inputs]
    name = choose.choice([o.name for o in graph.operators])
    keyed = [o.name for o in graph.operators if o.stateful and o.keys]
    kinds = ["scale", "scale", "split", "split", "fuse", "cadence", "admission"]
    match choose.choice(kinds + ["ceiling"] * 3 * bool(keyed)):
        case "scale":
            return requests.Scale(name, choose.randint(1, 4))
        case "ceiling":
            return requests.SetCeiling(choose.choice(keyed), choose.randint(2, 6))
        case "split":
            return requests.Split(choose.choice(steps))
        case "fuse":
            second = choose.choice(steps)
            return requests.Fuse(choose.choice(graph[second].inputs), second)
        case "cadence":
            return requests.SetCadence(name, choose.choice((0.0, 0.1, 0.4)))
        case _:
            return requests.SetAdmission(name, choose.choice((None, 20, 1000)))


class Outcome:
    """What a run left: rows of memory sinks, and how many records were put aside."""

    def __init__(self, engine: SparkEngine) -> None:
        self._engine = engine
        snapshot = engine.observe()
        self.dead = snapshot.rows_dead
        self.late = snapshot.rows_late
        self.ingested = snapshot.rows_ingested

    def rows(self, sink: str = "out") -> list[Any]:
        return self._engine.rows(sink)


def play(
    flow: Dataflow, tables: Mapping[str, Table], folder: Path, spark: Any, course: Course
) -> Outcome:
    """Run a dataflow to the end of its input. A table arrives in the directory `folder / name`.

    The parts of all tables arrive side by side, each when the last one has been read; changes
    come in between, also while generators make their records. The flush rows come last of all.
    """
    graph = flow.graph
    arrivals = _arrivals(tables)
    made = sum(s.body.source.limit for s in graph.sources if hasattr(s.body.source, "limit"))
    steps = max(len(arrivals), course.changes + 1)
    changes = course.requests(graph)
    engine = SparkEngine(spark=spark)
    arrived = _release(arrivals[:1], tables, folder)
    engine.start(graph, course.plan(graph), folder / "run")
    try:
        for step in range(1, steps):
            _wait_for(engine, arrived + made * step // steps)
            for change in _share(changes, step - 1, steps - 1):
                _apply(engine, change)
            arrived += _release(arrivals[step : step + 1], tables, folder)
        _wait_for(engine, arrived + made)
        engine.stop()
    finally:
        engine.stop(drain=False)
    if engine.failure is not None:
        raise engine.failure
    return Outcome(engine)


Arrival = list[tuple[str, int]]
"""Parts that arrive at the same time: the name of a table and the number of a part."""


def _arrivals(tables: Mapping[str, Table]) -> list[Arrival]:
    tables = {name: table for name, table in tables.items() if not table.generated}
    most = max((len(table.parts) for table in tables.values()), default=0)
    sides: list[Arrival] = [
        [(name, part) for name, table in tables.items() if part < len(table.parts)]
        for part in range(most)
    ]
    last = [(name, len(t.parts)) for name, t in tables.items() if t.flush is not None]
    return [*sides, last] if last else sides


def _release(arrivals: list[Arrival], tables: Mapping[str, Table], folder: Path) -> int:
    return sum(
        tables[name].write(folder / name, part) for arrival in arrivals for name, part in arrival
    )


def _wait_for(engine: SparkEngine, rows: int) -> None:
    try:
        until(lambda: engine.observe().rows_ingested >= rows, f"{rows} rows", PATIENCE)
    except AssertionError as error:
        raise AssertionError(f"{error}, {engine.observe().rows_ingested} were read") from None


def _share(changes: list[requests.Request], step: int, steps: int) -> list[requests.Request]:
    """The changes for one of several steps, about as many for each."""
    return changes[len(changes) * step // steps : len(changes) * (step + 1) // steps]


def _apply(engine: SparkEngine, change: requests.Request) -> None:
    """Ask for a change; a refused one must do no harm either."""
    try:
        engine.apply(change.apply(engine.plan, engine.flow.context.graph))
        print(f"    {change}")
    except (Refused, InvalidPlan) as error:
        print(f"    {change} refused: {error}")
