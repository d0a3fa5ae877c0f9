"""Small dataflows for tests on Spark, and how to run them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock import Dataflow, Generator, Plan, Stream
from penstock.engines.spark.engine import SparkEngine


def numbers(rng: Any, index: Any, at: Any) -> Mapping[str, Any]:
    """id counts from 0, key is one of ten, amount is small, ts is an event time."""
    return {
        "id": index,
        "key": [f"k{i % 10}" for i in index],
        "amount": index % 7,
        "ts": index / 10,
    }


SCHEMA = "id bigint, key string, amount bigint, ts timestamp"


def record(i: int) -> dict[str, Any]:
    """The i-th record of `numbers`, without its time."""
    return {"id": i, "key": f"k{i % 10}", "amount": i % 7}


def source(
    flow: Dataflow, name: str = "numbers", *, limit: int | None = 500, load: str = "2000/s"
) -> Stream:
    return flow.source(name, Generator(numbers, SCHEMA, load=load, limit=limit, block=100))


def until(condition: Callable[[], bool], what: str, limit: float = 60) -> None:
    """Wait for a condition, and say which one if it does not come."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {limit} s for {what}")
        time.sleep(0.02)


def run(
    flow: Dataflow, spark: Any, run_dir: Path, plan: Plan | None = None, **options: Any
) -> SparkEngine:
    """Run a flow of limited generators to its end."""
    engine = SparkEngine(spark=spark, **options)
    engine.start(flow.graph, plan, run_dir)
    try:
        limits = [s.body.source.limit for s in flow.graph.sources]
        until(lambda: engine.observe().rows_ingested >= sum(limits), "all records to be taken in")
    finally:
        engine.stop()
    return engine
