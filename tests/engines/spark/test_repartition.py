"""Cutting state anew: refused where Spark cannot do it, and undone where it fails."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import Dataflow, Files, Memory, Pipeline, Plan
from penstock.engines.spark.changes import repartition
from penstock.engines.spark.engine import SparkEngine
from penstock.errors import Refused
from tests.engines.spark.flows import source, until

STATES = "org.apache.spark.sql.execution.streaming.state"
HDFS = f"{STATES}.HDFSBackedStateStoreProvider"
ROCKSDB = f"{STATES}.RocksDBStateStoreProvider"


def checkpoint(folder: Path, provider: str, parts: int = 3) -> Path:
    """A checkpoint with one batch, as far as its settings go."""
    conf = {repartition._PROVIDER: provider, "spark.sql.shuffle.partitions": str(parts)}
    for name in ("offsets", "commits", "state"):
        (folder / name).mkdir(parents=True)
    (folder / "offsets" / "0").write_text(f"v1\n{json.dumps({'conf': conf})}\n{{}}")
    (folder / "commits" / "0").write_text("v1\n{}")
    (folder / "state" / "1.zip").write_text("state")
    return folder


def files(folder: Path) -> dict[str, str]:
    return {str(f.relative_to(folder)): f.read_text() for f in folder.rglob("*") if f.is_file()}


class Manager:
    """Stands in for Spark: adds a batch, and then does as it is told."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self._streamingCheckpointManager = self
        self._then = then

    def repartition(self, folder: str, parts: int, strict: bool) -> None:
        assert strict
        text = (Path(folder) / "offsets" / "0").read_text()
        (Path(folder) / "offsets" / "1").write_text(text.replace('"3"', f'"{parts}"'))
        (Path(folder) / "state" / "1.zip").unlink()
        self._then()


def test_state_that_is_not_in_rocksdb_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "state-count", HDFS)
    before = files(folder)
    spark: Any = Manager()
    with pytest.raises(Refused, match="is kept by HDFSBackedStateStoreProvider, and Spark can cut"):
        repartition.repartition(spark, folder, 5)
    assert files(tmp_path) == {f"state-count/{name}": text for name, text in before.items()}


def test_a_copy_is_kept_until_it_is_discarded(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "state-count", ROCKSDB)
    spark: Any = Manager()
    assert repartition.repartition(spark, folder, 5)
    assert repartition.partitions(folder) == 5
    assert repartition.partitions(tmp_path / "state-count.before") == 3
    repartition.discard_copy(folder)
    repartition.discard_copy(folder)
    assert [f.name for f in tmp_path.iterdir()] == ["state-count"]
    assert repartition.partitions(folder) == 5
    assert not repartition.repartition(spark, folder, 5)


def test_without_a_guard_there_is_no_copy(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "state-count-000002", ROCKSDB)
    spark: Any = Manager()
    assert repartition.repartition(spark, folder, 5, guarded=False)
    assert [f.name for f in tmp_path.iterdir()] == ["state-count-000002"]


def test_a_second_attempt_begins_with_the_state_as_it_was(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "state-count", ROCKSDB)
    before = files(folder)
    spark: Any = Manager()
    for _ in range(2):
        assert repartition.repartition(spark, folder, 5)
        assert repartition.partitions(folder) == 5
        assert files(tmp_path / "state-count.before") == before


@pytest.mark.parametrize("links", [True, False])
def test_a_cut_that_fails_in_the_middle_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def fail() -> None:
        raise RuntimeError("in the middle")

    def no_links(*_: Any) -> None:
        raise OSError("no links here")

    if not links:
        monkeypatch.setattr(os, "link", no_links)
    folder = checkpoint(tmp_path / "state-count", ROCKSDB)
    before = files(folder)
    spark: Any = Manager(fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        repartition.repartition(spark, folder, 5)
    repartition.restore(folder)
    assert files(folder) == before
    assert [f.name for f in tmp_path.iterdir()] == ["state-count"]


def test_a_copy_that_a_crash_cut_off_is_not_put_back(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "state-count", ROCKSDB)
    before = files(folder)
    (tmp_path / "state-count.draft").mkdir()
    repartition.restore(folder)
    assert files(folder) == before


@pytest.mark.spark
def test_a_plain_query_starts_again_after_its_repartitioning_was_refused(
    spark: Any, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    key = "spark.sql.streaming.stateStore.providerClass"

    def count(words: str, file: str) -> dict[str, int]:
        (tmp_path / "in" / file).write_text(words)
        lines = spark.readStream.format("text").schema("value string").load(str(tmp_path / "in"))
        found: dict[str, int] = {}

        def keep(frame: Any, _: int) -> None:
            found.update({row["value"]: row["count"] for row in frame.collect()})

        query = (
            lines.groupBy("value")
            .count()
            .writeStream.foreachBatch(keep)
            .outputMode("update")
            .trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / "plain"))
            .start()
        )
        query.awaitTermination(60)
        return found

    shuffle = "spark.sql.shuffle.partitions"
    before = {name: spark.conf.get(name) for name in (key, shuffle)}
    spark.conf.set(key, HDFS)
    spark.conf.set(shuffle, "2")
    try:
        assert count("a\nb\na", "one") == {"a": 2, "b": 1}
        with pytest.raises(Refused, match="kept by HDFSBackedStateStoreProvider"):
            repartition.repartition(spark, tmp_path / "plain", 3)
        assert count("a\n", "two") == {"a": 3}
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


@pytest.mark.spark
def test_a_cut_that_spark_fails_at_leaves_a_flow_that_goes_on(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Dataflow("cut")
    rows = source(flow, limit=None, load="300/s")
    rows.key_by("key").aggregate("count", n="count(*)").sink("out", Memory())
    plan = Plan((Pipeline(("numbers", "count", "out"), 1, ceiling=2),))
    engine = SparkEngine(spark=spark, make_before_break=False)
    engine.start(flow.graph, plan, tmp_path / "run")
    manager = spark._streamingCheckpointManager
    whole = manager.repartition

    def broken(folder: str, parts: int, strict: bool) -> None:
        whole(folder, parts, strict)
        newest = max((Path(folder) / "commits").glob("[0-9]*"), key=lambda f: int(f.name))
        newest.unlink()  # as if it had not come to its end
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(type(spark), "_streamingCheckpointManager", property(lambda _: manager))
    monkeypatch.setattr(manager, "repartition", broken)
    try:
        until(lambda: engine.observe().rows_delivered > 0, "some rows")
        with pytest.raises(Refused, match="the change failed and was undone: the disk is full"):
            engine.apply(plan.with_pipeline("count", ceiling=3))
        monkeypatch.undo()
        taken = engine.observe().rows_ingested
        until(lambda: engine.observe().rows_ingested > taken, "more rows")
        engine.apply(plan.with_pipeline("count", ceiling=3))
    finally:
        engine.stop()
    taken = engine.ingested()["numbers"]
    expected = {f"k{k}": len(range(k, taken, 10)) for k in range(10)}
    assert {row.key: row.n for row in engine.rows("out")} == expected


@pytest.mark.spark
def test_a_flow_keeps_its_state_in_rocksdb_whatever_the_session_says(
    spark: Any, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one").write_text("a\nb\na")
    flow = Dataflow("words")
    lines = flow.source("lines", Files(str(tmp_path / "in"), "value string", format="text"))
    lines.key_by("value").aggregate("count", n="count(*)").sink("out", Memory())
    key = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(key)
    engine = SparkEngine(spark=spark)
    spark.conf.set(key, HDFS)
    try:
        engine.start(flow.graph, Plan((Pipeline(("lines", "count", "out"), 2),)), tmp_path / "run")
        engine.stop()
        assert spark.conf.get(key) == HDFS  # the session's own queries keep what they had
    finally:
        spark.conf.set(key, before)
    repartition.check(tmp_path / "run" / "checkpoints" / "state-count")
    assert {row.value: row.n for row in engine.rows("out")} == {"a": 2, "b": 1}
