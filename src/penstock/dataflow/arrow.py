"""Arrow's types for Spark's SQL type names."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa

from penstock.dataflow.schema import Schema
from penstock.errors import InvalidInput

_SIMPLE: dict[str, Callable[[], pa.DataType]] = {
    "string": pa.string,
    "boolean": pa.bool_,
    "tinyint": pa.int8,
    "byte": pa.int8,
    "smallint": pa.int16,
    "short": pa.int16,
    "int": pa.int32,
    "integer": pa.int32,
    "bigint": pa.int64,
    "long": pa.int64,
    "float": pa.float32,
    "real": pa.float32,
    "double": pa.float64,
    "binary": pa.binary,
    "date": pa.date32,
    "timestamp": lambda: pa.timestamp("us", tz="UTC"),
    "timestamp_ltz": lambda: pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": lambda: pa.timestamp("us"),
}
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_TEXT = re.compile(r"(?:var)?char\(\s*\d+\s*\)")
_NESTED = re.compile(r"(array|map|struct)\s*<(.*)>", re.DOTALL)


@lru_cache(maxsize=64)
def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a stream's columns; every column may be null."""
    return pa.schema([(field.name, arrow_type(field.type)) for field in schema.fields])


def arrow_type(sql: str) -> pa.DataType:
    """The Arrow type for a type as Spark's SQL writes it, e.g. `array<string>`."""
    text = sql.strip()
    lower = text.lower()
    if lower in _SIMPLE:
        return _SIMPLE[lower]()
    if _TEXT.fullmatch(lower):
        return pa.string()
    if match := _DECIMAL.fullmatch(lower):
        return pa.decimal128(int(match[1] or 10), int(match[2] or 0))
    if match := _NESTED.fullmatch(text if "<" in text else ""):
        return _nested(match[1], match[2], sql)
    raise InvalidInput(f"the type '{sql}' has no Arrow type here; known are {', '.join(_SIMPLE)}")


def _nested(kind: str, inside: str, sql: str) -> pa.DataType:
    if kind == "struct":
        return pa.struct([(f.name, arrow_type(f.type)) for f in Schema.of(inside).fields])
    if kind == "array":
        return pa.list_(arrow_type(inside))
    # A map's key type holds no comma outside brackets, so the first one outside separates.
    depth = 0
    for at, char in enumerate(inside):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            return pa.map_(arrow_type(inside[:at]), arrow_type(inside[at + 1 :]))
    raise InvalidInput(f"the type '{sql}' is not of the form map<key,value>")
