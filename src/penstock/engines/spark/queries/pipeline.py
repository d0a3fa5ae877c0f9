"""A running pipeline: one Structured Streaming query, its valve, and what it does with a batch."""

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
from penstock.dataflow.delivery import Delivery, delivery
from penstock.dataflow.operators import Operator
from penstock.engines.spark import pipeline_graph
from penstock.engines.spark.changes.executors import Executors
from penstock.engines.spark.channels import event_time
from penstock.engines.spark.channels.valve import Valve, acknowledged
from penstock.engines.spark.pipeline_graph import Input
from penstock.engines.spark.queries import checkpoint, dead_letters
from penstock.engines.spark.queries.batch_gate import Gate
from penstock.engines.spark.queries.compiler import (
    IN,
    OUT,
    REJECT,
    Compiler,
    needs,
    output_mode,
    struct_of,
)
from penstock.engines.spark.queries.dead_letters import tag
from penstock.engines.spark.queries.late_rows import Watermark
from penstock.engines.spark.queries.spark_checks import foreign
from penstock.engines.spark.run_context import Site
from penstock.engines.spark.session.flow_session import STATE, active, settings
from penstock.engines.spark.session.pickling import pickled, portable
from penstock.plan.plan import Pipeline
from penstock.store.run_directory import Wired

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PYTHON = (*op.PYTHON_BODIES, op.Process)

_CLOSING = 10.0
"""Seconds after a commit in which Spark plans a batch that closes windows, if it wants one."""


class RunningPipeline:
    """One pipeline at work.

    `backlog(operator)` tells how many rows of a channel are not yet read by all its readers. A
    `shadow` does everything but deliver, until it goes live.
    """

    def __init__(
        self,
        site: Site,
        spec: Pipeline,
        wired: Wired,
        clocks: Mapping[str, float],
        limits: Mapping[str, int],
        backlog: Callable[[str], int],
        shadow: bool = False,
    ) -> None:
        self.site = site
        self.spec = spec
        self.wired = wired
        self.inputs = pipeline_graph.inputs(site.graph, spec.operators)
        self.tail = pipeline_graph.tail(site.graph, spec.operators)
        self.sinks = pipeline_graph.sinks(site.graph, spec.operators)
        self.feeds = pipeline_graph.feeds(site.graph, spec.operators)
        self.lettering = tuple(n for n in spec.operators if _can_reject(site.graph[n]))
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
        self._valve_path = site.directory / "control" / f"{mark}.valve"
        self.valve = Valve(
            open=True,
            parallelism=spec.parallelism,
            admission=site.pace.admission(spec, _in_python(site, spec)),
            cadence=spec.cadence,
            clocks=dict(clocks),
            limits=dict(limits),
        )
        self.checkpoint: Path = site.directory / "checkpoints" / wired.checkpoint
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
    def foreign(self) -> tuple[Operator, ...]:
        """Sources of Spark's own in this pipeline, which have no valve."""
        return pipeline_graph.spark_sources(self.site.graph, self.spec.operators)

    @property
    def stateful(self) -> Operator | None:
        return pipeline_graph.stateful(self.site.graph, self.spec.operators)

    @property
    def _windowed(self) -> bool:
        body = self.stateful.body if self.stateful is not None else None
        windowed = isinstance(body, op.Aggregate) and body.window is not None
        return windowed and self.native_sink is None

    @property
    def metered_whole(self) -> bool:
        """Whether all that it does to rows is done in Python operators, which are timed."""
        bodies = [self.site.graph[n].body for n in self.spec.operators]
        steps = [b for b in bodies if not isinstance(b, op.Write)]
        return self.site.mail is not None and all(isinstance(b, _PYTHON) for b in steps)

    @property
    def native_sink(self) -> connectors.Spark | None:
        found = (self._sink(name) for name in self.sinks)
        return next((sink for sink in found if isinstance(sink, connectors.Spark)), None)

    def reached(self, key: str, row: int) -> None:
        """An input has been read and committed up to a row.

        A native sink gets every row of the channel it reads, so this is what it has got, too.
        """
        self.positions[key] = row
        if self.native_sink is not None:
            self.site.tally(self.sinks[0]).reach(row)

    # --- turning ----------------------------------------------------------------------------

    def turn(self, **changes: Any) -> None:
        """Change the valve; it takes effect with the next batch."""
        with self._turning:
            self.valve = replace(self.valve, **changes, turn=self.valve.turn + 1)
            self.valve.save(self._valve_path)

    @property
    def usual(self) -> dict[str, Any]:
        """What the valve lets through when nothing special is going on."""
        rows = self.site.pace.admission(self.spec, _in_python(self.site, self.spec))
        spec = self.spec
        return {"parallelism": spec.parallelism, "admission": rows, "cadence": spec.cadence}

    def respecify(self, spec: Pipeline) -> None:
        """Go on under another specification that needs no restart."""
        if spec != self.spec:
            self.spec = spec
            self.turn(**self.usual)

    @property
    def quiet(self) -> bool:
        """Whether the closed valve has been seen by every input, so that nothing is in flight."""
        return all(acknowledged(self._valve_path, i.key, self.valve.turn) for i in self.inputs)

    # --- starting and stopping --------------------------------------------------------------

    def start(self, once: bool = False) -> None:
        """Start the query, from its checkpoint if there is one.

        With `once` it runs only the batch that is pending, if there is one, and then idles.
        """
        with self._life:
            self.stopping = False
            if self.query is not None:
                self._gate.end()
                self.query.stop()  # one that died may still be on its way out
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
        """Start again after a failure, unless somebody has stopped it meanwhile."""
        with self._life:
            if not self.stopping:
                self.start()

    def _start(self, once: bool) -> None:
        with self._turning:
            self.valve.save(self._valve_path)
        parts = str(self.wired.partitions)
        special, self._least = needs(self.site.graph, self.spec.operators)
        spark = self.site.spark
        needed = {
            **special,
            **{name: value for name, value in STATE.items() if spark.conf.get(name, None) is None},
            "spark.sql.streaming.internal.stateStore.partitions": parts,
            "spark.sql.shuffle.partitions": parts,
            # Sources are matched by name after a change of wiring, never by position.
            "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
        }
        with self.site.lock, settings(spark, needed), active(spark):
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.name)
            # Where Spark writes by itself, nobody could set the watermark before a batch runs.
            self._watermark = Watermark(spark) if self._windowed else None
            compiler = Compiler(
                self.site.graph, self.site.dead, self.wired.epoch, self.site.mail, self._watermark
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
        # A valve keeps the cadence; a source of Spark's own has none, there the trigger does.
        cadence = max(self._least, self.spec.cadence if self.foreign else 0.0)
        every = 86_400.0 if once else cadence
        return (
            writer.option("checkpointLocation", str(self.checkpoint))
            .trigger(processingTime=f"{round(1000 * every)} milliseconds")
            .queryName(self._query_name)
            .outputMode(output_mode(self.site.graph, self.spec.operators))
            .start()
        )

    def _read(self, operator: Operator, upstream: str) -> DataFrame:
        spark = self.site.spark
        entry = Input(operator.name, upstream)
        number = self.inputs.index(entry)
        body = operator.body
        if isinstance(body, op.Read) and not isinstance(body.source, connectors.Generator):
            rows = foreign(spark, body.source, foreign_name(operator))
            count = F.count(F.lit(1)).alias("rows")
            return self._spread(rows.observe(IN + operator.name, count))
        options = {
            "valve": str(self._valve_path),
            "input": entry.key,
            "first": str(self.wired.first.get(entry.key, 0)),
            "inputs": str(len(self.inputs)),
        }
        generator = pipeline_graph.generator(self.site.graph, operator.name)
        if generator is not None:
            file = self.site.directory / "sources" / f"{operator.name}.pickle"
            file.write_bytes(pickled(portable(generator)))
            source, schema = "penstock-generator", generator.schema
            options["generator"] = str(file)
        else:
            source, schema = "penstock-channel", self.site.schemas[upstream]
            options["channel"] = self.site.channel(upstream).store.root
        source_name = checkpoint.source_name(self.wired.epoch, number)
        reader = spark.readStream.format(source).name(source_name).options(**options)
        columns = self.site.times.columns.get(upstream)
        if columns is None:
            return reader.schema(struct_of(schema)).load()
        lag = self.site.times.lag(self.site.graph, self.stateful, operator.name, upstream)
        if lag is not None:
            frame = reader.schema(event_time.hidden(columns)).load()
            return event_time.followed(frame, columns, lag)
        frame = reader.schema(columns).load()
        return event_time.marked_again(frame, columns) if self.stateful is not None else frame

    def _spread(self, frame: DataFrame) -> DataFrame:
        """Spark's own sources choose their splits; a stateless pipeline is spread by a shuffle."""
        if self.stateful is not None:
            return frame
        if self.spec.parallelism == 1:
            return frame.coalesce(1)
        return frame.repartition(self.spec.parallelism)

    def go_live(self, positions: Mapping[str, int], **changes: Any) -> None:
        """From a shadow to the pipeline itself, between two batches."""
        self.positions = dict(positions)
        self._seen_batch = self._ran
        self._shadow = False
        self.turn(**changes)

    def hold(self) -> None:
        """Begin no other batch until `release` is called; the one under way goes on."""
        self._gate.close()

    def release(self) -> None:
        """Let batches begin again."""
        self._gate.open()

    @property
    def settled(self) -> bool:
        """Whether a stop cuts nothing off: the last batch is committed and reported.

        One that is planned and waits before the closed gate has done nothing yet.
        """
        if self._gate.inside is not None:
            return False
        held = self._gate.held
        begun, _, finished = checkpoint.progress(self.checkpoint, self.wired.epoch)
        return (finished or begun == held) and self._reported

    @property
    def pending(self) -> bool:
        """Whether a batch is planned and not committed."""
        return not checkpoint.progress(self.checkpoint, self.wired.epoch)[2]

    @property
    def caught_up(self) -> bool:
        """Whether Spark has nothing left to do for the rows that were read.

        Where the last batch moved the watermark, Spark may run another batch that has no new rows
        and closes windows. It says that it waits for data once it has decided against one; that
        is seen only by chance, so a query that plans nothing for a while has decided, too.
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
        """Whether Spark has reported the last batch that has ended since the start."""
        if self.query is None or self._ended_here < 0:
            return True
        last = self.query._jsq.lastProgress()
        return last is not None and last.batchId() >= self._ended_here

    def stop(self) -> None:
        """Stop the query. A batch in flight is cut off and comes again with the next start."""
        with self._life:
            self.stopping = True
            self._gate.end()
            if self.query is not None:
                self.query.stop()

    # --- where its state is ---------------------------------------------------------------------

    def placement(self, executors: Executors) -> dict[int, str | None]:
        """Which executor holds each part of the state."""
        return executors.placement(self._execution, self.wired.partitions)

    def place(self, executors: Executors, where: Mapping[int, str]) -> None:
        """Have parts of the state held elsewhere from the next batch on."""
        executors.place(self._execution, where)

    # --- a batch ----------------------------------------------------------------------------

    def _on_batch(self, frame: DataFrame, batch: int) -> None:
        self.begun = time.time()
        if not self._gate.enter(batch, self._has_room):
            self.begun = None
            # Spark takes an error with these words for the stop that it was asked for.
            raise RuntimeError(f"org.apache.spark.SparkException: job group {self.run} cancelled")
        try:
            self._run_batch(frame, batch)
        except Exception as error:
            self.begun = None
            self._error = error  # what Spark makes of it on its way back says much less
            raise
        finally:
            self._gate.leave()

    def _run_batch(self, frame: DataFrame, batch: int) -> None:
        label = tag(self.wired.epoch, batch)
        if self._shadow:
            self._run_for_state(frame, label)
            self._ran = self._ended_here = batch
            return
        if self._watermark is not None:
            # Spark drops what is late by the watermark of the batch before.
            self._watermark.set(checkpoint.watermark(self.checkpoint, batch - 1))
        again = batch == self._gate.pending
        if again:
            for name in self.lettering:
                # Those of an attempt that failed here were never counted.
                if self._starts == 1 or self._ran == batch:
                    self.site.dead_letters -= dead_letters.count(self.site.dead, name, label)
                dead_letters.discard(self.site.dead, name, label)
        for sink in self.sinks:
            if delivery(self._sink(sink)) is Delivery.AT_LEAST_ONCE:
                self.site.tally(sink).begin(label)
        self._deliver(self._limited(frame), batch, again)
        rows = self._observed(label)
        if self.sinks:
            # First, so that no more rows are seen to leave than to come in.
            self.taken_in = checkpoint.planned(self.checkpoint, self.wired.epoch, batch)
        for sink in self.sinks:
            self.site.tally(sink).add(label, rows)
        for name in self.lettering:
            self.site.dead_letters += dead_letters.settle(self.site.dead, name, label)
        self.ended[batch] = time.time()
        self._ran = self._ended_here = batch
        self.ended.pop(batch - 1000, None)

    def _run_for_state(self, frame: DataFrame, label: str) -> None:
        """A batch whose output has been delivered by another already."""
        self._limited(frame).write.format("noop").mode("overwrite").save()
        for name in self.lettering:
            dead_letters.discard(self.site.dead, name, label)

    def _has_room(self) -> bool:
        """Whether a batch may begin: while the channel is full none does, which is back pressure.

        What is in flight when the valve is closed has to come through.
        """
        if not self.feeds or self._shadow or not self.valve.open:
            return True
        return self._backlog(self.tail) < self.site.channel_rows

    def _limited(self, frame: DataFrame) -> DataFrame:
        """One task for each instance: several partitions of state or of input are joined in one."""
        most = self.valve.parallelism
        if self.stateful is not None:
            crowded = self.wired.partitions > most
        else:
            crowded = len(self.inputs) > 1 or bool(self.foreign)
        return frame.coalesce(most) if crowded else frame

    def _mark(self, batch: int) -> int | None:
        """How far event time has come in the output up to a batch, where somebody needs to know."""
        times = self.site.times
        if not times.marked(self.tail):
            return None
        if self.stateful is not None:
            here = checkpoint.watermark(self.checkpoint, batch)
            if here > 0 and isinstance(self.stateful.body, op.Join):
                self._begun.wait()
                here = event_time.behind_join(self._execution.lastExecution().executedPlan(), here)
            return here if here > 0 else None
        came = checkpoint.marks(self.checkpoint, self.wired.epoch, batch)
        marks = [came.get(i.key) for i in self.inputs if i.upstream and times.marked(i.upstream)]
        known = [mark for mark in marks if mark is not None]
        return min(known) if known and len(known) == len(marks) else None

    def owes_mark(self, entry: Input) -> bool:
        """Whether an input has a mark that no batch has brought here yet."""
        if not self.site.times.marked(entry.upstream):
            return False
        there = self.site.channel(entry.upstream).mark
        done = checkpoint.marks(self.checkpoint, self.wired.epoch).get(entry.key)
        return there is not None and (done is None or done < there)

    def _deliver(self, frame: DataFrame, batch: int, again: bool) -> None:
        label = tag(self.wired.epoch, batch)
        channel = self.site.channel(self.tail) if self.feeds else None
        if channel is not None and again and channel.holds(label):
            channel = None  # only the commit of this batch is missing
        outlets = len(self.sinks) + (channel is not None)
        if outlets == 0:
            frame.write.format("noop").mode("overwrite").save()  # the state still has to move on
            return
        # A function of the user's, or a look at the first rows, may run none or only a part of a
        # batch, or all of it several times; what is counted and kept as state must be the whole.
        partial = any(
            isinstance(self._sink(name), connectors.Console | connectors.ForeachBatch)
            for name in self.sinks
        )
        if outlets > 1 or partial:
            frame = _unordered(frame).persist()
        try:
            if partial:
                frame.write.format("noop").mode("overwrite").save()
            if channel is not None:
                channel.append(frame, label, self._mark(batch))
            for name in self.sinks:
                self.site.outlets.deliver(name, self._sink(name), frame, label, again)
        finally:
            if outlets > 1 or partial:
                frame.unpersist()

    def _sink(self, name: str) -> connectors.Sink:
        body = self.site.graph[name].body
        assert isinstance(body, op.Write)
        return body.sink

    def _observed(self, label: str) -> int:
        """Rows that left in this batch; counts those that came, and keeps native rejects."""
        self._begun.wait()
        metrics = self._execution.lastExecution().observedMetrics()
        for source in self.foreign:
            name = IN + source.name
            rows = int(metrics.apply(name).getLong(0)) if metrics.contains(name) else 0
            self.site.tally(source.name).add(label, rows)
        for name in self.lettering:
            body = self.site.graph[name].body
            if isinstance(body, op.Frame) and metrics.contains(REJECT + name):
                found = self._lines(metrics.apply(REJECT + name).getList(0))
                if found:
                    self._keep_rejects(name, str(body.reject), found, label)
        return int(metrics.apply(OUT).getLong(0)) if metrics.contains(OUT) else 0

    def _lines(self, texts: Any) -> list[str]:
        """A list of Java's. It goes through a file: element by element, or as one long text,
        it would take longer on its way through the socket than the batch itself."""
        if texts.isEmpty():
            return []
        jvm: Any = self.site.spark._jvm
        aside = self._valve_path.with_suffix(".lines")
        jvm.org.apache.commons.io.FileUtils.writeLines(jvm.java.io.File(str(aside)), "UTF-8", texts)
        return aside.read_text(encoding="utf-8").removesuffix("\n").split("\n")

    def _keep_rejects(self, name: str, condition: str, rejected: list[str], label: str) -> None:
        error = f"rejected: {condition}"
        lines = [dead_letters.raw_line(name, error, record) for record in rejected]
        dead_letters.write(self.site.dead, name, label, "native-rejects", lines)

    # --- what Spark says of it --------------------------------------------------------------

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
        # An idle query reports the batch that it will run next.
        done = [
            r
            for r in reversed(fresh)
            if r.numInputRows() > 0 or r.durationMs().containsKey("addBatch")
        ]
        if done:
            self._seen_batch = done[-1].batchId()
        return done

    def found_nothing(self, since: float) -> bool:
        """Whether it has looked for input since then and its sources had nothing new."""
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


def _unordered(frame: DataFrame) -> DataFrame:
    """The same rows as Spark can cache them.

    An aggregation that sorts (of structs, of texts) tells a batch its order by columns that the
    batch does not have, and a cache with such an order cannot be read. Observed rows have none.
    """
    return frame.observe("penstock_cached", F.count(F.lit(1)).alias("rows"))


def foreign_name(operator: Operator) -> str:
    """The name of a source of Spark's own in the checkpoint."""
    name = re.sub(r"\W", "_", operator.name)
    return f"source_{name}"


def _in_python(site: Site, spec: Pipeline) -> bool:
    """Whether rows go through operators whose time nobody can foresee."""
    return any(isinstance(site.graph[name].body, _PYTHON) for name in spec.operators)


def _can_reject(operator: Operator) -> bool:
    """Whether an operator may leave dead letters."""
    if isinstance(operator.body, op.Frame):
        return operator.body.reject is not None
    return isinstance(operator.body, (*op.PYTHON_BODIES, op.Process))
