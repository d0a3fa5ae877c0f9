"""Recovery on Spark: a pipeline fails late in a batch, alone or with all that is before it.

An operator that waits 12 ms a row stands before a keyed one. Cut in two, only the keyed one fails,
and what it had not committed is still in its channel: a partial rollback. In one query, as Spark
has it, all that came since its last commit is waited for again: a global one. Timed is from the
fault until the rows of the batch that failed are committed; of some faults the median counts.

A batch that is committed before its query stops has nothing to recover: that fault does not count,
and another one is made. Nor is a batch hit that still holds what an earlier fault has left behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.engines.spark.queries import checkpoint
from penstock.plan import fusion
from penstock.plan.plan import Plan
from penstock_lab.experiments.experiment import Case, Record, Setting
from penstock_lab.experiments.play import on_spark

if TYPE_CHECKING:
    from penstock.engines.spark.engine import SparkEngine
    from penstock.engines.spark.queries.pipeline import RunningPipeline

RATE, WAIT, INSTANCES = 200, 0.012, 4
LONGEST = 120.0
"""Timeout in seconds for each wait."""

CROWDED = 1.5
"""A batch with more than this multiple of an interval's rows includes a backlog."""

SETTLED = 60.0
"""Seconds after which any batch is used, on a machine that never reaches usual ones."""

MISSES = 4
"""Faults that may come too late, for each that counts."""


def cases(intervals: Sequence[float], faults: int) -> Sequence[Case]:
    return tuple(
        Case(f"{way}, {interval:g} s", Fault(way, interval, faults))
        for way in ("partial", "global")
        for interval in intervals
    )


@dataclass(frozen=True)
class Fault:
    """Several faults of the keyed operator, which commits at an interval."""

    way: str
    interval: float
    faults: int

    def __call__(self, setting: Setting) -> Sequence[Record]:
        graph = flow().graph
        engine = on_spark(16)
        engine.start(graph, self.plan(), setting.scratch / "run")
        try:
            until(lambda: committed(keyed(engine)) >= 10 * RATE)  # it is warm by then
            rows_usual = CROWDED * RATE * self.interval
            taken, missed = recoveries(engine, self.faults, rows_usual, setting.tell)
        finally:
            engine.stop(drain=False)
        each = [one["seconds"] for one in taken]
        rows = [one["rows"] for one in taken]
        return [{"kind": "recovery", "seconds": round(median(each), 3), "each": each,
                 "rows": rows, "missed": missed}]  # fmt: skip

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


def recoveries(
    engine: SparkEngine,
    faults: int,
    usual: float,
    tell: Callable[[float], None] = lambda share: None,
) -> tuple[Sequence[Record], int]:
    """Recovery times of faults within a batch, and the number of faults that came too late."""
    taken: list[Record] = []
    missed = 0
    while len(taken) < faults:
        one = recovered(engine, usual)
        if one is not None:
            taken.append(one)
        else:
            missed += 1
        if missed > MISSES * faults:
            raise TimeoutError("no batch could be met in its middle")
        tell(len(taken) / faults)
    return taken, missed


def recovered(engine: SparkEngine, usual: float) -> Record | None:
    """Seconds from a fault in the middle of a batch until all rows of the batch are committed."""
    pipeline = keyed(engine)
    number, goal, rows = _next(pipeline, usual)
    time.sleep(0.6 * _took(pipeline))
    failed = time.monotonic()
    pipeline.query.stop()  # nobody asked for this: the engine finds it dead and restarts it
    # by number: after a batch that was quick, the one behind it may have begun and be cut off
    if checkpoint.last_commit(pipeline.checkpoint) >= number:
        return None
    until(lambda: _reached(pipeline, goal) or _given_up(engine))
    return {"seconds": round(time.monotonic() - failed, 3), "rows": rows}


def _given_up(engine: SparkEngine) -> bool:
    """Raises `FlowFailed` if the engine has given up restarting; otherwise False."""
    if engine.failure is not None:
        raise engine.failure
    return False


def _next(pipeline: RunningPipeline, usual: float) -> tuple[int, Mapping[str, int], int]:
    """A batch that has just begun: its number, the end of its input, and its rows."""
    end = time.monotonic() + SETTLED
    while True:
        before = _begun(pipeline)[0]
        until(lambda: _begun(pipeline)[0] > before)  # noqa: B023
        number, goal = _begun(pipeline)
        done = checkpoint.committed(pipeline.checkpoint, pipeline.wired.epoch)
        rows = sum(row - done.get(name, 0) for name, row in goal.items())
        if rows <= usual or time.monotonic() > end:
            return number, goal, rows


def _took(pipeline: RunningPipeline) -> float:
    """Seconds of a batch, from its entry in one log of Spark's to that in the other.

    The shortest of the last three counts: one that failed has its recovery in between. A snapshot
    tells of a window, in which no batch may have ended.
    """
    last = checkpoint.last_commit(pipeline.checkpoint)
    found = []
    for number in range(max(0, last - 2), last + 1):
        logs = (pipeline.checkpoint / name / str(number) for name in ("offsets", "commits"))
        begun, done = (log.stat().st_mtime for log in logs)
        found.append(max(0.0, done - begun))
    return min(found, default=0.0)


def keyed(engine: SparkEngine) -> RunningPipeline:
    """The pipeline of the keyed operator `count`."""
    return engine.pipelines[engine.plan.pipeline_of("count").name]


def committed(pipeline: RunningPipeline) -> int:
    """Rows that it has committed of each input."""
    return min(pipeline.positions.values())


def _reached(pipeline: RunningPipeline, goal: Mapping[str, int]) -> bool:
    """Whether all rows up to there are committed."""
    done = checkpoint.committed(pipeline.checkpoint, pipeline.wired.epoch)
    return all(done.get(name, 0) >= row for name, row in goal.items())


def _begun(pipeline: RunningPipeline) -> tuple[int, Mapping[str, int]]:
    """The number of the last batch that was begun, and where it ends."""
    number, goal, _ = checkpoint.progress(pipeline.checkpoint, pipeline.wired.epoch)
    return number, goal


def until(done: Callable[[], bool], limit: float = LONGEST) -> None:
    """Wait for something. Raises `TimeoutError`."""
    end = time.monotonic() + limit
    while not done():
        if time.monotonic() > end:
            raise TimeoutError("the flow takes too long to recover")
        time.sleep(0.02)
