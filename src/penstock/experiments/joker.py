"""What Joker's experiments have in common: its machine, what tuples cost on it, and its policy.

A tuple here stands for a thousand of the seed's and takes a thousand times as long, so that rates
are in thousands a second (ktps) and times in milliseconds instead of microseconds. Threads, seconds
and ratios stay as they are.

What a tuple costs follows from what the seed prints. An operator takes FIXED + MULTIPLICATION for
each multiplication, and a thread takes HOP for each tuple that it gets from another thread. One
operator of 256 multiplications processes 500 ktps with one thread (section 5.2), and the
seven operators of the selectivity experiment, which see 12.5 tuples and multiply 4,096 times for
one that comes, process 80 ktps (section 5.1):

    HOP + FIXED + 256 MULTIPLICATION = 1/500        HOP + 12.5 FIXED + 4096 MULTIPLICATION = 1/80

The third number is not printed: a multiplication that waits for the one before it takes three
cycles and its loop one more, 1.5 ns on a Xeon of 2.67 GHz.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from penstock import workloads
from penstock.dataflow.graph import Graph
from penstock.engines.simulator.arrivals import Deterministic
from penstock.engines.simulator.model import Keys, Model, Node, Step, Timing
from penstock.engines.simulator.scenario import Scenario
from penstock.engines.simulator.service import Gamma
from penstock.experiments import reading
from penstock.experiments.experiment import Data, Record, Setting
from penstock.experiments.play import Play, SparkPlay
from penstock.experiments.rivals import best_static, scaled
from penstock.plan import fusion
from penstock.plan.plan import Plan
from penstock.policies.organic import Organic

PAPER = "Joker: elastic stream processing with organic adaptation"

THREADS = 24

MULTIPLICATION = 0.0000015
FIXED = (1 / 80 - 1 / 500 - 3840 * MULTIPLICATION) / 11.5
HOP = 1 / 500 - 256 * MULTIPLICATION - FIXED

SOURCE = 1 / 3200
"""A tuple at a source: the one of the word count, fully busy, emits 3.2 Mtps (section 5.4)."""

KEYS = Keys(100_000)
"""So many that they spread evenly: the seed calls its speed-ups linear, 12x with 13 replicas."""

SEED = Organic(
    step="one", replicas="region", stateless=False, sources=False, scale_down=False, anticipate=True
)
"""The policy as the seed has it: one replica more of a whole region that has a key, never less,
and on processor time alone."""

OURS = Organic(sources=False)
"""The policy as it is here, but for sources, of which the seed has one thread each."""


def multiplying(multiplications: float, selectivity: float = 1.0, fixed: float = FIXED) -> Step:
    """An operator that multiplies so often."""
    return Step(Gamma(fixed + multiplications * MULTIPLICATION, 0.1), selectivity, KEYS)


def workload(name: str, **options: Any) -> Graph:
    """The graph of a workload; nothing of it is run here."""
    return workloads.build(name, Path(), **options).graph


def scenario(
    graph: Graph,
    steps: Mapping[str, Step],
    seconds: float,
    *,
    load: float | str = 1.2 / SOURCE,
    source: float = SOURCE,
    plan: Plan | None = None,
    hop: float = HOP,
) -> Scenario:
    """A dataflow on the seed's machine of 24 hardware threads, as it starts: a thread a region.

    Sources always have something to emit, so they are held back by what follows, or by their own
    thread. Queues hold what one thread does in about a second, which the seed does not print.
    Changes take less than a second, as it says.
    """
    sources = {o.name: Step(Gamma(source, 0.1)) for o in graph.sources}
    whole = hop + sum(step.service.mean for step in steps.values())
    model = Model(
        {**sources, **steps},
        node=Node(cores=THREADS),
        arrivals=Deterministic(),
        hop=hop,
        queue=max(20, round(1 / whole)),
        timing=Timing(executor_start=0.0, instance_start=0.2, restart=0.3),
    )
    rate = load if isinstance(load, str) else f"{load:g}/s"
    return Scenario(graph, plan or fusion.region_plan(graph), model, rate, seconds)


@dataclass(frozen=True)
class Best:
    """The static plan that lets most through, on all threads: each of `plans` with any replicas.

    All pipelines of a region have the same replicas, as in the seed. regions: the operators that
    begin them.
    """

    scenario: Scenario
    plans: Sequence[Plan]
    regions: Sequence[Sequence[str]]
    trial: float = 6.0

    def __call__(self, setting: Setting) -> Sequence[Record]:
        found: list[tuple[float, Plan]] = []
        numbers = itertools.count()
        for plan in self.plans:
            choices = {r[0]: range(1, THREADS + 1) for r in self.regions}
            score = partial(self._score, setting, numbers, plan)
            allowed = partial(self._allowed, plan)
            start = dict.fromkeys(choices, max(1, (THREADS - 2) // (plan.slots - 1)))
            best = best_static(
                choices, score, start, exhaustive=THREADS, patience=2, allowed=allowed
            )
            found.append((score(best), self._with(plan, best)))
        plan = max(found, key=lambda one: one[0])[1]
        play = Play(replace(self.scenario, seconds=40.0), plan=plan)
        return list(play(replace(setting, scratch=setting.scratch / "whole")))

    def _with(self, plan: Plan, replicas: Mapping[str, int]) -> Plan:
        wanted = {}
        for region in self.regions:
            for operator in region:
                wanted[plan.pipeline_of(operator).name] = replicas[region[0]]
        return scaled(plan, wanted)

    def _allowed(self, plan: Plan, replicas: Mapping[str, int]) -> bool:
        return self._with(plan, replicas).slots <= THREADS + 1

    def _score(
        self, setting: Setting, numbers: itertools.count[int], plan: Plan, found: Mapping[str, int]
    ) -> float:
        """Tuples that come out in the second half of a short run."""
        short = replace(self.scenario, seconds=self.trial, plan=self._with(plan, found))
        place = setting.scratch / str(next(numbers))
        records = Play(short)(replace(setting, scratch=place, tell=lambda share: None))
        data = Data(tuple({"case": "", **r} for r in records))
        return reading.throughput(data, "", self.trial / 2, self.trial)


def fused(graph: Graph, *groups: Sequence[str]) -> Plan:
    """Pipelines of these operators, the others as in the plan to start with."""
    group = {name: at for at, names in enumerate(groups) for name in names}

    def along(upstream: str, name: str) -> bool:
        sink = graph[name] in graph.sinks
        return sink or (upstream in group and group[upstream] == group.get(name))

    return fusion.fuse(graph, along)


def waiting(order: str, seconds: float, load: str, profile: float) -> SparkPlay:
    """Three operators on Spark that wait 5 ms a record, at first in one pipeline and one task."""

    def build(out: Path) -> Any:
        return workloads.build("linear", out, cost="wait", load=load, wait_ms=5)

    steps = ("step-1", "step-2", "step-3")
    plan = fused(build(Path()).graph, steps)
    policy = Organic(order=order, profile=profile, sources=False, scale_down=False)
    return SparkPlay(build, seconds, policy, plan)


# --- reading ------------------------------------------------------------------------------------


def before(data: Data, case: str) -> float:
    """ktps that the sources emit before the first change."""
    first = next((c["at"] for c in data.of(case, "change")), data.of(case)[-1]["at"])
    return reading.throughput(data, case, 3.0, min(first, 40.0), "ingested")


def after(data: Data, case: str, last: float = 20.0) -> float:
    """ktps that the sources emit at the end."""
    end = data.of(case)[-1]["at"]
    return reading.throughput(data, case, end - last, end, "ingested")


def speedup(data: Data, case: str, base: str | None = None) -> float:
    """How many times as much the sources emit at the end as before the first change of `base`."""
    return after(data, case) / before(data, base or case)


def replicas(tick: Record, operator: str) -> int:
    """Threads of the pipeline that begins with an operator."""
    return int(tick["pipelines"][operator]["instances"])


def note(data: Data, figure: str) -> str:
    """The line below a picture."""
    where = "simulated, a tuple for a thousand" if data.engine == "simulator" else "on Spark"
    return f"{where}, seed {data.seed}; after Joker, {figure}"
