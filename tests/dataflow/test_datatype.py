"""Spark's SQL types as text: names keep their case, spellings of one type are one type."""

from __future__ import annotations

import pytest
from hypothesis import given
from pyspark.sql import types as t

from penstock.dataflow import schema as datatype
from penstock.dataflow.schema import Schema
from penstock.errors import InvalidInput
from tests.strategies import few, spark_structs


def nullable(kind: t.DataType) -> t.DataType:
    """The same type with everything nullable and without comments."""
    match kind:
        case t.StructType():
            fields = [t.StructField(f.name, nullable(f.dataType)) for f in kind.fields]
            return t.StructType(fields)
        case t.ArrayType():
            return t.ArrayType(nullable(kind.elementType))
        case t.MapType():
            return t.MapType(nullable(kind.keyType), nullable(kind.valueType))
        case _:
            return kind


def spark_type(kind: datatype.DataType) -> t.DataType:
    """What Spark makes of a type, written down again here."""
    if kind.kind == "struct":
        return t.StructType([t.StructField(name, spark_type(one)) for name, one in kind.parts])
    inside = [spark_type(one) for _, one in kind.parts]
    if kind.kind == "array":
        return t.ArrayType(inside[0])
    if kind.kind == "map":
        return t.MapType(inside[0], inside[1])
    if kind.kind.startswith("decimal("):
        precision, scale = kind.kind[8:-1].split(",")
        return t.DecimalType(int(precision), int(scale))
    return next(one for one in SIMPLE if one.simpleString() == kind.kind)


SIMPLE = (t.StringType(), t.IntegerType(), t.LongType(), t.TimestampType(), t.BooleanType())


def test_nested_names_keep_their_case() -> None:
    schema = Schema.of("p struct<dateTime:timestamp,Inner:array<struct<fieldA:INT>>>")
    assert schema.fields[0].type == "struct<dateTime:timestamp,Inner:array<struct<fieldA:int>>>"
    assert schema.ddl == f"`p` {schema.fields[0].type}"


@given(spark_structs(SIMPLE))
@few
def test_a_spark_type_survives_the_way_through_text(struct: t.StructType) -> None:
    schema = Schema.of(struct)
    assert Schema.of(schema.ddl) == schema
    back = t.StructType([t.StructField(n, spark_type(k)) for n, k in datatype.columns(schema.ddl)])
    assert back == nullable(struct)


def test_a_wide_struct_is_written_out_in_full() -> None:
    wide = t.StructType([t.StructField(f"Field{n}", t.LongType()) for n in range(200)])
    schema = Schema.of(t.StructType([t.StructField("p", wide)]))
    assert len(datatype.read(schema.fields[0].type).parts) == 200


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("n INT", "n integer"),
        ("n Long", "n  bigint"),
        ("n decimal", "n DEC( 10 , 0 )"),
        ("n numeric(5)", "n decimal(5,0)"),
        ("p STRUCT<a : INT, b: Array< Long > >", "p struct<a int,b:array<bigint>>"),
        ("p struct<a:int NOT NULL COMMENT 'a, >b'>", "p struct<a:int>"),
        ("t timestamp_ltz", "t timestamp"),
        ("t timestamp without time zone", "t TIMESTAMP_NTZ"),
        ("struct<a:int,B:string>", "a int, B string"),
        ("p struct<`a`:int>", "p struct<a:int>"),
        ("s STRING COLLATE UTF8_LCASE", "s string  collate UTF8_LCASE"),
        ('n int COMMENT "it\'s", m int', "n int, m int"),
    ],
)
def test_spellings_of_one_type_are_equal(one: str, other: str) -> None:
    assert Schema.of(one) == Schema.of(other)


def test_odd_names_are_quoted_at_every_depth() -> None:
    schema = Schema.of("`a``b` struct<`x y`:int,`do``t.`:map<string,struct<`<,>`:int>>>")
    assert schema.names == ("a`b",)
    assert schema.ddl == "`a``b` struct<`x y`:int,`do``t.`:map<string,struct<`<,>`:int>>>"
    assert Schema.of(schema.ddl) == schema


@pytest.mark.parametrize(
    "ddl",
    [
        "p struct<a:int",
        "p array<>",
        "p map<string>",
        "p struct<a>",
        "p array<int>>",
        "n int (",
        "`a int",
        "n int COMMENT",
        "n int NULL NOT",
    ],
)
def test_a_type_that_cannot_be_read_is_refused_with_its_text(ddl: str) -> None:
    with pytest.raises(InvalidInput, match="cannot read the column"):
        Schema.of(ddl)


@pytest.mark.parametrize(
    ("kind", "grouped"),
    [
        ("struct<`map<x`:int>", True),
        ("array<struct<a:MAP<string,int>>>", False),
        ("struct<variantOf:string>", True),
    ],
)
def test_only_types_decide_whether_a_column_can_be_grouped_by(kind: str, grouped: bool) -> None:
    assert Schema.of(f"x {kind}").fields[0].hashable is grouped
