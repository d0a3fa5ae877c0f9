"""Parallelism, back pressure, sinks, Spark's own sources, and what a running flow leaves behind."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock import (
    Console,
    Csv,
    Dataflow,
    Discard,
    Files,
    ForeachBatch,
    Json,
    Memory,
    Parquet,
    Pipeline,
    Plan,
    Spark,
)
from penstock.engines.spark.channels.python_sources import ChannelSource, wrapped
from penstock.engines.spark.engine import SparkEngine
from tests.engines.spark.flows import record, run, source, until

pytestmark = pytest.mark.spark


def tasks_at_work(spark: Any, engine: SparkEngine, pipeline: str) -> Counter[int]:
    """How many tasks the last stage of each recent job of a pipeline had."""
    store = spark.sparkContext._jsc.sc().statusStore()
    group = str(engine.pipelines[pipeline].query.runId)
    jobs = store.jobsList(None)
    found: Counter[int] = Counter()
    for at in range(jobs.length()):
        job = jobs.apply(at)
        if job.jobGroup().isDefined() and job.jobGroup().get() == group:
            stages = [job.stageIds().apply(i) for i in range(job.stageIds().length())]
            found[store.lastStageAttempt(max(stages)).numTasks()] += 1
    return found


@pytest.mark.parametrize("keyed", [False, True])
def test_parallelism_is_the_number_of_tasks_at_work_also_after_a_change(
    spark: Any, tmp_path: Path, keyed: bool
) -> None:
    flow = Dataflow("parallelism")
    stream = source(flow, limit=None, load="1000/s").frame("pass", lambda df: df)
    if keyed:
        stream = stream.key_by("key").aggregate("pass2", n="count(*)")
    stream.sink("out", Discard())
    names = ("numbers", "pass", *(("pass2",) if keyed else ()), "out")
    engine = SparkEngine(spark=spark)
    engine.start(
        flow.graph, Plan((Pipeline(names, 2, ceiling=4 if keyed else None),)), tmp_path / "run"
    )
    try:
        for parallelism in (2, 4, 3, 1):
            engine.apply(engine.plan.with_pipeline("pass", parallelism=parallelism))
            before = tasks_at_work(spark, engine, "numbers")[parallelism]
            until(
                lambda p=parallelism, b=before: tasks_at_work(spark, engine, "numbers")[p] >= b + 3,
                f"three batches with {parallelism} tasks",
            )
        run_id = engine.pipelines["numbers"].query.runId
        engine.apply(engine.plan.with_pipeline("pass", parallelism=2))
        assert engine.pipelines["numbers"].query.runId == run_id  # nothing was restarted
    finally:
        engine.stop(drain=False)


def test_a_full_channel_holds_its_writer_back(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("pressure")
    fast = source(flow, limit=None, load="5000/s")
    fast.frame("slow", lambda df: df).sink("out", Memory())
    plan = Plan((Pipeline(("numbers",)), Pipeline(("slow", "out"), admission=1, cadence=5)))
    engine = SparkEngine(spark=spark, channel_rows=1000)
    engine.start(flow.graph, plan, tmp_path / "run")
    try:
        until(lambda: engine.observe().pipelines["slow"].backlog_rows > 1000, "a full channel")
        filled = engine.flow.context.channel("numbers").end
        offered = engine.observe().rows_offered
        until(lambda: engine.observe().rows_offered > offered + 10_000, "much more to be offered")
        assert engine.flow.context.channel("numbers").end == filled
    finally:
        engine.stop(drain=False)


def test_channels_are_cleaned_up_behind_the_slowest_reader(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("cleaning")
    numbers = source(flow, limit=3000, load="3000/s")
    numbers.frame("one", lambda df: df.select("id")).sink("out1", Memory())
    numbers.frame("two", lambda df: df.select("id")).sink("out2", Memory())
    plan = Plan(
        (
            Pipeline(("numbers",), admission=500),  # so that it takes several batches
            Pipeline(("one", "out1")),
            Pipeline(("two", "out2"), cadence=0.5),
        )
    )
    engine = run(flow, spark, tmp_path / "run", plan)
    for sink in ("out1", "out2"):
        assert sorted(row.id for row in engine.rows(sink)) == list(range(3000))
    left = list((tmp_path / "run" / "channels" / "numbers" / "data").iterdir())
    written = engine.pipelines["numbers"].query.lastProgress.batchId
    assert len(left) <= 2 < written


def test_file_sinks_hold_every_row_once_in_flat_readable_directories(
    spark: Any, tmp_path: Path
) -> None:
    flow = Dataflow("files")
    ids = source(flow, limit=400).frame("ids", lambda df: df.select("id", "key"))
    ids.sink("parquet", Parquet(str(tmp_path / "p")))
    ids.sink("json", Json(str(tmp_path / "j")))
    ids.sink("csv", Csv(str(tmp_path / "c"), header=True))
    engine = run(flow, spark, tmp_path / "run")
    expected = [(i, f"k{i % 10}") for i in range(400)]
    assert sorted(map(tuple, spark.read.parquet(str(tmp_path / "p")).collect())) == expected
    assert sorted((r.id, r.key) for r in spark.read.json(str(tmp_path / "j")).collect()) == expected
    csv = spark.read.csv(str(tmp_path / "c"), header=True, inferSchema=True)
    assert sorted(map(tuple, csv.collect())) == expected
    plain = pq.read_table(tmp_path / "p").sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in plain] == expected
    assert engine.observe().sinks == {"parquet": 400, "json": 400, "csv": 400}
    assert engine.observe().rows_delivered == 1200
    # A second run into the same directory adds to it.
    run(flow, spark, tmp_path / "again")
    assert spark.read.parquet(str(tmp_path / "p")).count() == 800


def test_sinks_for_batches_and_for_formats_of_spark(spark: Any, tmp_path: Path) -> None:
    seen: dict[int, int] = {}
    flow = Dataflow("sinks")
    ids = source(flow, limit=400).frame("ids", lambda df: df.select("id"))
    ids.sink("each", ForeachBatch(lambda df, batch: seen.update({batch: df.count()})))
    ids.sink("native", Spark("json", path=str(tmp_path / "native")))
    engine = run(flow, spark, tmp_path / "run")
    assert len(engine.plan.pipelines) == 2  # a native sink has a query of its own
    assert sum(seen.values()) == 400
    assert list(seen) == sorted(seen)
    assert sorted(r.id for r in spark.read.json(str(tmp_path / "native")).collect()) == list(
        range(400)
    )
    assert engine.observe().sinks == {"each": 400, "native": 400}


def test_sinks_that_look_at_a_part_of_a_batch_leave_the_state_whole(
    spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flow = Dataflow("partial")
    counted = source(flow, limit=400).key_by("id").aggregate("counts", n="count(*)")
    counted.sink("shown", Console(rows=1))
    engine = run(
        flow, spark, tmp_path / "run", Plan((Pipeline(("numbers", "counts", "shown"), 2),))
    )
    assert engine.observe().sinks == {"shown": 400}
    assert engine.observe().pipelines["numbers"].state_rows == 400
    assert "only showing top 1 row" in capfd.readouterr().out


def test_files_are_read_to_the_last_one_before_a_drained_stop(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for part in range(4):
        lines = [json.dumps(record(i)) for i in range(part * 50, part * 50 + 50)]
        (folder / f"{part}.json").write_text("\n".join(lines))
    flow = Dataflow("reading")
    records = flow.source(
        "files", Files(str(folder), "id bigint, key string, amount bigint", maxFilesPerTrigger=1)
    )
    records.key_by("key").aggregate("sums", n="count(*)").sink("out", Memory())
    engine = SparkEngine(spark=spark)
    engine.start(flow.graph, None, tmp_path / "run")
    engine.stop()
    assert {row.key: row.n for row in engine.rows("out")} == {f"k{k}": 20 for k in range(10)}
    assert engine.observe().rows_ingested == 200
    # What has been read is not read again.
    (folder / "4.json").write_text(json.dumps(record(3)))
    again = SparkEngine(spark=spark)
    again.start(flow.graph, None, tmp_path / "run")
    again.stop()
    assert [(row.key, row.n) for row in again.rows("out")] == [("k3", 21)]


def test_any_streaming_format_of_spark_is_a_source_spread_as_planned(
    spark: Any, tmp_path: Path
) -> None:
    flow = Dataflow("rate")
    rows = flow.source("rate", Spark("rate", rowsPerSecond=500, numPartitions=1))
    rows.frame("values", lambda df: df.select("value")).sink("out", Memory())
    engine = SparkEngine(spark=spark)
    engine.start(flow.graph, Plan((Pipeline(("rate", "values", "out"), 3),)), tmp_path / "run")
    try:
        until(lambda: engine.observe().rows_delivered > 1000, "a thousand rows")
        assert tasks_at_work(spark, engine, "rate")[3] > 0
    finally:
        engine.stop()
    values = sorted(row.value for row in engine.rows("out"))
    assert values == list(range(len(values)))


def test_latency_is_measured_from_when_a_record_is_due(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("latency")
    source(flow, limit=None, load="500/s").frame("a", lambda df: df).frame("b", lambda df: df).sink(
        "out", Discard()
    )
    flow.constrain("a", "b", latency="5s", window="4s")
    plan = Plan((Pipeline(("numbers", "a"), cadence=1.0), Pipeline(("b", "out"))))
    engine = SparkEngine(spark=spark)
    engine.start(flow.graph, plan, tmp_path / "run")
    try:
        until(lambda: engine.observe().rows_delivered > 3000, "some seconds of records")
        seen = engine.observe().latency["a->b"]
    finally:
        engine.stop(drain=False)
    # A record waits half a cadence on average, then for two batches and a hop.
    assert 0.5 < seen.mean < 3
    assert seen.p50 <= seen.p95 <= seen.p99
    assert seen.met


def test_queries_may_add_to_the_environment_of_a_source_at_the_same_time(spark: Any) -> None:
    function = wrapped(spark, ChannelSource)
    concurrent = spark._jvm.java.lang.Class.forName("java.util.concurrent.ConcurrentMap")
    assert concurrent.isInstance(function.envVars())
    assert dict(function.envVars()) == spark.sparkContext.environment
