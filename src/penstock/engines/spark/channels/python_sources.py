"""Python data sources of Penstock: the generator and the channel, as Spark reads them.

Both number their rows, so an offset is one integer, a batch is a range, and a range is cut into
as many splits as the valve's parallelism says at that moment.
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
from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.channels.valve import Valve, ValveFile
from penstock.engines.spark.session.pickling import settled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SourcePartition(InputPartition):
    """One instance's share of a batch: a range of rows, and for a channel where they are.

    mark: the channel's mark, which the split brings after its rows (see `eventtime`).
    """

    def __init__(
        self, first: int, stop: int, pieces: list[FileRange], mark: int | None = None
    ) -> None:
        self.first = first
        self.stop = stop
        self.pieces = pieces
        self.mark = mark


def cut(first: int, stop: int, parts: int) -> list[tuple[int, int]]:
    """Cut a range into at most `parts` ranges of nearly equal size, none empty."""
    if stop <= first:  # Spark asks for the splits of a batch without input too
        return []
    parts = max(1, min(parts, stop - first))
    edges = [first + (stop - first) * i // parts for i in range(parts + 1)]
    return list(pairwise(edges))


class NumberedReader(DataSourceStreamReader):
    """What generator and channel have in common. Options: valve, input, first, inputs."""

    brings_marks = False
    """Whether a mark comes as a row; else it only stands in the offset."""

    def __init__(self, options: Any) -> None:
        self.input = options["input"]
        self.first = int(options["first"])
        self.inputs = int(options["inputs"])
        self.valve = ValveFile(options["valve"])
        self._beat = -1

    def available(self, valve: Valve) -> int:
        """The row after the last one that may be read now."""
        raise NotImplementedError

    def mark(self, row: int) -> int | None:
        """The mark of the rows before a row, where there is one."""
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
        mark, known = self.mark(end), start.get("mark")
        if mark is None or (known is not None and mark <= known):
            mark = known
        if end == start["row"] and mark == known:
            return dict(start)
        self._beat = self._beat_now(valve)
        return self._offset(end, mark)

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

    def _offset(self, row: int, mark: int | None = None) -> dict[str, Any]:
        known = {} if mark is None else {"mark": mark}
        return {"row": row, "of": self.input, **known}

    def _beat_now(self, valve: Valve) -> int:
        return int(time.time() / valve.cadence) if valve.cadence > 0 else -1

    def _due(self, valve: Valve) -> bool:
        """Whether the cadence allows a batch; a shared beat keeps several inputs in step."""
        return valve.cadence <= 0 or self._beat_now(valve) != self._beat


class GeneratorReader(NumberedReader):
    """Reads a `Generator`, which travels as a pickle beside the valve. Option: generator."""

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
    """Reads a channel. Option: channel. A schema with the hidden column brings marks as rows."""

    def __init__(self, options: Any, schema: StructType) -> None:
        super().__init__(options)
        self.store = FileStore(options["channel"])
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self.brings_marks = MARK in schema.names
        self.log = Log(self.store)

    def available(self, valve: Valve) -> int:
        self.log.follow()
        return self.log.end

    def pieces(self, first: int, stop: int) -> list[FileRange]:
        if self.log.end < stop:
            self.log.follow()
        return self.log.pieces(first, stop)

    def mark(self, row: int) -> int | None:
        return self.log.mark(row)

    def commit(self, end: Any) -> None:
        self.log.forget(end["row"])

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        if not self.brings_marks:
            return settled(read(self.store, partition.pieces, self.schema))
        return settled(self._with_mark(partition))

    def _with_mark(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows, and behind them one that holds the mark and nothing else."""
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
    """Make both known to Spark."""
    jvm: Any = spark._jvm
    package = "org.apache.spark.sql.execution.datasources.v2.python"
    for source in (GeneratorSource, ChannelSource):
        made = getattr(jvm, f"{package}.UserDefinedPythonDataSource")(wrapped(spark, source))
        spark._jsparkSession.dataSource().registerPython(source.name(), made)


def wrapped(spark: SparkSession, source: type[DataSource]) -> Any:
    """A source as Spark's Python functions are, but with an environment that threads may share.

    Spark keeps one map of environment variables for a source, adds to it in the threads of all
    queries, and sends it with every task. A plain map can be spoilt by that for good, and then no
    task that it went with can be read.
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
