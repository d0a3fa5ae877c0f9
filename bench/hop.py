"""One channel hop against Spark's own Parquet sink and source."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.queries import Reports, span
from bench.result import Claim, Result
from penstock.engines.spark.channels.channel import Channel
from penstock.engines.spark.channels.python_sources import ChannelSource
from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.channels.valve import Valve
from penstock.engines.spark.queries.dead_letters import tag

_FULL_BATCH = 400_000
_SECONDS = 20
_WARM = 8
_ROUNDS = 3


def _source(spark: Any, rows_per_second: int | None) -> Any:
    """Rows made by Spark itself, with the time at which each was due."""
    from pyspark.sql import functions as F

    if rows_per_second is None:
        frame = (
            spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", _FULL_BATCH)
            .option("numPartitions", 2)
            .load()
        )
    else:
        frame = (
            spark.readStream.format("rate")
            .option("rowsPerSecond", rows_per_second)
            .option("numPartitions", 2)
            .load()
        )
    text = F.concat(F.lit("some text of a tweet "), F.col("value")).alias("text")
    return frame.select("timestamp", "value", text)


def _penstock(spark: Any, frame: Any, folder: Path) -> tuple[Any, Any]:
    spark.dataSource.register(ChannelSource)
    channel = Channel(FileStore(str(folder / "channel")))
    Valve(parallelism=2).save(folder / "in.valve")

    def write(batch: Any, number: int) -> None:
        channel.append(batch, tag(1, number))

    writer = (
        frame.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(folder / "writer"))
        .start()
    )
    back = (
        spark.readStream.format("penstock-channel")
        .schema(frame.schema)
        .options(valve=str(folder / "in.valve"), input="in", first="0", inputs="1")
        .options(channel=channel.store.root)
        .load()
    )
    return writer, back


def _parquet(spark: Any, frame: Any, folder: Path) -> tuple[Any, Any]:
    writer = (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "data"))
        .option("checkpointLocation", str(folder / "writer"))
        .start()
    )
    return writer, spark.readStream.schema(frame.schema).parquet(str(folder / "data"))


SIDES = {"parquet": _parquet, "penstock": _penstock}


def _measure(spark: Any, side: str, folder: Path, rate: int | None) -> tuple[float, float]:
    """Rows per second through the hop, and the mean age of a row when it is through."""
    from pyspark.sql import functions as F

    folder.mkdir(parents=True)
    writer, back = SIDES[side](spark, _source(spark, rate), folder)
    mean = F.avg(F.unix_micros("timestamp")).alias("mean")
    reader = (
        back.observe("due", mean)
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "reader"))
        .start()
    )
    reports = Reports(reader)
    begin = time.time() + _WARM
    end = begin + _SECONDS
    reports.until(lambda: time.time() > end)
    reader.stop()
    writer.stop()
    late = [b for b in reports.batches.values() if span(b)[0] >= begin]
    rows = sum(reports.row_range(b)[1] - reports.row_range(b)[0] for b in late[1:])
    speed = rows / (span(late[-1])[1] - span(late[0])[1])
    ages = [
        (span(b)[1] - b["observedMetrics"]["due"]["mean"] / 1e6, b["numInputRows"])
        for b in late
        if b.get("observedMetrics", {}).get("due", {}).get("mean")
    ]
    age = sum(a * n for a, n in ages) / max(1, sum(n for _, n in ages))
    shutil.rmtree(folder, ignore_errors=True)
    return speed, age


def run(spark: Any, folder: Path) -> Result:
    """Alternate the sides and compare medians."""
    full: dict[str, list[float]] = {s: [] for s in SIDES}
    age: dict[str, list[float]] = {s: [] for s in SIDES}
    for number in range(_ROUNDS):
        for side in SIDES if number % 2 == 0 else reversed(SIDES):
            full[side].append(_measure(spark, side, folder / f"{side}-full-{number}", None)[0])
            age[side].append(_measure(spark, side, folder / f"{side}-slow-{number}", 20_000)[1])
    rows = [
        {
            "hop": side,
            "rows/s at saturation": median(full[side]),
            "latency at 20,000/s (ms)": 1000 * median(age[side]),
            "rounds (rows/s)": " ".join(f"{v:,.0f}" for v in full[side]),
            "rounds (ms)": " ".join(f"{1000 * v:.0f}" for v in age[side]),
        }
        for side in SIDES
    ]
    return Result(
        "hop",
        "One channel between two queries against Spark's Parquet sink and source.",
        rows,
        [
            Claim(
                "latency, channel / Parquet",
                median(age["penstock"]) / median(age["parquet"]),
                most=1.0,
            ),
            Claim(
                "throughput, channel / Parquet",
                median(full["penstock"]) / median(full["parquet"]),
                least=0.9,
            ),
        ],
    )
