"""The records of a generator: any range of them, the same wherever the range begins.

Records are made in blocks, each with a random generator that depends only on the seed and the
number of the block, and cut to the range. So a task, a retried task and the exactness check all
see the same records.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.dataflow.connectors import Generator
from penstock.dataflow.load_profile import Load, parse
from penstock.dataflow.schema import arrow_schema
from penstock.errors import InvalidInput

# The blocks that this process made last: consecutive ranges share the block at their border, and
# a few sources may alternate.
_recent: deque[tuple[int, Generator, pa.RecordBatch]] = deque(maxlen=4)


def records(
    generator: Generator, first: int, stop: int, batch_rows: int = 10_000
) -> Iterator[pa.RecordBatch]:
    """Records `first` up to (not including) `stop`, in batches of at most `batch_rows`.

    The generator's limit is not applied here but in `total`.
    """
    schema = arrow_schema(generator.schema)
    held: list[pa.RecordBatch] = []
    rows = 0
    at = max(first, 0)
    while at < stop:
        number, inside = divmod(at, generator.block)
        take = min(generator.block - inside, stop - at, batch_rows - rows)
        held.append(_block(generator, number, schema).slice(inside, take))
        at, rows = at + take, rows + take
        if rows == batch_rows or at >= stop:
            yield _joined(held, schema)
            held, rows = [], 0


def total(generator: Generator, seconds: float) -> int:
    """Return the number of records offered in the first `seconds`, within the limit."""
    if math.isinf(seconds) and generator.limit is not None:
        return generator.limit
    offered = _load(generator.load).offered(seconds)
    return offered if generator.limit is None else min(generator.limit, offered)


@dataclass(frozen=True)
class EachRecord:
    """The `make` of a generator, made from a function of one record.

    `function(rng, index, at)` returns a dictionary with all columns. Slow: about ten thousand
    records per second.
    """

    function: Callable[[np.random.Generator, int, float], Mapping[str, Any]]

    def __call__(self, rng: np.random.Generator, index: Any, at: Any) -> dict[str, list[Any]]:
        rows = [self.function(rng, i, t) for i, t in zip(index.tolist(), at.tolist(), strict=True)]
        for row in rows:
            if row.keys() != rows[0].keys():
                raise InvalidInput(
                    f"generator '{_name(self)}' returned the columns {sorted(rows[0])} for one "
                    f"record and {sorted(row)} for another; return None where there is no value"
                )
        return {name: [row[name] for row in rows] for name in rows[0]}


def each(
    function: Callable[[np.random.Generator, int, float], Mapping[str, Any]],
) -> EachRecord:
    """Make the `make` of a generator from `function(rng, index, at) -> dict` of one record."""
    return EachRecord(function)


@lru_cache(maxsize=32)
def _load(text: str) -> Load:
    return parse(text)


def _block(generator: Generator, number: int, schema: pa.Schema) -> pa.RecordBatch:
    for recent, maker, batch in tuple(_recent):
        if recent == number and _same(maker, generator):
            return batch
    first = number * generator.block
    index = np.arange(first, first + generator.block, dtype=np.int64)
    # SeedSequence takes no negative numbers; with the mask, distinct seeds stay distinct.
    seed = [generator.seed & 0xFFFF_FFFF_FFFF_FFFF, number]
    rng = np.random.Generator(np.random.PCG64(seed))
    made = generator.make(rng, index, _load(generator.load).arrival(index))
    batch = _batch(made, schema, generator)
    _recent.append((number, generator, batch))
    return batch


def _same(one: Generator, other: Generator) -> bool:
    """True if two generators are known to make the same records.

    Every task unpickles its own copy, so identity is not enough. A `make` that is an importable
    function or a frozen dataclass equals its copy.
    """
    try:
        return one is other or bool(one == other)
    except Exception:  # a user's __eq__, e.g. on arrays: not known to be the same
        return False


def _batch(made: Any, schema: pa.Schema, generator: Generator) -> pa.RecordBatch:
    name = _name(generator.make)
    if not isinstance(made, Mapping):
        raise InvalidInput(
            f"generator '{name}' returned {type(made).__name__}, "
            "expected a dictionary with one array per column"
        )
    if set(made) != set(schema.names):
        raise InvalidInput(
            f"generator '{name}' returned the columns {sorted(made)}, "
            f"its schema has {sorted(schema.names)}"
        )
    columns = [_column(made[field.name], field, generator) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(values: Any, field: pa.Field, generator: Generator) -> pa.Array:
    name = _name(generator.make)
    try:
        array = _converted(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(
            f"generator '{name}', column '{field.name}': cannot be made {field.type} "
            f"({' '.join(str(error).split())})"
        ) from None
    if len(array) != generator.block:
        raise InvalidInput(
            f"generator '{name}', column '{field.name}': {len(array)} values "
            f"for a block of {generator.block} records"
        )
    return array


def _converted(values: Any, kind: pa.DataType) -> pa.Array:
    """Return an Arrow array of the type. Floats for a timestamp are seconds since 1970."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        return values if values.type == kind else values.cast(kind)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and pa.types.is_timestamp(kind):
        # A record beyond the end of the load has an infinite time; it is cut off after its block.
        known = np.isfinite(values)
        micros = np.rint(np.where(known, values, 0.0) * 1e6).astype(np.int64)
        return pa.array(micros, mask=~known).cast(kind)
    if isinstance(values, np.ndarray) and values.dtype.kind == "U":
        values = values.astype(object)
    return pa.array(values, type=kind)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays([batch.column(i) for batch in batches]) for i in range(len(schema))]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _name(make: Any) -> str:
    make = make.function if isinstance(make, EachRecord) else make
    return str(getattr(make, "__qualname__", type(make).__qualname__))
