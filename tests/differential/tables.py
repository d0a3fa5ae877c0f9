"""Input tables: rows in the parts in which they arrive, as JSON or Parquet files.

Every part is one file. A part is released when the one before it has been read, so that a
streaming query sees several batches; batch mode reads all parts at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

START = datetime(2026, 3, 28, 22, 0, tzinfo=UTC)
"""Event time 0, three hours before the clocks change in Berlin."""

END = datetime(2100, 1, 1, tzinfo=UTC)
"""Event time of the last row of a table. It moves the watermark past every other row."""

FLUSH = "~~~~"
"""Text in the last row of a table: the same reversed, in upper case, and without blanks."""


def at(seconds: float) -> datetime:
    """An event time, in seconds after the start of the data."""
    return START + timedelta(seconds=seconds)


@dataclass(frozen=True)
class Table:
    """Rows of one input.

    flush: a row that arrives last and closes all windows, if any; generated: the dataflow makes
    these rows itself, so that only batch mode reads them from files.
    """

    schema: str
    parts: tuple[tuple[Mapping[str, Any], ...], ...]
    flush: Mapping[str, Any] | None = None
    format: str = "json"
    generated: bool = False

    @property
    def arriving(self) -> tuple[tuple[Mapping[str, Any], ...], ...]:
        """All parts in order of arrival, the flush row last."""
        return self.parts if self.flush is None else (*self.parts, (self.flush,))

    def write(self, folder: Path, part: int) -> int:
        """Release a part of `arriving`; returns the number of its rows."""
        rows = self.arriving[part]
        folder.mkdir(parents=True, exist_ok=True)
        ready = folder / f"part-{part:03d}.{self.format}"
        draft = folder / f".{ready.name}.draft"  # Spark does not read names that begin with a dot
        if self.format == "parquet":
            _write_parquet(rows, self.schema, draft)
        else:
            line = _line if self.format == "json" else _text
            draft.write_text("".join(f"{line(row)}\n" for row in rows), encoding="utf-8")
        draft.rename(ready)
        return len(rows)

    def frame(self, spark: Any, folder: Path, *, flush: bool = False) -> Any:
        """The whole table as a plain DataFrame in batch mode."""
        for part in range(len(self.arriving if flush else self.parts)):
            self.write(folder, part)
        return spark.read.schema(self.schema).format(self.format).load(str(folder))


def parts_of(rows: Iterable[Mapping[str, Any]], count: int) -> tuple[tuple[Any, ...], ...]:
    """Rows in their order, cut into `count` parts of about the same size."""
    given = list(rows)
    borders = [round(number * len(given) / count) for number in range(count + 1)]
    return tuple(tuple(given[borders[n] : borders[n + 1]]) for n in range(count))


def _text(row: Mapping[str, Any]) -> str:
    return str(row["value"])


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, default=_as_json, ensure_ascii=False)


def _as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat() if value.tzinfo is None else f"{value:%Y-%m-%dT%H:%M:%S.%f}Z"
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{value!r} has no JSON")


def _write_parquet(rows: Iterable[Mapping[str, Any]], schema: str, file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    shape = to_arrow_schema(StructType.fromDDL(schema), timezone="UTC")
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=shape), file)
