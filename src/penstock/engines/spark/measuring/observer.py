"""Follows Spark's progress reports: recent batches of each pipeline, and latencies."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np

from penstock.dataflow.graph import Constraint
from penstock.dataflow.operators import Read
from penstock.engines.spark import pipeline_graph
from penstock.engines.spark.channels.event_time import LATE
from penstock.engines.spark.measuring.batches import (
    Batch,
    LatencyMeter,
    Origins,
    SourceQueue,
    Span,
    left,
    parts,
    scaled,
)
from penstock.engines.spark.measuring.breakdown import CostEstimate, PipelineWindow
from penstock.engines.spark.measuring.operator_meter import MeterReport
from penstock.engines.spark.measuring.task_statistics import Task
from penstock.engines.spark.pipeline_graph import Input
from penstock.engines.spark.queries.checkpoint import rows_of
from penstock.engines.spark.queries.dead_letters import tag
from penstock.engines.spark.queries.pipeline import RunningPipeline
from penstock.engines.spark.run_context import RunContext
from penstock.metrics.snapshot import LatencyMetrics

_SAMPLES = 60
"""Batches from which the fixed cost of a task and the cost per row are separated."""


_TURN = 0.5
"""A query that begins no batch for so many seconds after the last one was idle."""

_KEPT = 5_000
"""Tasks of a run and reports of an operator to keep: enough for those batches."""

_RUNS = 100
"""Starts of queries whose tasks are kept."""

_LOOK = 0.1
"""Seconds within which an idle query notices new rows."""


class Observer:
    """Keeps the recent batches of every pipeline and the latencies of every constraint."""

    def __init__(self, context: RunContext, window: float) -> None:
        self._context = context
        self.window = window
        self._batches: dict[str, deque[Batch]] = {}
        self._meters = {c.name: LatencyMeter(c) for c in context.graph.constraints}
        self._origins = {c.name: Origins() for c in context.graph.constraints}
        self._reach = {c.name: context.graph.reachable(c.first) for c in context.graph.constraints}
        self._queues: dict[str, SourceQueue] = {}
        self._fresh: dict[str, float] = {}
        self._reports: dict[str, deque[MeterReport]] = {}
        self._tasks: dict[str, deque[Task]] = {}
        self.late_rows = 0
        self.outputs: dict[str, deque[float]] = {}

    def take(self, pipeline: RunningPipeline) -> int:
        """Read a pipeline's new progress reports; returns how many there were."""
        reports = pipeline.new_progress()
        for report in reports:
            data = json.loads(report.json())
            batch = self._batch(pipeline, data)
            self._batches.setdefault(pipeline.name, deque(maxlen=2000)).append(batch)
            self.late_rows += batch.late
            if batch.rows_in or batch.rows_out:
                for name in {pipeline.tail, *pipeline.sinks}:
                    self.outputs.setdefault(name, deque(maxlen=1000)).append(batch.at)
            for key, (_, stop) in batch.ranges.items():
                pipeline.reached(key, stop)
            for constraint in self._context.graph.constraints:
                self._follow(constraint, pipeline, data["batchId"], batch)
        return len(reports)

    def queue(self, pipeline: RunningPipeline) -> SourceQueue | None:
        """The queue of a pipeline that reads only Spark's own sources; otherwise None."""
        spark_sources = pipeline.spark_sources
        if not spark_sources or len(spark_sources) < len(pipeline.inputs):
            return None
        return self._queues.setdefault(spark_sources[0].name, SourceQueue())

    def _batch(self, pipeline: RunningPipeline, data: Mapping[str, Any]) -> Batch:
        started = datetime.fromisoformat(data["timestamp"].replace("Z", "+00:00")).timestamp()
        seconds = data["durationMs"].get("triggerExecution", 0) / 1000
        number = data["batchId"]
        ranges = {}
        for source in data["sources"]:
            end = rows_of(source["endOffset"])
            if end is not None:
                start = rows_of(source["startOffset"])
                first = start[1] if start else pipeline.wired.first.get(end[0], 0)
                ranges[end[0]] = (first, end[1])
        spark_source_rows = data["numInputRows"] if pipeline.spark_sources else 0
        rows_in = sum(stop - first for first, stop in ranges.values()) or spark_source_rows
        observed = data.get("observedMetrics", {}).get("penstock_out", {}).get("rows")
        states = data.get("stateOperators", [])
        earlier = self._batches.get(pipeline.name)
        batch = Batch(
            number=number,
            run=data["runId"],
            at=pipeline.ended.pop(number, started + seconds),
            started=started,
            seconds=seconds,
            rows_in=rows_in,
            rows_out=observed,
            ranges=ranges,
            late=_late(data),
            state_rows=sum(s["numRowsTotal"] for s in states) if states else None,
            state_bytes=sum(s["memoryUsedBytes"] for s in states) if states else None,
            parts=parts(data["durationMs"], seconds),
            before=earlier[-1].at if earlier else None,
        )
        came = {entry.key: self._arrivals(entry, batch, pipeline) for entry in pipeline.inputs}
        if (queue := self.queue(pipeline)) is not None:
            connectors = [
                one.body.source for one in pipeline.spark_sources if isinstance(one.body, Read)
            ]
            cadence = pipeline.spec.cadence
            resting = batch.before is not None and batch.before < started - max(cadence, _TURN)
            idle = started - max(cadence, _LOOK) if resting else None
            spans = queue.take(started, rows_in, left(data["sources"], connectors), idle)
            share = scaled(spans, 1 / len(pipeline.inputs))
            came = {entry.key: share for entry in pipeline.inputs}
        return replace(batch, arrivals=came)

    # --- latency --------------------------------------------------------------------------------

    def _follow(
        self, constraint: Constraint, pipeline: RunningPipeline, number: int, batch: Batch
    ) -> None:
        """Add the latency of a batch since its rows arrived at the constraint's first operator."""
        operators = pipeline.spec.operators
        reach = self._reach[constraint.name]
        if not reach.intersection(operators):
            return
        spans: list[Span] = []
        for entry in pipeline.inputs:
            if constraint.first in operators:
                # Only inputs downstream of the first operator count.
                if constraint.first not in self._context.graph.reachable(entry.operator):
                    continue
                spans += batch.arrivals[entry.key]
            elif entry.upstream in reach:
                spans += self._inherited(constraint, entry, batch)
        label = tag(pipeline.wired.epoch, number)
        self._origins[constraint.name].put(pipeline.tail, label, spans)
        if constraint.last in operators and spans:
            self._meters[constraint.name].add(batch.at, spans)

    def _arrivals(self, entry: Input, batch: Batch, pipeline: RunningPipeline) -> list[Span]:
        """When the rows of a batch reached this pipeline's input."""
        if entry.key not in batch.ranges:
            if (
                entry.upstream
                or pipeline_graph.generator(self._context.graph, entry.operator) is not None
            ):
                return []
            earlier = self._batches.get(pipeline.name)
            before = earlier[-1].started if earlier else batch.started
            return [Span(before, batch.started, batch.rows_in)]
        first, stop = batch.ranges[entry.key]
        if stop <= first:
            return []
        if entry.upstream:
            found = self._context.channel(entry.upstream).entries(first, stop)
            return [Span(e.at, e.at, b - a) for e, a, b in found]
        clock = pipeline.valve.clocks.get(entry.key)
        if clock is None:  # a batch from before a crash: when its rows were due is unknown
            return []
        edges = np.unique(np.linspace(first, stop, min(17, stop - first + 1)).astype(np.int64))
        load = self._context.load(entry.operator)
        due = load.arrival(np.minimum(edges, stop - 1)) + clock
        return [
            Span(float(due[i]), float(due[i + 1]), int(edges[i + 1] - edges[i]))
            for i in range(len(edges) - 1)
        ]

    def _inherited(self, constraint: Constraint, entry: Input, batch: Batch) -> list[Span]:
        """Arrival spans at the first operator, inherited from the writers of a channel."""
        first, stop = batch.ranges.get(entry.key, (0, 0))
        spans: list[Span] = []
        for found, a, b in self._context.channel(entry.upstream).entries(first, stop):
            known = self._origins[constraint.name].get(entry.upstream, found.tag) or []
            total = sum(s.rows for s in known)
            if total > 0:
                spans += scaled(known, (b - a) / total)
        return spans

    def latency(self, now: float) -> dict[str, LatencyMetrics]:
        found = {name: meter.window(now) for name, meter in self._meters.items()}
        return {name: metrics for name, metrics in found.items() if metrics is not None}

    def latency_totals(self) -> dict[str, LatencyMetrics]:
        found = {name: meter.total() for name, meter in self._meters.items()}
        return {name: metrics for name, metrics in found.items() if metrics is not None}

    def largest_batches(self, pipelines: Iterable[str]) -> int:
        """Rows of the largest recent batches of some pipelines together."""
        recent = (tuple(self._batches.get(name, ()))[-5:] for name in pipelines)
        return sum(max((b.rows_in for b in batches), default=0) for batches in recent)

    def state(self, pipelines: Iterable[str]) -> tuple[int | None, int | None]:
        """Rows and bytes of state after the last batches of some pipelines; None if not known."""
        last = [self._batches[name][-1] for name in pipelines if self._batches.get(name)]
        rows = [b.state_rows for b in last if b.state_rows is not None]
        size = [b.state_bytes for b in last if b.state_bytes is not None]
        return (sum(rows) if rows else None), (sum(size) if size else None)

    # --- windows --------------------------------------------------------------------------------

    def hear(self, tasks: Iterable[Task], reports: Iterable[MeterReport], now: float) -> None:
        """Take in new tasks and reports of Python operators."""
        for task in tasks:
            self._tasks.setdefault(task.run, deque(maxlen=_KEPT)).append(task)
        for report in reports:
            report.heard = now
            self._reports.setdefault(report.operator, deque(maxlen=_KEPT)).append(report)
        while len(self._tasks) > _RUNS:
            del self._tasks[min(self._tasks, key=lambda run: self._tasks[run][-1].ended)]

    def tasks(self, now: float) -> list[Task]:
        """All tasks of all queries that ended in the window."""
        since = now - self.window
        found = []
        for known in self._tasks.values():  # roughly in the order of arrival
            late = itertools.takewhile(lambda t: t.ended > since - self.window, reversed(known))
            found += [t for t in late if t.ended > since]
        return found

    def reports(self, now: float) -> list[MeterReport]:
        """Reports of Python operators that arrived in the window."""
        since = now - self.window
        return [
            report
            for known in self._reports.values()
            for report in itertools.takewhile(lambda r: r.heard > since, reversed(known))
        ]

    def start_anew(self, pipelines: Iterable[str], at: float) -> None:
        """Ignore measurements of some pipelines from before a moment."""
        self._fresh.update(dict.fromkeys(pipelines, at))

    def last(self, pipeline: str) -> Batch | None:
        batches = self._batches.get(pipeline)
        return batches[-1] if batches else None

    def look(
        self, pipeline: RunningPipeline, now: float, estimates: Mapping[str, CostEstimate]
    ) -> PipelineWindow:
        """The observations of a pipeline in the window."""
        since = now - self.window
        fresh = self._fresh.get(pipeline.name, 0.0)
        # The first batch under a plan pays for the change, so it is not representative. Spark
        # may report before it that there was nothing to do.
        under = [b for b in self._batches.get(pipeline.name, ()) if b.started >= fresh]
        first = next((i for i, b in enumerate(under) if b.rows_in), 0)
        valid = under[first + 1 :]
        # If batches take longer than the window, only the last one is known.
        recent = [b for b in valid if b.at > since] or valid[-1:]
        under_way, quiet = self._now(pipeline, fresh)
        work: dict[tuple[str, int], list[float]] = {}
        tasks = [t for run in {b.run for b in valid} for t in self._tasks.get(run, ())]
        for task in tasks:
            work.setdefault((task.run, task.batch), []).append(task.work)
        own = set(pipeline.spec.operators)
        reports = [
            report
            for name in pipeline.spec.operators
            for report in self._reports.get(name, ())
            if report.epoch == pipeline.wired.epoch
        ]
        metered: defaultdict[int, float] = defaultdict(float)
        for report in reports:
            metered[report.batch] += report.seconds
        known = [(b, work.get((b.run, b.number), [])) for b in valid[-_SAMPLES:]]
        keys = {(b.run, b.number) for b in recent}
        numbers = {b.number for b in recent}
        return PipelineWindow(
            name=pipeline.name,
            operators=pipeline.spec.operators,
            parallelism=pipeline.spec.parallelism,
            since=since,
            now=now,
            batches=recent,
            tasks=[t for t in tasks if (t.run, t.batch) in keys],
            reports=[r for r in reports if r.batch in numbers],
            estimates={name: e for name, e in estimates.items() if name in own},
            samples=[
                (len(w), b.rows_in, max(0.0, sum(w) - metered[b.number])) for b, w in known if w
            ],
            metered_whole=pipeline.metered_whole,
            key_parts=_key_parts(pipeline),
            under_way=under_way,
            quiet=quiet,
        )

    def _now(self, pipeline: RunningPipeline, fresh: float) -> tuple[float | None, float | None]:
        """Start of the running batch, and since when none runs; None is unknown.

        Batches of native sinks do not pass through Python.
        """
        if pipeline.native_sink is not None or pipeline.up is None:
            return None, None
        last = self.last(pipeline.name)
        done = 0.0 if last is None else last.ended
        if pipeline.begun is not None and pipeline.begun > done:
            return pipeline.begun, None
        return None, max(done, pipeline.up, fresh)


def _late(data: Mapping[str, Any]) -> int:
    """Records that a batch dropped behind the watermark.

    Where Spark aggregates them by group first, it counts the groups.
    """
    counted = data.get("observedMetrics", {}).get(LATE, {}).get("rows")
    if counted is not None:
        return int(counted)
    return sum(s.get("numRowsDroppedByWatermark", 0) for s in data.get("stateOperators", []))


def _key_parts(pipeline: RunningPipeline) -> int | None:
    """Partitions of the keys, if each instance serves exactly one."""
    parts = pipeline.wired.partitions
    return parts if pipeline.stateful and parts <= pipeline.spec.parallelism else None
