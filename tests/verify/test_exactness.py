"""The check of the sinks: what is right passes, and every single wrong row is seen."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.dataflow.connectors import Console, Files, Generator, Memory
from penstock.dataflow.flow import Dataflow
from penstock.errors import InvalidInput
from penstock.verify.checksum import digest, digest_rows
from penstock.verify.exactness import Verdict, read_files, verify

ROWS = [(i, f"v{i % 7}", i / 4) for i in range(100)]


def make(rng: Any, index: Any, at: Any) -> dict[str, Any]:
    return {"id": index, "name": [f"v{i % 7}" for i in index], "x": index / 4}


def oracle(inputs: Any) -> Iterator[tuple[Any, ...]]:
    return (tuple(row.values()) for row in inputs["in"].to_pylist())


def flow(keys: tuple[str, ...] = (), expected: Any = oracle) -> Dataflow:
    built = Dataflow("copy")
    built.source("in", Generator(make, "id bigint, name string, x double")).sink("out", Memory())
    built.expect("out", expected, keys)
    return built


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    ids, names, xs = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int32()), "name": names, "x": xs})


def checked(*tables: pa.Table, total: int = 100, built: Dataflow | None = None) -> Verdict:
    return verify((built or flow()).graph, {"in": total}, lambda sink: iter(tables))


def test_equal_rows_are_exact_in_any_order() -> None:
    verdict = checked(table(ROWS[50:][::-1]), table(ROWS[:50]))
    assert verdict.exact is True
    (sink,) = verdict.sinks
    assert (sink.expected_rows, sink.found_rows) == (100, 100)
    assert sink.expected_checksum == sink.found_checksum


def test_record_batches_do_as_well_as_tables() -> None:
    assert checked(*table(ROWS).to_batches(max_chunksize=7)).exact is True


def test_a_missing_row_is_seen() -> None:
    verdict = checked(table(ROWS[:99]))
    assert verdict.exact is False
    assert verdict.reason == "out: 99 rows where 100 were expected"


def test_a_doubled_row_is_seen() -> None:
    assert checked(table([*ROWS, ROWS[3]])).exact is False


def test_a_row_doubled_in_place_of_another_is_seen() -> None:
    verdict = checked(table([*ROWS[1:], ROWS[3]]))
    assert verdict.exact is False
    assert verdict.reason == "out: 100 rows as expected, but not the same ones"


@pytest.mark.parametrize("changed", [(5, "v4", 1.25), (4, "v5", 1.25), (5, "v5", 1.250001)])
def test_a_changed_value_is_seen(changed: tuple[Any, ...]) -> None:
    assert checked(table([*ROWS[:5], changed, *ROWS[6:]])).exact is False


def test_values_swapped_between_rows_are_seen() -> None:
    rows = [*ROWS[:2], (2, "v3", 0.5), (3, "v2", 0.75), *ROWS[4:]]
    assert checked(table(rows)).exact is False


def test_an_empty_sink_is_exact_for_an_empty_input_only() -> None:
    assert checked(total=0).exact is True
    assert checked(total=1).exact is False


def test_only_the_last_row_of_a_key_counts_with_updates() -> None:
    built = flow(keys=("name",), expected=lambda inputs: [("a", 3), ("b", 1), (None, 2)])
    early = pa.table({"name": ["a", "b", None], "n": [1, 1, 1]})
    late = pa.table({"name": ["a", None], "n": [3, 2]})
    assert checked(early, late, built=built).exact is True
    assert checked(late, early, built=built).exact is False
    assert checked(late, built=built).exact is False


def test_a_sink_without_the_key_column_is_not_exact() -> None:
    built = flow(keys=("word",), expected=lambda inputs: [("a", 3)])
    verdict = checked(pa.table({"name": ["a"], "n": [3]}), built=built)
    assert verdict.exact is False
    assert "no column 'word'" in verdict.reason


def test_nothing_is_claimed_where_nothing_can_be_checked() -> None:
    bare = Dataflow("bare")
    bare.source("in", Generator(make, "id bigint, name string, x double")).sink("out", Console())
    assert verify(bare.graph, {}, lambda sink: None).exact is None
    assert verify(flow().graph, {"in": 5}, lambda sink: None).exact is None
    assert verify(flow().graph, {}, lambda sink: iter(())).exact is None

    def broken(inputs: Any) -> Any:
        raise KeyError("no")

    verdict = checked(table(ROWS), built=flow(expected=broken))
    assert verdict.exact is None
    assert "KeyError" in verdict.reason

    files = Dataflow("files")
    files.source("in", Files("in", "id bigint")).sink("out", Memory())
    files.expect("out", oracle)
    assert verify(files.graph, {"in": 5}, lambda sink: iter(())).exact is None


def test_one_wrong_sink_makes_the_whole_wrong() -> None:
    built = flow()
    built.source("files", Files("in", "id bigint")).sink("other", Memory())
    built.expect("other", oracle)
    assert checked(table(ROWS), built=built).exact is None
    assert checked(table(ROWS[1:]), built=built).exact is False


def test_a_verdict_is_written_as_json() -> None:
    assert checked(table(ROWS)).to_json() == {
        "exact": True,
        "reason": "",
        "sinks": [
            {
                "sink": "out",
                "exact": True,
                "expected_rows": 100,
                "found_rows": 100,
                "expected_checksum": "6ab9c265dceb6d65",
                "found_checksum": "6ab9c265dceb6d65",
                "reason": "",
            }
        ],
    }


@pytest.mark.parametrize(
    ("value", "array"),
    [
        (3, pa.array([3], pa.int8())),
        (3, pa.array([3.0], pa.float64())),
        (3, pa.array([Decimal("3.00")], pa.decimal128(6, 2))),
        (0.5, pa.array([0.5], pa.float32())),
        (-0.0, pa.array([0.0])),
        (float("nan"), pa.array([float("nan")])),
        (None, pa.array([None], pa.float64())),
        (None, pa.array([None], pa.string())),
        (None, pa.array([None], pa.list_(pa.int8()))),
        ("é", pa.array(["é"], pa.large_string())),
        ("a", pa.array(["a"]).dictionary_encode()),
        (b"a", pa.array([b"a"], pa.binary())),
        (True, pa.array([True])),
        (dt.date(2024, 2, 29), pa.array([dt.date(2024, 2, 29)])),
        (
            dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC),
            pa.array([dt.datetime(2024, 2, 29, 12)], pa.timestamp("ns")),
        ),
        ([1, 2.5], pa.array([[1.0, 2.5]], pa.list_(pa.float32()))),
        ({"b": 1, "a": "x"}, pa.array([{"a": "x", "b": 1}])),
        ({"b": 1}, pa.array([[("b", 1)]], pa.map_(pa.string(), pa.int16()))),
    ],
)
def test_a_value_has_one_hash_whatever_holds_it(value: Any, array: pa.Array) -> None:
    assert digest(pa.table({"x": array})) == digest_rows([(value,)])


def test_values_that_differ_have_hashes_that_differ() -> None:
    values: list[Any] = [
        None,
        0,
        1,
        -1,
        0.5,
        "",
        "0",
        "1",
        "None",
        [],
        [0],
        [None],
        "[0]",
        {"a": 1},
    ]
    assert len({digest_rows([(value,)]).checksum for value in values}) == len(values)
    assert digest_rows([(1, 2)]) != digest_rows([(2, 1)])
    assert digest_rows([(1, None)]) != digest_rows([(1,)])


def test_files_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name, n in (("part-2", 2), ("part-1", 1), ("part-3", 3)):
        pq.write_table(pa.table({"n": [n]}), tmp_path / f"{name}.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".part-0.crc").write_bytes(b"x")
    (tmp_path / "_spark_metadata").mkdir()
    batches = list(read_files(tmp_path, "parquet"))
    assert [b["n"].to_pylist() for b in batches] == [[1], [2], [3]]


def test_json_lines_are_read_with_columns_that_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"n":1}\n{"n":2,"w":"x"}\n')
    (tmp_path / "b.json").write_text("")
    (tmp_path / "c.json").write_text('{"n":3}\n')
    schema = pa.schema([("w", pa.string()), ("n", pa.int64())])
    found = pa.Table.from_batches(read_files(str(tmp_path), "json", schema))
    assert found.to_pylist() == [
        {"w": None, "n": 1},
        {"w": "x", "n": 2},
        {"w": None, "n": 3},
    ]


@pytest.mark.parametrize("format", ["parquet", "json"])
def test_partition_directories_give_their_column_back(tmp_path: Path, format: str) -> None:
    places = ("day=2026-01-02/channel=a%2Fb", "day=2026-01-01/channel=__HIVE_DEFAULT_PARTITION__")
    for n, place in enumerate(places):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        if format == "parquet":
            pq.write_table(pa.table({"n": [n]}), folder / f"run-{n}.parquet")
        else:
            (folder / f"run-{n}.json").write_text(json.dumps({"n": n}) + "\n")
    (tmp_path / "_staging/run-3/channel=x").mkdir(parents=True)
    (tmp_path / "_staging/run-3/channel=x/run-0.parquet").write_bytes(b"half")
    schema = pa.schema([("Channel", pa.string()), ("n", pa.int64()), ("day", pa.date32())])
    found = pa.Table.from_batches(read_files(tmp_path, format, schema, prefix="run-"))
    assert found.column_names == ["Channel", "n", "day"]
    assert found.to_pylist() == [
        {"Channel": "a/b", "n": 0, "day": dt.date(2026, 1, 2)},
        {"Channel": None, "n": 1, "day": dt.date(2026, 1, 1)},
    ]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.int32(), "-7", -7),
        (pa.bool_(), "true", True),
        (pa.float64(), "1.0E10", 1e10),
        (pa.decimal128(5, 2), "1.50", Decimal("1.50")),
        (pa.string(), "1.50", "1.50"),
    ],
)
def test_partition_values_have_the_type_of_their_column(
    tmp_path: Path, kind: pa.DataType, text: str, value: Any
) -> None:
    (tmp_path / f"k={text}").mkdir()
    pq.write_table(pa.table({"n": [1]}), tmp_path / f"k={text}" / "a.parquet")
    schema = pa.schema([("k", kind), ("n", pa.int64())])
    (found,) = read_files(tmp_path, "parquet", schema)
    assert found.to_pylist() == [{"k": value, "n": 1}]


def test_no_directory_holds_no_rows_and_other_formats_are_refused(tmp_path: Path) -> None:
    assert list(read_files(tmp_path / "none", "parquet")) == []
    with pytest.raises(InvalidInput, match="'csv'"):
        list(read_files(tmp_path, "csv"))
