"""A pipeline as a Structured Streaming query: its start, stop, valve, batches and progress."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from penstock.dataflow import connectors
from penstock.dataflow import operators as op
from penstock.dataflow.operators import Operator
from penstock.engines.spark import pipeline_graph
from penstock.engines.spark.changes.executors import ClusterExecutors
from penstock.engines.spark.channels import event_time
from penstock.engines.spark.channels.event_time import Watermark
from penstock.engines.spark.channels.valve import Valve, acknowledged
from penstock.engines.spark.pipeline_graph import Input
from penstock.engines.spark.queries import checkpoint
from penstock.engines.spark.queries.batch_gate import Gate
from penstock.engines.spark.queries.batch_output import BatchOutput, sink_of
from penstock.engines.spark.queries.compiler import (
    IN,
    Compiler,
    needs,
    output_mode,
    struct_of,
)
from penstock.engines.spark.queries.pipeline_marks import PipelineMarks
from penstock.engines.spark.queries.spark_checks import read_stream
from penstock.engines.spark.run_context import RunContext
from penstock.engines.spark.session.flow_session import STATE, active, settings
from penstock.engines.spark.session.pickling import pickled, portable
from penstock.plan.plan import Pipeline
from penstock.store.run_directory import Wired

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PYTHON = (*op.PYTHON_BODIES, op.Process)

_CLOSING = 10.0
"""Seconds after a commit within which Spark plans a batch that closes windows, if any."""


class RunningPipeline:
    """One pipeline at work.

    `backlog(operator)` returns the rows of a channel that not all of its readers have committed. A
    `shadow` does everything but deliver, until it goes live.
    """

    def __init__(
        self,
        context: RunContext,
        spec: Pipeline,
        wired: Wired,
        clocks: Mapping[str, float],
        limits: Mapping[str, int],
        backlog: Callable[[str], int],
        shadow: bool = False,
    ) -> None:
        self.context = context
        self.spec = spec
        self.wired = wired
        self.inputs = pipeline_graph.inputs(context.graph, spec.operators)
        self.tail = pipeline_graph.tail(context.graph, spec.operators)
        self.sinks = pipeline_graph.sinks(context.graph, spec.operators)
        self.feeds = pipeline_graph.feeds(context.graph, spec.operators)
        self.query: Any = None
        self.run = ""  # Spark's id of this start of the query
        self._error: Exception | None = None
        self.ended: dict[int, float] = {}
        self.up: float | None = None  # since when its query is running
        self.begun: float | None = None  # when the last batch came to its operators
        self.stopping = False
        self._backlog = backlog
        self._seen_batch = -1
        self._ran = -1
        self._ended_here = -1  # the last batch that has ended since the query was started
        self._starts = 0
        self._begun = threading.Event()
        self._turning = threading.Lock()
        self._life = threading.RLock()  # held while the query is started or stopped
        self._gate = Gate()
        self._shadow = shadow
        self._watermark: Watermark | None = None
        mark = f"{spec.name}-{wired.epoch:06d}"
        self._query_name = mark if shadow else spec.name
        self._valve_path = context.directory / "control" / f"{mark}.valve"
        self.valve = Valve(
            open=True,
            parallelism=spec.parallelism,
            admission=context.pace.admission(spec, _in_python(context, spec)),
            cadence=spec.cadence,
            clocks=dict(clocks),
            limits=dict(limits),
        )
        self.checkpoint: Path = context.directory / "checkpoints" / wired.checkpoint
        aside = self._valve_path.with_suffix(".lines")
        self._output = BatchOutput(context, spec.operators, wired, aside, self._last_execution)
        self._marks = PipelineMarks(context, self.stateful, self.tail, self.checkpoint, wired.epoch)
        done = checkpoint.committed(self.checkpoint, wired.epoch)
        self.positions: dict[str, int] = {}
        self.taken_in: dict[str, int] = {}
        """By input, up to which row batches have delivered; ahead of `positions` by a commit."""
        for entry in self.inputs:
            self.reached(entry.key, done.get(entry.key, wired.first.get(entry.key, 0)))

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def spark_sources(self) -> tuple[Operator, ...]:
        """Spark's own sources in this pipeline; they have no valve."""
        return pipeline_graph.spark_sources(self.context.graph, self.spec.operators)

    @property
    def stateful(self) -> Operator | None:
        return pipeline_graph.stateful(self.context.graph, self.spec.operators)

    @property
    def _windowed(self) -> bool:
        body = self.stateful.body if self.stateful is not None else None
        windowed = isinstance(body, op.Aggregate) and body.window is not None
        return windowed and self.native_sink is None

    @property
    def metered_whole(self) -> bool:
        """True if all work on rows is done in Python operators, which are timed."""
        bodies = [self.context.graph[n].body for n in self.spec.operators]
        steps = [b for b in bodies if not isinstance(b, op.Write)]
        return self.context.mail is not None and all(isinstance(b, _PYTHON) for b in steps)

    @property
    def native_sink(self) -> connectors.Spark | None:
        found = (sink_of(self.context.graph, name) for name in self.sinks)
        return next((sink for sink in found if isinstance(sink, connectors.Spark)), None)

    def reached(self, key: str, row: int) -> None:
        """An input has been read and committed up to a row.

        A native sink receives every row of its channel, so these are its rows too.
        """
        self.positions[key] = row
        if self.native_sink is not None:
            self.context.row_count(self.sinks[0]).reach(row)

    # --- turning ----------------------------------------------------------------------------

    def turn(self, **changes: Any) -> None:
        """Change the valve; it takes effect with the next batch."""
        with self._turning:
            self.valve = replace(self.valve, **changes, turn=self.valve.turn + 1)
            self.valve.save(self._valve_path)

    @property
    def usual(self) -> dict[str, Any]:
        """The settings of the valve while no change is under way."""
        rows = self.context.pace.admission(self.spec, _in_python(self.context, self.spec))
        spec = self.spec
        return {"parallelism": spec.parallelism, "admission": rows, "cadence": spec.cadence}

    def respecify(self, spec: Pipeline) -> None:
        """Continue with another specification that needs no restart."""
        if spec != self.spec:
            self.spec = spec
            self.turn(**self.usual)

    @property
    def quiet(self) -> bool:
        """True if every input has seen the closed valve, so that nothing is in flight."""
        return all(acknowledged(self._valve_path, i.key, self.valve.turn) for i in self.inputs)

    # --- starting and stopping --------------------------------------------------------------

    def start(self, once: bool = False) -> None:
        """Start the query, from its checkpoint if there is one.

        With `once` it runs only the pending batch, if there is one, and then idles.
        """
        with self._life:
            self.stopping = False
            if self.query is not None:
                self._gate.end()
                self.query.stop()  # a failed query may not have ended yet
            self.query = None
            self._begun.clear()
            self._error = None
            begun, _, finished = checkpoint.progress(self.checkpoint, self.wired.epoch)
            self._gate.renew(-1 if finished else begun)
            self._ended_here = -1
            self._starts += 1
            try:
                self._start(once)
            except Exception as error:
                self._error = error
                raise

    def restart(self) -> None:
        """Start again after a failure, unless it was stopped meanwhile."""
        with self._life:
            if not self.stopping:
                self.start()

    def _start(self, once: bool) -> None:
        with self._turning:
            self.valve.save(self._valve_path)
        parts = str(self.wired.partitions)
        special, self._least = needs(self.context.graph, self.spec.operators)
        spark = self.context.spark
        needed = {
            **special,
            **{name: value for name, value in STATE.items() if spark.conf.get(name, None) is None},
            "spark.sql.streaming.internal.stateStore.partitions": parts,
            "spark.sql.shuffle.partitions": parts,
            # Sources are matched by name after a change of wiring, never by position.
            "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
        }
        with self.context.lock, settings(spark, needed), active(spark):
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.name)
            # For native sinks nothing could set the watermark before each batch.
            self._watermark = Watermark(spark) if self._windowed else None
            compiler = Compiler(
                self.context.graph,
                self.context.dead,
                self.wired.epoch,
                self.context.mail,
                self._watermark,
                clocked=self._marks.clocked,
            )
            self.query = self._begin(compiler.tail(self.spec.operators, self._read), once)
            self._execution: Any = self.query._jsq.streamingQuery()
            self.run = str(self.query.runId)
        self.up = time.time()
        self._begun.set()

    def _begin(self, frame: DataFrame, once: bool) -> Any:
        if self.native_sink is not None:
            sink = self.native_sink
            writer = frame.writeStream.format(sink.format).options(**sink.options)
        else:
            writer = frame.writeStream.foreachBatch(self._on_batch)
        # The valve keeps the cadence; Spark's own sources have none, so the trigger does.
        cadence = max(self._least, self.spec.cadence if self.spark_sources else 0.0)
        every = 86_400.0 if once else cadence
        return (
            writer.option("checkpointLocation", str(self.checkpoint))
            .trigger(processingTime=f"{round(1000 * every)} milliseconds")
            .queryName(self._query_name)
            .outputMode(output_mode(self.context.graph, self.spec.operators))
            .start()
        )

    def _read(self, operator: Operator, upstream: str) -> DataFrame:
        spark = self.context.spark
        entry = Input(operator.name, upstream)
        number = self.inputs.index(entry)
        body = operator.body
        if isinstance(body, op.Read) and not isinstance(body.source, connectors.Generator):
            rows = read_stream(spark, body.source, source_name_of(operator))
            count = F.count(F.lit(1)).alias("rows")
            return self._spread(rows.observe(IN + operator.name, count))
        options = {
            "valve": str(self._valve_path),
            "input": entry.key,
            "first": str(self.wired.first.get(entry.key, 0)),
            "inputs": str(len(self.inputs)),
        }
        generator = pipeline_graph.generator(self.context.graph, operator.name)
        if generator is not None:
            file = self.context.directory / "sources" / f"{operator.name}.pickle"
            file.write_bytes(pickled(portable(generator)))
            source, schema = "penstock-generator", generator.schema
            options["generator"] = str(file)
        else:
            source, schema = "penstock-channel", self.context.schemas[upstream]
            options["channel"] = self.context.channel(upstream).store.root
        source_name = checkpoint.source_name(self.wired.epoch, number)
        options |= self._marks.options(entry)
        reader = spark.readStream.format(source).name(source_name).options(**options)
        columns = self.context.times.columns.get(upstream)
        lag = self.context.times.lag(self.context.graph, self.stateful, operator.name, upstream)
        if self._marks.follows_clock(entry):
            lag, columns = self._marks.delay, columns or struct_of(schema)
        if columns is None:
            return reader.schema(struct_of(schema)).load()
        if lag is not None:
            frame = reader.schema(event_time.hidden(columns)).load()
            return event_time.followed(frame, columns, lag)
        frame = reader.schema(columns).load()
        return event_time.marked_again(frame, columns) if self.stateful is not None else frame

    def _spread(self, frame: DataFrame) -> DataFrame:
        """Give a stateless pipeline on one of Spark's own sources its instances by a shuffle."""
        if self.stateful is not None:
            return frame
        if self.spec.parallelism == 1:
            return frame.coalesce(1)
        return frame.repartition(self.spec.parallelism)

    def go_live(self, positions: Mapping[str, int], **changes: Any) -> None:
        """Turn a shadow into the pipeline itself, between two batches."""
        self.positions = dict(positions)
        self._seen_batch = self._ran
        self._shadow = False
        self.turn(**changes)

    def hold(self) -> None:
        """Begin no further batch until `release` is called; a running batch continues."""
        self._gate.close()

    def release(self) -> None:
        """Let batches begin again."""
        self._gate.open()

    @property
    def settled(self) -> bool:
        """True if a stop would interrupt nothing: the last batch is committed and reported.

        A planned batch that waits in front of the closed gate has done nothing yet.
        """
        if self._gate.inside is not None:
            return False
        held = self._gate.held
        begun, _, finished = checkpoint.progress(self.checkpoint, self.wired.epoch)
        return (finished or begun == held) and self._reported

    @property
    def pending(self) -> bool:
        """True if a batch is planned and not committed."""
        return not checkpoint.progress(self.checkpoint, self.wired.epoch)[2]

    @property
    def caught_up(self) -> bool:
        """True if Spark has nothing left to do for the rows that were read.

        If the last batch moved the watermark, Spark may run another batch without new rows that
        closes windows. Its status says that it waits for data once it has decided against one.
        That status is seen only by chance, so planning nothing for a while counts as well.
        """
        begun, _, finished = checkpoint.progress(self.checkpoint, self.wired.epoch)
        if not finished:
            return False
        if self.query is None or not checkpoint.watermark_moved(self.checkpoint):
            return True
        idle = self.query.status["message"] == "Waiting for data to arrive"
        committed = (self.checkpoint / "commits" / str(begun)).stat().st_mtime
        return (idle or time.time() > committed + _CLOSING) and checkpoint.progress(
            self.checkpoint, self.wired.epoch
        )[0] == begun

    @property
    def _reported(self) -> bool:
        """True if Spark has reported the last batch that ended since the start."""
        if self.query is None or self._ended_here < 0:
            return True
        last = self.query._jsq.lastProgress()
        return last is not None and last.batchId() >= self._ended_here

    def stop(self) -> None:
        """Stop the query. A running batch is interrupted and repeated after the next start."""
        with self._life:
            self.stopping = True
            self._gate.end()
            if self.query is not None:
                self.query.stop()

    # --- placement of state ---------------------------------------------------------------------

    def placement(self, executors: ClusterExecutors) -> dict[int, str | None]:
        """The executor that holds each state partition."""
        return executors.placement(self._execution, self.wired.partitions)

    def place(self, executors: ClusterExecutors, where: Mapping[int, str]) -> None:
        """Move state partitions to other executors from the next batch on."""
        executors.place(self._execution, where)

    # --- a batch ----------------------------------------------------------------------------

    def _on_batch(self, frame: DataFrame, batch: int) -> None:
        self.begun = time.time()
        if not self._gate.enter(batch, self._has_room):
            self.begun = None
            # Spark takes an error with these words as the result of a stop.
            raise RuntimeError(f"org.apache.spark.SparkException: job group {self.run} cancelled")
        try:
            self._run_batch(frame, batch)
        except Exception as error:
            self.begun = None
            self._error = error  # Spark's version of it says much less
            raise
        finally:
            self._gate.leave()

    def _run_batch(self, frame: DataFrame, batch: int) -> None:
        frame = self._limited(frame)
        if self._shadow:
            self._output.drop(frame, batch)
            self._ran = self._ended_here = batch
            return
        if self._watermark is not None:
            # Spark drops late rows by the watermark of the batch before.
            self._watermark.set(checkpoint.watermark(self.checkpoint, batch - 1))
        again = batch == self._gate.pending
        if again:
            # Dead letters of an attempt that failed in this process were never counted.
            counted = self._starts == 1 or self._ran == batch
            self._output.discard_letters(batch, counted)
        rows = self._output.deliver(frame, batch, again)
        if self._marks.clocked:
            observed = self._last_execution().observedMetrics()
            self._marks.set_clock(self.inputs, batch, observed)
        if self.sinks:
            # First, so that no more rows are seen to leave than to come in.
            self.taken_in = checkpoint.planned(self.checkpoint, self.wired.epoch, batch)
        self._output.count(batch, rows)
        self.ended[batch] = time.time()
        self._ran = self._ended_here = batch
        self.ended.pop(batch - 1000, None)

    def _has_room(self) -> bool:
        """True if a batch may begin. While the channel is full none may, which is back pressure.

        Rows that are in flight when the valve is closed are always let through.
        """
        if not self.feeds or self._shadow or not self.valve.open:
            return True
        return self._backlog(self.tail) < self.context.channel_rows

    def _limited(self, frame: DataFrame) -> DataFrame:
        """Merge partitions of state or input so that there is one task for each instance."""
        most = self.valve.parallelism
        if self.stateful is not None:
            crowded = self.wired.partitions > most
        else:
            crowded = len(self.inputs) > 1 or bool(self.spark_sources)
        return frame.coalesce(most) if crowded else frame

    def owes_mark(self, entry: Input) -> bool:
        """True if an input has an event-time mark, or origins, that no batch has brought yet."""
        return self._marks.owed(entry)

    def _last_execution(self) -> Any:
        """Spark's `IncrementalExecution` of the batch that runs now."""
        self._begun.wait()
        return self._execution.lastExecution()

    # --- progress --------------------------------------------------------------

    def new_progress(self) -> list[Any]:
        """Progress reports of batches with input since the last call, oldest first."""
        if self.query is None or (self.native_sink is None and self._ran <= self._seen_batch):
            return []
        reports = self.query._jsq.recentProgress()
        fresh = []
        for at in range(len(reports) - 1, -1, -1):
            if reports[at].batchId() <= self._seen_batch:
                break
            fresh.append(reports[at])
        # An idle query reports the batch it will run next.
        done = [
            r
            for r in reversed(fresh)
            if r.numInputRows() > 0 or r.durationMs().containsKey("addBatch")
        ]
        if done:
            self._seen_batch = done[-1].batchId()
        return done

    def found_nothing(self, since: float) -> bool:
        """True if the query has polled its sources since then and found nothing new."""
        last = None if self.query is None else self.query._jsq.lastProgress()
        if last is None:
            return False
        looked = datetime.fromisoformat(last.timestamp().replace("Z", "+00:00")).timestamp()
        return looked > since and all(s.startOffset() == s.endOffset() for s in last.sources())

    def failure(self) -> BaseException | None:
        """The error that ended the query, if one did."""
        if self.query is None or self.stopping:
            return None if self.stopping else self._error
        if self.query.isActive:
            return None
        error = self._error or self.query.exception()
        return error if error is not None else RuntimeError("the query ended without an error")


def source_name_of(operator: Operator) -> str:
    """The name of one of Spark's own sources in the checkpoint."""
    name = re.sub(r"\W", "_", operator.name)
    return f"source_{name}"


def _in_python(context: RunContext, spec: Pipeline) -> bool:
    """True if rows go through Python operators, whose cost per row is unknown at first."""
    return any(isinstance(context.graph[name].body, _PYTHON) for name in spec.operators)
