"""Delivering a batch to the outside, each batch once whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.dataflow import connectors
from penstock.dataflow import operators as op
from penstock.dataflow.delivery import remembers_files
from penstock.dataflow.graph import Graph
from penstock.dataflow.schema import Schema, arrow_schema
from penstock.engines.spark.queries import checkpoint
from penstock.engines.spark.queries.sink_directory import Folder
from penstock.engines.spark.session.time_zones import collected
from penstock.errors import InvalidInput
from penstock.verify.exactness import read_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


def check_native(graph: Graph, checkpoints: Path, spark: SparkSession) -> None:
    """Raise `InvalidInput` for a native file sink whose directory another run has written to.

    Such a sink keeps a log of batches beside its files. A run that is new begins at batch 0 again,
    and the sink would skip, without a word, every batch whose number is in the log.
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
    """Writes batches to sinks for one run. `run` names its files, so that runs do not mix."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._memory: dict[str, dict[str, list[Row]]] = {}
        self._lock = threading.Lock()

    def deliver(
        self, name: str, sink: connectors.Sink, frame: DataFrame, tag: str, again: bool
    ) -> None:
        """Write one batch; `again` says that an earlier attempt at it may have left something."""
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
                # One growing number, also across wirings, as Spark's own batch id is.
                function(frame, int(epoch) * 10**9 + int(batch))
            case connectors.Kafka(options):
                frame.write.format("kafka").options(**options).save()
            case connectors.Discard():
                frame.write.format("noop").mode("overwrite").save()
            case connectors.Spark():
                raise AssertionError("a native sink is written by its own query")

    def rows(self, name: str) -> list[Row]:
        """What a memory sink has got, in batch order."""
        with self._lock:
            batches = self._memory.get(name, {})
            return [row for tag in sorted(batches) for row in batches[tag]]

    def read(self, name: str, graph: Graph, schema: Schema) -> Iterator[Any] | None:
        """What a sink got in this run, as Arrow data; None where that cannot be read back."""
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
        """Write beside, then move in under names made of the batch.

        The directory is flat, or has directories such as `channel=web` alone, so that anything
        can read it. Names sort in batch order, and a batch that comes again replaces what it left.
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
    """Whether Spark wrote rows into a file, not that it is done or what its checksum is."""
    return file.rpartition("/")[2].startswith("part-")
