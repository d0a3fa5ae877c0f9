from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from pyarrow import csv, parquet

from penstock.metrics.snapshot import OperatorMetrics
from penstock.store import tables
from penstock.store.history import snapshots

from .conftest import Run

pytestmark = pytest.mark.usefixtures("here")


def test_everything_is_exported_a_file_a_table(mine: Path, penstock: Run) -> None:
    code, out, err = penstock("export", "mine")
    assert (code, err) == (0, "")
    assert [line.split()[-1] for line in out.splitlines()] == [
        f"mine/export/{table.name}.parquet" for table in tables.ALL
    ]
    found = parquet.read_table(mine / "export" / "snapshots.parquet")
    assert found["rows_ingested"].to_pylist() == [s.rows_ingested for s in snapshots(mine)]
    assert found.schema.field("rows_ingested").metadata == {
        b"unit": b"rows",
        b"meaning": b"records taken in by the sources so far",
    }
    pipelines = parquet.read_table(mine / "export" / "pipelines.parquet")
    assert set(pipelines["parallelism"].to_pylist()) == {1, 4}
    assert pipelines["rate_out"].to_pylist()[-2:] == [1000.0, None]  # not measured is null
    assert {f.name for f in fields(OperatorMetrics)} < {
        *parquet.read_schema(mine / "export" / "operators.parquet").names
    }


def test_csv_and_json_hold_the_same(mine: Path, penstock: Run) -> None:
    assert penstock("export", "mine", "--format", "csv", "--out", "a")[0] == 0
    assert penstock("export", "mine", "--format", "json", "--out", "b/c")[0] == 0
    rows: list[dict[str, Any]] = json.loads(Path("b/c/transitions.json").read_text())
    assert [row["changes"] for row in rows] == [["tweets: parallelism 1 -> 4"]]
    assert rows[0]["phases"] == []
    table = csv.read_csv("a/snapshots.csv")
    written = json.loads(Path("b/c/snapshots.json").read_text())
    assert table["at"].to_pylist() == pytest.approx([row["at"] for row in written])
    first = Path("a/pipelines.csv").read_text().splitlines()[1]
    assert first.startswith('1,0,"tweets","tweets",1,')
    for path in (*Path("a").iterdir(), *Path("b/c").iterdir()):
        assert not path.name.startswith(".")


@pytest.mark.usefixtures("mine")
def test_an_export_may_begin_late(penstock: Run) -> None:
    data = json.loads(penstock("export", "mine", "--json", "--since", "4s")[1])
    assert data["tables"]["transitions"]["rows"] == 0
    assert 0 < data["tables"]["snapshots"]["rows"] < 6


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "xml"], "no format is called 'xml'; there are parquet, csv, json"),
        (["--out", "file"], "cannot write to 'file"),
        (["--since", "9h"], "nothing was measured in 'mine' since then"),
    ],
)
def test_what_cannot_be_exported_is_one_line(penstock: Run, words: list[str], said: str) -> None:
    Path("file").write_text("")
    code, out, err = penstock("export", "mine", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"penstock: {said}")
