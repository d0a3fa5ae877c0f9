"""How well the simulator foretells Spark: some plans are fitted, others are foretold."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import flows
from penstock.control.run import run as run_flow
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.engines.spark.engine import SparkEngine
from penstock.plan import fusion
from penstock.workloads import build

PERIOD = 16.0


@dataclass(frozen=True)
class Trial:
    """A plan for one period: what is changed for it, the load, and whether it is fitted.

    overloaded: more comes than it can take, so that only throughput can be foretold.
    """

    change: str
    rate: float
    fitted: bool
    overloaded: bool = False


@dataclass(frozen=True)
class Case:
    """A workload and the plans that it runs under, one after the other in one run."""

    name: str
    build: Callable[[Path, str], Dataflow]
    trials: Sequence[Trial]
    parallelism: int = 1
    channel_rows: int = 500

    @property
    def load(self) -> str:
        """Each trial's rate for a period."""
        points = []
        for at, trial in enumerate(self.trials):
            points += [f"{at * PERIOD:g}={trial.rate:g}", f"{(at + 1) * PERIOD:g}={trial.rate:g}"]
        return "points:" + ",".join(points)

    def graph(self, out: Path) -> Graph:
        """The dataflow, its latency over windows that are shorter than a period."""
        graph = self.build(out, self.load).graph
        return replace(graph, constraints=tuple(replace(c, window=5.0) for c in graph.constraints))


def _workload(name: str, **options: Any) -> Callable[[Path, str], Dataflow]:
    return lambda out, load: build(name, out, load=load, **options)


CASES = (
    Case(
        "word count",
        _workload("wordcount", latency="3s"),
        (
            Trial("tweets=1", 4000, True),
            Trial("tweets=2", 12000, True),
            Trial("split count", 4000, True),
            Trial("count=4, tweets=1", 8000, False),
            Trial("fuse split count, tweets=2, tweets.cadence=1s", 8000, False),
            Trial("tweets.cadence=0s, tweets=2", 80000, False, overloaded=True),
        ),
        channel_rows=1_000_000,
    ),
    Case(
        "linear, waiting",
        _workload("linear", cost="wait"),
        (
            Trial("orders=1", 30, True),
            Trial("orders=2", 60, True),
            Trial("split step-2, orders=1, step-2=1", 30, True),
            Trial("orders=2, step-2=3", 80, False),
            Trial("fuse step-1 step-2, orders=4, orders.cadence=1s", 80, False),
            Trial("orders.cadence=0s, orders=2", 250, False, overloaded=True),
        ),
    ),
    Case(
        "linear, computing",
        _workload("linear", cost="cpu"),
        (
            Trial("orders=1", 100, True),
            Trial("orders=4", 200, True),
            Trial("split step-2, orders=1, step-2=1", 100, True),
            Trial("orders=1, step-2=2", 200, False),
            Trial("fuse step-1 step-2, orders=2, orders.cadence=1s", 200, False),
            Trial("orders.cadence=0s, orders=3, orders.admission=400", 1500, False, True),
        ),
    ),
    Case(
        "diamond, waiting",
        _workload("diamond", cost="wait"),
        (
            Trial("branch-1=1", 20, True),
            Trial("branch-1=4", 40, True),
            Trial("split merge, branch-1=1, branch-2=1, branch-3=1, branch-4=1, merge=1", 20, True),
            Trial("branch-1=2, branch-2=2, branch-3=2, branch-4=2, merge=1", 40, False),
            Trial(
                "fuse branch-1 merge, fuse branch-2 merge, fuse branch-3 merge, "
                "fuse branch-4 merge, branch-1=2, branch-1.cadence=1s",
                30,
                False,
            ),
            Trial("branch-1.cadence=0s, branch-1=2, orders.admission=100", 300, False, True),
        ),
    ),
    Case(
        "star, waiting",
        _workload("star", cost="wait"),
        (
            Trial("centre=1", 15, True),
            Trial("centre=2, to-east=2, to-west=2", 30, True),
            Trial("split centre, gather=1, centre=1", 15, True),
            Trial("centre=2, to-east=1, to-west=1", 25, False),
            Trial("fuse gather centre, centre=2, centre.cadence=1s", 30, False),
            Trial("centre.cadence=0s, centre=2, to-east=1", 150, False, overloaded=True),
        ),
    ),
    Case(
        "running sums",
        lambda out, load: flows.running(out, load=load),
        (
            Trial("rows=1", 300, True),
            Trial("rows=2", 800, True),
            Trial("split total, rows=1, total=1", 300, True),
            Trial("rows=1, total=2", 600, False),
            Trial("fuse same total, rows=2, rows.cadence=1s", 600, False),
            Trial("rows.cadence=0s, rows=2", 20000, False, overloaded=True),
        ),
        channel_rows=100_000,
    ),
)


def record(spark: Any, case: Case, folder: Path) -> Path:
    """Run all plans of a case; the run directory."""
    graph = case.graph(folder / "out")
    run_dir = folder / "run"
    changes = [f"{at * PERIOD:g}s:{one.change}" for at, one in enumerate(case.trials)]
    run_flow(
        graph,
        plan=fusion.default_plan(graph, case.parallelism),
        engine=SparkEngine(spark=spark, channel_rows=case.channel_rows),
        seconds=PERIOD * len(case.trials),
        changes=changes,
        run_dir=run_dir,
        verify=False,
    )
    return run_dir
