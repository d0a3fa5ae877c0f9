"""File sinks that are partitioned by columns: each batch once, and read back as written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock import Dataflow, Json, Parquet
from penstock.dataflow.connectors import FileSink
from penstock.engines.spark.queries.sinks import Outlets
from tests.engines.spark.flows import run, source

pytestmark = pytest.mark.spark


def files(folder: Path) -> list[str]:
    found = (f for f in folder.rglob("*") if f.is_file() and f.suffix != ".crc")
    return sorted(str(f.relative_to(folder)) for f in found)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_batch_that_comes_again_replaces_what_it_left_in_every_directory(
    spark: Any, tmp_path: Path, scheme: str
) -> None:
    sink = Json(f"{scheme}{tmp_path}", partitionBy=["Channel", "day"])
    outlets, rows = Outlets("run"), "Channel string, day date, n int"

    def deliver(sql: str, tag: str, again: bool) -> None:
        outlets.deliver("out", sink, spark.sql(f"SELECT * FROM VALUES {sql}"), tag, again)

    def frame(values: str) -> str:
        return f"{values} AS t(Channel, day, n)"

    deliver(frame("('a/b', DATE'2026-01-01', 1), ('x', DATE'2026-01-02', 2)"), "1-1", False)
    deliver(frame("('x', DATE'2026-01-02', 3), (NULL, DATE'2026-01-02', 4)"), "1-2", False)
    deliver(frame("('x', DATE'2026-01-03', 5)"), "1-2", True)
    assert files(tmp_path) == [
        "Channel=a%2Fb/day=2026-01-01/run-1-1-00000.json",
        "Channel=x/day=2026-01-02/run-1-1-00001.json",
        "Channel=x/day=2026-01-03/run-1-2-00000.json",
    ]
    found = spark.read.schema(rows).json(str(tmp_path)).orderBy("n").collect()
    assert [(row.Channel, row.n) for row in found] == [("a/b", 1), ("x", 2), ("x", 5)]


@pytest.mark.parametrize("kind", [Parquet, Json])
def test_a_flow_writes_directories_and_reads_them_back(
    spark: Any, tmp_path: Path, kind: Any
) -> None:
    sink: FileSink = kind(str(tmp_path / "out"), partitionBy="key")
    flow = Dataflow("parts")
    source(flow, limit=200).frame("slim", lambda df: df.select("id", "key")).sink("out", sink)
    engine = run(flow, spark, tmp_path / "run")
    folders = sorted(f.name for f in (tmp_path / "out").iterdir() if "=" in f.name)
    assert folders == [f"key=k{k}" for k in range(10)]
    read = engine.read_sink("out")
    assert read is not None
    rows = pa.Table.from_batches(list(read)).sort_by("id").to_pylist()
    assert rows == [{"id": i, "key": f"k{i % 10}"} for i in range(200)]
