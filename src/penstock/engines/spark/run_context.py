"""What the pipelines of one run share."""

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
from penstock.engines.spark.channels.event_time import EventTimes
from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.channels.valve import BatchSize
from penstock.engines.spark.measuring.meter import MeterReports
from penstock.engines.spark.queries.sinks import Outlets, RowCount
from penstock.engines.spark.session.flow_session import CHANNEL, unmet
from penstock.store.run_directory import RunDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class RunContext:
    """The session, the dataflow, the directory and everything in it."""

    spark: SparkSession
    graph: Graph
    schemas: Mapping[str, Schema]
    directory: RunDirectory
    outlets: Outlets
    channel_rows: int
    mail: MeterReports | None = None
    pace: BatchSize = field(default_factory=lambda: BatchSize(5.0))
    channels: dict[str, Channel] = field(default_factory=dict)
    tallies: dict[str, RowCount] = field(default_factory=dict)
    loads: dict[str, Load] = field(default_factory=dict)
    dead_letters: int = 0
    times: EventTimes = field(default_factory=EventTimes)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def dead(self) -> FileStore:
        return FileStore(str(self.directory / "dead"))

    def channel(self, operator: str) -> Channel:
        """The channel that an operator's output goes through, made when first asked for."""
        with self.lock:
            if operator not in self.channels:
                store = FileStore(str(self.directory / "channels")).child(operator)
                self.channels[operator] = Channel(store, unmet(self.spark, CHANNEL))
            return self.channels[operator]

    def tally(self, operator: str) -> RowCount:
        """The rows of a sink, or of a source of Spark's own."""
        found = self.tallies.get(operator)
        if found is not None:  # the lock is held for as long as a query takes to start
            return found
        with self.lock:
            if operator not in self.tallies:
                self.tallies[operator] = RowCount(self.directory / "control" / f"{operator}.tally")
            return self.tallies[operator]

    @property
    def delivered(self) -> dict[str, int]:
        """Rows that each sink has got so far."""
        return {sink.name: self.tally(sink.name).rows for sink in self.graph.sinks}

    @property
    def repeated(self) -> int:
        """Rows that sinks which cannot take them back have got more than once, at most."""
        return sum(self.tally(sink.name).repeated for sink in self.graph.sinks)

    @property
    def foreign_rows(self) -> int:
        """Rows that sources of Spark's own have given so far."""
        sources = pipeline_graph.spark_sources(self.graph, tuple(self.graph.by_name))
        return sum(self.tally(source.name).rows for source in sources)

    def load(self, source: str) -> Load:
        """The load profile of a generator."""
        if source not in self.loads:
            generator = pipeline_graph.generator(self.graph, source)
            assert generator is not None
            self.loads[source] = parse(generator.load)
        return self.loads[source]
