"""An order-independent 64-bit checksum of rows.

It does not depend on the width of types: a row's hash comes from its values by position: 3 is the
same as a byte, a long or a double, a time is its microseconds since 1970 in UTC, and null is a
value of its own. The checksum of many rows is the sum of their hashes, so the checksums of parts
can be added in any order.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.uint64]

_MASK = (1 << 64) - 1
_NULL = np.uint64(0x6E756C6C_6E756C6C)
_NOT_A_NUMBER = np.uint64(0x6E616E6E_616E6E61)
_ODD = np.uint64(0x9E3779B97F4A7C15)
_CHUNK = 200_000


@dataclass(frozen=True)
class Digest:
    """Number and checksum of rows; the digests of two parts add up to that of both."""

    rows: int = 0
    checksum: int = 0

    def __add__(self, other: Digest) -> Digest:
        return Digest(self.rows + other.rows, (self.checksum + other.checksum) & _MASK)

    def __str__(self) -> str:
        return f"{self.checksum:016x}"


def digest(table: pa.Table) -> Digest:
    """Digest of the rows of a table."""
    return _digest([_arrow_hashes(column) for column in table.columns], table.num_rows)


def digest_rows(rows: Iterable[tuple[Any, ...]]) -> Digest:
    """Digest of rows given as tuples."""
    found, rest = Digest(), iter(rows)
    while chunk := list(islice(rest, _CHUNK)):
        columns = zip(*chunk, strict=True)
        found = found + _digest([_value_hashes(column) for column in columns], len(chunk))
    return found


def _digest(columns: list[Words], rows: int) -> Digest:
    total: Words = np.full(rows, len(columns), dtype=np.uint64)
    for hashes in columns:
        total = _mixed(total * _ODD + hashes)
    return Digest(rows, int(total.sum(dtype=np.uint64)) & _MASK)


def _mixed(x: Words) -> Words:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _value_hashes(values: tuple[Any, ...]) -> Words:
    """Hash Python values: with Arrow if one simple type holds them all."""
    try:
        array = pa.array(values)
    except (pa.ArrowException, TypeError, OverflowError):
        return _written_hashes(list(values))
    if pa.types.is_nested(array.type):  # the type that Arrow infers may add empty fields
        return _written_hashes(list(values))
    return _arrow_hashes(array)


def _arrow_hashes(column: pa.Array | pa.ChunkedArray) -> Words:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind, null = column.type, pc.is_null(column).to_numpy(zero_copy_only=False)
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_null(kind):
        hashes = np.zeros(len(column), dtype=np.uint64)
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        hashes = _integer_hashes(_numbers(column, pa.int64()))
    elif pa.types.is_decimal(kind):
        hashes = _decimal_hashes(column)
    elif pa.types.is_floating(kind):
        hashes = _float_hashes(_numbers(column, pa.float64()))
    elif pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", kind.tz), safe=False)
        hashes = _integer_hashes(_numbers(micros, pa.int64()))
    elif pa.types.is_date(kind):
        days = column.cast(pa.date32(), safe=False).cast(pa.int32())
        hashes = _integer_hashes(_numbers(days, pa.int64()))
    elif _is_text(kind):
        hashes = _text_hashes(column)
    else:
        hashes = _written_hashes(_python_values(column))
    return np.where(null, _NULL, hashes)


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    return any(test(kind) for test in (*tests, pa.types.is_large_binary))


def _numbers(column: pa.Array, kind: pa.DataType) -> npt.NDArray[Any]:
    numbers = column.cast(kind, safe=False)
    filled = numbers.fill_null(0) if numbers.null_count else numbers
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def _integer_hashes(numbers: npt.NDArray[np.int64]) -> Words:
    return _mixed(numbers.view(np.uint64) + _ODD)


def _float_hashes(numbers: npt.NDArray[np.float64]) -> Words:
    whole = np.isfinite(numbers) & (np.abs(numbers) < 2.0**53) & (np.trunc(numbers) == numbers)
    integers = np.where(whole, numbers, 0.0).astype(np.int64)
    bits: Words = _mixed(np.ascontiguousarray(numbers).view(np.uint64) ^ _ODD)
    hashes = np.where(whole, _integer_hashes(integers), bits)
    return np.where(np.isnan(numbers), _NOT_A_NUMBER, hashes)


def _decimal_hashes(column: pa.Array) -> Words:
    """Hash decimals like the float with the same digits, else by all digits."""
    coded = column.dictionary_encode()
    distinct = [_plain(value) for value in coded.dictionary.to_pylist()] or [0]
    exact = np.array([isinstance(value, str) and value[:1] == "d" for value in distinct])
    floats = np.array([0.0 if own else float(v) for own, v in zip(exact, distinct, strict=True)])
    digits = np.array([str(value).encode() for value in distinct], dtype=object)
    hashes = np.where(exact, _mixed(_object_hashes(digits)), _float_hashes(floats))
    return np.asarray(hashes[coded.indices.fill_null(0).to_numpy()])


def _text_hashes(column: pa.Array) -> Words:
    """Hash texts and bytes by their bytes, each distinct one once."""
    binary = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
    coded = column.cast(binary).fill_null(b"").dictionary_encode()
    distinct = coded.dictionary.to_numpy(zero_copy_only=False)
    hashes = _object_hashes(distinct)
    return np.asarray(hashes[coded.indices.to_numpy()])


def _object_hashes(values: npt.NDArray[Any]) -> Words:
    # pandas' hash has a fixed key: the same in every process, unlike Python's own.
    return np.asarray(pd.util.hash_array(values, categorize=False), dtype=np.uint64)


def _written_hashes(values: list[Any]) -> Words:
    """Hash values without a simple type, by a text that is the same for equal values."""
    simple = [(value is None, _plain(value)) for value in values]
    texts = [json.dumps(value, sort_keys=True).encode() for _, value in simple]
    # Mixed again, so that a list does not equal the text that it is written as.
    hashes = _mixed(_object_hashes(np.array([*texts, None], dtype=object)[:-1]))
    return np.where(np.array([null for null, _ in simple], dtype=bool), _NULL, hashes)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(_plain(k)): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Decimal):
        if value.is_finite() and Decimal(repr(float(value))) != value:
            return f"d{value.normalize():f}"
        value = float(value)
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, float | np.floating):
        number = float(value)
        return int(number) if math.isfinite(number) and number.is_integer() else repr(number)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if value is None else str(value)


def _python_values(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if pa.types.is_map(column.type):
        return [None if pairs is None else dict(pairs) for pairs in values]
    return values
