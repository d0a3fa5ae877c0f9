"""Runs to look at: simulated in no time, or written turn by turn."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from penstock import workloads
from penstock.app import run
from penstock.dataflow.graph import Graph
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Model
from penstock.plan.decision import Decision
from penstock.predict import operator_costs
from penstock.store.history import History, keep_dataflow
from penstock.store.turn import Tick
from penstock.testing import MemoryEngine

WALL = 1_700_000_000.0
TIMES = (
    {"split": "0.5ms", "count": "1ms"},
    dict.fromkeys(("parse", "split", "count"), 1.0),
)
"""What the operators of the word count take, and how many records they make of one."""


def simulate(run_dir: Path, seconds: float = 120, load: str = "sine:500,6000@60s") -> Path:
    """Word count under a changing load, with a policy that splits it and makes it wider."""
    flow = workloads.build("wordcount", run_dir / "out")
    steps = operator_costs.costs_of(flow.graph, *TIMES, None)
    engine = SimulatorEngine(Model(steps, nodes=4), load=load)
    run(
        flow,
        policy="organic",
        engine=engine,
        seconds=seconds,
        run_dir=run_dir,
        verify=False,
        clock=engine.clock,
    )
    return run_dir


def ticks(graph: Graph, run_dir: Path, number: int, first: int = 1) -> list[Tick]:
    """Turns of the in-memory engine, a second each, with a decision that has a number."""
    engine = MemoryEngine({"double": 0.0005}, rate=lambda at: 100.0 + 10 * at)
    engine.start(graph, None, run_dir)
    found = []
    for n in range(first, first + number):
        engine.advance(1.0)
        decision = Decision(None, f"has profiled {n} of 30 s", {"rows": float(n)})
        found.append(Tick(float(n), engine.plan, engine.observe(), decision))
    return found


def write(run_dir: Path, graph: Graph, turns: Iterable[Tick], wall: float = WALL) -> None:
    """Add turns to the history of a directory, as one run of it."""
    run_dir.mkdir(parents=True, exist_ok=True)
    keep_dataflow(run_dir, graph)
    time = wall

    def tell() -> float:
        return time

    with closing(History(run_dir, tell)) as history:
        for tick in turns:
            time += 1.0
            history.append(tick)
