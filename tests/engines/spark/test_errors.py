"""Bad records, failing operators and impossible dataflows on Spark."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from penstock import Dataflow, FlowFailed, InvalidDataflow, Memory, Pipeline, Plan
from penstock.engines.spark.engine import SparkEngine
from tests.engines.spark.flows import run, source, until

pytestmark = pytest.mark.spark

N = 200


def letters(run_dir: Path, operator: str) -> list[dict[str, Any]]:
    files = sorted((run_dir / "dead" / operator).rglob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def picky(record: dict[str, Any]) -> dict[str, Any]:
    if record["id"] % 50 == 7:
        raise ValueError(f"bad {record['id']}")
    return {"id": record["id"], "amount": record["amount"]}


def choosy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if 13 in batch["id"].to_pylist():
            raise RuntimeError("no thirteen")
        yield batch


class Grumpy(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            if row.id == 21:
                raise ArithmeticError("not twenty-one")
            yield Row(id=row.id)

    def close(self) -> None:
        pass


def test_records_that_python_operators_cannot_process_become_dead_letters(
    spark: Any, tmp_path: Path
) -> None:
    flow = Dataflow("letters")
    (
        source(flow, limit=N)
        .map("picky", picky, schema="id bigint, amount bigint")
        .arrow("choosy", choosy, schema="id bigint, amount bigint")
        .frame("native", lambda df: df, reject="id = 30")
        .key_by("amount")
        .process("grumpy", Grumpy, schema="id bigint")
        .sink("out", Memory())
    )
    engine = run(flow, spark, tmp_path / "run")
    picked = [7, 57, 107, 157]
    bad = {*picked, 13, 30, 21}
    assert sorted(row.id for row in engine.rows("out")) == [i for i in range(N) if i not in bad]
    found = letters(tmp_path / "run", "picky")
    assert sorted(letter["record"]["id"] for letter in found) == picked
    assert found[0]["operator"] == "picky"
    assert {letter["error"] for letter in found} == {f"ValueError: bad {i}" for i in picked}
    (thirteen,) = letters(tmp_path / "run", "choosy")
    assert (thirteen["error"], thirteen["record"]["id"]) == ("RuntimeError: no thirteen", 13)
    (thirty,) = letters(tmp_path / "run", "native")
    assert (thirty["error"], thirty["record"]["id"]) == ("rejected: id = 30", 30)
    (last,) = letters(tmp_path / "run", "grumpy")
    assert (last["error"], last["record"]["id"]) == ("ArithmeticError: not twenty-one", 21)
    assert engine.observe().rows_dead == len(bad)


def test_letters_of_partitions_that_one_task_serves_are_all_kept(
    spark: Any, tmp_path: Path
) -> None:
    flow = Dataflow("shared")
    one = source(flow, "one", limit=N)
    two = source(flow, "two", limit=N)
    both = one.union("both", two).map("picky", picky, schema="id bigint, amount bigint")
    both.key_by("amount").process("grumpy", Grumpy, schema="id bigint").sink("out", Memory())
    operators = ("one", "two", "both", "picky", "grumpy", "out")
    engine = run(flow, spark, tmp_path / "run", Plan((Pipeline(operators, 1, ceiling=4),)))
    found = letters(tmp_path / "run", "picky")
    assert sorted(letter["record"]["id"] for letter in found) == sorted([7, 57, 107, 157] * 2)
    assert len(letters(tmp_path / "run", "grumpy")) == 2
    assert engine.observe().rows_dead == 10
    assert len(engine.rows("out")) == 2 * N - 10


def test_a_pipeline_that_is_stopped_while_it_is_mended_stays_stopped(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Dataflow("mended")
    source(flow).sink("out", Memory())
    engine = SparkEngine(spark=spark)
    engine.start(flow.graph, None, tmp_path / "run")
    try:
        (pipeline,) = engine.pipelines.values()
        starting, stopped, begin = threading.Event(), threading.Event(), pipeline._begin

        def slowly(*given: Any) -> Any:
            starting.set()
            stopped.wait(0.5)  # in vain, unless stopping does not wait for this
            return begin(*given)

        monkeypatch.setattr(pipeline, "_begin", slowly)
        mending = threading.Thread(target=pipeline.restart)
        mending.start()
        assert starting.wait(30)
        pipeline.stop()
        stopped.set()
        mending.join(30)
        assert not pipeline.query.isActive
        pipeline.restart()
        assert not pipeline.query.isActive
    finally:
        engine.stop(drain=False)


def _failing(flow: Dataflow, spark: Any, run_dir: Path) -> FlowFailed:
    engine = SparkEngine(spark=spark)
    engine.start(flow.graph, None, run_dir)
    try:
        until(lambda: engine.failure is not None, "the flow to fail", 120)
        with pytest.raises(FlowFailed) as caught:
            engine.observe()
    finally:
        engine.stop(drain=False)
    return caught.value


def test_an_operator_set_to_fail_stops_the_flow_and_is_named(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("failing")
    numbers = source(flow, limit=N)
    numbers.map("picky", picky, schema="id bigint, amount bigint", on_error="fail").sink(
        "out", Memory()
    )
    said = str(_failing(flow, spark, tmp_path / "run"))
    assert said.startswith("operator 'picky' (")
    assert "test_errors.py:" in said
    bad = re.search(r"ValueError: bad (\d+)", said)  # which task gets to its bad record first
    assert bad is not None
    assert f'"id": {bad[1]}' in said


def test_a_native_function_that_throws_is_retried_and_then_named(
    spark: Any, tmp_path: Path
) -> None:
    flow = Dataflow("native")
    parsed = source(flow, limit=N).frame("fine", lambda df: df.select("id", "key"))
    parsed.frame("broken", lambda df: df.selectExpr("cast(key as int) AS n")).frame(
        "after", lambda df: df.selectExpr("n + 1 AS m")
    ).sink("out", Memory())
    said = str(_failing(flow, spark, tmp_path / "run"))
    assert "4 times" in said
    assert "CAST_INVALID_INPUT" in said
    assert "operator 'broken'" in said


def test_problems_that_only_spark_sees_are_all_reported_at_once(spark: Any, tmp_path: Path) -> None:
    lock = threading.Lock()
    flow = Dataflow("wrong")
    numbers = source(flow)
    numbers.frame("typo", lambda df: df.select("amuont")).sink("a", Memory())
    numbers.frame("nothing", lambda df: None).sink("b", Memory())
    numbers.frame("hidden", lambda df: df.groupBy("key").count()).sink("c", Memory())
    numbers.frame("twice", lambda df: df.union(df)).sink("d", Memory())
    numbers.map("locked", lambda r: {"id": lock and r["id"]}, schema="id bigint").sink(
        "e", Memory()
    )
    numbers.frame("maps", lambda df: df.selectExpr("map(key, id) AS m")).key_by("m").aggregate(
        "grouped", n="count(*)"
    ).sink("f", Memory())
    numbers.frame("narrow", lambda df: df.select("id")).key_by("key").aggregate(
        "lost", n="count(*)"
    ).sink("g", Memory())
    with pytest.raises(InvalidDataflow) as caught:
        SparkEngine(spark=spark).start(flow.graph, None, tmp_path / "run")
    said = {p.operator: p.message for p in caught.value.problems}
    assert "amuont" in said["typo"]
    assert "must return a DataFrame" in said["nothing"]
    assert "holds a aggregate" in said["hidden"] or "holds an aggregate" in said["hidden"]
    assert "more than once" in said["twice"]
    assert "cannot ship" in said["locked"]
    assert "'lock'" in said["locked"]
    assert "map" in said["grouped"]
    assert "'key'" in said["lost"]
    assert all("test_errors.py" in str(p) for p in caught.value.problems)
    assert not (tmp_path / "run").exists()


class OfPandas(Grumpy):
    """Written for transformWithStateInPandas, without saying so."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        yield pd.DataFrame({"id": [sum(len(row) for row in rows)]})


class SaysSo(Grumpy):
    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        yield from rows


class TooFew(Grumpy):
    def handleInputRows(self, key: Any, rows: Iterator[Row]) -> Iterator[Row]:  # type: ignore[override]
        yield from rows


def raising() -> Any:
    raise OSError("no model")


def test_what_is_no_processor_is_refused_before_the_start(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("kinds")
    keyed = source(flow).key_by("key")
    for name, made in {
        "says": SaysSo,
        "few": TooFew,
        "none": lambda: {},
        "raising": raising,
        "fine": Grumpy,
    }.items():
        keyed.process(name, made, schema="id bigint").sink(f"{name}-out", Memory())
    with pytest.raises(InvalidDataflow) as caught:
        SparkEngine(spark=spark).start(flow.graph, None, tmp_path / "run")
    said = {p.operator: p.message for p in caught.value.problems}
    assert "transformWithStateInPandas (rows: Iterator[pd.DataFrame])" in said["says"]
    assert "its handleInputRows takes 2 arguments, and Spark calls it with 3" in said["few"]
    assert "a value of type dict" in said["none"]
    assert "OSError: no model" in said["raising"]
    assert set(said) == {"says", "few", "none", "raising"}


def test_a_processor_that_yields_pandas_fails_the_flow_at_once(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("pandas")
    source(flow, limit=N).key_by("key").process("counted", OfPandas, schema="id bigint").sink(
        "out", Memory()
    )
    said = str(_failing(flow, spark, tmp_path / "run"))
    assert said.startswith("operator 'counted' (")
    assert "makes a pandas DataFrame" in said
    assert "yield Row(...)" in said
    assert letters(tmp_path / "run", "counted") == []
