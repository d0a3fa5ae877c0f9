"""Reads a running flow: rows offered, taken in, waiting and delivered, as a snapshot."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping

from penstock.engines.spark import pipeline_graph
from penstock.engines.spark.changes.executors import ClusterExecutors
from penstock.engines.spark.measuring.batches import waits
from penstock.engines.spark.measuring.breakdown import CostEstimate, PipelineWindow
from penstock.engines.spark.measuring.executor_usage import (
    ExecutorWork,
    Places,
    in_python,
    processor_seconds,
)
from penstock.engines.spark.measuring.observer import Observer
from penstock.engines.spark.measuring.task_statistics import Statistics
from penstock.engines.spark.queries.pipeline import RunningPipeline
from penstock.engines.spark.run_context import RunContext
from penstock.metrics.snapshot import ChannelMetrics, ExecutorMetrics, Snapshot
from penstock.plan.plan import Plan

_PLACEMENT = 10.0
"""Seconds between queries for the placement of state partitions, which are slow."""

_RESTING = 0.95
"""A pipeline with a lower share of busy time keeps up with its input."""


class Gauges:
    """Reads a running flow.

    `pipelines`, `clocks` and `limits` are those of the flow and change while it runs: the pipelines
    by name, the start time of each generator, and its last record once it has to end.
    """

    def __init__(
        self,
        context: RunContext,
        observer: Observer,
        pipelines: Mapping[str, RunningPipeline],
        clocks: Mapping[str, float],
        limits: Mapping[str, int],
        executors: ClusterExecutors,
    ) -> None:
        self._context = context
        self._observer = observer
        self._pipelines = pipelines
        self._clocks = clocks
        self._limits = limits
        self._executors = executors
        self.statistics = Statistics(
            context.spark, context.directory / "control" / "statistics.json"
        )
        self._arrived: dict[str, deque[tuple[float, int]]] = {}
        self._slots = (time.time(), 0, 0.0)  # since when, instances, slot seconds before
        self._placed: tuple[float, Mapping[str, Mapping[str, list[int]]]] = (0.0, {})
        self.estimates: dict[str, CostEstimate] = {}

    def snapshot(self, at: float, plan: Plan, *, settled: bool, ending: bool) -> Snapshot:
        """All measurements of the window; `at` is in seconds since the start of the run."""
        now = time.time()
        self.listen()
        context, window = self._context, self._observer.window
        pipelines = tuple(self._pipelines.values())
        offered = self.offered(now)
        windows = {p.name: self._observer.look(p, now, self.estimates) for p in pipelines}
        waiting = {p.name: self._waiting_for(p, offered) for p in pipelines}
        metrics = {
            p.name: windows[p.name].pipeline(
                self._arrival_rate(p, waiting[p.name], windows[p.name], now),
                self._left(p) if waiting[p.name] is None else waiting[p.name],
                self._observer.last(p.name),
            )
            for p in pipelines
        }
        executors = self._executor_metrics(pipelines, now)
        delivered = (
            context.delivered
        )  # before what was taken in: rows arrive first, whatever is late
        return Snapshot(
            at=at,
            window=window,
            rows_offered=sum(offered.values()) if offered else None,
            rows_ingested=self._taken_in() + context.spark_source_rows,
            rows_delivered=sum(delivered.values()),
            rows_dead=context.dead_letters,
            pipelines=metrics,
            latency=self._observer.latency(now),
            sinks=delivered,
            rows_repeated=context.repeated,
            drained=self._drained(),
            load=self._load(executors.values()) if at >= window / 2 else None,
            source_pipelines=frozenset(
                plan.pipeline_of(s.name).name for s in context.graph.sources
            ),
            operators={
                name: found
                for w in windows.values()
                for name, found in w.operators_in(context.graph).items()
            },
            channels=self._channels(pipelines, windows),
            executors=executors,
            settled=settled and all(w.batches for w in windows.values() if waiting[w.name]),
            ending=ending,
            slot_seconds=self.slot_seconds(now, plan.slots),
            rows_late=self._observer.late_rows if self._can_be_late else None,
            processor_seconds=processor_seconds() if self._executors.fixed else None,
        )

    @property
    def _can_be_late(self) -> bool:
        return any(operator.stateful for operator in self._context.graph.operators)

    def listen(self) -> None:
        """Collect new tasks and reports of Python operators."""
        mail = self._context.mail
        said = mail.collect() if mail else ()
        self._observer.hear(self.statistics.new_tasks(), said, time.time())

    def slot_seconds(self, now: float, slots: int) -> float:
        """Slot seconds so far; `slots` instances count from now on."""
        since, held, before = self._slots
        self._slots = (now, slots, before + held * (now - since))
        return self._slots[2]

    def _arrival_rate(
        self, pipeline: RunningPipeline, waiting: int | None, window: PipelineWindow, now: float
    ) -> float | None:
        """Rows per second that arrived at a pipeline, read or not.

        One of Spark's own sources may hide its queue. As long as its pipeline is idle at times, its
        processing rate is its arrival rate.
        """
        if waiting is None:
            resting = (window.busy or 0.0) < _RESTING
            queue = self._observer.queue(pipeline)
            found = queue.rate(window.since, now if resting else None) if queue else None
            if found is not None:
                return found
            return window.rate(window.rows) if resting else None
        arrived = waiting + sum(pipeline.positions[i.key] for i in pipeline.inputs)
        seen = self._arrived.setdefault(pipeline.name, deque())
        if seen and arrived < seen[-1][1]:  # a pipeline of the same name with another wiring
            seen.clear()
        seen.append((now, arrived))
        while len(seen) > 2 and seen[1][0] <= window.since:
            seen.popleft()
        passed, rows = now - seen[0][0], arrived - seen[0][1]
        return rows / passed if passed >= self._observer.window / 2 else None

    def _left(self, pipeline: RunningPipeline) -> int | None:
        """Rows that the last batch left unread in one of Spark's own sources.

        None for no rows: how many arrived while the batch was running is unknown.
        """
        queue = self._observer.queue(pipeline)
        return (queue.waiting if queue else None) or None

    def _channels(
        self, pipelines: Iterable[RunningPipeline], windows: Mapping[str, PipelineWindow]
    ) -> dict[str, ChannelMetrics]:
        found = {}
        for pipeline in pipelines:
            window = windows[pipeline.name]
            batches = window.batches
            for entry in pipeline.inputs:
                if not entry.upstream:
                    continue
                backlog = self._context.channel(entry.upstream).end - pipeline.positions[entry.key]
                read = sum(b.ranges.get(entry.key, (0, 0))[1] for b in batches[-1:])
                read -= sum(b.ranges.get(entry.key, (0, 0))[0] for b in batches[:1])
                rate = window.rate(read)
                waited = waits(batches, entry.key)
                found[entry.key] = ChannelMetrics(
                    writer=entry.upstream,
                    reader=entry.operator,
                    backlog_rows=backlog,
                    backlog_seconds=backlog / rate if rate else None,
                    latency=waited.wait if waited else None,
                    batching=waited.batching if waited else None,
                )
        return found

    def _executor_metrics(
        self, pipelines: Collection[RunningPipeline], now: float
    ) -> dict[str, ExecutorMetrics]:
        tasks, python = self._observer.tasks(now), None
        if self._context.mail is not None:
            python = in_python(tasks, self._observer.reports(now), _places(pipelines))
        work = ExecutorWork(
            since=now - self._observer.window,
            now=now,
            tasks=tasks,
            running=self.statistics.running,
            owners={pipeline.run: pipeline.name for pipeline in pipelines},
            python=python,
        )
        heap, state = self._executors.heap, self._state_parts(pipelines, now)
        facts = self.statistics.executors()
        return {fact.name: work.of(fact, heap, state.get(fact.name, {})) for fact in facts}

    def _state_parts(
        self, pipelines: Iterable[RunningPipeline], now: float
    ) -> Mapping[str, Mapping[str, list[int]]]:
        """State partitions by executor and pipeline; refreshed every few seconds on a cluster."""
        stateful = [p for p in pipelines if p.stateful is not None]
        if self._executors.fixed:
            (only,) = self._executors.ids()
            return {only: {p.name: [*range(p.wired.partitions)] for p in stateful}}
        if now - self._placed[0] >= _PLACEMENT:
            parts: dict[str, dict[str, list[int]]] = {}
            for pipeline in stateful:
                for part, where in pipeline.placement(self._executors).items():
                    parts.setdefault(where or "", {}).setdefault(pipeline.name, []).append(part)
            self._placed = (now, parts)
        return self._placed[1]

    def ingested(self) -> dict[str, int]:
        """Records taken in and committed, by source with a generator."""
        return {
            entry.operator: pipeline.positions[entry.key]
            for pipeline in tuple(self._pipelines.values())
            for entry in pipeline.inputs
            if not entry.upstream
            and pipeline_graph.generator(self._context.graph, entry.operator) is not None
        }

    def _taken_in(self) -> int:
        """Rows of generators in all batches that have delivered, committed or not yet."""
        return sum(
            max(pipeline.positions[entry.key], pipeline.taken_in.get(entry.key, 0))
            for pipeline in tuple(self._pipelines.values())
            for entry in pipeline.inputs
            if not entry.upstream
            and pipeline_graph.generator(self._context.graph, entry.operator) is not None
        )

    def offered(self, now: float) -> dict[str, int]:
        """Rows that were due by now, by source with a generator."""
        found = {}
        for source in self._context.graph.sources:
            generator = pipeline_graph.generator(self._context.graph, source.name)
            if generator is not None:
                due = self._context.load(source.name).offered(now - self._clocks[source.name])
                known = [due, generator.limit, self._limits.get(source.name)]
                found[source.name] = min(rows for rows in known if rows is not None)
        return found

    def slowest(self, operator: str) -> int:
        """The row up to which all readers of an operator's channel have committed."""
        rows = [
            pipeline.positions[entry.key]
            for pipeline in tuple(self._pipelines.values())
            for entry in pipeline.inputs
            if entry.upstream == operator
        ]
        return min(rows, default=0)

    def backlog(self, operator: str) -> int:
        """Rows in an operator's channel that its slowest reader has not committed."""
        return self._context.channel(operator).end - self.slowest(operator)

    def waiting(self, pipelines: Iterable[RunningPipeline]) -> int | None:
        """Rows waiting for some pipelines; None if one of Spark's own sources hides them."""
        offered = self.offered(time.time())
        found = [self._waiting_for(pipeline, offered) for pipeline in pipelines]
        return None if None in found else sum(rows for rows in found if rows is not None)

    def usually_waiting(self, pipelines: Iterable[RunningPipeline]) -> int | None:
        """Rows waiting, at least those of one batch, which wait until it is committed."""
        pipelines = tuple(pipelines)
        now = self.waiting(pipelines)
        if now is None:
            return None
        return max(now, self._observer.largest_batches(p.name for p in pipelines))

    def _waiting_for(self, pipeline: RunningPipeline, offered: Mapping[str, int]) -> int | None:
        if pipeline.spark_sources:
            return None
        return sum(
            (self._context.channel(i.upstream).end if i.upstream else offered[i.operator])
            - pipeline.positions[i.key]
            for i in pipeline.inputs
        )

    def _load(self, executors: Collection[ExecutorMetrics]) -> float | None:
        """Share of the usable slots that was busy."""
        most = self._executors.at_once(sum(e.slots for e in executors))
        work = sum((e.busy or 0.0) * e.slots for e in executors)
        return min(1.0, work / most) if most else None

    def _drained(self) -> bool:
        """True if every row taken in is committed by its last reader."""
        for pipeline in self._pipelines.values():
            for entry in pipeline.inputs:
                if entry.upstream:
                    if pipeline.positions[entry.key] < self._context.channel(entry.upstream).end:
                        return False
                elif pipeline_graph.generator(self._context.graph, entry.operator) is not None:
                    limit = self._limits.get(entry.operator)
                    if limit is None or pipeline.positions[entry.key] < limit:
                        return False
        return True


def _places(pipelines: Iterable[RunningPipeline]) -> Places:
    """Run, epoch and side of the shuffle of each operator."""
    found = {}
    for pipeline in pipelines:
        stateful = pipeline.stateful
        behind = pipeline.context.graph.reachable(stateful.name) if stateful else frozenset()
        for name in pipeline.spec.operators:
            found[name] = (pipeline.run, pipeline.wired.epoch, name in behind)
    return found
