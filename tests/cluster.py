"""Executors of a real cluster on this machine; a process of its own, since its session is.

    python -m tests.cluster RUN_DIR

Prints one JSON object with what was seen after each step.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock import Dataflow, Memory
from penstock.engines.spark.engine import SparkEngine
from penstock.errors import Refused
from tests.engines.spark.flows import source


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 150
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)


def refusal(engine: SparkEngine, **changes: Any) -> str:
    try:
        engine.apply(replace(engine.plan, **changes))
    except Refused as error:
        return str(error)
    return ""


def seen(engine: SparkEngine) -> dict[str, Any]:
    """Who is there, and who holds which state once some more batches are through."""
    before = len(engine.observer.outputs["sums"])
    until(lambda: len(engine.observer.outputs["sums"]) >= before + 3)
    pipeline = engine.pipelines["numbers"]
    return {
        "executors": engine.flow.executors.ids(),
        "plan": engine.plan.executors,
        "state": sorted(pipeline.placement(engine.flow.executors).values(), key=str),
    }


def main(run_dir: Path) -> None:
    flow = Dataflow("cluster")
    sums = source(flow, limit=None, load="300/s").key_by("key").aggregate("sums", n="count(*)")
    sums.sink("out", Memory())
    engine = SparkEngine(master="local-cluster[2,2,1024]")
    engine.start(flow.graph, None, run_dir)
    engine.apply(engine.plan.with_pipeline("numbers", parallelism=4, ceiling=4))
    until(lambda: len(engine.observer.outputs.get("sums", ())) >= 3)
    found: dict[str, Any] = {"start": seen(engine)}
    first, second = engine.flow.executors.ids()
    found["unknown"] = refusal(engine, executors=1, leaving=("77",))
    left = engine.apply(replace(engine.plan, executors=1, leaving=(first,)))
    found["left"] = {**seen(engine), "changes": left.changes, "expected": [second]}
    engine.apply(replace(engine.plan, executors=2))
    found["came"] = seen(engine)
    engine.stop()
    found["ingested"] = engine.ingested()["numbers"]
    found["counts"] = {row.key: row.n for row in engine.rows("out")}
    engine.spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
