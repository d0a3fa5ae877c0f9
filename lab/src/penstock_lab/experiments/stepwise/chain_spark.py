"""Stepwise profiling and its rivals on Spark: a chain of three operators that wait 5 ms each.

Every way begins with one instance of each operator, under more load than these carry, and has as
many slots to give away as the others. Stela gives two instances a round instead of one for each
machine. The best static plan is a matter of arithmetic, since the three operators take the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from penstock import workloads
from penstock.app import profile, run
from penstock.clock import Clock
from penstock.control import run_input
from penstock.control.guard import Guard
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.engines.port import Engine
from penstock.errors import Refused
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.shared import scaling
from penstock.policies.stepwise.policy import Stepwise
from penstock.policies.stepwise.profile import Feature, features
from penstock.predict import stress_load
from penstock.store.turn import Tick
from penstock_lab.experiments.experiment import Case, Claim, Data, Read, Record, Setting
from penstock_lab.experiments.stepwise.climb import Attempts, Grow, Rival, records, stela, threshold
from penstock_lab.experiments.stepwise.common import final, rounds

WAIT = 0.005
"""Seconds that each operator waits for a row."""

MORE = 2
"""Instances that Stela gives out in a round."""

RIVALS = ("Stela", "threshold", "best static")

GUARD = Guard(cooldown=0.0, settle=0.0, undo=0.0, horizon=math.inf)
"""Guard for trials, as in profiling: only bounds, budget and missing metrics can refuse a plan."""


def cases(seconds: float, load: str, most: int, rounds: int, observations: int) -> Sequence[Case]:
    def waiting(out: Path) -> Dataflow:
        return workloads.build("linear", out, cost="wait", wait_ms=1000 * WAIT, load=load,
                               latency="5s")  # fmt: skip

    trial = Trial(waiting, load, most, seconds, rounds, observations)
    others = (Case(f"linear: {way}", Rivalling(trial, way)) for way in RIVALS)
    return (Case("linear: stepwise", Profiling(trial)), *others)


@dataclass(frozen=True)
class Trial:
    """What all ways have in common. slots: of Spark, more than cores, and the most instances."""

    build: Callable[[Path], Dataflow]
    load: str
    slots: int
    seconds: float
    rounds: int
    observations: int
    settle: float = 3.0

    def stressed(self, setting: Setting) -> Graph:
        flow = self.build(setting.scratch / "out")
        return stress_load.stressed(run_input.graph(flow, self.load), self.load)

    @property
    def limits(self) -> Limits:
        return Limits(slots=self.slots)


@dataclass(frozen=True)
class Profiling:
    """Stepwise profiling."""

    trial: Trial

    def __call__(self, setting: Setting) -> Sequence[Record]:
        trial = self.trial
        found = profile(
            trial.build(setting.scratch / "out"),
            policy=Stepwise(
                latency=5.0,
                settle=trial.settle,
                observations=trial.observations,
                most_rounds=trial.rounds,
            ),
            load=trial.load,
            limits=trial.limits,
            master=f"local[{trial.slots}]",
            seconds=trial.seconds,
            run_dir=setting.scratch / "run",
        )
        kept = found.profile.rounds.index(found.profile.final)
        return records(found.profile.rounds, kept)


@dataclass(frozen=True)
class Rivalling:
    """Another way on the same flow; engine and clock: Spark and that of the machine if None."""

    trial: Trial
    way: str
    engine: Engine | None = None
    clock: Clock | None = None

    def __call__(self, setting: Setting) -> Sequence[Record]:
        trial, graph = self.trial, self.trial.stressed(setting)
        plan = self.plan(graph)
        memory = Attempts()

        def done(tick: Tick) -> bool:
            nonlocal memory
            memory = tick.memory or memory
            setting.tell(min(0.99, len(memory.rounds) / trial.rounds))
            return memory.done

        run(
            graph,
            policy=self.rival(graph, plan),
            plan=plan,
            engine=self.engine or _spark(trial.slots, graph),
            seconds=trial.seconds,
            limits=trial.limits,
            guard=GUARD,
            run_dir=setting.scratch / "run",
            verify=False,
            until=done,
            clock=self.clock,
        )
        if not memory.rounds:
            raise Refused(f"{self.way} was ended before its first round had been observed")
        return records(memory.rounds, len(memory.rounds) - 1)

    def plan(self, graph: Graph) -> Plan:
        """One instance of each operator, or one per slot for each operator that waits."""
        plan = stress_load.first_plan(graph)
        if self.way != "best static":
            return plan
        sources = {plan.pipeline_of(source.name).name for source in graph.sources}
        others = [p.name for p in plan.pipelines if p.name not in sources]
        each = (self.trial.slots - len(sources)) // len(others)
        return scaling.with_instances(plan, dict.fromkeys(others, each))

    def rival(self, graph: Graph, plan: Plan) -> Rival:
        ways: dict[str, Grow] = {
            "Stela": partial(stela, more=MORE),
            "threshold": threshold,
            "best static": lambda context: None,
        }
        trial, grow = self.trial, ways[self.way]
        known = _features(graph, plan)
        return Rival(self.way, grow, trial.rounds, trial.settle, trial.observations, known)


def _features(graph: Graph, plan: Plan) -> Mapping[str, Feature]:
    """Features of a chain in which all rows pass all operators, which have equal costs."""
    names = [p.name for p in plan.pipelines]
    return features(graph, plan, dict.fromkeys(names, WAIT), dict.fromkeys(names, 1.0))


def _spark(slots: int, graph: Graph) -> Any:
    from penstock.engines.spark.engine import SparkEngine  # slow to load: only when needed

    rows = stress_load.channel_rows(graph)
    assert rows is not None
    return SparkEngine(master=f"local[{slots}]", channel_rows=rows)


# --- reading ------------------------------------------------------------------------------------


def beside(way: str) -> Read:
    """Final throughput of stepwise profiling relative to a rival's after at most as many rounds."""

    def read(data: Data) -> float | None:
        own = rounds(data, "linear: stepwise")
        other = rounds(data, f"linear: {way}")[: len(own)][-1]["throughput"]
        return float(final(data, "linear: stepwise")["throughput"] / other) if other else None

    return read


CLAIMS = tuple(
    Claim(f"chain that waits: stepwise beside {way}", None, beside(way), only="spark")
    for way in RIVALS[:2]
)

NOTE = (
    "On Spark: a chain of three operators that wait 5 ms each, with eight slots for instances. "
    "The paper prints results of rivals only for its three real applications. Stela adds two "
    "instances per round there, and the best static plan has as many of each operator as the "
    "slots allow."
)
