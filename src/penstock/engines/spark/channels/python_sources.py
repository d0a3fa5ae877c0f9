"""Python data sources for Spark: the generator and the channel.

Both number their rows, so an offset is one integer and a batch is a range. A range is divided into
as many partitions as the valve's parallelism says at that moment.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType
from pyspark.sql.udf import _wrap_function

from penstock.dataflow.generator import records
from penstock.dataflow.load_profile import parse
from penstock.engines.spark.channels.channel import MARK, FileRange, Log, read
from penstock.engines.spark.channels.event_clock import EventClock
from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.channels.valve import Valve, ValveFile
from penstock.engines.spark.session.pickling import settled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SourcePartition(InputPartition):
    """One instance's share of a batch: a range of rows, and for a channel the files with them.

    mark: the channel's mark, which the partition carries after its rows (see `event_time`).
    """

    def __init__(
        self, first: int, stop: int, pieces: list[FileRange], mark: int | None = None
    ) -> None:
        self.first = first
        self.stop = stop
        self.pieces = pieces
        self.mark = mark


def cut(first: int, stop: int, parts: int) -> list[tuple[int, int]]:
    """Divide a range into at most `parts` ranges of nearly equal size, none empty."""
    if stop <= first:  # Spark asks for the partitions of a batch without input too
        return []
    parts = max(1, min(parts, stop - first))
    edges = [first + (stop - first) * i // parts for i in range(parts + 1)]
    return list(pairwise(edges))


class NumberedReader(DataSourceStreamReader):
    """The common part of generator and channel. Options: valve, input, first, inputs."""

    brings_marks = False
    """True if a mark is read as a row; otherwise it is only in the offset."""

    def __init__(self, options: Any) -> None:
        self.input = options["input"]
        self.first = int(options["first"])
        self.inputs = int(options["inputs"])
        self.valve = ValveFile(options["valve"])
        self._beat = -1

    def available(self, valve: Valve) -> int:
        """The end of the rows that may be read now."""
        raise NotImplementedError

    def mark(self, row: int) -> int | None:
        """The mark of the rows before a row, if there is one."""
        return None

    def entry(self, row: int) -> int | None:
        """The last entry of a log before a row, where one without rows has to start a batch."""
        return None

    def initialOffset(self) -> dict[str, Any]:
        return self._offset(self.first)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:
        valve = self.valve.read()
        if not valve.open or valve.admission == 0:
            self.valve.acknowledge(self.input, valve.turn)
            return dict(start)
        if not self._due(valve):
            return dict(start)
        end = min(self.available(valve), valve.limits.get(self.input, math.inf))
        if valve.admission is not None:
            end = min(end, start["row"] + max(1, valve.admission // self.inputs))
        end = max(int(end), start["row"])
        mark = _later(self.mark(end), start.get("mark"))
        entry = _later(self.entry(end), start.get("entry"))
        found = self._offset(end, mark, entry)
        if found == start:
            return dict(start)
        self._beat = self._beat_now(valve)
        return found

    def partitions(self, start: Any, end: Any) -> list[SourcePartition]:
        first, stop = start["row"], end["row"]
        share = math.ceil(self.valve.read().parallelism / self.inputs)
        splits = [SourcePartition(a, b, self.pieces(a, b)) for a, b in cut(first, stop, share)]
        mark = end.get("mark")
        if self.brings_marks and mark is not None and mark != start.get("mark"):
            if not splits:
                splits = [SourcePartition(stop, stop, [])]
            splits[-1].mark = mark
        return splits

    def pieces(self, first: int, stop: int) -> list[FileRange]:
        return []

    def _offset(
        self, row: int, mark: int | None = None, entry: int | None = None
    ) -> dict[str, Any]:
        known = {"mark": mark, "entry": entry}
        rest = {name: value for name, value in known.items() if value is not None}
        return {"row": row, "of": self.input, **rest}

    def _beat_now(self, valve: Valve) -> int:
        return int(time.time() / valve.cadence) if valve.cadence > 0 else -1

    def _due(self, valve: Valve) -> bool:
        """True if the cadence allows a batch; a common beat keeps several inputs in step."""
        return valve.cadence <= 0 or self._beat_now(valve) != self._beat


def _later(found: int | None, known: int | None) -> int | None:
    return known if found is None else found if known is None else max(found, known)


class GeneratorReader(NumberedReader):
    """Reads a `Generator` from a pickle. Option: generator, its file."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.generator = cloudpickle.loads(Path(options["generator"]).read_bytes())
        self.load = parse(self.generator.load)

    def available(self, valve: Valve) -> int:
        due = self.load.offered(max(0.0, time.time() - valve.clocks[self.input]))
        limit = self.generator.limit
        return int(due if limit is None else min(due, limit))

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return settled(records(self.generator, partition.first, partition.stop))


class ChannelReader(NumberedReader):
    """Reads a channel. Option: channel. With the hidden column in the schema, marks are rows.

    Options clock and origin: marks come from this clock, not from the channel (see `event_clock`).
    Option entries: what the log says of origins is passed on, also by entries without rows.
    """

    def __init__(self, options: Any, schema: StructType) -> None:
        super().__init__(options)
        self.store = FileStore(options["channel"])
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self.brings_marks = MARK in schema.names
        self.log = Log(self.store)
        self.clock: str | None = options.get("clock")
        self.origin: str = options.get("origin", "")
        self.passes_on = "entries" in options
        self.upstream = self.input.partition(">")[0]

    def available(self, valve: Valve) -> int:
        self.log.follow()
        return self.log.end

    def pieces(self, first: int, stop: int) -> list[FileRange]:
        if self.log.end < stop:
            self.log.follow()
        return self.log.pieces(first, stop)

    def mark(self, row: int) -> int | None:
        if self.clock is None:
            return self.log.mark(row)
        read = row if self.origin == self.upstream else self.log.low(row, self.origin)
        return None if read is None else EventClock.load(Path(self.clock), self.origin).at(read)

    def entry(self, row: int) -> int | None:
        return self.log.entry(row) if self.passes_on else None

    def commit(self, end: Any) -> None:
        self.log.forget(end["row"])

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        if not self.brings_marks:
            return settled(read(self.store, partition.pieces, self.schema))
        return settled(self._with_mark(partition))

    def _with_mark(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows, followed by one that holds only the mark."""
        at = self.schema.get_field_index(MARK)
        hidden = self.schema.field(at)
        for batch in read(self.store, partition.pieces, self.schema.remove(at)):
            none = pa.nulls(batch.num_rows, hidden.type)
            yield pa.RecordBatch.from_arrays([*batch.columns, none], schema=self.schema)
        if partition.mark is not None:
            mark = pa.array([1000 * partition.mark], pa.int64()).cast(hidden.type)
            nulls = [pa.nulls(1, field.type) for field in self.schema.remove(at)]
            yield pa.RecordBatch.from_arrays([*nulls, mark], schema=self.schema)


class GeneratorSource(DataSource):
    """`spark.readStream.format("penstock-generator")`."""

    @classmethod
    def name(cls) -> str:
        return "penstock-generator"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return GeneratorReader(self.options)


class ChannelSource(DataSource):
    """`spark.readStream.format("penstock-channel")`."""

    @classmethod
    def name(cls) -> str:
        return "penstock-channel"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return ChannelReader(self.options, schema)


def register(spark: SparkSession) -> None:
    """Register both sources with a session."""
    jvm: Any = spark._jvm
    package = "org.apache.spark.sql.execution.datasources.v2.python"
    for source in (GeneratorSource, ChannelSource):
        made = getattr(jvm, f"{package}.UserDefinedPythonDataSource")(wrapped(spark, source))
        spark._jsparkSession.dataSource().registerPython(source.name(), made)


def wrapped(spark: SparkSession, source: type[DataSource]) -> Any:
    """A source as a Python function of Spark, with a thread-safe map of environment variables.

    Spark keeps one map for a source, adds to it in the threads of all queries, and serialises it
    with every task. A plain map can be corrupted by that, and then no task with it can be read.
    """
    plain: Any = _wrap_function(spark.sparkContext, source)
    jvm: Any = spark._jvm
    return jvm.SimplePythonFunction(
        plain.command(),
        jvm.java.util.concurrent.ConcurrentHashMap(plain.envVars()),
        plain.pythonIncludes(),
        plain.pythonExec(),
        plain.pythonVer(),
        plain.broadcastVars(),
        plain.accumulator(),
    )
