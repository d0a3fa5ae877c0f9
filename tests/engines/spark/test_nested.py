"""Nested columns on Spark: names in mixed case, from files through channels and Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from pyspark.sql import Row
from pyspark.sql import types as t
from pyspark.sql.streaming import StatefulProcessor

from penstock import Dataflow, Files, Memory, Pipeline, Plan
from penstock.dataflow.schema import Schema
from penstock.engines.spark.engine import SparkEngine
from penstock.engines.spark.queries.compiler import struct_of
from tests.dataflow.test_datatype import nullable
from tests.engines.spark.flows import until
from tests.strategies import spark_structs

pytestmark = pytest.mark.spark

SIMPLE = (
    *(t.StringType(), t.BooleanType(), t.ByteType(), t.ShortType(), t.IntegerType(), t.LongType()),
    *(t.FloatType(), t.DoubleType(), t.BinaryType(), t.DateType(), t.TimestampType()),
    *(t.TimestampNTZType(), t.DayTimeIntervalType(1, 3), t.YearMonthIntervalType(0), t.TimeType(3)),
    *(t.CharType(3), t.VarcharType(9), t.StringType("UTF8_LCASE")),
)
EVENT = "p struct<dateTime:timestamp,itemList:array<struct<unitPrice:int,`a b`:string>>>"


@given(spark_structs(SIMPLE))
@settings(max_examples=60, deadline=None)
def test_spark_reads_back_any_type_as_it_was(spark: Any, struct: t.StructType) -> None:
    assert struct_of(Schema.of(struct)) == nullable(struct)


class Last(StatefulProcessor):
    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            yield Row(p=row.p)

    def close(self) -> None:
        pass


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def test_nested_names_of_json_keep_their_case_through_channels_and_python(
    spark: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    item = {"unitPrice": 7, "a b": "x"}
    events = [{"p": {"dateTime": f"2026-01-01T00:00:0{n}Z", "itemList": [item]}} for n in range(5)]
    (folder / "events.json").write_text("".join(json.dumps(e) + "\n" for e in events))
    flow = Dataflow("nested")
    (
        flow.source("in", Files(str(folder), EVENT))
        .map("mapped", lambda record: record, schema=EVENT)
        .arrow("batched", same, schema=EVENT)
        .frame("keyed", lambda df: df.selectExpr("p.dateTime AS at", "p"))
        .key_by("at")
        .process("last", Last, schema=EVENT)
        .sink("out", Memory())
    )
    plan = Plan(
        (
            Pipeline(("in", "mapped"), 1),
            Pipeline(("batched", "keyed"), 1),
            Pipeline(("last",), 1),
            Pipeline(("out",), 1),
        )
    )
    engine = SparkEngine(spark=spark)
    engine.start(flow.graph, plan, tmp_path / "run")
    try:
        until(lambda: len(engine.rows("out")) == len(events), "all events")
        rows = engine.rows("out")
        assert engine.observe().rows_dead == 0
    finally:
        engine.stop()
    assert sorted(row.p.dateTime.second for row in rows) == [0, 1, 2, 3, 4]
    assert rows[0].p.itemList[0].asDict() == item
