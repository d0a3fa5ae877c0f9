"""Files that a directory held at one moment, and that its source has not read yet.

Spark's file source notes in the checkpoint which files it has found, under `sources/<name>`: a
line of JSON each, numbered by the offset that it belongs to. The offset log says up to which of
these offsets batches are committed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.dataflow.connectors import Files
from penstock.engines.spark.queries import checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LISTING = 1.0
"""Seconds between two listings of a directory: one may be long, and far away."""

Listing = Callable[[], frozenset[str]]

UNKNOWN = frozenset({"?"})
"""A directory that cannot be listed: no source ever reads this file."""


class Unread:
    """The files of one source that are still to be read.

    listing: the files that are there now, as the source would find them; folder: the checkpoint;
    source: the name of the source in it; by_name: whether files of one name count as one file.
    """

    def __init__(self, listing: Listing, folder: Path, source: str, by_name: bool = False) -> None:
        self._listing = listing
        self._folder = folder
        self._source = source
        self._by_name = by_name
        self._files = {self._known(file) for file in listing()}
        self._listed = time.monotonic()
        self._seen: dict[str, int] = {}  # by file, the offset that it belongs to
        self._logs: set[str] = set()

    def none(self) -> bool:
        """Whether all files are read, or are gone."""
        done = checkpoint.log_offset(self._folder, self._source)
        self._read_logs()
        self._files = {f for f in self._files if self._seen.get(f, done + 1) > done}
        if self._files and time.monotonic() - self._listed > _LISTING:
            self._files &= {self._known(file) for file in self._listing()}
            self._listed = time.monotonic()
        return not self._files

    def _known(self, file: str) -> str:
        return file.rpartition("/")[2] if self._by_name else file

    def _read_logs(self) -> None:
        for log in _logs(self._folder / "sources" / self._source):
            if log.name not in self._logs:
                for line in log.read_text().splitlines()[1:]:
                    entry = json.loads(line)
                    self._seen[self._known(entry["path"])] = entry["batchId"]
                self._logs.add(log.name)


def _logs(folder: Path) -> Iterator[Path]:
    """Complete logs: drafts and checksums begin with a dot, and compact ones end in `.compact`."""
    return (log for log in folder.glob("*") if log.name.removesuffix(".compact").isdigit())


def listing(spark: SparkSession, source: Files) -> Listing:
    """The files of a source as Spark itself lists them, by its patterns and without hidden ones."""

    def found() -> frozenset[str]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        reader = spark.read.format(source.format).options(**source.options)
        try:
            return frozenset(reader.schema(source.schema.ddl).load(source.path).inputFiles())
        except PySparkException as error:
            # A pattern that no file fits yet is an error for Spark.
            return frozenset() if error.getCondition() == "PATH_NOT_FOUND" else UNKNOWN
        except Py4JError:
            return UNKNOWN

    return found
