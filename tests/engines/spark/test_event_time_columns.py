"""More than one event-time column: said before the start, where Spark would fail when it runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from penstock import Dataflow, InvalidDataflow, Memory
from penstock.dataflow.flow import Stream
from penstock.engines.spark.queries.spark_checks import check
from tests.engines.spark.flows import source

pytestmark = pytest.mark.spark


def two(frame: Any) -> Any:
    """A copy of an event-time column is one too."""
    return frame.withWatermark("ts", "1 second").selectExpr("*", "ts AS late")


def problems(spark: Any, build: Callable[[Stream], Stream]) -> dict[str | None, str]:
    flow = Dataflow("times")
    build(source(flow).frame("two", two)).sink("out", Memory())
    try:
        check(flow.graph, spark)
    except InvalidDataflow as error:
        return {p.operator: p.message for p in error.problems}
    return {}


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.key_by("key").deduplicate("bad"),
        lambda s: s.key_by("ts", "late").aggregate("bad", n="sum(id)"),
        lambda s: s.key_by("key").join("bad", source(s._flow, "others").key_by("key")),
    ],
)
def test_two_event_times_at_one_stateful_operator_are_refused(spark: Any, build: Any) -> None:
    found = problems(spark, build)
    assert list(found) == ["bad"]
    assert "more than one event-time column (late, ts)" in found["bad"]


@pytest.mark.parametrize(
    "build",
    [
        lambda s: (
            s.key_by("key").window("10s", on="late", watermark="1s").aggregate("ok", n="sum(id)")
        ),
        lambda s: s.key_by("key").aggregate("ok", n="sum(id)"),
        lambda s: s.key_by("key").deduplicate("ok", on="late", watermark="1s"),
        lambda s: s.frame("slim", lambda df: df.drop("ts")).key_by("key").deduplicate("ok"),
    ],
)
def test_one_event_time_that_is_used_is_let_through(spark: Any, build: Any) -> None:
    assert problems(spark, build) == {}


def test_what_is_refused_is_what_spark_fails_on_when_it_runs(spark: Any, tmp_path: Path) -> None:
    rate = spark.readStream.format("rate").option("rowsPerSecond", 1000).load()
    frame = rate.selectExpr("value AS id", "timestamp AS ts")
    query = (
        two(frame)
        .dropDuplicates(["id"])
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        with pytest.raises(StreamingQueryException, match="MULTIPLE_EVENT_TIME_COLUMNS"):
            query.awaitTermination(60)
    finally:
        query.stop()
