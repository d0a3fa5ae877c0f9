"""The channel between two pipelines: Parquet files and a log, in one directory.

Rows have absolute numbers: the n-th row ever written is row n for every reader, whatever the
number of readers and their parallelism. The log entry of a writer's batch is its commit; it has
the batch's name, so a batch that runs twice appears once.

    log/00000000000000000007.json   {"first": 1200, "rows": 300, "at": ..., "tag": ..., "files": [],
                                     "mark": ..., "origins": ...}
    data/<tag>/part-00000-....parquet
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engines.spark.channels.event_clock import Origins
from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.session.flow_session import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MARK = "__penstock_mark"
"""A hidden column of readers: the mark in the row that carries it, NULL in all others."""

_ROW_GROUP = 20_000
"""Rows in a row group: few enough for readers of a part of a file to skip the rest."""


@dataclass(frozen=True)
class Entry:
    """The rows that one batch of the writer added: [first, first + rows).

    mark: the watermark that later rows obey, in milliseconds since 1970, if there is one (see
    `event_time`). It may advance without a row. origins: see `event_clock`; empty if no reader
    needs them.
    """

    sequence: int
    first: int
    rows: int
    at: float
    tag: str
    files: tuple[tuple[str, int], ...]
    mark: int | None = None
    origins: Origins = field(default_factory=dict)

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
            **({"origins": dict(self.origins)} if self.origins else {}),
        }

    @classmethod
    def load(cls, log: FileStore, sequence: int) -> Entry:
        data = log.read(_file_name(sequence))
        files = tuple((name, rows) for name, rows in data.pop("files"))
        origins = {name: (low, high) for name, (low, high) in data.pop("origins", {}).items()}
        return cls(sequence=sequence, files=files, origins=origins, **data)


@dataclass(frozen=True)
class FileRange:
    """Rows [first, stop) of one file."""

    file: str
    first: int
    stop: int


def _file_name(sequence: int) -> str:
    return f"{sequence:020d}.json"


class Log:
    """The reading side of a channel's log. It follows entry by entry, without listing."""

    def __init__(self, channel: FileStore) -> None:
        self._log = channel.child("log")
        self.entries: list[Entry] = []
        self._next: int | None = None

    def follow(self) -> None:
        """Read the entries that were added since the last call."""
        if self._next is None:
            self._next = 0
            for name in self._log.names():
                if name.endswith(".json"):
                    self._take_up(int(name.removesuffix(".json")))
        while self._log.exists(_file_name(self._next)):
            self._take_up(self._next)

    def _take_up(self, sequence: int) -> None:
        # An entry that was deleted meanwhile has been read by every reader.
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
        """The latest mark of entries that end at or before a row."""
        marks = (e.mark for e in reversed(self.entries) if e.stop <= row and e.mark is not None)
        return next(marks, None)

    def entry(self, row: int) -> int | None:
        """The number of the last entry that ends at or before a row."""
        return next((e.sequence for e in reversed(self.entries) if e.stop <= row), None)

    def low(self, row: int, origin: str) -> int | None:
        """How many rows of a channel upstream are all in the rows before `row`, if known."""
        found = next((e.origins for e in reversed(self.entries) if e.stop <= row), {})
        return found[origin][0] if origin in found else None

    def origins(self, row: int) -> dict[str, tuple[int, int]]:
        """The origins of the rows before a row, as far as entries still say so."""
        lower = next((e.origins for e in reversed(self.entries) if e.stop <= row), {})
        upper = next((e.origins for e in self.entries if e.stop >= row), {})
        lows = {name: lower.get(name, (0, 0))[0] for name in upper}
        return {name: (lows[name], high if row else 0) for name, (_, high) in upper.items()}

    def overlapping(self, first: int, stop: int) -> Iterator[tuple[Entry, int, int]]:
        """Entries with rows in a range, each with its part [a, b) of the range."""
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
    """The rows of some file ranges; only the row groups they touch are decoded."""
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
    """The writing side, in the driver: appends batches and deletes rows that were read.

    conf: settings to use for writing where the session has others.
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
        """True if a batch was already added; only recent batches can be repeated."""
        with self._lock:
            return any(entry.tag == tag for entry in reversed(self.log.entries))

    @property
    def mark(self) -> int | None:
        """The event-time mark of all rows that were written."""
        return self.log.mark(self.log.end)

    def entry(self, row: int) -> int | None:
        """The number of the last entry that ends at or before a row."""
        with self._lock:
            return self.log.entry(row)

    def origins(self, row: int) -> dict[str, tuple[int, int]]:
        """The origins of the rows before a row, as far as entries still say so."""
        with self._lock:
            return self.log.origins(row)

    def append(
        self, frame: DataFrame, tag: str, mark: int | None = None, origins: Origins | None = None
    ) -> int:
        """Write a batch to the channel and commit it; returns its number of rows."""
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
        return self.commit(tag, tuple(f for f in files if f[1]), mark, origins)

    def commit(
        self,
        tag: str,
        files: tuple[tuple[str, int], ...],
        mark: int | None = None,
        origins: Origins | None = None,
    ) -> int:
        """Append files, given with their numbers of rows, to the channel.

        Without rows, an entry is written only if the mark or the origins have advanced.
        """
        rows = sum(count for _, count in files)
        with self._lock:
            known = self.mark
            if mark is not None and known is not None:
                mark = max(mark, known)
            if rows == 0:
                self.store.remove(f"data/{tag}")
                noted = self.log.entries[-1].origins if self.log.entries else {}
                if mark == known and (not origins or origins == noted):
                    return 0
            entry = Entry(
                self._sequence, self.log.end, rows, time.time(), tag, files, mark, origins or {}
            )
            self.store.write(f"log/{_file_name(entry.sequence)}", entry.to_json())
            self.log.follow()
            self._sequence += 1
        return rows

    def clean(self, row: int) -> None:
        """Delete what every reader has read, except the last entry, which holds the end."""
        with self._lock:
            passed = [e for e in self.log.entries[:-1] if e.stop <= row]
            # Deleted entries are remembered a while longer, for latencies.
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
