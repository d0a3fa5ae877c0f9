"""Word count, fused whole by Penstock, against the same query written by hand."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.queries import Reports, generated, mean_latency, throughput
from bench.result import Claim, Result
from penstock.dataflow.connectors import Generator
from penstock.dataflow.operators import Read
from penstock.engines.spark.engine import SparkEngine
from penstock.plan import fusion
from penstock.workloads import build

_BATCH = 60_000
_BATCHES = 30
_WARM = 5
_ROUNDS = 5
_STEADY = "5000/s"
_STEADY_SECONDS = 20


def _generator(load: str, limit: int | None) -> Generator:
    flow = build("wordcount", "unused", load=load, limit=limit)
    body = flow.graph["tweets"].body
    assert isinstance(body, Read)
    assert isinstance(body.source, Generator)
    return body.source


def by_hand(
    spark: Any, folder: Path, load: str, limit: int | None, admission: int | None
) -> tuple[Any, Reports, float]:
    """What a good Spark engineer writes: native functions, RocksDB, as many partitions as cores."""
    from pyspark.sql import functions as F

    frame, clock = generated(spark, _generator(load, limit), folder, 2, admission)
    counts = (
        frame.select(F.from_json("value", "text string").text.alias("text"))
        .select(F.explode(F.split("text", " ")).alias("word"))
        .filter("word <> ''")
        .groupBy("word")
        .agg(F.count("*").alias("n"))
    )
    spark.conf.set("spark.sql.shuffle.partitions", "2")

    def write(batch: Any, number: int) -> None:
        batch.write.mode("append").parquet(str(folder / "out"))

    query = (
        counts.writeStream.outputMode("update")
        .foreachBatch(write)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    return query, Reports(query), clock


def by_penstock(
    spark: Any, folder: Path, load: str, limit: int | None, admission: int | None
) -> tuple[Any, Reports, float]:
    """The workload as it is, under the default plan: everything fused."""
    graph = build("wordcount", folder / "out", load=load, limit=limit).graph
    plan = fusion.default_plan(graph, 2).with_pipeline("tweets", admission=admission)
    assert len(plan.pipelines) == 1
    engine = SparkEngine(spark=spark)
    engine.start(graph, plan, folder / "run")
    (pipeline,) = engine.pipelines.values()
    return engine, Reports(pipeline.query), pipeline.valve.clocks["tweets"]


SIDES = {"by hand": by_hand, "penstock": by_penstock}


def _saturated(spark: Any, side: str, folder: Path) -> float:
    limit = _BATCH * _BATCHES
    runner, reports, _ = SIDES[side](spark, folder, "1000000/s", limit, _BATCH)
    reports.until(lambda: reports.rows >= limit)
    _stop(runner)
    return throughput(reports, _WARM)


def _steady(spark: Any, side: str, folder: Path) -> float:
    runner, reports, clock = SIDES[side](spark, folder, _STEADY, None, None)
    end = time.time() + _STEADY_SECONDS
    reports.until(lambda: time.time() > end)
    _stop(runner)
    return mean_latency(reports, _STEADY, clock, end - _STEADY_SECONDS + 5)


def _stop(runner: Any) -> None:
    if isinstance(runner, SparkEngine):
        runner.stop(drain=False)
    else:
        runner.stop()


def run(spark: Any, folder: Path) -> Result:
    """Alternate the two sides, so that a noisy minute hits both, and compare medians."""
    found: dict[str, dict[str, list[float]]] = {s: {"rate": [], "latency": []} for s in SIDES}
    for side in SIDES:
        _saturated(spark, side, folder / f"warm-{side.replace(' ', '-')}")
    for number in range(_ROUNDS):
        for side in SIDES if number % 2 == 0 else reversed(SIDES):
            place = folder / f"{side.replace(' ', '-')}-{number}"
            found[side]["rate"].append(_saturated(spark, side, place / "full"))
            found[side]["latency"].append(_steady(spark, side, place / "steady"))
            shutil.rmtree(place, ignore_errors=True)
    rows = [
        {
            "side": side,
            "rows/s at saturation": median(values["rate"]),
            "mean latency at 5,000/s (ms)": 1000 * median(values["latency"]),
            "rounds (rows/s)": " ".join(f"{v:,.0f}" for v in values["rate"]),
            "rounds (ms)": " ".join(f"{1000 * v:.0f}" for v in values["latency"]),
        }
        for side, values in found.items()
    ]
    hand, ours = found["by hand"], found["penstock"]
    return Result(
        "wordcount",
        "Word count fused whole against the same query written by hand in Structured Streaming.",
        rows,
        [
            Claim(
                "throughput, penstock / by hand",
                median(ours["rate"]) / median(hand["rate"]),
                least=0.95,
            ),
            Claim(
                "mean latency, penstock / by hand",
                median(ours["latency"]) / median(hand["latency"]),
                most=1.1,
            ),
        ],
    )
