"""A flow with as many keys as one wants, running on an engine, for benchmarks of changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from penstock import Dataflow, Discard, Generator
from penstock.engines.spark.changes.execution import Execution
from penstock.engines.spark.changes.planner import stop_steps
from penstock.engines.spark.changes.spark_pipelines import SparkPipelines
from penstock.engines.spark.changes.transitions import gap
from penstock.engines.spark.engine import SparkEngine
from penstock.plan import fusion
from penstock.plan.plan import Plan
from penstock.plan.transition import Transition

RATE = 2000


def numbers(keys: int) -> Callable[..., dict[str, Any]]:
    """Every key comes once in the first `keys` records, and again and again."""

    def make(rng: Any, index: Any, at: Any) -> dict[str, Any]:
        return {"key": index % keys, "value": index}

    return make


def keyed(keys: int, rate: int = RATE) -> Dataflow:
    """All keys within the first second, then a steady rate."""
    flow = Dataflow("keyed")
    load = f"ramp:{2 * keys + rate}-{rate}@1s"
    rows = flow.source("rows", Generator(numbers(keys), "key bigint, value bigint", load))
    counted = rows.key_by("key").aggregate("count", n="count(*)", total="sum(value)")
    counted.sink("out", Discard())
    return flow


def until(done: Callable[[], bool], limit: float = 180.0) -> None:
    end = time.monotonic() + limit
    while not done():
        if time.monotonic() > end:
            raise TimeoutError("the benchmark's flow takes too long")
        time.sleep(0.02)


@contextmanager
def running(
    spark: Any, flow: Dataflow, plan: Plan, folder: Path, **options: Any
) -> Iterator[SparkEngine]:
    engine = SparkEngine(spark=spark, **options)
    engine.start(flow.graph, plan, folder)
    try:
        yield engine
    finally:
        engine.stop(drain=False)


def plan_of(flow: Dataflow, parallelism: int, **settings: Any) -> Plan:
    return fusion.default_plan(flow.graph, parallelism).with_pipeline(
        flow.graph.sources[0].name, **settings
    )


def outputs(engine: SparkEngine, name: str) -> list[float]:
    return list(engine.observer.outputs.get(name, ()))


def warmed(engine: SparkEngine, name: str, batches: int = 15) -> None:
    """Wait for some batches, so that neither the JVM nor the filling is measured."""
    until(lambda: len(outputs(engine, name)) >= batches)


def settled(engine: SparkEngine, plan: Plan) -> Transition:
    """Change the plan and wait until everything is known about it."""
    engine.apply(plan)
    until(lambda: engine.transitions()[-1].settled)
    return engine.transitions()[-1]


def restarted(engine: SparkEngine, operator: str, output: str) -> float:
    """The gap in the output that a bare stop and start of the same query makes."""
    spec = engine.plan.pipeline_of(operator)
    pipeline = engine.pipelines[spec.name]
    began = time.time()
    steps = tuple(stop_steps(engine.flow.graph, engine.plan, [spec]))
    Execution(SparkPipelines(engine.flow), steps).run_unrecorded()
    pipeline.turn(open=True, admission=spec.admission, cadence=spec.cadence)
    pipeline.start()
    ended = time.time()
    until(lambda: gap(outputs(engine, output), began, ended) is not None)
    found = gap(outputs(engine, output), began, ended)
    assert found is not None
    return found


def usual(times: Sequence[float], last: int = 20) -> list[float]:
    return [b - a for a, b in pairwise(times[-last:])]
