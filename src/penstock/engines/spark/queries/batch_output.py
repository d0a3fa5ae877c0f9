"""The output of a pipeline's batches: to its channel and sinks, counted, with dead letters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from penstock.dataflow import connectors
from penstock.dataflow import operators as op
from penstock.dataflow.delivery import Delivery, delivery
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Operator
from penstock.engines.spark import pipeline_graph
from penstock.engines.spark.channels import event_time
from penstock.engines.spark.queries import checkpoint, dead_letters
from penstock.engines.spark.queries.compiler import IN, OUT, REJECT
from penstock.engines.spark.queries.dead_letters import tag
from penstock.engines.spark.run_context import RunContext
from penstock.store.run_directory import Wired

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class BatchOutput:
    """Delivers the batches of one pipeline.

    aside: a file for texts on their way from the JVM; execution: Spark's `IncrementalExecution` of
    the batch that runs now.
    """

    def __init__(
        self,
        context: RunContext,
        operators: tuple[str, ...],
        wired: Wired,
        aside: Path,
        execution: Callable[[], Any],
    ) -> None:
        graph = context.graph
        self._context = context
        self._epoch = wired.epoch
        self._checkpoint = context.directory / "checkpoints" / wired.checkpoint
        self._aside = aside
        self._execution = execution
        self._inputs = pipeline_graph.inputs(graph, operators)
        self._foreign = pipeline_graph.spark_sources(graph, operators)
        self._stateful = pipeline_graph.stateful(graph, operators)
        self._tail = pipeline_graph.tail(graph, operators)
        self._feeds = pipeline_graph.feeds(graph, operators)
        self._sinks = {n: sink_of(graph, n) for n in pipeline_graph.sinks(graph, operators)}
        self._rejecting = tuple(n for n in operators if _can_reject(graph[n]))

    def deliver(self, frame: DataFrame, batch: int, again: bool) -> int:
        """Write a batch to the channel and to all sinks; returns its rows.

        again: an earlier attempt at this batch may have delivered some of it.
        """
        label = tag(self._epoch, batch)
        for name, sink in self._sinks.items():
            if delivery(sink) is Delivery.AT_LEAST_ONCE:
                self._context.tally(name).begin(label)
        self._write(frame, batch, again)
        return self._observed(label)

    def count(self, batch: int, rows: int) -> None:
        """Count the rows and the dead letters of a batch that was delivered."""
        label = tag(self._epoch, batch)
        for name in self._sinks:
            self._context.tally(name).add(label, rows)
        for name in self._rejecting:
            self._context.dead_letters += dead_letters.settle(self._context.dead, name, label)

    def drop(self, frame: DataFrame, batch: int) -> None:
        """Run a batch for its state only: another pipeline has delivered its output."""
        frame.write.format("noop").mode("overwrite").save()
        for name in self._rejecting:
            dead_letters.discard(self._context.dead, name, tag(self._epoch, batch))

    def discard_letters(self, batch: int, counted: bool) -> None:
        """Delete the dead letters of an earlier attempt at a batch."""
        label = tag(self._epoch, batch)
        for name in self._rejecting:
            if counted:
                self._context.dead_letters -= dead_letters.count(self._context.dead, name, label)
            dead_letters.discard(self._context.dead, name, label)

    def _write(self, frame: DataFrame, batch: int, again: bool) -> None:
        label = tag(self._epoch, batch)
        channel = self._context.channel(self._tail) if self._feeds else None
        if channel is not None and again and channel.holds(label):
            channel = None  # only the commit of this batch is missing
        outlets = len(self._sinks) + (channel is not None)
        if outlets == 0:
            frame.write.format("noop").mode("overwrite").save()  # the state still has to move on
            return
        # A user's function, or a look at the first rows, may run none or only a part of a batch,
        # or all of it several times; what is counted and kept as state must be the whole.
        partial = any(
            isinstance(sink, connectors.Console | connectors.ForeachBatch)
            for sink in self._sinks.values()
        )
        if outlets > 1 or partial:
            frame = _unordered(frame).persist()
        try:
            if partial:
                frame.write.format("noop").mode("overwrite").save()
            if channel is not None:
                channel.append(frame, label, self._mark(batch))
            for name, sink in self._sinks.items():
                self._context.outlets.deliver(name, sink, frame, label, again)
        finally:
            if outlets > 1 or partial:
                frame.unpersist()

    def _mark(self, batch: int) -> int | None:
        """The event time that the output has reached with a batch, where a reader needs it."""
        times = self._context.times
        if not times.marked(self._tail):
            return None
        if self._stateful is not None:
            here = checkpoint.watermark(self._checkpoint, batch)
            if here > 0 and isinstance(self._stateful.body, op.Join):
                here = event_time.behind_join(self._execution().executedPlan(), here)
            return here if here > 0 else None
        came = checkpoint.marks(self._checkpoint, self._epoch, batch)
        marks = [came.get(i.key) for i in self._inputs if i.upstream and times.marked(i.upstream)]
        known = [mark for mark in marks if mark is not None]
        return min(known) if known and len(known) == len(marks) else None

    def _observed(self, label: str) -> int:
        """Rows that left in this batch; counts those of Spark's sources, keeps native rejects."""
        metrics = self._execution().observedMetrics()
        for source in self._foreign:
            name = IN + source.name
            rows = int(metrics.apply(name).getLong(0)) if metrics.contains(name) else 0
            self._context.tally(source.name).add(label, rows)
        for name in self._rejecting:
            body = self._context.graph[name].body
            if isinstance(body, op.Frame) and metrics.contains(REJECT + name):
                found = self._lines(metrics.apply(REJECT + name).getList(0))
                error = f"rejected: {body.reject}"
                lines = [dead_letters.raw_line(name, error, record) for record in found]
                if lines:
                    dead = self._context.dead
                    dead_letters.write(dead, name, label, "native-rejects", lines)
        return int(metrics.apply(OUT).getLong(0)) if metrics.contains(OUT) else 0

    def _lines(self, texts: Any) -> list[str]:
        """The texts of a Java list.

        They go through a file: element by element, or as one long text, they would take longer on
        their way through the socket than the batch itself.
        """
        if texts.isEmpty():
            return []
        jvm: Any = self._context.spark._jvm
        file = jvm.java.io.File(str(self._aside))
        jvm.org.apache.commons.io.FileUtils.writeLines(file, "UTF-8", texts)
        return self._aside.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def sink_of(graph: Graph, name: str) -> connectors.Sink:
    """The connector of a sink."""
    body = graph[name].body
    assert isinstance(body, op.Write)
    return body.sink


def _unordered(frame: DataFrame) -> DataFrame:
    """The same rows as Spark can cache them.

    An aggregation that sorts (of structs, of texts) tells a batch its order by columns that the
    batch does not have, and a cache with such an order cannot be read. Observed rows have none.
    """
    return frame.observe("penstock_cached", F.count(F.lit(1)).alias("rows"))


def _can_reject(operator: Operator) -> bool:
    """True if an operator may leave dead letters."""
    if isinstance(operator.body, op.Frame):
        return operator.body.reject is not None
    return isinstance(operator.body, (*op.PYTHON_BODIES, op.Process))
