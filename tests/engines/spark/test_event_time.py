"""Event time across pipelines: what one Spark query would give, cut or not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from penstock import Dataflow, Files, Memory, Stream
from penstock.engines.spark.engine import SparkEngine
from penstock.engines.spark.queries.spark_checks import check
from penstock.errors import InvalidDataflow
from penstock.plan import fusion

from .flows import run, source, until

pytestmark = pytest.mark.spark

N = 600
BASE = 100_000
"""The first record's event time, in seconds since 1970."""
LAST = BASE + 1000
"""The last record comes long after the others."""


def jump(flow: Dataflow) -> Stream:
    """Ten records a second of event time for a minute, and one much later."""
    at = f"timestamp_seconds(if(id = {N - 1}, {LAST}, {BASE} + id / 10)) AS ts"
    return source(flow, limit=N).frame("jump", lambda df: df.selectExpr("id", "key", "amount", at))


def starts(engine: SparkEngine) -> dict[int, int]:
    """Records by the second at which their window starts; each window is sent once."""
    rows = engine.rows("out")
    assert len(rows) == len({(r.window.start, r.key) for r in rows})
    found: Counter[int] = Counter()
    for row in rows:
        found[int(row.window.start.timestamp()) - BASE] += row.n
    return dict(found)


EVERY_20 = {0: 200, 20: 200, 40: N - 1 - 400}
TIMES = {
    "window": "window",
    "window_time": "window_time(window) AS at",
    "start": "window.start AS at",
}


@pytest.mark.parametrize(
    ("time", "watermark", "plan"),
    [("window", None, "default"), ("window_time", "0s", "default"), ("start", None, "finest")],
)
def test_windows_of_windows_are_closed_by_the_first_watermark(
    spark: Any, tmp_path: Path, time: str, watermark: str | None, plan: str
) -> None:
    flow = Dataflow("twice")
    tens = jump(flow).key_by("key").window("10s", on="ts", watermark="1s")
    counts = tens.aggregate("tens", n="count(*)", emit="final")
    told = counts.frame("told", lambda df: df.selectExpr("key", "n", TIMES[time]))
    on = "window" if time == "window" else "at"
    twenties = told.key_by("key").window("20s", on=on, watermark=watermark)
    twenties.aggregate("twenties", n="sum(n)", emit="final").sink("out", Memory())
    make = fusion.default_plan if plan == "default" else fusion.finest_plan
    engine = run(flow, spark, tmp_path / "run", make(flow.graph, 2))
    assert starts(engine) == EVERY_20


def test_a_group_that_holds_a_window_is_final_when_the_window_is(
    spark: Any, tmp_path: Path
) -> None:
    flow = Dataflow("per-window")
    tens = jump(flow).key_by("key").window("10s", on="ts", watermark="1s")
    counts = tens.aggregate("tens", n="count(*)", emit="final")
    best = counts.key_by("window").aggregate("best", best="max(n)", n="sum(n)", emit="final")
    best.sink("out", Memory())
    engine = run(flow, spark, tmp_path / "run")
    got = {int(r.window.start.timestamp()) - BASE: (r.best, r.n) for r in engine.rows("out")}
    assert got == {s: (10, 100 if s < 50 else 99) for s in range(0, 60, 10)}


def test_windows_behind_a_deduplication_are_closed_by_its_watermark(
    spark: Any, tmp_path: Path
) -> None:
    flow = Dataflow("once")
    first = jump(flow).key_by("id").deduplicate("first", on="ts", watermark="5s")
    tens = first.key_by("key").window("20s", on="ts")
    tens.aggregate("twenties", n="count(*)", emit="final").sink("out", Memory())
    engine = run(flow, spark, tmp_path / "run")
    assert starts(engine) == EVERY_20


def test_windows_behind_a_join_are_closed_when_no_pair_can_come_any_more(
    spark: Any, tmp_path: Path
) -> None:
    flow = Dataflow("pairs")
    left = jump(flow)
    right = source(flow, "others", limit=N).frame(
        "later",
        lambda df: df.selectExpr(
            "id", f"timestamp_seconds(if(id = {N - 1}, {LAST}, {BASE} + 3 + id / 10)) AS seen"
        ),
    )
    pairs = left.key_by("id").join(
        "pairs",
        right.key_by("id"),
        condition="r.seen BETWEEN l.ts AND l.ts + INTERVAL 5 SECONDS",
        left_watermark=("ts", "1s"),
        right_watermark=("seen", "1s"),
    )
    plain = pairs.frame("plain", lambda df: df.select("key", "ts"))
    windows = plain.key_by("key").window("20s", on="ts")
    windows.aggregate("twenties", n="count(*)", emit="final").sink("out", Memory())
    engine = run(flow, spark, tmp_path / "run")
    assert starts(engine) == EVERY_20


def test_a_watermark_set_by_a_function_holds_in_the_next_pipeline(
    spark: Any, tmp_path: Path
) -> None:
    flow = Dataflow("set")
    set_ = jump(flow).frame("set", lambda df: df.withWatermark("ts", "2 seconds"))
    windows = set_.key_by("key").window("20s", on="ts")
    windows.aggregate("twenties", n="count(*)", emit="final").sink("out", Memory())
    engine = run(flow, spark, tmp_path / "run", fusion.finest_plan(flow.graph, 2))
    assert starts(engine) == EVERY_20


def test_without_a_watermark_nothing_is_late_and_nothing_is_final(
    spark: Any, tmp_path: Path
) -> None:
    flow = Dataflow("whole")
    old = "if(id % 2 = 0, ts, timestamp_seconds(0)) AS ts"  # half of the records are very old
    events = source(flow, limit=N).frame("age", lambda df: df.selectExpr("key", old))
    events.key_by("key").window("10s", on="ts").aggregate("count", n="count(*)").sink(
        "out", Memory()
    )
    plan = fusion.default_plan(flow.graph, 2).with_pipeline("numbers", admission=50)
    engine = run(flow, spark, tmp_path / "run", plan)
    last = {(r.window.start, r.key): r.n for r in engine.rows("out")}
    assert sum(last.values()) == N
    assert not engine.observe().rows_late


def test_late_records_are_counted_one_by_one(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("late")
    old = "if(id >= 400, timestamp_seconds(0), ts) AS ts"  # all of a few groups
    events = source(flow, limit=N).frame("age", lambda df: df.selectExpr("key", old))
    windows = events.key_by("key").window("10s", on="ts", watermark="1s")
    windows.aggregate("count", n="count(*)").sink("out", Memory())
    plan = fusion.default_plan(flow.graph, 2).with_pipeline("numbers", admission=50)
    engine = run(flow, spark, tmp_path / "run", plan)
    last = {(r.window.start, r.key): r.n for r in engine.rows("out")}
    assert engine.observe().rows_late == N - sum(last.values()) == 200


def test_final_windows_without_any_watermark_are_refused(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("never")
    events = source(flow).frame("same", lambda df: df)
    windows = events.key_by("key").window("10s", on="ts")
    windows.aggregate("count", n="count(*)", emit="final").sink("out", Memory())
    with pytest.raises(InvalidDataflow, match=r"operator 'count' .*emit='final' needs a watermark"):
        run(flow, spark, tmp_path / "run")


def test_marks_come_through_changes_and_a_restart(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("changed")
    tens = jump(flow).key_by("key").window("10s", on="ts", watermark="1s")
    counts = tens.aggregate("tens", n="count(*)", emit="final")
    told = counts.frame("told", lambda df: df.select("key", "n", F.window_time("window")))
    told = told.frame("named", lambda df: df.toDF("key", "n", "at"))
    windows = told.key_by("key").window("20s", on="at")
    windows.aggregate("twenties", n="sum(n)", emit="final").sink("out", Memory())
    plan = fusion.default_plan(flow.graph, 2).with_pipeline("numbers", admission=60)
    engine = SparkEngine(spark=spark)
    engine.start(flow.graph, plan, tmp_path / "run")
    until(lambda: engine.observe().rows_ingested >= 200, "some records")
    engine.apply(fusion.finest_plan(flow.graph, 2).with_pipeline("numbers", admission=60))
    until(lambda: engine.observe().rows_ingested >= 400, "more records")
    engine.apply(fusion.default_plan(flow.graph, 2))
    engine.stop(drain=False)
    before = engine.rows("out")
    again = run(flow, spark, tmp_path / "run")
    found: Counter[int] = Counter()
    kept = {(r.window.start, r.key): r.n for r in (*before, *again.rows("out"))}
    for (start, _), n in kept.items():
        found[int(start.timestamp()) - BASE] += n
    assert dict(found) == EVERY_20


def test_a_union_follows_a_mark_only_if_all_its_inputs_do(spark: Any) -> None:
    flow = Dataflow("mixed")
    once = jump(flow).key_by("id").deduplicate("once", on="ts", watermark="5s")
    other = source(flow, "others", limit=N)
    both = once.union("both", other)
    both.key_by("key").window("20s", on="ts").aggregate("twenties", n="count(*)").sink(
        "out", Memory()
    )
    times = check(flow.graph, spark).times
    assert times.marked("once")
    assert not times.marked("both")
    assert times.follows["twenties"] == (None,)


def test_the_event_time_that_an_operator_names_is_the_only_one(spark: Any) -> None:
    flow = Dataflow("named")
    left = jump(flow)
    right = source(flow, "others").frame("seen", lambda df: df.selectExpr("id", "ts AS seen"))
    pairs = left.key_by("id").join(
        "pairs", right.key_by("id"), left_watermark=("ts", "1s"), right_watermark=("seen", "1s")
    )
    once = pairs.key_by("id").deduplicate("once", on="seen", watermark="2s")
    once.sink("out", Memory())
    assert check(flow.graph, spark).times.follows["once"] == (2000,)


@pytest.mark.parametrize("again", range(3))
def test_a_drain_right_after_the_last_file_closes_its_windows(
    spark: Any, tmp_path: Path, again: int
) -> None:
    """The batch that closes windows has no rows of its own: nobody sees it coming."""
    folder = tmp_path / "in"
    rows = spark.range(N).selectExpr(
        "id % 3 AS key", f"timestamp_seconds(if(id = {N - 1}, {LAST}, {BASE} + id / 10)) AS ts"
    )
    rows.coalesce(1).write.parquet(str(folder))
    flow = Dataflow("files")
    read = flow.source("read", Files(folder, "key bigint, ts timestamp", format="parquet"))
    tens = read.key_by("key").window("10s", on="ts", watermark="1s")
    tens.aggregate("tens", n="count(*)", emit="final").sink("out", Memory())
    engine = SparkEngine(spark=spark)
    engine.start(flow.graph, None, tmp_path / "run")
    engine.stop()
    assert sum(starts(engine).values()) == N - 1
