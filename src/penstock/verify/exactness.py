"""Check that sinks hold exactly what follows from the generated input.

Nothing is computed with Spark. The input is generated again from its random seed, each expectation
computes the rows that follow from it, and the rows found and expected are compared by number and
order-independent checksum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet

from penstock.dataflow.connectors import Generator
from penstock.dataflow.generator import records
from penstock.dataflow.graph import Expectation, Graph
from penstock.dataflow.operators import Read
from penstock.dataflow.schema import arrow_schema
from penstock.errors import InvalidInput
from penstock.verify.checksum import Digest, digest, digest_rows

Batches = Iterator[pa.Table | pa.RecordBatch]

_COMPACT = 500_000
"""Rows held before all but the last row of each key are dropped: bounds the memory."""


@dataclass(frozen=True)
class SinkVerdict:
    """Expected and found rows of one sink; `exact` is None if it was not checked."""

    sink: str
    exact: bool | None
    expected_rows: int | None = None
    found_rows: int | None = None
    expected_checksum: str | None = None
    found_checksum: str | None = None
    reason: str = ""


@dataclass(frozen=True)
class Verdict:
    """`exact` is True if every expectation is met, None if not all could be checked."""

    exact: bool | None
    sinks: tuple[SinkVerdict, ...] = ()
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "exact": self.exact,
            "reason": self.reason,
            "sinks": [asdict(sink) for sink in self.sinks],
        }


def verify(
    graph: Graph, totals: Mapping[str, int], read: Callable[[str], Batches | None]
) -> Verdict:
    """Compare every sink with an expectation with what follows from the input.

    totals: number of records taken from each source; read: returns a sink's rows in the order of
    writing, or None if they cannot be read back.
    """
    if not graph.expectations:
        return Verdict(None, (), "the dataflow declares no expectation for a sink")
    inputs: dict[str, pa.Table] = {}
    sinks = tuple(_check(graph, e, totals, read, inputs) for e in graph.expectations)
    reason = "; ".join(f"{s.sink}: {s.reason}" for s in sinks if s.reason)
    if any(s.exact is False for s in sinks):
        return Verdict(False, sinks, reason)
    if any(s.exact is None for s in sinks):
        return Verdict(None, sinks, reason)
    return Verdict(True, sinks)


def read_files(
    path: str | Path, format: str, schema: pa.Schema | None = None, prefix: str = ""
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a directory's Parquet or JSON-lines files.

    The files are read in the order of their names. Only files whose names start with `prefix`
    count, and none that start with `_` or `.`. A directory that does not exist holds no rows. JSON
    does not show columns without values: give a `schema` if there may be any.

    Partition directories such as `channel=web` add their column to the rows of their files, with
    the type and position that `schema` gives it, else as text after the others.
    """
    if format not in _READERS:
        known = " or ".join(_READERS)
        raise InvalidInput(f"cannot read back files of the format '{format}', only {known}")
    directory = Path(path)
    if not directory.is_dir():
        return
    for file, values in sorted(_files(directory, {}), key=lambda found: found[0].name):
        if file.name.startswith(prefix) and file.stat().st_size:
            for batch in _READERS[format](file, schema):
                yield _with_values(batch, values, schema) if values else batch


def _check(
    graph: Graph,
    expectation: Expectation,
    totals: Mapping[str, int],
    read: Callable[[str], Batches | None],
    inputs: dict[str, pa.Table],
) -> SinkVerdict:
    sink = expectation.sink
    for source in graph.sources:
        if sink not in graph.reachable(source.name):
            continue
        generator = source.body.source if isinstance(source.body, Read) else None
        if not isinstance(generator, Generator):
            return SinkVerdict(sink, None, reason=f"source '{source.name}' is not generated")
        if source.name not in totals:
            return SinkVerdict(sink, None, reason=f"records of '{source.name}' were not counted")
        if source.name not in inputs:
            inputs[source.name] = _generated(generator, totals[source.name])
    found = read(sink)
    if found is None:
        return SinkVerdict(sink, None, reason="its rows cannot be read back")
    try:
        expected = digest_rows(expectation.oracle(inputs))
    except Exception as error:  # a user's function: its failure says nothing about the sink
        why = f"the expected rows could not be computed ({type(error).__name__}: {error})"
        return SinkVerdict(sink, None, reason=why)
    try:
        held = _reduced(found, expectation.keys)
    except InvalidInput as error:
        return SinkVerdict(sink, False, expected.rows, None, str(expected), None, str(error))
    return _compared(sink, expected, held)


def _compared(sink: str, expected: Digest, found: Digest) -> SinkVerdict:
    reason = ""
    if found.rows != expected.rows:
        reason = f"{found.rows} rows where {expected.rows} were expected"
    elif found.checksum != expected.checksum:
        reason = f"{found.rows} rows as expected, but not the same ones"
    return SinkVerdict(
        sink, not reason, expected.rows, found.rows, str(expected), str(found), reason
    )


def _generated(generator: Generator, count: int) -> pa.Table:
    return pa.Table.from_batches(
        records(generator, 0, count, batch_rows=65_536), arrow_schema(generator.schema)
    )


def _reduced(batches: Iterable[pa.Table | pa.RecordBatch], keys: tuple[str, ...]) -> Digest:
    """Digest of all rows, or with `keys` of the last row of each key."""
    if not keys:
        found = Digest()
        for batch in batches:
            found = found + digest(_table(batch))
        return found
    held: list[pa.Table] = []
    rows = 0
    for batch in batches:
        held.append(_table(batch))
        rows += batch.num_rows
        if rows >= _COMPACT:
            held = [_last(held, keys)]
            # The rest may itself be large, so the next pass waits for as many new rows.
            rows = 0
    return digest(_last(held, keys)) if held else Digest()


def _table(batch: pa.Table | pa.RecordBatch) -> pa.Table:
    return batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])


def _last(tables: list[pa.Table], keys: tuple[str, ...]) -> pa.Table:
    table = pa.concat_tables(tables, promote_options="permissive")
    missing = [key for key in keys if key not in table.column_names]
    if missing:
        raise InvalidInput(f"it has no column '{missing[0]}', only {table.column_names}")
    old = table.select(list(keys)).to_pandas().duplicated(keep="last").to_numpy()
    return table.filter(pa.array(~old))


_NULL_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""Directory name that Spark gives to a null or empty partition value."""


def _files(directory: Path, values: Mapping[str, str]) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """Files of a directory and its partition directories, with the partition values."""
    for entry in directory.iterdir():
        name, equals, value = entry.name.partition("=")
        if entry.name[0] in "_.":
            continue
        if entry.is_file():
            yield entry, values
        elif equals:
            yield from _files(entry, {**values, unquote(name): unquote(value)})


def _with_values(
    batch: pa.RecordBatch, values: Mapping[str, str], schema: pa.Schema | None
) -> pa.RecordBatch:
    """Add the columns of the partition directories to a batch."""
    kinds = {} if schema is None else {f.name.lower(): (f.name, f.type) for f in schema}
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    for column, value in values.items():
        name, kind = kinds.get(column.lower(), (column, pa.string()))
        text = pa.array([None if value == _NULL_VALUE else value], pa.string())
        scalar = (text if pa.types.is_string(kind) else text.cast(kind))[0]
        columns[name] = pa.repeat(scalar, batch.num_rows)
    order = {} if schema is None else {name: at for at, name in enumerate(schema.names)}
    names = sorted(columns, key=lambda name: order.get(name, len(order)))
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)


def _parquet(file: Path, schema: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    with pyarrow.parquet.ParquetFile(file) as parquet:
        yield from parquet.iter_batches()


def _json(file: Path, schema: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    options = pyarrow.json.ParseOptions(explicit_schema=schema)
    table = pyarrow.json.read_json(str(file), parse_options=options)
    yield from table.to_batches()


_READERS: dict[str, Callable[[Path, pa.Schema | None], Iterator[pa.RecordBatch]]] = {
    "parquet": _parquet,
    "json": _json,
}
