"""Estimates the cost of native operators by trials on samples.

Spark compiles adjacent native operators into one loop, so nothing can be timed between them, and
counting there would cost more than most of them do. Instead they run now and then on a sample of
rows that their pipeline has read, once with and once without each operator, and the times are
compared: processor time, and waiting time where an operator waits for a Python function or for
something outside. Trials use a small share of the time, and pause while the flow falls behind.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from penstock.dataflow import operators as op
from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.measuring.breakdown import CostEstimate
from penstock.engines.spark.measuring.task_statistics import Statistics, TaskSeconds
from penstock.engines.spark.queries import diagnosis
from penstock.engines.spark.queries.compiler import Compiler, PendingFrame
from penstock.engines.spark.queries.pipeline import RunningPipeline
from penstock.metrics.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHARE = 0.01
"""Largest share of time that trials use."""

STEP = 0.02
"""Largest share of time for each step of a trial while the flow falls behind."""

_ROWS = 20_000
_FEWEST = 50
_SAMPLE_SECONDS, _LONGEST = 0.25, 4.0
"""Seconds that a sample should take by known costs, and at most in an unknown pipeline."""

_REMEMBERED = 3 * _ROWS
"""Largest weight, in rows, of earlier trials beside a new one."""

_TRIES = 2
_WAITS, _STUMBLE = 3.0, 0.02
"""An operator counts as waiting, not as delayed by other load, if it waits so many times as long as
it computes, and so many seconds longer."""

_PATIENCE = 10.0
_LOOK = 0.5
_COPY = "penstock_copy"

Estimates = dict[str, CostEstimate]


@dataclass(frozen=True)
class _Sampled:
    """A sample; rows, spent: its size and the cost of reading it."""

    frame: DataFrame
    rows: int = 0
    spent: TaskSeconds | None = None

    def kept(self, stack: ExitStack) -> _Sampled:
        """The sample, cached from its first use until the stack is unwound."""
        kept = self.frame.persist()
        stack.callback(kept.unpersist)
        return _Sampled(kept)

    def enlarged(self, rows: int, stack: ExitStack) -> _Sampled:
        """The sample repeated to about so many rows."""
        from pyspark.sql import functions as sf

        few = self.kept(stack).frame
        copies = rows // max(1, few.count())
        if copies < 2:
            return _Sampled(few)
        numbers = sf.sequence(sf.lit(1), sf.lit(copies))
        return _Sampled(few.coalesce(1).withColumn(_COPY, sf.explode(numbers)).drop(_COPY))


class Profiler:
    """Profiles the pipelines of a flow one after the other, in its own thread.

    `flow` returns the pipelines, `latest` the last snapshot; results are written to `estimates`.
    """

    def __init__(
        self,
        flow: Callable[[], Mapping[str, RunningPipeline]],
        latest: Callable[[], Snapshot | None],
        statistics: Statistics,
        estimates: Estimates,
    ) -> None:
        self._flow = flow
        self._latest = latest
        self._statistics = statistics
        self._estimates = estimates
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._work, name="penstock-profiler", daemon=True)
        self._due = 0.0
        self._turn = 0
        self._paused = 0.0  # seconds of the current trial
        self._told: set[str] = set()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for the current step of a trial."""
        self._halt.set()
        if self._thread.is_alive():
            self._thread.join(_PATIENCE)

    def _work(self) -> None:
        while not self._halt.wait(_LOOK):
            snapshot = self._latest()
            if snapshot is None or not snapshot.settled or time.monotonic() < self._due:
                continue
            chosen = [p for p in self._flow().values() if natives(p)]
            if not chosen:
                continue
            self._turn += 1
            began, self._paused = time.monotonic(), 0.0
            found = self.trial(chosen[self._turn % len(chosen)], snapshot)
            if not self._halt.is_set():
                for name, newer in found.items():
                    known = self._estimates.get(name)
                    self._estimates[name] = known.pooled(newer, _REMEMBERED) if known else newer
            now = time.monotonic()
            self._due = now + (now - began - self._paused) / SHARE

    def trial(self, pipeline: RunningPipeline, snapshot: Snapshot) -> Estimates:
        """Estimate the operators of a pipeline that can run alone on a sample."""
        context = pipeline.context
        found: Estimates = {}
        made: dict[str, _Sampled] = {}
        with self._excused(pipeline), ExitStack() as stack:
            rows = self._sample_size(pipeline, snapshot)
            last = natives(pipeline)[-1]
            aside = stack.enter_context(TemporaryDirectory())
            compiler = Compiler(context.graph, FileStore(aside))
            for name in pipeline.spec.operators:
                operator = context.graph[name]
                inputs = self._inputs(pipeline, name, made, rows)
                if inputs is None or isinstance(operator.body, op.Write):
                    break
                if isinstance(operator.body, op.Read):
                    made[name] = inputs[0]
                    continue
                native = isinstance(operator.body, op.Frame)
                if native:
                    inputs = [self._tried(i.kept(stack)) if i.spent is None else i for i in inputs]
                frame = compiler.apply(operator, [PendingFrame(i.frame) for i in inputs]).frame()
                made[name] = _Sampled(frame)
                if native:
                    before, after = inputs[0], self._tried(made[name])
                    if not before.rows:
                        break
                    assert before.spent is not None
                    assert after.spent is not None
                    took = more(before.spent, after.spent)
                    found[name] = CostEstimate(
                        took / before.rows, after.rows / before.rows, before.rows
                    )
                    made[name] = after
                if name == last:
                    break
                if operator.stateful:  # its output for a sample says little
                    made[name] = made[name].enlarged(_ROWS, stack)
        return found

    @contextmanager
    def _excused(self, pipeline: RunningPipeline) -> Iterator[None]:
        """Log a failed trial once; it does not concern the flow."""
        try:
            yield
        except Exception as error:
            if self._halt.is_set():  # it was interrupted
                return
            what = f"a trial of what the native operators of {pipeline.name} cost"
            why = diagnosis.reason(f"{type(error).__name__}: {error}")
            line = f"penstock: {what} failed, the flow goes on without: {why}\n"
            if line not in self._told:
                self._told.add(line)
                _log(line)

    def _sample_size(self, pipeline: RunningPipeline, snapshot: Snapshot) -> int:
        known: list[float | None] = []
        for name in pipeline.spec.operators:
            body = pipeline.context.graph[name].body
            if isinstance(body, op.Frame):
                known.append(self._estimates[name].service if name in self._estimates else None)
            elif isinstance(body, op.PYTHON_BODIES) and name in snapshot.operators:
                known.append(snapshot.operators[name].service)
        metrics = snapshot.pipelines.get(pipeline.name)
        return sample_size(known, metrics.service if metrics else None)

    def _inputs(
        self,
        pipeline: RunningPipeline,
        name: str,
        made: Mapping[str, _Sampled],
        rows: int,
    ) -> list[_Sampled] | None:
        """Samples of an operator's inputs; None if there are none."""
        operator = pipeline.context.graph[name]
        wanted = operator.inputs or ("",)
        found = []
        for upstream in wanted:
            if upstream in made:
                found.append(made[upstream])
                continue
            entry = next(
                (i for i in pipeline.inputs if (i.operator, i.upstream) == (name, upstream)), None
            )
            if entry is None:
                return None
            stop = pipeline.positions[entry.key]
            first = max(0, stop - rows)
            if entry.upstream:  # rows already read are deleted soon, later ones are not
                first, stop = stop, min(stop + rows, pipeline.context.channel(entry.upstream).end)
            table = diagnosis.read_table(pipeline, entry, first, stop)
            if table is None or not table.num_rows:
                return None
            found.append(_Sampled(diagnosis.as_frame(pipeline, entry, table).coalesce(1)))
        return found

    def _tried(self, sampled: _Sampled) -> _Sampled:
        """The sample with its cost; a first run fills the cache and compiles the plan."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as sf

        found, rows = [], 0
        for _ in range(_TRIES):
            counted = Observation()
            frame = sampled.frame.observe(counted, sf.count(sf.lit(1)).alias("rows"))
            found.append(self._spent(frame))
            rows = counted.get["rows"]
        return _Sampled(sampled.frame, rows, min(found, key=lambda s: s.cpu + s.waited))

    def _spent(self, frame: DataFrame) -> TaskSeconds:
        """The cost of reading a DataFrame."""
        if self._halt.is_set():
            raise InterruptedError("the flow is being stopped")
        context = frame.sparkSession.sparkContext
        mark = f"penstock trial {time.monotonic_ns()}"
        began = time.monotonic()
        context.setLocalProperty("spark.job.description", mark)
        try:
            frame.write.format("noop").mode("overwrite").save()
        finally:
            context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
        spent = self._statistics.spent(mark)
        self._make_way(time.monotonic() - began)
        return spent

    def _make_way(self, seconds: float) -> None:
        """Pause after a step of so many seconds if the flow falls behind."""
        began = time.monotonic()
        while time.monotonic() - began < seconds / STEP and not self._halt.is_set():
            snapshot = self._latest()
            if snapshot is None or not behind(snapshot):
                break
            self._halt.wait(_LOOK)
        self._paused += time.monotonic() - began


def _log(line: str) -> None:
    """Write to Spark's own error stream, which may not be `sys.stderr`."""
    with suppress(OSError):
        os.write(2, line.encode())


def more(before: TaskSeconds, after: TaskSeconds) -> float:
    """Seconds that one more operator has taken."""
    cpu = max(0.0, after.cpu - before.cpu)
    waited = after.waited - before.waited
    return cpu + (waited if waited > _WAITS * cpu + _STUMBLE else 0.0)


def behind(snapshot: Snapshot) -> bool:
    """True if more rows wait for a pipeline than it reads in a window."""
    return any(
        (p.backlog_rows or 0) > (p.rate_in or 0.0) * snapshot.window
        for p in snapshot.pipelines.values()
    )


def natives(pipeline: RunningPipeline) -> list[str]:
    """The names of a pipeline's native operators."""
    graph = pipeline.context.graph
    return [n for n in pipeline.spec.operators if isinstance(graph[n].body, op.Frame)]


def sample_size(known: Iterable[float | None], whole: float | None) -> int:
    """Rows of a sample, from the cost per row of operators and of the whole pipeline."""
    found = list(known)
    sure = sum(one or 0.0 for one in found)
    rows = _SAMPLE_SECONDS / sure if sure else float(_ROWS)
    if None in found and whole:
        rows = min(rows, _LONGEST / whole)
    return int(min(_ROWS, max(_FEWEST, rows)))
