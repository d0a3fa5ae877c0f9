"""What the experiments of Nephele share: buffers, rivals, and the strategy of the paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from penstock.dataflow.graph import Graph
from penstock.plan.decision import Decision
from penstock.plan.plan import Pipeline, Plan
from penstock.policies.base.policy import Context
from penstock.policies.nephele.policy import LatencyPolicy
from penstock.policies.shared.topology import Topology
from penstock_lab.experiments import reading
from penstock_lab.experiments.experiment import Data, Record, Setting
from penstock_lab.experiments.play import Play
from penstock_lab.experiments.rivals import DynamicAllocation, best_static, scaled
from penstock_lab.experiments.scenario import Scenario

PAPER = "Nephele: elastic stream processing with latency guarantees"

HELD = 3
"""Numbers that a buffer of 16 KiB holds.

In figure 3 a number takes almost 3 s at 10,000 numbers/s over 50 * 200 channels: each channel gets
one number per second, and in the buffers on both sides of the tester a number waits half the time
that they take to fill."""


PRINTED = LatencyPolicy(tolerance=0.0, rho_target=LatencyPolicy.rho_max)
"""The strategy as printed in the paper.

Instances may be as busy as Rebalance sets them, up to the bottleneck limit, and even one instance
is changed. The policy's defaults keep a reserve for rising load and ignore small savings, for
engines on which a change costs more."""


@dataclass(frozen=True)
class Buffers:
    """Static parallelism; a channel ships when its buffer holds `rows` rows, however long it takes.

    A pipeline has a channel from each instance upstream to each of its instances, so its cadence is
    the time in which a buffer fills. Every row passes every pipeline, so the sources' rate is the
    input rate of each; measured rates would oscillate with the buffers.
    """

    rows: float = HELD

    name: ClassVar[str] = "buffers"

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        seen = context.latest
        if seen is None or not seen.throughput:
            return Decision(None, "nothing measured yet"), memory
        wanted, pipelines = self.filled(context.graph, context.plan, seen.throughput), []
        for one, after in zip(context.plan.pipelines, wanted.pipelines, strict=True):
            moved = abs(after.cadence - one.cadence) > 0.1 * after.cadence
            pipelines.append(after if moved else one)
        plan = replace(context.plan, pipelines=tuple(pipelines))
        return Decision(plan, f"a buffer holds {self.rows:g} rows"), memory

    def filled(self, graph: Graph, plan: Plan, rate: float) -> Plan:
        """The plan with the cadences in which buffers fill at this many rows per second."""
        pipelines = tuple(
            replace(one, cadence=self.rows * before * one.parallelism / rate)
            for one, before in _writers(graph, plan)
        )
        return replace(plan, pipelines=pipelines)

    def on(self, scenario: Scenario, rate: float) -> Scenario:
        """The scenario with buffers from the start, at this many rows per second."""
        return replace(scenario, plan=self.filled(scenario.graph, scenario.plan, rate))


def _writers(graph: Graph, plan: Plan) -> Iterator[tuple[Pipeline, int]]:
    """Every pipeline with the number of instances upstream of it."""
    topology = Topology(graph, plan)
    for one in plan.pipelines:
        yield one, sum(topology.pipelines[up].parallelism for up in topology.upstream[one.name])


@dataclass(frozen=True)
class FewestInstances:
    """The fewest instances that meet all bounds in as many windows as the paper's policy did, 91 %.

    trial: what is run to find out, made for each try; whole: what is run with what was found, and
    with a hundredth more of each as long as that meets a bound less often.
    """

    trial: Scenario
    whole: Scenario
    choices: Mapping[str, range]
    start: Mapping[str, int]
    share: float = 0.91
    every: float = 1.0

    def __call__(self, setting: Setting) -> Sequence[Record]:
        quiet = replace(setting, tell=lambda share: None)
        found = best_static(
            self.choices,
            lambda some: self._score(self._played(quiet, self.trial, some, 5.0)),
            self.start,
            exhaustive=0,
            patience=0,
        )
        whole = self._played(setting, self.whole, found, self.every)
        while self._score(whole) < 0 and self._room(found):
            found = {name: self._more(name, number) for name, number in found.items()}
            whole = self._played(setting, self.whole, found, self.every)
        return [{"kind": "found", **found}, *whole]

    def _room(self, found: Mapping[str, int]) -> bool:
        return any(self._more(name, number) > number for name, number in found.items())

    def _more(self, name: str, number: int) -> int:
        return min(number + math.ceil(number / 100), self.choices[name][-1])

    def _played(
        self, setting: Setting, scenario: Scenario, found: Mapping[str, int], every: float
    ) -> Sequence[Record]:
        play = Play(replace(scenario, plan=scaled(scenario.plan, found)), every=every)
        what = "trial" if scenario is self.trial else "whole"
        name = "-".join(map(str, (what, *found.values())))
        return tuple(play(replace(setting, scratch=setting.scratch / name)))

    def _score(self, records: Sequence[Record]) -> float:
        """0 if all bounds are met often enough, otherwise the negative shortfall."""
        data = Data(tuple({"case": "", **r} for r in records))
        names = (c.name for c in self.trial.graph.constraints)
        met = min(reading.met(data, "", name) or 0.0 for name in names)
        return 0.0 if met >= self.share else met - 1.0


def dynamic(scenario: Scenario, most: int, start: Mapping[str, int], every: float = 1.0) -> Play:
    """Spark's dynamic allocation, started with this many instances."""
    small = replace(scenario, plan=scaled(scenario.plan, start))
    return Play(small, DynamicAllocation(most), every=every)


def fewest_testers(build: Callable[[float], Scenario], step: float, busy: float) -> FewestInstances:
    """The fewest prime testers, by runs with steps of 5 s. busy: testers for the peak alone.

    Three quarters of those meet no bound in nine windows of ten, and 1.4 times as many any.
    """
    choices = {"test": range(int(0.75 * busy), int(1.4 * busy))}
    return FewestInstances(build(min(step, 5.0)), build(step), choices, {"test": int(1.1 * busy)})


P95 = "latency, 95 %"
"""Label of the line below which 95 % of the records of the policy are."""


def short(case: str) -> str:
    """A short name of a case, so that many fit above a picture."""
    brief = {"batching for 20 ms": "batching", "16 KiB buffers": "16 KiB"}
    return brief.get(case, case.removesuffix(" flushing").removesuffix(" allocation"))


def note(data: Data, figure: str) -> str:
    """The line below a picture: engine, random seed, figure of the paper."""
    where = "simulated" if data.engine == "simulator" else "on Spark"
    return f"{where}, random seed {data.seed}; after Nephele, {figure}"
