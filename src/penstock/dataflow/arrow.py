"""Arrow's types for Spark's SQL type names."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa

from penstock.dataflow import datatype
from penstock.dataflow.datatype import DataType
from penstock.dataflow.schema import Schema
from penstock.errors import InvalidInput

_SIMPLE: dict[str, Callable[[], pa.DataType]] = {
    "string": pa.string,
    "boolean": pa.bool_,
    "tinyint": pa.int8,
    "smallint": pa.int16,
    "int": pa.int32,
    "bigint": pa.int64,
    "float": pa.float32,
    "double": pa.float64,
    "binary": pa.binary,
    "date": pa.date32,
    "timestamp": lambda: pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": lambda: pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_TEXT = re.compile(r"(?:var)?char\(\d+\)|string collate \S+")


@lru_cache(maxsize=64)
def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a stream's columns; every column may be null."""
    return pa.schema([(field.name, arrow_type(field.type)) for field in schema.fields])


def arrow_type(sql: str) -> pa.DataType:
    """The Arrow type for a type as Spark's SQL writes it, e.g. `array<string>`."""
    return _arrow(datatype.read(sql))


def _arrow(kind: DataType) -> pa.DataType:
    inside = [(name, _arrow(part)) for name, part in kind.parts]
    match kind.kind:
        case "struct":
            return pa.struct(inside)
        case "array":
            return pa.list_(inside[0][1])
        case "map":
            return pa.map_(inside[0][1], inside[1][1])
        case simple if simple in _SIMPLE:
            return _SIMPLE[simple]()
        case text if _TEXT.fullmatch(text):
            return pa.string()
        case decimal if match := _DECIMAL.fullmatch(decimal):
            return pa.decimal128(int(match[1]), int(match[2]))
    raise InvalidInput(f"the type '{kind}' has no Arrow type here; known are {', '.join(_SIMPLE)}")
