"""Exports the history of a run to Parquet, CSV or JSON, one file per table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock import files
from penstock.errors import InvalidInput, RunDirectoryError
from penstock.metrics.catalog import CATALOG, MetricLevel
from penstock.store import history, tables
from penstock.store.tables import JSON, Column, Table

FORMATS = ("parquet", "csv", "json")
_TYPES = {"REAL": pa.float64(), "INTEGER": pa.int64(), "BOOLEAN": pa.bool_()}
_LEVELS = {"snapshots": MetricLevel.FLOW, "latency": MetricLevel.LATENCY}


def export(run_dir: Path, out: Path, form: str, first: int = 0) -> dict[str, tuple[Path, int]]:
    """Write all tables from turn `first` on; return path and row count by table.

    All tables show the same moment, even while the run continues. A value that was not measured is
    null, or empty in CSV. Nested fields are JSON text, except in JSON files.
    """
    if form not in FORMATS:
        raise InvalidInput(f"no format is called '{form}'; there are {', '.join(FORMATS)}")
    written = {}
    with history.opened(run_dir) as connection:
        if connection is None:
            raise RunDirectoryError(
                f"'{run_dir}' has no {history.FILE}: nothing was recorded in it"
            )
        for table in tables.ALL:
            path = out / f"{table.name}.{form}"
            rows = [*table.read(connection, first)]
            try:
                out.mkdir(parents=True, exist_ok=True)
                with files.replacing(path) as draft:
                    _WRITERS[form](table, rows, draft)
            except OSError as error:
                why = error.strerror or error
                raise InvalidInput(f"cannot write to '{path}': {why}") from None
            written[table.name] = (path, len(rows))
    return written


def _json(table: Table, rows: list[dict[str, Any]], path: Path) -> None:
    """Write one JSON array with one row per line."""
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


def _csv(table: Table, rows: list[dict[str, Any]], path: Path) -> None:
    from pyarrow import csv

    csv.write_csv(_arrow(table, rows), path)


def _parquet(table: Table, rows: list[dict[str, Any]], path: Path) -> None:
    from pyarrow import parquet

    parquet.write_table(_arrow(table, rows), path, compression="zstd")


_WRITERS: Mapping[str, Callable[[Table, list[dict[str, Any]], Path], None]] = {
    "parquet": _parquet,
    "csv": _csv,
    "json": _json,
}


def _arrow(table: Table, rows: list[dict[str, Any]]) -> Any:
    fields = [_field(table, column) for column in table.all]
    return pa.table(
        {c.name: [_cell(c, row.get(c.name)) for row in rows] for c in table.all},
        schema=pa.schema(fields),
    )


def _cell(column: Column, value: Any) -> Any:
    return json.dumps(value) if column.type == JSON and value is not None else value


def _field(table: Table, column: Column) -> Any:
    """Arrow field of a column; metrics of the catalog carry their unit and meaning."""
    level = _LEVELS.get(table.name) or next(
        (one for one in MetricLevel if f"{one.value}s" == table.name), None
    )
    known = [m for m in CATALOG if (m.level, m.name) == (level, column.name)]
    about = {"unit": str(known[0].unit), "meaning": known[0].meaning} if known else None
    return pa.field(column.name, _TYPES.get(column.type, pa.string()), metadata=about)
