"""The channel between two pipelines: Parquet files and a log, in one directory.

Rows have absolute numbers: the n-th row ever written is row n for every reader, however many
readers there are and however parallel they read. One log entry a batch of the writer is the
commit; it carries the writer's tag, so a batch that runs twice appears once.

    log/00000000000000000007.json   {"first": 1200, "rows": 300, "at": ..., "tag": ..., "files": [],
                                     "mark": ...}
    data/<tag>/part-00000-....parquet
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.session.flow_session import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MARK = "__penstock_mark"
"""A hidden column of readers: the mark in the row that brings it, NULL in all others."""

_ROW_GROUP = 20_000
"""Rows a row group: small enough that a reader of a part of a file skips the rest of it."""


@dataclass(frozen=True)
class Entry:
    """What one batch of the writer added: rows [first, first + rows).

    mark: the watermark that rows behind this entry keep, in milliseconds since 1970, if there is
    one (see `eventtime`). It may move on without a row.
    """

    sequence: int
    first: int
    rows: int
    at: float
    tag: str
    files: tuple[tuple[str, int], ...]
    mark: int | None = None

    @property
    def stop(self) -> int:
        return self.first + self.rows

    def to_json(self) -> dict[str, Any]:
        return {
            "first": self.first,
            "rows": self.rows,
            "at": self.at,
            "tag": self.tag,
            "files": [list(f) for f in self.files],
            **({} if self.mark is None else {"mark": self.mark}),
        }

    @classmethod
    def load(cls, log: FileStore, sequence: int) -> Entry:
        data = log.read(_file_name(sequence))
        files = tuple((name, rows) for name, rows in data.pop("files"))
        return cls(sequence=sequence, files=files, **data)


@dataclass(frozen=True)
class FileRange:
    """Rows [first, stop) of one file."""

    file: str
    first: int
    stop: int


def _file_name(sequence: int) -> str:
    return f"{sequence:020d}.json"


class Log:
    """The reading side of a channel's log, followed entry by entry without listing."""

    def __init__(self, channel: FileStore) -> None:
        self._log = channel.child("log")
        self.entries: list[Entry] = []
        self._next: int | None = None

    def follow(self) -> None:
        """Take up the entries that were added since the last call."""
        if self._next is None:
            self._next = 0
            for name in self._log.names():
                if name.endswith(".json"):
                    self._take_up(int(name.removesuffix(".json")))
        while self._log.exists(_file_name(self._next)):
            self._take_up(self._next)

    def _take_up(self, sequence: int) -> None:
        # An entry that is cleaned up meanwhile has been passed by every reader.
        with suppress(FileNotFoundError):
            self.entries.append(Entry.load(self._log, sequence))
        self._next = sequence + 1

    def forget(self, row: int) -> None:
        """Drop entries that end at or before a row."""
        keep = next((i for i, e in enumerate(self.entries) if e.stop > row), len(self.entries))
        # The last entry stays, so that the end of the channel is known.
        del self.entries[: min(keep, max(0, len(self.entries) - 1))]

    @property
    def end(self) -> int:
        """The number of rows ever written."""
        return self.entries[-1].stop if self.entries else 0

    def mark(self, row: int) -> int | None:
        """The mark of all entries that end at or before a row."""
        marks = (e.mark for e in reversed(self.entries) if e.stop <= row and e.mark is not None)
        return next(marks, None)

    def overlapping(self, first: int, stop: int) -> Iterator[tuple[Entry, int, int]]:
        """Entries with rows in a range, each with the part [a, b) of the range inside it."""
        start = bisect_right([e.stop for e in self.entries], first)
        for entry in self.entries[start:]:
            if entry.first >= stop:
                return
            a, b = max(first, entry.first), min(stop, entry.stop)
            if a < b:
                yield entry, a, b

    def pieces(self, first: int, stop: int) -> list[FileRange]:
        """The parts of files that hold a range of rows, in order."""
        found = []
        for entry, a, b in self.overlapping(first, stop):
            at = entry.first
            for file, rows in entry.files:
                low, high = max(a, at), min(b, at + rows)
                if low < high:
                    found.append(FileRange(file, low - at, high - at))
                at += rows
        if sum(piece.stop - piece.first for piece in found) != stop - first:
            raise LookupError(f"rows {first} to {stop} are not all in the channel any more")
        return found


def read(store: FileStore, pieces: list[FileRange], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of some pieces, decoding only the row groups they touch."""
    for piece in pieces:
        with store.filesystem.open_input_file(store.path(piece.file)) as source:
            file = pq.ParquetFile(source)
            at = 0
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                low, high = max(piece.first - at, 0), min(piece.stop - at, rows)
                if low < high:
                    table = file.read_row_group(group, use_threads=False)
                    table = table.slice(low, high - low)
                    yield from _as(table, schema).to_batches(max_chunksize=_ROW_GROUP)
                at += rows


def _as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table if table.schema.equals(schema) else table.cast(schema)


class Channel:
    """The writing side, held by the driver: appends, bounds and cleans up.

    `conf`: settings for writing to it where those of the session would not do.
    """

    def __init__(self, store: FileStore, conf: Mapping[str, str] | None = None) -> None:
        self.store = store
        self._conf = dict(conf or {})
        store.child("log").make()
        store.child("data").make()
        self.log = Log(store)
        self.log.follow()
        self._sequence = self.log.entries[-1].sequence + 1 if self.log.entries else 0
        self._lock = threading.Lock()
        self._clean_through = 0

    @property
    def end(self) -> int:
        return self.log.end

    def holds(self, tag: str) -> bool:
        """Whether a batch was already added; only recent batches can come again."""
        with self._lock:
            return any(entry.tag == tag for entry in reversed(self.log.entries))

    @property
    def mark(self) -> int | None:
        """How far event time has come for all rows that were written."""
        return self.log.mark(self.log.end)

    def append(self, frame: DataFrame, tag: str, mark: int | None = None) -> int:
        """Run a batch into the channel and commit it; returns its rows."""
        writer = (
            frame.write.mode("overwrite")
            .option("compression", "lz4_raw")
            .option("parquet.enable.dictionary", "false")
            .option("parquet.block.row.count.limit", str(_ROW_GROUP))
        )
        with settings(frame.sparkSession, self._conf):
            writer.parquet(self.store.uri(f"data/{tag}"))
        data = self.store.child(f"data/{tag}")
        files = []
        for name in data.names("part-"):
            with data.filesystem.open_input_file(data.path(name)) as source:
                files.append((f"data/{tag}/{name}", pq.ParquetFile(source).metadata.num_rows))
        return self.commit(tag, tuple(f for f in files if f[1]), mark)

    def commit(self, tag: str, files: tuple[tuple[str, int], ...], mark: int | None = None) -> int:
        """Make files with their numbers of rows the next rows of the channel.

        Without rows there is an entry only if the mark has moved on.
        """
        rows = sum(count for _, count in files)
        with self._lock:
            known = self.mark
            if mark is not None and known is not None:
                mark = max(mark, known)
            if rows == 0:
                self.store.remove(f"data/{tag}")
                if mark == known:
                    return 0
            entry = Entry(self._sequence, self.log.end, rows, time.time(), tag, files, mark)
            self.store.write(f"log/{_file_name(entry.sequence)}", entry.to_json())
            self.log.follow()
            self._sequence += 1
        return rows

    def clean(self, row: int) -> None:
        """Delete what every reader has passed; the last entry stays to remember the end."""
        with self._lock:
            passed = [e for e in self.log.entries[:-1] if e.stop <= row]
            # What has been deleted is remembered a while longer: lineage still asks for it.
            for entry in passed:
                if entry.sequence >= self._clean_through:
                    self.store.remove(f"data/{entry.tag}")
                    self.store.remove(f"log/{_file_name(entry.sequence)}")
                    self._clean_through = entry.sequence + 1
            if len(passed) > 2000:
                del self.log.entries[:1000]

    def entries(self, first: int, stop: int) -> list[tuple[Entry, int, int]]:
        with self._lock:
            return list(self.log.overlapping(first, stop))
