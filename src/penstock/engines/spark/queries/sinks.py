"""Delivers batches to sinks, each batch once even when it is repeated, and counts their rows."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from penstock import files
from penstock.dataflow import connectors
from penstock.dataflow import operators as op
from penstock.dataflow.delivery import remembers_files
from penstock.dataflow.graph import Graph
from penstock.dataflow.schema import Schema, arrow_schema
from penstock.engines.spark.queries import checkpoint
from penstock.engines.spark.session.time_zones import collected
from penstock.errors import InvalidInput
from penstock.verify.exactness import read_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


def check_native(graph: Graph, checkpoints: Path, spark: SparkSession) -> None:
    """Raise `InvalidInput` for a native file sink whose directory another run has written to.

    Such a sink keeps a log of batches beside its files. A new run begins at batch 0 again, and the
    sink would silently skip every batch whose number is in the log.
    """
    for operator in graph.sinks:
        sink = operator.body.sink if isinstance(operator.body, op.Write) else None
        if not isinstance(sink, connectors.Spark) or not remembers_files(sink):
            continue
        path = {name.lower(): value for name, value in sink.options.items()}.get("path")
        begun = checkpoint.progress(checkpoints / f"sink-{operator.name}", 0)[0] >= 0
        if path is not None and not begun and Folder.at(path, spark).holds("_spark_metadata"):
            raise InvalidInput(
                f"sink '{operator.name}' ({operator.written}) writes to {path}, which another run "
                f"has written to: Spark's sink for {sink.format} would skip batches of this one; "
                "choose an empty directory, or use Parquet(...), Json(...) or Csv(...)"
            )


class Outlets:
    """Writes the batches of one run to sinks. `run` is part of file names, so runs do not mix."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._memory: dict[str, dict[str, list[Row]]] = {}
        self._lock = threading.Lock()

    def deliver(
        self, name: str, sink: connectors.Sink, frame: DataFrame, tag: str, again: bool
    ) -> None:
        """Write one batch; with `again` an earlier attempt may have left some of it."""
        match sink:
            case connectors.FileSink():
                self._files(sink, frame, f"{self._run}-{tag}", again)
            case connectors.Console(most, truncate):
                print(f"-- {name}, batch {tag}")
                frame.show(most, truncate)
            case connectors.Memory():
                rows = frame.collect()
                with self._lock:
                    self._memory.setdefault(name, {})[tag] = rows
            case connectors.ForeachBatch(function):
                epoch, batch = tag.split("-")
                # A number that grows across wirings too, as Spark's own batch id does.
                function(frame, int(epoch) * 10**9 + int(batch))
            case connectors.Kafka(options):
                frame.write.format("kafka").options(**options).save()
            case connectors.Discard():
                frame.write.format("noop").mode("overwrite").save()
            case connectors.Spark():
                raise AssertionError("a native sink is written by its own query")

    def rows(self, name: str) -> list[Row]:
        """The rows of a memory sink, in batch order."""
        with self._lock:
            batches = self._memory.get(name, {})
            return [row for tag in sorted(batches) for row in batches[tag]]

    def read(self, name: str, graph: Graph, schema: Schema) -> Iterator[Any] | None:
        """The rows of a sink in this run as Arrow data; None if they cannot be read back."""
        body = graph[name].body
        assert isinstance(body, op.Write)
        shape = arrow_schema(schema)
        match body.sink:
            case connectors.FileSink(path, "parquet" | "json" as format) if "://" not in path:
                columns = [schema.get(column) for column in body.sink.partition_by]
                if any(column is not None and column.type == "timestamp" for column in columns):
                    return None  # a directory's name says the time in a zone that it does not say
                return read_files(path, format, shape, prefix=f"{self._run}-")
            case connectors.Memory():
                rows = [row.asDict(recursive=True) for row in self.rows(name)]
                return iter([pa.Table.from_pylist([*collected(rows, shape)], schema=shape)])
            case _:
                return None

    def _files(self, sink: connectors.FileSink, frame: DataFrame, label: str, again: bool) -> None:
        """Write to a directory aside, then move files in under names made from the batch.

        The directory is flat, or has only directories such as `channel=web`, so that any tool can
        read it. Names sort in batch order, and a repeated batch replaces its own files.
        """
        folder = Folder.at(sink.path, frame.sparkSession)
        staging = f"_staging/{label}"
        writer = frame.write.format(sink.format).options(**sink.options)
        writer = writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
        writer.mode("overwrite").save(folder.path(staging))
        if again:
            for file in folder.files(""):
                if file.rpartition("/")[2].startswith(f"{label}-"):
                    folder.remove(file)
        parts = [file for file in folder.files(staging) if _is_data(file)]
        for number, part in enumerate(parts):
            inside, _, name = part.rpartition("/")
            ending = name[name.index(f".{sink.format}") :] if f".{sink.format}" in name else ""
            named = f"{label}-{number:05d}{ending or f'.{sink.format}'}"
            folder.move(f"{staging}/{part}", f"{inside}/{named}" if inside else named)
        folder.remove(staging)


def _is_data(file: str) -> bool:
    """True for files with rows; False for markers and checksums."""
    return file.rpartition("/")[2].startswith("part-")


class RowCount:
    """The number of rows that a source has produced or a sink has received.

    rows: each batch counted once; repeated: rows of batches that were delivered more than once to a
    sink that cannot undo a batch, so at most that many rows are duplicates.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            data = json.loads(path.read_text())
        except (FileNotFoundError, ValueError):
            data = {}
        self._tag = str(data.get("tag", ""))
        self._before = int(data.get("before", 0))
        self.rows = int(data.get("after", 0))
        self._begun = str(data.get("begun", ""))
        self._attempts = int(data.get("attempts", 0))
        self.repeated = int(data.get("repeated", 0))

    def begin(self, tag: str) -> None:
        """A batch is about to be delivered to a sink that cannot undo it."""
        self._attempts = self._attempts + 1 if tag == self._begun else 1
        self._begun = tag
        self._save()

    def add(self, tag: str, rows: int) -> None:
        """Count a delivered batch; a batch counted twice in a row counts once."""
        if tag != self._tag:
            self._before = self.rows
        self._tag, self.rows = tag, self._before + rows
        if tag == self._begun and self._attempts > 1:
            self.repeated += rows * (self._attempts - 1)
            self._attempts = 1
        self._save()

    def reach(self, rows: int) -> None:
        """Set the total number of rows of all batches so far."""
        if rows != self.rows:
            self._tag, self._before, self.rows = "", rows, rows
            self._save()

    def _save(self) -> None:
        data = {
            "tag": self._tag,
            "before": self._before,
            "after": self.rows,
            "begun": self._begun,
            "attempts": self._attempts,
            "repeated": self.repeated,
        }
        files.write_json(self._path, data, indent=None)


class Folder(Protocol):
    """Names are relative to the directory; "" is the directory itself."""

    @staticmethod
    def at(path: str, spark: SparkSession) -> Folder:
        """The directory at a path, local or on any file system that Hadoop supports."""
        return _Remote(path, spark) if "://" in path else _Local(Path(path).absolute())

    def path(self, name: str) -> str:
        """The path in the form that Spark takes."""

    def files(self, name: str) -> list[str]:
        """All files inside, at any depth, as names relative to it; sorted."""

    def holds(self, name: str) -> bool:
        """True if there is a file or directory of that name."""

    def move(self, old: str, new: str) -> None:
        """Rename a file, creating its new directory if needed. Raises if that fails."""

    def remove(self, name: str) -> None:
        """Delete a file, or a directory and its content."""


class _Local(Folder):
    """Local files without the JVM: a call into it for each would dominate a small batch."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, name: str) -> str:
        return f"file://{self._root / name}"

    def files(self, name: str) -> list[str]:
        top = self._root / name
        found = (Path(folder, file) for folder, _, files in os.walk(top) for file in files)
        return sorted(str(file.relative_to(top)) for file in found)

    def holds(self, name: str) -> bool:
        return (self._root / name).exists()

    def move(self, old: str, new: str) -> None:
        source, target = self._root / old, self._root / new
        target.parent.mkdir(parents=True, exist_ok=True)
        source.replace(target)
        # Spark leaves a checksum beside each file, under its old name.
        source.with_name(f".{source.name}.crc").unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        target = self._root / name
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink()


class _Remote(Folder):
    """Files through Hadoop's file systems, which Spark's writers use too."""

    def __init__(self, root: str, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._root = root.rstrip("/")
        self._path = jvm.org.apache.hadoop.fs.Path
        settings = spark.sparkContext._jsc.hadoopConfiguration()
        self._files = self._path(self._root).getFileSystem(settings)

    def path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def files(self, name: str) -> list[str]:
        top = self._files.makeQualified(self._path(self.path(name)))
        found, each = [], self._files.listFiles(top, True)
        while each.hasNext():
            path = each.next().getPath()
            found.append(str(path.toUri().getPath())[len(top.toUri().getPath()) :].lstrip("/"))
        return sorted(found)

    def holds(self, name: str) -> bool:
        return bool(self._files.exists(self._path(self.path(name))))

    def move(self, old: str, new: str) -> None:
        target = self._path(self.path(new))
        self._files.mkdirs(target.getParent())
        if not self._files.rename(self._path(self.path(old)), target):
            raise OSError(f"cannot move {self.path(old)} to {self.path(new)}")

    def remove(self, name: str) -> None:
        self._files.delete(self._path(self.path(name)), True)
