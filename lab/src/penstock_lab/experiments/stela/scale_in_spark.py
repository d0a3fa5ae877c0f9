"""Stela's scale-in on Spark: two of four executors go, by ETP or at random.

The executors are those of a cluster in this machine, with four slots each. Views are tagged and
then scored, both by key, with state that has a part for each instance, and with a wait for each
row. More comes than is scored, so that rows wait before that, and all throughput depends on it. As
in the paper every executor has one component at first: the parts of the score are put on two of
them, those of the tags on the other two. There Spark leaves them. The task of the source, which has
no state, runs anywhere.

All instances together have as many slots on two executors as they need. The best static plan has
them there from the start. Random groups are different draws of two of the four.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from penstock.control.status import Status, View
from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.plan.decision import Decision
from penstock.plan.plan import Pipeline, Plan
from penstock.policies.base.policy import Context
from penstock.policies.stela import policy
from penstock_lab.experiments import waiting
from penstock_lab.experiments.experiment import Case, Record, Setting
from penstock_lab.experiments.play import SparkPlay, Watch, short
from penstock_lab.experiments.stela.common import Once

if TYPE_CHECKING:
    from penstock.engines.spark.engine import SparkEngine

EXECUTORS, GONE, CORES = 4, 2, 4
TAG, SCORE = "tag", "score"
WAITS = {TAG: 0.01, SCORE: 0.05}
INSTANCES = {TAG: 3, SCORE: 4}
BATCH = 160
"""Rows of a batch of the score: two seconds of waiting."""

SEATS: Mapping[str, tuple[int, ...]] = {SCORE: (0, 1), TAG: (2, 3)}
"""The executors, from the oldest on, that hold the state of a component."""

STELA, RANDOM, BEST = "stela", "random", "best static"
ON_SPARK = (
    f"Spark's own cluster in one machine, of {EXECUTORS} executors with {CORES} slots of which "
    f"{GONE} go, and two components that wait, with state by key. Each executor holds state of one "
    "of them at first. Executors take of the same two cores."
)

IDLE = (
    "Dynamic allocation gives back executors that had nothing to do for a while, 60 s unless told "
    "otherwise. On Spark here each has tasks every few seconds, so that it would give back none."
)


def cases(at: float, seconds: float, rate: int, groups: int) -> Sequence[Case]:
    ways = (STELA, *(f"{RANDOM}, {n}" for n in range(groups)), BEST)
    return tuple(Case(way, Removal(way, at, seconds, rate)) for way in ways)


@dataclass(frozen=True)
class Removal:
    """Removes two executors at a time, chosen in one of the ways."""

    way: str
    at: float
    seconds: float
    rate: int

    def __call__(self, setting: Setting) -> Sequence[Record]:
        return tuple(self.play(setting.seed)(setting))

    def play(self, seed: int) -> SparkPlay:
        whole = Seated(
            lambda out: flow(f"{self.rate}/s"),
            self.seconds,
            plan=plan(EXECUTORS),
            master=cluster(EXECUTORS),
            warm=10.0,
            seats=SEATS,
        )
        if self.way == BEST:
            few = EXECUTORS - GONE
            whole = replace(whole, plan=plan(few), master=cluster(few), seats={})
            return replace(whole, seconds=self.at, drain=False)
        if self.way == STELA:
            return replace(
                whole, policy=Once(STELA, self.at, lambda context: policy.scale_in(context, GONE))
            )
        group = drawn(seed)[int(self.way.removeprefix(f"{RANDOM}, "))]
        return replace(whole, policy=Once(RANDOM, self.at, lambda context: without(context, group)))


def cluster(executors: int) -> str:
    return f"local-cluster[{executors},{CORES},1024]"


def drawn(seed: int) -> list[tuple[int, ...]]:
    """All groups of executors that may be removed, in random order."""
    every = [*combinations(range(EXECUTORS), GONE)]
    return random.Random(f"groups {seed} on Spark").sample(every, len(every))


def without(context: Context, group: Sequence[int]) -> Decision:
    """Removes the executors with these numbers, counted from the oldest."""
    if context.latest is None:
        return Decision(None, "nothing has been measured yet")
    there = sorted(context.latest.executors, key=int)
    if len(there) != context.plan.executors:
        return Decision(None, f"only {len(there)} executors are known")
    gone = tuple(there[n] for n in group)
    left = replace(context.plan, executors=context.plan.executors - len(gone), leaving=gone)
    return Decision(left, f"{', '.join(gone)} go, chosen at random")


def flow(load: str) -> Dataflow:
    """A source, a component that keeps up with the load, and one that does not."""
    made = Dataflow("removal")
    stream = made.source("views", Generator(waiting.numbers, "n bigint", load))
    for name, seconds in WAITS.items():
        first = stream.key_by("n").deduplicate(name, max_parallelism=INSTANCES[name])
        stream = first.map(f"{name}-wait", waiting.Waits(seconds), schema="n bigint")
    stream.sink(waiting.sink(SCORE), Discard())
    return made


def plan(executors: int) -> Plan:
    """A plan with a pipeline for each component and a state partition for each instance."""
    tag, score = (
        Pipeline((name, f"{name}-wait"), count, ceiling=count) for name, count in INSTANCES.items()
    )
    return Plan(
        (
            Pipeline(("views",), cadence=1.0),
            replace(tag, cadence=2.0),
            replace(score, operators=(*score.operators, waiting.sink(SCORE)), admission=BATCH),
        ),
        executors,
    )


# --- while it runs ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seated(SparkPlay):
    """A play whose state is on certain executors from the start; otherwise Spark chooses."""

    seats: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def viewed(self, engine: Any, watch: Watch) -> View:
        return Usher(engine, watch, self.seats)


class Usher:
    """A view that puts state where it belongs, once it is known to be anywhere.

    Beside what a watch keeps, it keeps an `output` for each batch of the score that came out, and
    who has `held` which state, whenever that is another.
    """

    def __init__(
        self, engine: SparkEngine, watch: Watch, seats: Mapping[str, tuple[int, ...]]
    ) -> None:
        self._engine, self._watch = engine, watch
        self._open = dict(seats)
        self._last = 0.0
        self._held: Mapping[str, Mapping[str, int]] = {}

    def show(self, status: Status) -> None:
        self._watch.show(status)
        if status.phase != "running" or status.tick is None:
            return
        for name in tuple(self._open):
            if self._seat(name, self._open[name]):
                del self._open[name]
        self._keep(status)

    def close(self) -> None:
        self._watch.close()

    def _seat(self, name: str, seats: tuple[int, ...]) -> bool:
        # slow to load: only when needed
        from penstock.engines.spark.changes.spark_pipelines import SparkPipelines

        flow = self._engine.flow
        pipeline, there = flow.pipelines[name], flow.executors
        found = pipeline.placement(there)
        if None in found.values():  # no batch yet
            return False
        ids = there.ids()
        meant = {part: ids[seats[part % len(seats)]] for part in found}
        moved = {p: one for p, one in meant.items() if found[p] != one}
        SparkPipelines(flow).place_state(name, moved)
        return True

    def _keep(self, status: Status) -> None:
        assert status.tick is not None
        began = time.time() - status.elapsed
        came = tuple(self._engine.observer.outputs.get(waiting.sink(SCORE), ()))
        new = [at for at in came if at > self._last]
        self._watch.records += ({"kind": "output", "at": short(at - began)} for at in new)
        self._last = max(came, default=0.0)
        held = {n: dict(e.state_parts) for n, e in status.tick.snapshot.executors.items()}
        if held != self._held:
            self._held = held
            self._watch.records.append({"kind": "held", "at": short(status.tick.at), "by": held})
