"""Lines of text as records: generating them, and parsing them with Spark or without.

Both parsers agree on what is malformed: a field that is missing, is null, or is no number where a
number is expected. The rest of a line is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.dataflow.flow import Stream
from penstock.dataflow.operators import Estimate
from penstock.dataflow.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

START = 1_700_000_000_000
"""Start of every generated stream, in milliseconds since 1970."""

COMMAS = Estimate(4e-6)
JSON = Estimate(1e-5)


def millis(at: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Due times in milliseconds since 1970; a record without one counts as due at once."""
    known = np.where(np.isfinite(at), at, 0.0)
    return np.asarray(START + np.floor(known * 1000).astype(np.int64))


def column(values: npt.NDArray[Any]) -> pa.Array:
    """Numbers as strings."""
    return pa.array(values).cast(pa.string())


def picked(table: pa.Array, places: npt.NDArray[Any]) -> pa.Array:
    """The strings at these positions of a table."""
    return table.take(pa.array(places))


def parse_commas(stream: Stream, name: str, schema: str) -> Stream:
    """Split lines at commas in Spark; the line stays next to the fields, for dead letters."""
    fields = Schema.of(schema).fields
    texts = [
        f"try_cast(get(split(value, ','), {at}) AS {field.type}) AS {field.name}"
        for at, field in enumerate(fields)
    ]
    return stream.frame(
        name,
        lambda df: df.selectExpr("value", *texts),
        reject=incomplete(schema),
        schema=f"value string, {schema}",
        estimate=COMMAS,
    )


def parse_json(stream: Stream, name: str, schema: str) -> Stream:
    """Parse lines of JSON in Spark; the line stays next to the fields, for dead letters."""
    return stream.frame(
        name,
        lambda df: from_json(df, schema),
        reject=incomplete(schema),
        schema=f"value string, {schema}",
        estimate=JSON,
    )


def from_json(frame: DataFrame, schema: str) -> DataFrame:
    """Lines of JSON with their fields as Spark parses them; null where it cannot."""
    parsed = frame.selectExpr("value", f"from_json(value, '{schema}') AS p")
    return parsed.selectExpr("value", *(f"p.{name}" for name in Schema.of(schema).names))


def incomplete(schema: str) -> str:
    """SQL condition for a line that lacks a field."""
    return " OR ".join(f"{name} IS NULL" for name in Schema.of(schema).names)


def read_commas(lines: pa.ChunkedArray, schema: str) -> Iterator[dict[str, Any]]:
    """The records that `parse_commas` accepts, computed without Spark."""
    fields = Schema.of(schema).fields
    for line in lines.to_pylist():
        texts = line.split(",")
        if len(texts) < len(fields):
            continue
        try:
            yield {f.name: _value(text, f.type) for f, text in zip(fields, texts, strict=False)}
        except ValueError:
            continue


def read_json(lines: pa.ChunkedArray, schema: str) -> Iterator[dict[str, Any]]:
    """The records that `parse_json` accepts, computed without Spark."""
    names = Schema.of(schema).names
    for line in lines.to_pylist():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, Mapping) and all(record.get(name) is not None for name in names):
            yield {name: record[name] for name in names}


def _value(text: str, kind: str) -> Any:
    return text if kind == "string" else int(text)
