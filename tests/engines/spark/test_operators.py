"""Every operator form gives on Spark what a plain computation gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

from penstock import Dataflow, Memory, Pipeline, Plan
from penstock.plan import fusion
from tests.engines.spark.flows import record, run, source

pytestmark = pytest.mark.spark

N = 500
RECORDS = [record(i) for i in range(N)]


def rows(engine: Any, sink: str = "out") -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in engine.rows(sink))


def last(engine: Any, keys: int, sink: str = "out") -> dict[Any, Any]:
    """The last row of each key, where a sink holds updates."""
    return {tuple(row)[:keys]: tuple(row)[keys:] for row in engine.rows(sink)}


def halves(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        half = pc.divide(batch["amount"], 2)
        yield pa.RecordBatch.from_arrays([batch["id"], half], names=["id", "half"])


def stateless(flow: Dataflow) -> None:
    (
        source(flow, limit=N)
        .frame("positive", lambda df: df.where("amount > 0").select("id", "amount"))
        .map(
            "next",
            lambda r: {"id": r["id"], "amount": r["amount"] + 1},
            schema="id bigint, amount int",
        )
        .flat_map(
            "copies",
            lambda r: [(r["id"], r["amount"])] * (r["id"] % 3),
            schema="id bigint, amount int",
        )
        .filter("even", lambda r: r["id"] % 2 == 0)
        .arrow("halves", halves, schema="id bigint, half int")
        .sink("out", Memory())
    )


STATELESS = sorted(
    (r["id"], (r["amount"] + 1) // 2)
    for r in RECORDS
    if r["amount"] > 0 and r["id"] % 2 == 0
    for _ in range(r["id"] % 3)
)


@pytest.mark.parametrize("plan", ["fused", "finest"])
def test_stateless_operators_of_all_forms_fused_or_apart(
    spark: Any, tmp_path: Path, plan: str
) -> None:
    flow = Dataflow("stateless")
    stateless(flow)
    make = fusion.default_plan if plan == "fused" else fusion.finest_plan
    engine = run(flow, spark, tmp_path / "run", make(flow.graph, 2))
    assert len(engine.plan.pipelines) == (1 if plan == "fused" else 6)
    assert rows(engine) == STATELESS


def test_a_keyed_aggregation_ends_with_the_totals_of_every_key(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    flow = Dataflow("aggregate")
    keyed = source(flow, limit=N).key_by("key")
    keyed.aggregate("sums", F.sum("amount").alias("total"), n="count(*)").sink("out", Memory())
    engine = run(flow, spark, tmp_path / "run")
    expected = {
        (f"k{k}",): (sum(r["amount"] for r in RECORDS if r["key"] == f"k{k}"), N // 10)
        for k in range(10)
    }
    assert last(engine, 1) == expected


POSITIONS = "key string, id bigint, n bigint, ordered boolean"


class Position(StatefulProcessor):
    """Numbers the records of a key, and notices one that is out of order."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        fields = [StructField("n", LongType()), StructField("last", LongType())]
        self.state = handle.getValueState("seen", StructType(fields))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        n, before = self.state.get() if self.state.exists() else (0, -1)
        for row in rows:
            n += 1
            yield Row(key=key[0], id=row.id, n=n, ordered=row.id > before)
            before = row.id
        self.state.update((n, before))

    def close(self) -> None:
        pass


def test_a_stateful_processor_sees_the_records_of_a_key_in_order(
    spark: Any, tmp_path: Path
) -> None:
    flow = Dataflow("process")
    (
        source(flow, limit=N)
        .frame("same", lambda df: df)
        .key_by("key")
        .process("position", Position, schema=POSITIONS)
        .sink("out", Memory())
    )
    plan = Plan((Pipeline(("numbers", "same"), 3), Pipeline(("position", "out"), 3)))
    engine = run(flow, spark, tmp_path / "run", plan)
    assert rows(engine) == sorted((r["key"], r["id"], r["id"] // 10 + 1, True) for r in RECORDS)


class Running(StatefulProcessor):
    """The running sum over everything."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("sum", StructType([StructField("v", LongType())]))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        total = self.state.get()[0] if self.state.exists() else 0
        for row in rows:
            total += row.amount
            yield Row(id=row.id, total=total)
        self.state.update((total,))

    def close(self) -> None:
        pass


def test_a_global_step_sees_every_record_in_order(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("global")
    source(flow, limit=N).process_all("running", Running, schema="id bigint, total bigint").sink(
        "out", Memory()
    )
    engine = run(flow, spark, tmp_path / "run")
    assert engine.plan.pipelines[0].parallelism == 1
    sums = [sum(r["amount"] for r in RECORDS[: i + 1]) for i in range(N)]
    assert rows(engine) == list(enumerate(sums))


def test_windows_count_by_event_time_as_updates_and_once_when_final(
    spark: Any, tmp_path: Path
) -> None:
    flow = Dataflow("windows")
    events = source(flow, limit=N)
    keyed = events.key_by("key").window("10s", on="ts", watermark="1s")
    keyed.aggregate("updates", n="count(*)").sink("updated", Memory())
    keyed.aggregate("finals", n="count(*)", emit="final").sink("closed", Memory())
    engine = run(flow, spark, tmp_path / "run")
    expected = Counter((i // 100, f"k{i % 10}") for i in range(N))  # ts = id / 10 s

    def counts(sink: str) -> dict[tuple[int, str], int]:
        return {(int(r.window.start.timestamp()) // 10, r.key): r.n for r in engine.rows(sink)}

    assert counts("updated") == expected
    closed = counts("closed")
    assert len(engine.rows("closed")) == len(closed)
    assert closed.items() <= expected.items()
    assert {window for window, _ in closed} == {0, 1, 2, 3}  # the last window is still open


def test_rows_behind_the_watermark_are_dropped_and_counted(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("late")
    old = "if(id >= 250 and id % 50 = 0, timestamp_seconds(0), ts) as ts"
    events = source(flow, limit=N).frame("age", lambda df: df.selectExpr("key", old))
    windows = events.key_by("key").window("10s", on="ts", watermark="1s")
    windows.aggregate("count", n="count(*)").sink("out", Memory())
    plan = fusion.default_plan(flow.graph, 2).with_pipeline("numbers", admission=50)
    engine = run(flow, spark, tmp_path / "run", plan)
    late = len(range(250, N, 50))  # each in a batch of its own
    assert engine.observe().rows_late == late
    counts = {(r.window.start, r.key): r.n for r in engine.rows("out")}
    assert sum(counts.values()) == N - late


def test_deduplication_lets_each_key_pass_once(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("deduplicate")
    source(flow, limit=N).key_by("key", "amount").deduplicate("first").sink("out", Memory())
    engine = run(flow, spark, tmp_path / "run")
    seen = sorted((row.key, row.amount) for row in engine.rows("out"))
    assert seen == sorted({(r["key"], r["amount"]) for r in RECORDS})


@pytest.mark.parametrize("plan", ["fused", "finest"])
def test_a_join_of_two_sources_pairs_equal_keys(spark: Any, tmp_path: Path, plan: str) -> None:
    flow = Dataflow("join")
    left = source(flow, "left", limit=200).frame("l1", lambda df: df.select("id", "amount"))
    right = source(flow, "right", limit=300).frame(
        "r1", lambda df: df.select("id", "key", "amount")
    )
    left.key_by("id").join("both", right.key_by("id")).sink("out", Memory())
    make = fusion.default_plan if plan == "fused" else fusion.finest_plan
    engine = run(flow, spark, tmp_path / "run", make(flow.graph, 2))
    assert len(engine.plan.pipelines) == (1 if plan == "fused" else 5)
    assert rows(engine) == [(i, i % 7, f"k{i % 10}", i % 7) for i in range(200)]


def test_branches_meet_again_in_a_union(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("branches")
    numbers = source(flow, limit=N)
    low = numbers.filter("low", lambda r: r["amount"] < 3)
    high = numbers.frame("high", lambda df: df.where("amount >= 3"))
    low.union("all", high).frame("ids", lambda df: df.select("id")).sink("out", Memory())
    numbers.sink("raw", Memory())
    engine = run(flow, spark, tmp_path / "run")
    assert rows(engine) == [(i,) for i in range(N)]
    assert sorted(row.id for row in engine.rows("raw")) == list(range(N))


def test_a_barrier_waits_for_one_record_of_every_input(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("barrier")
    one = source(flow, "one", limit=120).frame("a", lambda df: df.select("key", "id"))
    two = source(flow, "two", limit=60).frame("b", lambda df: df.select("key", "id"))
    one.key_by("key").barrier("pairs", two.key_by("key")).sink("out", Memory())
    engine = run(flow, spark, tmp_path / "run")
    found = sorted((r.key, r.a.id, r.b.id) for r in engine.rows("out"))
    assert found == sorted((f"k{i % 10}", i, i) for i in range(60))


def test_a_barrier_without_a_key_pairs_in_arrival_order(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("barrier-all")
    one = source(flow, "one", limit=50).frame("a", lambda df: df.select("id"))
    two = source(flow, "two", limit=30).frame("b", lambda df: df.select("id"))
    one.barrier("pairs", two).sink("out", Memory())
    engine = run(flow, spark, tmp_path / "run")
    assert sorted((r.a.id, r.b.id) for r in engine.rows("out")) == [(i, i) for i in range(30)]
