from __future__ import annotations

from dataclasses import dataclass

import pytest

from penstock.dataflow.schema import Field, Schema
from penstock.errors import InvalidInput


@pytest.mark.parametrize(
    ("ddl", "fields"),
    [
        ("word string", [("word", "string")]),
        ("word STRING, n BIGINT", [("word", "string"), ("n", "bigint")]),
        ("word:string, n: bigint", [("word", "string"), ("n", "bigint")]),
        ("`a,b c` int", [("a,b c", "int")]),
        ("price decimal(10, 2), n int", [("price", "decimal(10,2)"), ("n", "int")]),
        ("tags array<string>", [("tags", "array<string>")]),
        (
            "at struct<x: int, y: map<string, int>>, n int",
            [("at", "struct<x:int,y:map<string,int>>"), ("n", "int")],
        ),
        ("n int NOT NULL COMMENT 'one, two', m int", [("n", "int"), ("m", "int")]),
        ("gap interval day to second", [("gap", "interval day to second")]),
    ],
)
def test_a_ddl_text_is_read_as_spark_reads_it(ddl: str, fields: list[tuple[str, str]]) -> None:
    assert Schema.of(ddl) == Schema(tuple(Field(*field) for field in fields))


@pytest.mark.parametrize("ddl", ["", "word", "word string,", ",", "a int, , b int"])
def test_a_column_without_name_or_type_is_refused(ddl: str) -> None:
    with pytest.raises(InvalidInput, match="write it as 'name type'"):
        Schema.of(ddl)


def test_something_else_than_a_schema_is_refused_by_its_type() -> None:
    with pytest.raises(InvalidInput, match="not int"):
        Schema.of(7)


def test_what_has_fields_like_a_struct_type_is_read() -> None:
    @dataclass
    class Type:
        name: str

        def simpleString(self) -> str:
            return self.name

    @dataclass
    class Column:
        name: str
        dataType: Type  # noqa: N815

    @dataclass
    class Struct:
        fields: list[Column]

    assert Schema.of(Struct([Column("n", Type("bigint"))])) == Schema.of("n bigint")


def test_a_schema_is_read_as_itself() -> None:
    schema = Schema.of("word string")
    assert Schema.of(schema) is schema


def test_its_ddl_is_read_back_as_the_same_schema() -> None:
    schema = Schema.of("`a,b` int, at struct<x:int,y:string>, p decimal(4,2)")
    assert schema.ddl == "`a,b` int, `at` struct<x:int,y:string>, `p` decimal(4,2)"
    assert Schema.of(schema.ddl) == schema


def test_columns_are_found_ignoring_case() -> None:
    schema = Schema.of("Word string, n bigint")
    assert schema.get("WORD") == Field("Word", "string")
    assert schema.get("words") is None
    assert schema.names == ("Word", "n")
    assert str(schema) == "Word string, n bigint"


@pytest.mark.parametrize(
    ("kind", "hashable"),
    [("string", True), ("array<int>", True), ("map<string,int>", False), ("variant", False)],
)
def test_maps_and_variants_cannot_be_grouped_by(kind: str, hashable: bool) -> None:
    assert Field("x", kind).hashable is hashable
