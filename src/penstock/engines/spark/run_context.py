"""The context of a run, which its pipelines share: session, dataflow, directory, channels."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.dataflow.graph import Graph
from penstock.dataflow.load_profile import Load, parse
from penstock.dataflow.schema import Schema
from penstock.engines.spark import pipeline_graph
from penstock.engines.spark.channels.channel import Channel
from penstock.engines.spark.channels.event_clock import UNKNOWN, Origins
from penstock.engines.spark.channels.event_time import EventTimes
from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.channels.valve import BatchSize
from penstock.engines.spark.measuring.operator_meter import MeterReports
from penstock.engines.spark.queries.sinks import Outlets, RowCount
from penstock.engines.spark.session.flow_session import CHANNEL, unmet
from penstock.store.run_directory import RunDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class RunContext:
    """The session, the dataflow, the run directory and its channels and counts."""

    spark: SparkSession
    graph: Graph
    schemas: Mapping[str, Schema]
    directory: RunDirectory
    outlets: Outlets
    channel_rows: int
    mail: MeterReports | None = None
    pace: BatchSize = field(default_factory=lambda: BatchSize(5.0))
    channels: dict[str, Channel] = field(default_factory=dict)
    row_counts: dict[str, RowCount] = field(default_factory=dict)
    loads: dict[str, Load] = field(default_factory=dict)
    dead_letters: int = 0
    times: EventTimes = field(default_factory=EventTimes)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def dead(self) -> FileStore:
        return FileStore(str(self.directory / "dead"))

    def channel(self, operator: str) -> Channel:
        """The channel of an operator's output, created on first use."""
        with self.lock:
            if operator not in self.channels:
                store = FileStore(str(self.directory / "channels")).child(operator)
                self.channels[operator] = Channel(store, unmet(self.spark, CHANNEL))
            return self.channels[operator]

    def origins(self, operator: str, row: int) -> Origins:
        """Where the rows of a channel before a row come from, the channel itself included."""
        found = {**self.channel(operator).origins(row), operator: (row, row)}
        for origin, _ in self.times.clocks.values():
            if origin not in found and operator in self.graph.reachable(origin):
                found[origin] = (0, 0 if row == 0 else UNKNOWN)
        return found

    def row_count(self, operator: str) -> RowCount:
        """The row count of a sink, or of one of Spark's own sources."""
        found = self.row_counts.get(operator)
        if found is not None:  # the lock is held while a query starts
            return found
        with self.lock:
            if operator not in self.row_counts:
                self.row_counts[operator] = RowCount(
                    self.directory / "control" / f"{operator}.tally"
                )
            return self.row_counts[operator]

    @property
    def delivered(self) -> dict[str, int]:
        """Rows delivered so far, by sink."""
        return {sink.name: self.row_count(sink.name).rows for sink in self.graph.sinks}

    @property
    def repeated(self) -> int:
        """Upper bound on duplicate rows in sinks that cannot undo a batch."""
        return sum(self.row_count(sink.name).repeated for sink in self.graph.sinks)

    @property
    def spark_source_rows(self) -> int:
        """Rows read so far from Spark's own sources."""
        sources = pipeline_graph.spark_sources(self.graph, tuple(self.graph.by_name))
        return sum(self.row_count(source.name).rows for source in sources)

    def load(self, source: str) -> Load:
        """The load profile of a generator."""
        if source not in self.loads:
            generator = pipeline_graph.generator(self.graph, source)
            assert generator is not None
            self.loads[source] = parse(generator.load)
        return self.loads[source]
