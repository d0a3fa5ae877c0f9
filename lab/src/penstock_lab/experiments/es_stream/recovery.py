"""Es-Stream's recoveries on the simulator: after a fault, after scaling, and state that moves.

With its own rollback, only the instance that failed does again what came to it since its last
backup, which stands upstream: it is away for as long as a restart and that take, and then has to
catch up. With a global rollback everything waits for the restart, and what came since the last
checkpoint is sent again from the source, as fast as a link of 100 Mbit/s takes tuples of 92 bytes,
and goes through all operators. A restart takes 0.2 s, as in all experiments of Es-Stream here,
which is a choice.

After the stateful operator was scaled all its instances wait for a restart, and do again what came
since the last backup: those before them have kept it, and send it as fast as a link takes it.
Operators before it go on meanwhile, and all share the cores. A global rollback is that of a fault.

State is sent in parts from as many instances as there are at once, each over its link of 12.5 MB/s,
and no more links than machines; or it is read of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.dataflow import load_profile as loads
from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.engines.simulator.changes import InjectedFailure
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Keys, OperatorCost, Timing
from penstock.plan.plan import Pipeline
from penstock_lab.experiments.es_stream import common
from penstock_lab.experiments.es_stream.common import COUNT
from penstock_lab.experiments.experiment import Record, Setting
from penstock_lab.experiments.rivals import scaled
from penstock_lab.experiments.scenario import Scenario, never

RATE = 1800
INSTANCES = {"read": 3, "views": 6, "count": 5}
"""Es-Stream's at this rate."""

LINK = 100e6 / 8
SENT = LINK / 92
"""Tuples a second that a link takes."""

STATE = 42e6
AT = 4.0
LONGEST = 30.0

CHECKPOINT = STATE / 0.73
"""Bytes a second that are read of a checkpoint."""


@dataclass(frozen=True)
class SimulatedFault:
    """An instance of the keyed operator fails just before its next backup.

    state: bytes of a checkpoint that are read before anything is done again; nodes: machines at
    work, the fewest if not given.
    """

    way: str
    interval: float
    rate: int = RATE
    state: float = 0.0
    nodes: int | None = None

    def __call__(self, setting: Setting) -> Sequence[Record]:
        busy = self.rate * COUNT.services["count"] / INSTANCES["count"]
        steady = common.scenario(COUNT, f"{self.rate}/s", 0.0, INSTANCES, self.nodes)
        away = common.RESTART
        failures = []
        if self.way == "partial":
            away += self.interval * busy
            timing = Timing(detection=away, instance_start=0.0)
            scenario = replace(steady, model=replace(steady.model, timing=timing))
            failures = [InjectedFailure(AT, pipeline="count")]
        else:
            away += self.state / CHECKPOINT
            scenario = replace(steady, load=self._again(away))
        engine = scenario.engine(setting.seed, failures=failures, step=0.02)
        engine.start(scenario.graph, scenario.plan, setting.scratch)
        engine.advance(AT + away)
        return [{"kind": "recovery", "seconds": recovered(engine, AT, self.rate)}]

    def _again(self, away: float) -> str:
        """Load after a fault: none at first, then all tuples of the outage and an interval."""
        end = away + (self.interval + away) * self.rate / (SENT - self.rate)
        points = ((0, self.rate), (AT, self.rate), (AT + 1e-4, 0), (AT + away, 0),
                  (AT + away + 1e-4, SENT), (AT + end, SENT), (AT + end + 1e-4, self.rate),
                  (90, self.rate))  # fmt: skip
        return "points:" + ",".join(f"{at:g}={rate:.0f}" for at, rate in points)


@dataclass(frozen=True)
class Scaled:
    """The keyed operator is scaled just before its next backup, and rolled back alone.

    state: bytes that are read before anything is done again; links: from so many instances, as
    many as there are machines if nothing is said; nodes: machines at work, the fewest if not given.
    """

    interval: float
    rate: int = RATE
    state: float = 0.0
    links: int = common.NODES
    nodes: int | None = None

    def __call__(self, setting: Setting) -> Sequence[Record]:
        away = common.RESTART + self.state / (self.links * LINK)
        steady = common.scenario(COUNT, f"{self.rate}/s", 0.0, INSTANCES, self.nodes)
        pipelines = steady.plan.pipelines
        plan = replace(
            steady.plan,
            pipelines=(*pipelines[:-1], Pipeline(("kept",)), Pipeline(("both",)), pipelines[-1]),
        )
        engine = SimulatorEngine(
            replace(steady.model, timing=Timing(detection=away, instance_start=0.0)),
            load={"clicks": loads.parse(steady.load), "kept": loads.parse(self._again(away))},
            failures=[InjectedFailure(AT, None, "count", at) for at in range(INSTANCES["count"])],
            seed=setting.seed,
            step=0.02,
        )
        engine.start(_with_kept(), plan, setting.scratch)
        engine.advance(AT + away + 2 * 0.02)  # some of it has been sent
        return [{"kind": "recovery", "seconds": recovered(engine, AT, self.rate)}]

    def _again(self, away: float) -> str:
        """Load after a restart: nothing at first, then all tuples of an interval."""
        begin = AT + away
        end = begin + self.interval * self.rate / SENT
        points = ((0, 0), (begin, 0), (begin + 1e-4, SENT), (end, SENT), (end + 1e-4, 0), (90, 0))
        return "points:" + ",".join(f"{at:g}={rate:.0f}" for at, rate in points)


def _with_kept() -> Graph:
    """COMMCount with a second source that replays kept tuples to its keyed operator."""
    flow, schema = Dataflow(COUNT.name), "item bigint"
    stream = flow.source("clicks", Generator(never, schema), max_parallelism=1)
    for name in COUNT.operators[:-1]:
        stream = stream.map(name, never, schema=schema)
    kept = flow.source("kept", Generator(never, schema), max_parallelism=1)
    counted = stream.union("both", kept).key_by("item")
    counted.aggregate(COUNT.keyed, n="count(*)", schema=schema).sink("sink", Discard())
    return flow.graph


def recovered(engine: SimulatorEngine, since: float, rate: int) -> float:
    """Seconds until the backlog is at most a hundredth of a second's rows."""
    while engine.now < since + LONGEST:
        engine.advance(0.02)
        seen = engine.observe()
        if sum(p.backlog_rows or 0 for p in seen.pipelines.values()) <= rate / 100:
            break
    return round(engine.now - since, 3)


@dataclass(frozen=True)
class Moved:
    """Adds one instance of the keyed operator, which has 42 MB of state."""

    way: str
    parallelism: int

    def __call__(self, setting: Setting) -> Sequence[Record]:
        scenario = self._scenario()
        engine = scenario.engine(setting.seed)
        engine.start(scenario.graph, scenario.plan, setting.scratch)
        engine.advance(30.0)
        more = scaled(scenario.plan, {"count": self.parallelism + 1})
        made = engine.apply(more)
        return [{"kind": "moved", "seconds": round(made.interruption, 4),
                 "bytes": made.state_bytes_moved}]  # fmt: skip

    def _scenario(self) -> Scenario:
        found = common.scenario(
            COUNT, f"{RATE}/s", 0.0, {**INSTANCES, "count": self.parallelism}, common.NODES
        )
        links = min(self.parallelism + 1, common.NODES)
        keys = Keys(2000, bytes=STATE / 2000)
        # both go over all of the state, not only over what moves
        rate = links * LINK if self.way == "parts" else CHECKPOINT
        rate *= keys.moved(self.parallelism, self.parallelism + 1)
        step = OperatorCost(found.model.cost("count").service, keys=keys)
        steps = {**found.model.costs, "count": step}
        timing = Timing(instance_start=0.0, restart=0.0, state_rate=rate)
        return replace(found, model=replace(found.model, costs=steps, timing=timing))
