"""Whole experiments to be simulated: a dataflow, a plan to start with, a cluster, a load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Dispatch, Model, Node, Step, Timing
from penstock.engines.simulator.service import Gamma
from penstock.plan.plan import Pipeline, Plan


@dataclass(frozen=True)
class Scenario:
    """All that a simulated experiment needs but a policy and a seed."""

    graph: Graph
    plan: Plan
    model: Model
    load: str
    seconds: float

    def engine(self, seed: int = 0, **options: Any) -> SimulatorEngine:
        """A new engine for it; options are those of `SimulatorEngine`."""
        return SimulatorEngine(self.model, load=self.load, seed=seed, **options)


PRIME_RATES = (10_000, 20_000, 30_000, 40_000, 50_000, 60_000)
PRIME_SERVICE = 0.0027


def prime_tester(
    tasks: int = 175,
    *,
    latency: str = "20ms",
    batching: float = 0.0,
    step: float = 60.0,
    rates: Sequence[int] = PRIME_RATES,
    service: float = PRIME_SERVICE,
    ends: int = 32,
    elastic: bool = True,
    nodes: int = 130,
) -> Scenario:
    """Nephele's PrimeTester: 32 sources, prime testers between 1 and 520, 32 sinks.

    The load warms up at 10,000 numbers a second, rises by as much in each step of a minute to
    60,000, stays there for one, and falls back: 12 steps. The seed prints neither the peak nor
    the time of a test. They follow from what it prints: with 2.7 ms a number, 36 testers suffice
    for 20 ms at the start as it says, and 175 are just enough for 60,000 a second; and the 175
    testers, 32 sources and 32 sinks of 12 minutes are 47.8 task hours, a little more than the
    46.4 it gives for a bound of 30 ms. batching: seconds that testers gather their input; ends:
    sources, and as many sinks; elastic: whether the testers may be changed.
    """
    flow = Dataflow("prime-tester")
    fixed = {"min_parallelism": ends, "max_parallelism": ends}
    testers = (1, 520) if elastic else (tasks, tasks)
    numbers = flow.source("source", Generator(_never, "n bigint"), **fixed)
    tested = numbers.map(
        "test",
        _never,
        schema="n bigint",
        min_parallelism=testers[0],
        max_parallelism=testers[1],
    )
    tested.sink("sink", Discard(), **fixed)
    flow.constrain("test", "sink", latency=latency, window=5.0)
    steps = (*rates, rates[-1], *reversed(rates[:-1]))
    plan = Plan(
        (
            Pipeline(("source",), ends),
            Pipeline(("test",), tasks, cadence=batching),
            Pipeline(("sink",), ends),
        ),
        nodes,
    )
    model = Model(
        {"test": Step(Gamma(service, 0.3))},
        nodes=nodes,
        node=Node(cores=4),
        dispatch=Dispatch.CHANCE,
        delay=0.0005,
        queue=500,
        timing=Timing(executor_start=0.0, instance_start=1.5),
    )
    load = f"steps:{','.join(map(str, steps))}@{step:g}s"
    return Scenario(flow.graph, plan, model, load, len(steps) * step)


def _never(*_: Any) -> Any:
    """A simulated operator calls nothing."""
    raise AssertionError("a simulated operator is not called")
