"""What Es-Stream's experiments have in common: its cluster and its two applications.

13 machines of two cores, each with at most four instances (two workers of two). What a tuple
takes is not printed. With all 26 cores at work the paper carries 15,000 tuples/s of COMMCount and
13,500 of Top_N, so a tuple takes 26 / 15,000 = 1.73 ms and 1.93 ms of a core, which fits the 2.1 ms
that it is on its way. How that is shared among operators is read off the best instances that the
paper found by hand: 3, 13, 8 of COMMCount at 1,800 tuples/s, and 3, 10, 6, 1 of Top_N at 900. Times
are exponential, as the paper's model has them.

The weight of an instance, beta, is not printed either. It is the one with which COMMCount has the
paper's 14 instances at 1,800 tuples/s; all other numbers of instances follow. Nor is the load up to
which machines are given back, zeta. It is 0.5 here: with that, any four machines can spare one and
the others stay below the 0.7 from which on new ones are taken.

Nor is how many instances the rivals have. An even plan here has the fewest that keep up with the
rate, as many of each operator, on all machines, as somebody sets it by hand; DRS deals as many
anew, and R-Storm puts those of the even plan onto the fewest machines that hold them. What comes of
it if they have as many as Es-Stream is told as well. Times of changes are chosen: 1 s for a
machine, 0.5 s for an instance, 0.2 s to restart. As in Storm, instances that run stay where they
are when machines come, and new ones go there. Es-Stream puts a new instance where the load is
lowest, as it says; the others put it where the fewest are, as Storm does.

A way between machines takes 0.1 ms, and none within one. The paper prints its network and its
tuples: 92 bytes, 170 with all headers, take 14 us on each of two links of 100 Mbit/s, to a switch
and from it; what both machines take to send and to receive is our figure. Tuples go to all
instances of an operator alike, so what R-Storm spares is having fewer machines. Es-Stream and the
best static plan have the fewest as well; the even plan, DRS and dynamic allocation have all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.drawing.figures import Mark
from penstock.engines.simulator.distributions import Exponential
from penstock.engines.simulator.model import Keys, Machine, Model, OperatorCost, Timing
from penstock.plan.plan import Pipeline, Plan
from penstock.policies.es_stream.policy import EsStream
from penstock_lab.experiments import reading
from penstock_lab.experiments.experiment import Data, Record
from penstock_lab.experiments.rivals import DynamicAllocation, scaled
from penstock_lab.experiments.scenario import Scenario

PAPER = "Es-Stream: elastic scaling of stateful operators over fluctuating data streams"

NODES, CORES, INSTANCES = 13, 2, 4
"""Number of machines, cores of each, and instances that each may hold."""

CPUS = NODES * CORES

SEED = EsStream(share=0.003, zeta=0.5, room=INSTANCES)

RESTART = 0.2

BETWEEN = 0.0001
"""Seconds from one machine to another."""

DYNAMIC = DynamicAllocation(NODES, CORES)
"""Spark's dynamic allocation on the same machines, starting with one of them."""


@dataclass(frozen=True)
class Application:
    """An application: operators in a row, the last but `after` of them keyed.

    bottleneck: tuples a second on all cores; weights: how its work is shared.
    """

    name: str
    operators: tuple[str, ...]
    keyed: str
    bottleneck: float
    weights: tuple[int, ...]

    @property
    def services(self) -> dict[str, float]:
        """Seconds of a tuple at each operator."""
        whole = CPUS / self.bottleneck / sum(self.weights)
        return {n: whole * w for n, w in zip(self.operators, self.weights, strict=True)}

    def enough(self, rate: float) -> dict[str, int]:
        """The smallest even plan that keeps up."""
        each = math.floor(max(rate * s for s in self.services.values())) + 1
        return dict.fromkeys(self.operators, each)

    def packed(self, instances: int, rate: float = 0.0) -> int:
        """The fewest machines with room for the instances and cores for their work."""
        work = rate * sum(self.services.values())
        return min(NODES, max(math.ceil(instances / INSTANCES), math.floor(work / CORES) + 1))

    def even(self, instances: int) -> dict[str, int]:
        """An even plan of this many instances; the first operators get the remainder."""
        each, rest = divmod(instances, len(self.operators))
        return {n: each + (at < rest) for at, n in enumerate(self.operators)}


COUNT = Application("COMMCount", ("read", "views", "count"), "count", 15_000, (3, 13, 8))
TOP = Application("Top_N", ("read", "sold", "count", "rank"), "count", 13_500, (3, 10, 6, 1))


def scenario(
    app: Application,
    load: str,
    seconds: float,
    instances: Mapping[str, int],
    nodes: int | None = None,
) -> Scenario:
    """An application on the paper's cluster. nodes: those to start with, enough if not given."""
    graph = _graph(app)
    pipelines = [Pipeline(("clicks",))]
    for name in app.operators[:-1]:
        pipelines.append(Pipeline((name,), instances[name]))
    last = app.operators[-1]
    pipelines.append(Pipeline((last, "sink"), instances[last]))
    total = sum(instances.values())
    used = nodes or min(NODES, -(-total // INSTANCES))
    model = Model(
        {n: OperatorCost(Exponential(s), keys=Keys(5000)) for n, s in app.services.items()},
        nodes=NODES,
        node=Machine(cores=CORES, memory=2e9, room=INSTANCES),
        between=BETWEEN,
        timing=Timing(executor_start=1.0, instance_start=0.5, restart=RESTART),
        stays=True,
    )
    return Scenario(graph, Plan(tuple(pipelines), used), model, load, seconds)


def by_load(scenario: Scenario) -> Scenario:
    """The scenario with new instances placed on the least loaded machine, as Es-Stream does."""
    return replace(scenario, model=replace(scenario.model, by_load=True))


def small(scenario: Scenario, app: Application) -> Scenario:
    """The scenario started with one task per core of one machine."""
    return replace(scenario, plan=scaled(scenario.plan, dict.fromkeys(app.operators, CORES)))


def _graph(app: Application) -> Graph:
    flow = Dataflow(app.name)
    schema = "item bigint"
    stream = flow.source("clicks", Generator(_never, schema), max_parallelism=1)
    for name in app.operators:
        if name == app.keyed:
            stream = stream.key_by("item").aggregate(name, n="count(*)", schema="item bigint")
        else:
            stream = stream.map(name, _never, schema=schema)
    stream.sink("sink", Discard())
    flow.constrain(app.operators[0], app.operators[-1], latency="1ms", window=5.0)
    return flow.graph


def _never(*_: Any) -> Any:
    """A simulated operator calls nothing."""
    raise AssertionError("a simulated operator is not called")


# --- reading ------------------------------------------------------------------------------------


def instances(tick: Record) -> int:
    """All but that of the source."""
    return int(tick["slots"]) - 1


def latency(data: Data, case: str, since: float, until: float) -> float:
    """Mean latency in ms from the first to the last operator over a time."""
    ticks = reading.between(data.of(case), since, until)
    return 1000 * fmean(milliseconds(t) / 1000 for t in ticks if t["latency"])


def milliseconds(tick: Record) -> float:
    return 1000 * float(next(iter(tick["latency"].values()))["mean"])


def count(data: Data, case: str, since: float, until: float) -> float:
    """Mean number of instances over a time."""
    ticks: Sequence[Record] = reading.between(data.of(case), since, until)
    return fmean(instances(t) for t in ticks)


def marks(data: Data, case: str, get: Callable[[Record], int] = instances) -> tuple[Mark, ...]:
    """Marks for changes: the number of instances before and after, `14 → 21`, or another value."""
    found, ticks = [], data.of(case)
    for change in data.of(case, "change"):
        at = float(change["at"])
        before = [t for t in ticks if t["at"] <= at]
        after = [t for t in ticks if t["at"] > at]
        if before and after:
            had, has = get(before[-1]), get(after[0])
            label = f"{had} → {has}" if had != has else ""
            found.append(Mark(at, label, float(abs(has - had))))
    return tuple(found)


def note(data: Data, figure: str) -> str:
    """The line below a picture."""
    where = "simulated" if data.engine == "simulator" else "on Spark"
    return f"{where}, random seed {data.seed}; after Es-Stream, {figure}"
