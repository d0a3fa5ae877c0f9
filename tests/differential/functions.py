"""Python functions of random queries, as values that can be shipped to workers.

They must give the same for a record of Penstock's and for a row of Spark's as a dictionary: both
have texts, numbers, lists and, for structs, dictionaries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from tests.differential.queries import ID

Record = dict[str, Any]


@dataclass(frozen=True)
class Changed:
    """A record with another value in one column."""

    name: str

    def __call__(self, record: Record) -> Record:
        return {**record, self.name: changed(record[self.name])}


def changed(value: Any) -> Any:
    """Another value of the same type; the text of the flush row stays as it is."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str | list):
        return value[::-1]
    if isinstance(value, dict):
        return {**value, "innerName": changed(value["innerName"])}
    return value


@dataclass(frozen=True)
class Copies:
    """None, one or more copies of a record, as its number says."""

    modulus: int

    def __call__(self, record: Record) -> list[Record]:
        return [record] * (record[ID] % self.modulus)


@dataclass(frozen=True)
class Kept:
    """Whether a record is kept, as its number says."""

    modulus: int

    def __call__(self, record: Record) -> bool:
        return bool(record[ID] % self.modulus != 0)


@dataclass(frozen=True)
class KeptArrow:
    """The same over Arrow record batches."""

    modulus: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            number = batch.column(ID)
            whole = pc.multiply(pc.divide(number, self.modulus), self.modulus)
            yield batch.filter(pc.not_equal(number, whole))


@dataclass(frozen=True)
class Numbering:
    """Makes the processor, which has to know the name of the key."""

    key: str

    def __call__(self) -> StatefulProcessor:
        return Numbers(self.key)


class Numbers(StatefulProcessor):
    """Numbers the records of a key from 1."""

    def __init__(self, key: str) -> None:
        self.key = key

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        number = self.count.get()[0] if self.count.exists() else 0
        for _ in rows:
            number += 1
            yield Row(**{self.key: key[0], "number": number})
        self.count.update((number,))

    def close(self) -> None:
        pass
