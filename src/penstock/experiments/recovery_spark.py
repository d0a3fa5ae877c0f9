"""Recovery on Spark: a pipeline fails late in a batch, alone or with all that is before it.

An operator that waits 12 ms a row stands before a keyed one. Cut in two, only the keyed one fails,
and what it had not committed is still in its channel: a partial rollback. In one query, as Spark
has it, all that came since its last commit is waited for again: a global one. Timed is from the
fault until the rows of the batch that failed are committed; of some faults the median counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.experiments.experiment import Case, Record, Setting
from penstock.experiments.play import on_spark
from penstock.plan import fusion
from penstock.plan.plan import Plan

if TYPE_CHECKING:
    from penstock.engines.spark.engine import SparkEngine
    from penstock.engines.spark.pipeline import RunningPipeline

RATE, WAIT, INSTANCES = 200, 0.012, 4
LONGEST = 120.0
"""Seconds after which something that does not come is given up."""


def cases(intervals: Sequence[float], faults: int) -> Sequence[Case]:
    return tuple(
        Case(f"{way}, {interval:g} s", Fault(way, interval, faults))
        for way in ("partial", "global")
        for interval in intervals
    )


@dataclass(frozen=True)
class Fault:
    """Some faults of the keyed operator, which commits at an interval."""

    way: str
    interval: float
    faults: int

    def __call__(self, setting: Setting) -> Sequence[Record]:
        graph = flow().graph
        engine = on_spark(16, drain=False)
        engine.start(graph, self.plan(), setting.scratch / "run")
        try:
            until(lambda: committed(keyed(engine)) >= 10 * RATE)  # it is warm by then
            taken = []
            for number in range(self.faults):
                taken.append(recovered(engine))
                setting.tell((number + 1) / self.faults)
                time.sleep(2 * self.interval)
        finally:
            engine.stop(drain=False)
        return [{"kind": "recovery", "seconds": round(median(taken), 3), "each": taken}]

    def plan(self) -> Plan:
        graph = flow().graph
        if self.way == "global":
            whole = fusion.fuse(graph, lambda upstream, name: True, INSTANCES)
            return whole.with_pipeline("rows", cadence=self.interval)
        cut = fusion.fuse(graph, lambda upstream, name: name != "count", INSTANCES)
        return cut.with_pipeline("count", cadence=self.interval)


def flow() -> Dataflow:
    made = Dataflow("waiting-recovery")
    rows = made.source("rows", Generator(_keys, "key bigint", f"{RATE}/s"))
    waited = rows.map("wait", _waited, schema="key bigint")
    waited.key_by("key").aggregate("count", n="count(*)").sink("out", Discard())
    return made


def _keys(rng: Any, index: Any, at: Any) -> dict[str, Any]:
    return {"key": index % 1000}


def _waited(record: Mapping[str, Any]) -> dict[str, Any]:
    time.sleep(WAIT)
    return {"key": record["key"]}


def recovered(engine: SparkEngine) -> float:
    """Seconds from a fault in the middle of a batch until all that was in it is committed."""
    pipeline = keyed(engine)
    for _ in range(20):
        usual = engine.observe().pipelines[pipeline.name].batch_seconds or 0.1
        number = _begun(pipeline)[0]
        until(lambda: _begun(pipeline)[0] > number)  # noqa: B023  # a batch has just begun
        _, rows, _ = _begun(pipeline)
        time.sleep(0.6 * usual)
        failed = time.time()
        pipeline.query.stop()  # nobody asked for this: the engine finds it dead and restarts it
        missed = _begun(pipeline)[2]
        until(lambda: all(pipeline.positions[k] >= row for k, row in rows.items()))  # noqa: B023
        if not missed:  # else the batch was through before it could fail
            return round(time.time() - failed, 3)
    raise TimeoutError("no batch could be met in its middle")


def keyed(engine: SparkEngine) -> RunningPipeline:
    """The pipeline of the keyed operator `count`."""
    return engine.pipelines[engine.plan.pipeline_of("count").name]


def committed(pipeline: RunningPipeline) -> int:
    """Rows that it has committed of each input."""
    return min(pipeline.positions.values())


def _begun(pipeline: RunningPipeline) -> tuple[int, dict[str, int], bool]:
    from penstock.engines.spark import checkpoint  # slow to load: only when needed

    return checkpoint.progress(pipeline.checkpoint, pipeline.wired.epoch)


def until(done: Callable[[], bool], limit: float = LONGEST) -> None:
    """Wait for something. Raises `TimeoutError`."""
    end = time.monotonic() + limit
    while not done():
        if time.monotonic() > end:
            raise TimeoutError("the flow takes too long to recover")
        time.sleep(0.02)
