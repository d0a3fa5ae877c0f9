"""Generated records: the same whatever the range, typed as their schema says."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle

from penstock.dataflow.connectors import Generator
from penstock.dataflow.generator import each, records, total
from penstock.dataflow.schema import Schema, arrow_schema, arrow_type
from penstock.errors import InvalidInput

SCHEMA = "id bigint, draw double, at double"


def make(rng: np.random.Generator, index: Any, at: Any) -> dict[str, Any]:
    return {"id": index, "draw": rng.random(len(index)), "at": at}


def table(generator: Generator, first: int, stop: int, batch_rows: int = 10_000) -> pa.Table:
    batches = list(records(generator, first, stop, batch_rows))
    assert all(0 < b.num_rows <= batch_rows for b in batches)
    return pa.Table.from_batches(batches, arrow_schema(generator.schema))


def test_records_are_numbered_and_due_as_the_load_says() -> None:
    made = table(Generator(make, SCHEMA, "10/s"), 3, 6)
    assert made["id"].to_pylist() == [3, 4, 5]
    assert made["at"].to_pylist() == pytest.approx([0.4, 0.5, 0.6])


@given(
    cuts=st.lists(st.integers(0, 200), max_size=6),
    batch_rows=st.integers(1, 80),
    block=st.integers(1, 50),
)
@settings(max_examples=60, deadline=None)
def test_any_partition_of_a_range_gives_the_same_records(
    cuts: list[int], batch_rows: int, block: int
) -> None:
    generator = Generator(make, SCHEMA, "100/s", seed=7, block=block)
    borders = [0, *sorted(cuts), 200]
    parts = [table(generator, first, stop, batch_rows) for first, stop in pairwise(borders)]
    assert pa.concat_tables(parts).equals(table(generator, 0, 200))


def test_seeds_and_blocks_differ_and_repeat() -> None:
    one, two = (Generator(make, SCHEMA, seed=seed, block=10) for seed in (1, 2))
    draws = table(one, 0, 20)["draw"].to_pylist()
    assert len(set(draws)) == 20
    assert table(two, 0, 20)["draw"].to_pylist() != draws
    assert table(Generator(make, SCHEMA, seed=1, block=10), 0, 20)["draw"].to_pylist() == draws
    assert table(Generator(make, SCHEMA, seed=-1, block=10), 0, 20)["draw"].to_pylist() != draws


def test_a_block_is_made_once_for_consecutive_ranges() -> None:
    made = []

    def counting(rng: Any, index: Any, at: Any) -> dict[str, Any]:
        made.append(int(index[0]))
        return make(rng, index, at)

    generator = Generator(counting, SCHEMA, block=100)
    for first in range(0, 200, 10):
        table(generator, first, first + 10)
    assert made == [0, 100]


def test_generators_that_differ_share_no_block() -> None:
    slow, fast = (Generator(make, SCHEMA, load) for load in ("1/s", "2/s"))
    assert table(slow, 0, 1)["at"].to_pylist() == [1.0]
    assert table(fast, 0, 1)["at"].to_pylist() == [0.5]


def test_a_generator_can_be_shipped() -> None:
    generator = Generator(lambda rng, index, at: make(rng, index, at), SCHEMA, "10/s")
    shipped = cloudpickle.loads(cloudpickle.dumps(generator))
    assert table(shipped, 0, 50).equals(table(generator, 0, 50))
    plain = Generator(make, SCHEMA)
    assert pickle.loads(pickle.dumps(plain)) == plain


def test_a_function_of_one_record_can_make_a_generator() -> None:
    generator = Generator(
        each(lambda rng, index, at: {"id": index, "draw": None, "at": at}), SCHEMA, "1/s", block=5
    )
    assert table(generator, 4, 6).to_pylist() == [
        {"id": 4, "draw": None, "at": 5.0},
        {"id": 5, "draw": None, "at": 6.0},
    ]


def test_the_total_is_bounded_by_the_limit() -> None:
    assert total(Generator(make, SCHEMA, "100/s"), 2.5) == 250
    assert total(Generator(make, SCHEMA, "100/s", limit=99), 2.5) == 99
    assert total(Generator(make, SCHEMA, "100/s", limit=99), float("inf")) == 99


def test_columns_are_cast_to_the_schema() -> None:
    schema = "a smallint, b string, c timestamp, d decimal(6,2), e array<int>, f date, g boolean"

    def mixed(rng: Any, index: Any, at: Any) -> dict[str, Any]:
        day = dt.date(2024, 2, 29)
        return {
            "g": index > 0,
            "f": [day] * len(index),
            "e": [[int(i)] for i in index],
            "d": [Decimal("1.50")] * len(index),
            "c": 1_700_000_000 + at,
            "b": np.array(["x", "yz"])[index % 2],
            "a": index,
        }

    made = table(Generator(mixed, schema, "2/s"), 1, 2)
    assert made.schema.field("a").type == pa.int16()
    assert made.to_pylist() == [
        {
            "a": 1,
            "b": "yz",
            "c": dt.datetime(2023, 11, 14, 22, 13, 21, tzinfo=dt.UTC),
            "d": Decimal("1.50"),
            "e": [1],
            "f": dt.date(2024, 2, 29),
            "g": True,
        }
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda rng, index, at: [1], "returned list, expected a dictionary"),
        (lambda rng, index, at: {"id": index, "draw": at}, "returned the columns"),
        (lambda rng, index, at: {"id": index, "draw": at, "at": at[:5]}, "'at': 5 values for a"),
        (lambda rng, index, at: {"id": ["x"] * 10, "draw": at, "at": at}, "'id': cannot be made"),
        (each(lambda rng, index, at: {"id": index} if index else {}), "for one record"),
    ],
)
def test_a_wrong_make_is_named(wrong: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refusal:
        list(records(Generator(wrong, SCHEMA, block=10), 0, 10))
    assert "<lambda>" in str(refusal.value)


@pytest.mark.parametrize(
    ("sql", "arrow"),
    [
        ("string", pa.string()),
        ("varchar(10)", pa.string()),
        ("BOOLEAN", pa.bool_()),
        ("byte", pa.int8()),
        ("short", pa.int16()),
        ("integer", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("decimal(10,2)", pa.decimal128(10, 2)),
        ("decimal(5)", pa.decimal128(5, 0)),
        ("decimal", pa.decimal128(10, 0)),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("binary", pa.binary()),
        ("array<array<int>>", pa.list_(pa.list_(pa.int32()))),
        ("map<string,decimal(4,1)>", pa.map_(pa.string(), pa.decimal128(4, 1))),
        (
            "struct<a:int,b:map<string,array<double>>>",
            pa.struct([("a", pa.int32()), ("b", pa.map_(pa.string(), pa.list_(pa.float64())))]),
        ),
    ],
)
def test_sql_types_have_arrow_types(sql: str, arrow: pa.DataType) -> None:
    assert arrow_type(sql) == arrow


@pytest.mark.parametrize("sql", ["variant", "interval day", "map<string>", "array<>", "wrong"])
def test_an_unknown_type_is_refused(sql: str) -> None:
    with pytest.raises(InvalidInput):
        arrow_type(sql)


def test_a_schema_keeps_its_order() -> None:
    assert arrow_schema(Schema.of("b string, a int")).names == ["b", "a"]
