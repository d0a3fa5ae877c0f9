"""How many rows are where: offered, taken in, waiting, delivered."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping

from penstock.engines.spark.executors import Executors
from penstock.engines.spark.observer import Observer
from penstock.engines.spark.pipeline import RunningPipeline
from penstock.engines.spark.site import Site
from penstock.metrics.snapshot import Snapshot
from penstock.plan.plan import Plan


class Gauges:
    """Reads a running flow.

    `pipelines`, `clocks` and `limits` are the engine's own and change under way: the pipelines
    at work, when each generator's time began, and where each generator ends, once it has to.
    """

    def __init__(
        self,
        site: Site,
        observer: Observer,
        pipelines: Mapping[str, RunningPipeline],
        clocks: Mapping[str, float],
        limits: Mapping[str, int],
        executors: Executors,
    ) -> None:
        self._site = site
        self._observer = observer
        self._pipelines = pipelines
        self._clocks = clocks
        self._limits = limits
        self._executors = executors
        self._work: deque[tuple[float, float]] = deque()

    def snapshot(self, at: float, plan: Plan) -> Snapshot:
        """Everything measured over the observer's window; `at` is the time of the run."""
        now = time.time()
        site = self._site
        pipelines = tuple(self._pipelines.values())
        offered = self.offered(now)
        return Snapshot(
            at=at,
            window=self._observer.window,
            rows_offered=sum(offered.values()) if offered else None,
            rows_ingested=sum(self.ingested().values()) + self._observer.foreign_rows,
            rows_delivered=sum(site.delivered.values()),
            rows_dead=site.dead_letters,
            pipelines={
                p.name: self._observer.pipeline(p, now, self._waiting_for(p, offered))
                for p in pipelines
            },
            latency=self._observer.latency(now),
            sinks=dict(site.delivered),
            drained=self._drained(),
            load=self._load(now),
            source_pipelines=frozenset(plan.pipeline_of(s.name).name for s in site.graph.sources),
        )

    def ingested(self) -> dict[str, int]:
        """Records taken in and committed, by source with a generator."""
        return {
            entry.operator: pipeline.positions[entry.key]
            for pipeline in tuple(self._pipelines.values())
            for entry in pipeline.inputs
            if not entry.upstream and self._site.generator(entry.operator) is not None
        }

    def offered(self, now: float) -> dict[str, int]:
        """Rows that were due by now, by source with a generator."""
        found = {}
        for source in self._site.graph.sources:
            generator = self._site.generator(source.name)
            if generator is not None:
                due = self._site.load(source.name).offered(now - self._clocks[source.name])
                known = [due, generator.limit, self._limits.get(source.name)]
                found[source.name] = min(rows for rows in known if rows is not None)
        return found

    def slowest(self, operator: str) -> int:
        """Up to which row all readers of an operator's channel have committed."""
        rows = [
            pipeline.positions[entry.key]
            for pipeline in tuple(self._pipelines.values())
            for entry in pipeline.inputs
            if entry.upstream == operator
        ]
        return min(rows, default=0)

    def backlog(self, operator: str) -> int:
        """Rows in an operator's channel that its slowest reader has not committed."""
        return self._site.channel(operator).end - self.slowest(operator)

    def waiting(self, pipelines: Iterable[RunningPipeline]) -> int | None:
        """Rows that wait for some pipelines; None where a source of Spark's own hides them."""
        offered = self.offered(time.time())
        found = [self._waiting_for(pipeline, offered) for pipeline in pipelines]
        return None if None in found else sum(rows for rows in found if rows is not None)

    def usually_waiting(self, pipelines: Iterable[RunningPipeline]) -> int | None:
        """The same, but no less than what one batch takes, which waits until it is committed."""
        pipelines = tuple(pipelines)
        now = self.waiting(pipelines)
        if now is None:
            return None
        return max(now, self._observer.largest_batches(p.name for p in pipelines))

    def _waiting_for(self, pipeline: RunningPipeline, offered: Mapping[str, int]) -> int | None:
        if pipeline.foreign:
            return None
        return sum(
            (self._site.channel(i.upstream).end if i.upstream else offered[i.operator])
            - pipeline.positions[i.key]
            for i in pipeline.inputs
        )

    def _load(self, now: float) -> float | None:
        """Share of the slots at work over the window; tasks count when they end."""
        done, slots = self._executors.work()
        self._work.append((now, done))
        while len(self._work) > 2 and self._work[1][0] <= now - self._observer.window:
            self._work.popleft()
        then, before = self._work[0]
        if now - then < self._observer.window / 2 or done < before:  # executors that left
            return None
        return min(1.0, (done - before) / (now - then) / slots)

    def _drained(self) -> bool:
        """Whether every row that entered is committed by its last reader."""
        for pipeline in self._pipelines.values():
            for entry in pipeline.inputs:
                if entry.upstream:
                    if pipeline.positions[entry.key] < self._site.channel(entry.upstream).end:
                        return False
                elif self._site.generator(entry.operator) is not None:
                    limit = self._limits.get(entry.operator)
                    if limit is None or pipeline.positions[entry.key] < limit:
                        return False
        return True
