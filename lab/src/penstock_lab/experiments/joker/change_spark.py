"""Joker's figure 16 on Spark: what a cut and a replica cost, beside stopping everything by hand.

The region of the paper, whose operators wait 3 us for each multiplication, goes through the changes
that it went through there: cut in two, cut in three, two replicas of all, three of all. More comes
than it ever carries. With a keyed operator at its end the state is cut into as many parts as there
are replicas, and moves; below a ceiling there are as many parts as replicas in the end, from the
start.

By hand: all queries are let finish their batch and stopped, state is cut by Spark's own means, and
all queries start under the new plan where the old ones ended, in the same session. That is the
least that who runs queries without an engine can do; an application that is started anew takes
seconds more.

A batch has half a second of work, so that it takes most of a second. What comes out is written down
batch by batch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.plan.change import Change
from penstock.plan.plan import Pipeline, Plan
from penstock_lab.experiments import waiting
from penstock_lab.experiments.experiment import Case, Record, Setting
from penstock_lab.experiments.play import on_spark, short

if TYPE_CHECKING:
    from penstock.engines.spark.engine import SparkEngine

WAIT = 3e-6
"""Seconds for a multiplication: 3 ms for 1,024 of them."""

LOAD = 1200
BATCH = 0.5
"""Seconds of work in a batch of an instance."""

CADENCE = 0.5
"""Seconds between batches of the source, which does nothing but fill a channel."""

SLOTS = 16
MOST = 3
SINK, COUNT = "results", "count"

HURRIED = 2.5
"""Seconds between changes of the run before, which counts for nothing: Spark is slow at first."""

PLAIN, KEYED, CEILING = "no state", "keyed", "keyed below the ceiling"


def cases(counts: Sequence[int], at: Sequence[float], seconds: float) -> Sequence[Case]:
    """at: the second of each change."""
    one = Changed(tuple(counts), tuple(at), seconds)
    keyed = replace(one, keyed=True)
    return (
        Case(PLAIN, one),
        Case(by_hand_of(PLAIN), replace(one, hand=True)),
        Case(KEYED, keyed),
        Case(by_hand_of(KEYED), replace(keyed, hand=True)),
        Case(CEILING, replace(keyed, ceiling=MOST)),
    )


def by_hand_of(case: str) -> str:
    """The case in which the same changes are made by hand."""
    return f"{KEYED if case == CEILING else case}, by hand"


# --- the region ---------------------------------------------------------------------------------


def waits(counts: Sequence[int]) -> dict[str, float]:
    return {f"multiply-{n}": WAIT * count for n, count in enumerate(counts, 1)}


def flow(counts: Sequence[int], keyed: bool) -> Dataflow:
    made = Dataflow("waiting-changes")
    stream = made.source("numbers", Generator(waiting.numbers, "n bigint", f"{LOAD}/s"))
    for name, seconds in waits(counts).items():
        stream = stream.map(name, waiting.Waits(seconds), schema="n bigint")
    if keyed:  # every row has a key of its own, so that as many come out as go in
        stream = stream.key_by("n").aggregate(COUNT, count="count(*)")
    stream.sink(SINK, Discard())
    return made


def plans(counts: Sequence[int], keyed: bool, ceiling: int | None = None) -> tuple[Plan, ...]:
    """The plan to start with, and after each change."""
    costs = waits(counts)
    last = (COUNT, SINK) if keyed else (SINK,)

    def plan(cuts: Sequence[int], replicas: int) -> Plan:
        names, bounds = [*costs], [0, *cuts, len(costs)]
        found = [Pipeline(("numbers",), cadence=CADENCE)]
        for first, stop in pairwise(bounds):
            own, end = tuple(names[first:stop]), stop == len(costs)
            rows = round(replicas * BATCH / sum(costs[name] for name in own))
            parts = ceiling if end and keyed else None
            found.append(Pipeline(own + last * end, replicas, rows, ceiling=parts))
        return Plan(tuple(found))

    return plan((), 1), plan((3,), 1), plan((3, 4), 1), plan((3, 4), 2), plan((3, 4), MOST)


# --- making the changes -------------------------------------------------------------------------


@dataclass(frozen=True)
class Changed:
    """The region with all changes, each at its second, for so many seconds.

    What is recorded: a `tick` for each batch that came out, with the rows so far, and a `change`
    for each that was made.
    """

    counts: tuple[int, ...]
    at: tuple[float, ...]
    seconds: float
    keyed: bool = False
    ceiling: int | None = None
    hand: bool = False

    def __call__(self, setting: Setting) -> Sequence[Record]:
        quick = tuple(HURRIED * n for n in range(1, len(self.plans)))
        warm = replace(self, at=quick, seconds=HURRIED * len(self.plans))
        whole = warm.seconds + self.seconds

        def tell(done: float) -> Callable[[float], None]:
            return lambda passed: setting.tell(min(1.0, (done + passed) / whole))

        warm.played(setting.scratch / "warm", tell(0.0))
        return self.played(setting.scratch / "run", tell(warm.seconds))

    @property
    def plans(self) -> tuple[Plan, ...]:
        return plans(self.counts, self.keyed, self.ceiling)

    def played(self, home: Path, tell: Callable[[float], None]) -> Sequence[Record]:
        """Run it as it is, with all that is kept under a directory."""
        first, *later = self.plans
        engine = on_spark(SLOTS)
        engine.start(flow(self.counts, self.keyed).graph, first, home)
        try:
            with Tape(engine) as tape:
                for at, plan in zip(self.at, later, strict=True):
                    _wait(engine, tape, at, tell)
                    tape.change(self._change, plan)
                _wait(engine, tape, self.seconds, tell)
        finally:
            engine.stop(drain=False)
        return tape.records

    def _change(self, engine: SparkEngine, plan: Plan) -> None:
        if self.hand:
            by_hand(engine, plan)
        else:
            engine.apply(plan)


def by_hand(engine: SparkEngine, plan: Plan) -> None:
    """Stop all queries, each after its batch, and start all of the new plan where they ended."""
    from penstock.engines.spark.changes import steps
    from penstock.engines.spark.changes.execution import Execution
    from penstock.engines.spark.changes.spark_pipelines import SparkPipelines
    from penstock.engines.spark.changes.wiring import holder, partitions

    flow = engine.flow
    running = [*flow.pipelines.values()]
    for pipeline in running:
        pipeline.turn(open=False)
    flow.wait(lambda: all(pipeline.quiet for pipeline in running))
    held = {spec.name: holder(flow.graph, spec, flow.wiring) for spec in plan.pipelines}
    moves = [
        steps.Repartition(spec.name, at.checkpoint, partitions(flow.graph, spec, at.partitions))
        for spec in plan.pipelines
        if (at := held[spec.name]) is not None
    ]
    names = tuple(spec.name for spec in plan.pipelines)
    todo = (
        *(steps.StopPipeline(pipeline.name) for pipeline in running),
        *moves,
        steps.CommitWiring(flow.wiring.number + 1, plan, names, {}),
        *map(steps.StartPipeline, names),
        *(steps.DiscardCopy(move.checkpoint) for move in moves),
    )
    Execution(SparkPipelines(flow), todo).run_unrecorded()


def _wait(
    engine: SparkEngine, tape: Tape, until: float, tell: Callable[[float], None], turn: float = 1.0
) -> None:
    """Let it run, looked at as often as by a control loop, to a second of the tape."""
    while (left := until - tape.now()) > 0:
        time.sleep(min(left, turn))
        engine.observe()
        tell(tape.now())


class Tape:
    """Writes down what comes out of an engine, batch by batch, and what is changed."""

    def __init__(self, engine: SparkEngine, every: float = 0.05) -> None:
        self._engine, self._every = engine, every
        self._began = time.time()
        self._rows = 0
        self._found: list[Record] = []
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Tape:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._halt.set()
        self._thread.join()

    @property
    def records(self) -> list[Record]:
        return sorted(self._found, key=lambda record: float(record["at"]))

    def now(self) -> float:
        return time.time() - self._began

    def change(self, make: Callable[[SparkEngine, Plan], None], plan: Plan) -> None:
        actions = Change(self._engine.plan, plan).actions
        began = self.now()
        make(self._engine, plan)
        self._found.append({"kind": "change", "at": short(began), "actions": [*map(str, actions)],
                            "seconds": short(self.now() - began)})  # fmt: skip

    def _watch(self) -> None:
        while not self._halt.wait(self._every):
            # a batch has its time before its rows, so that the last time is that of these rows
            rows, times = (
                self._engine.flow.context.delivered.get(SINK, 0),
                self._engine.observer.outputs,
            )
            if rows > self._rows:
                self._rows = rows
                at = times[SINK][-1] - self._began
                self._found.append({"kind": "tick", "at": short(at), "delivered": rows})
