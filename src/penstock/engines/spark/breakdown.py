"""From batches, tasks and reports of one window to what a snapshot says: pure functions."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from penstock.dataflow import operator as op
from penstock.dataflow.graph import Graph
from penstock.engines.spark.batch import Batch, arrival_cv, span_of, waits
from penstock.engines.spark.fit import Sample, fixed_and_per_row
from penstock.engines.spark.meter import Report
from penstock.engines.spark.statistics import ExecutorFacts, Running, Task
from penstock.metrics.snapshot import (
    ExecutorMetrics,
    InstanceMetrics,
    OperatorMetrics,
    PipelineMetrics,
)


@dataclass(frozen=True)
class Estimate:
    """What trials on samples said of a native operator: seconds for a row, rows out per row.

    rows: of the samples together, by which estimates weigh.
    """

    service: float
    selectivity: float
    rows: int = 1

    def pooled(self, newer: Estimate, most: int) -> Estimate:
        """Both together; what was seen in more than so many rows before counts as that many."""
        kept = min(self.rows, most)
        share = newer.rows / (kept + newer.rows)
        return Estimate(
            self.service + share * (newer.service - self.service),
            self.selectivity + share * (newer.selectivity - self.selectivity),
            kept + newer.rows,
        )


@dataclass(frozen=True)
class Window:
    """What was seen of one pipeline between `since` and `now`; batches oldest first.

    tasks and reports are those of these batches, as far as they have come in; samples are tasks,
    rows and seconds outside Python operators of more batches; metered_whole: whether every
    operator is timed in Python.
    """

    name: str
    operators: tuple[str, ...]
    parallelism: int
    since: float
    now: float
    batches: Sequence[Batch]
    tasks: Sequence[Task] = ()
    reports: Sequence[Report] = ()
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    samples: Sequence[Sample] = ()
    metered_whole: bool = False

    @cached_property
    def span(self) -> float:
        """The seconds that the batches stand for."""
        return span_of(self.batches, self.now) or self.now - self.since

    @cached_property
    def rows_in(self) -> int:
        return sum(b.rows_in for b in self.batches)

    @cached_property
    def rows_out(self) -> int | None:
        counted = [b.rows_out for b in self.batches if b.rows_out is not None]
        return sum(counted) if counted else None

    @cached_property
    def known(self) -> tuple[int, Sequence[Task]]:
        """Rows of the batches whose tasks are known, and these tasks."""
        seen = {(t.run, t.batch) for t in self.tasks}
        rows = sum(b.rows_in for b in self.batches if (b.run, b.number) in seen)
        return rows, self.tasks

    @cached_property
    def costs(self) -> tuple[float | None, float | None]:
        """Seconds of an instance for a row, and for a batch beside its rows.

        What Python operators took is for rows. Where there is nothing else, what is left of a task
        is its own; elsewhere the two are told apart by batches of different sizes, or else not.
        """
        rows, tasks = self.known
        if not rows:
            return None, None
        known = {t.batch for t in tasks}
        metered = sum(r.seconds for r in self.reports if r.batch in known)
        rest = max(0.0, sum(t.work for t in tasks) - metered)
        told = fixed_and_per_row(self.samples)
        if self.metered_whole:
            return metered / rows, rest / len(tasks)
        if told is None:
            return (metered + rest) / rows, None
        return metered / rows + told[1], told[0]

    @property
    def service(self) -> float | None:
        return self.costs[0]

    def pipeline(
        self, arrival_rate: float | None, backlog: int | None, last: Batch | None
    ) -> PipelineMetrics:
        """The pipeline as a whole; `last` is its last batch, in the window or not."""
        some = bool(self.batches)
        rate = self.rows_in / self.span if some else 0.0
        waited = waits(self.batches)
        busy = sum(min(b.seconds, b.at - self.since) for b in self.batches)
        names = self.batches[-1].parts if some else ()
        instances = self.instances()
        return PipelineMetrics(
            name=self.name,
            parallelism=self.parallelism,
            batches=len(self.batches),
            rows_in=self.rows_in,
            rows_out=self.rows_out,
            rate_in=rate,
            rate_out=None if self.rows_out is None else self.rows_out / self.span,
            arrival_rate=arrival_rate,
            service=self.costs[0],
            task_overhead=self.costs[1],
            service_cv=self._service_cv(),
            arrival_cv=arrival_cv(self.batches),
            batch_seconds=_mean(b.seconds for b in self.batches),
            wait=waited.wait if waited else None,
            batching=waited.batching if waited else None,
            parts={n: _mean(b.parts.get(n, 0.0) for b in self.batches) or 0.0 for n in names},
            busy=min(1.0, busy / (self.now - self.since)) if some else None,
            backlog_rows=backlog,
            backlog_seconds=backlog / rate if backlog is not None and rate > 0 else None,
            state_rows=last.state_rows if last else None,
            state_bytes=last.state_bytes if last else None,
            instances=instances,
            hottest=_hottest(instances),
        )

    def _service_cv(self) -> float | None:
        """Of a row through all operators that were timed row by row; each row's are independent."""
        found = [m for m in self._metered().values() if m.calls > 1 and m.rows_in and m.total]
        if not found or not self.rows_in:
            return None
        mean = variance = 0.0
        for m in found:
            per_row = m.rows_in / self.rows_in
            mean += per_row * m.seconds / m.rows_in
            variance += per_row * ((_cv(m) or 0.0) * m.seconds / m.rows_in) ** 2
        return math.sqrt(variance) / mean if mean else None

    def instances(self) -> tuple[InstanceMetrics, ...]:
        """By the tasks behind the shuffle where there is one, else by those that read."""
        chosen = _of_instances(self.tasks)
        counted: Counter[int] = Counter()
        for report in self.reports:
            if report.operator == self._first_metered:
                counted[report.partition] += report.rows_in
        rows: dict[int, int | None] = defaultdict(lambda: None)
        busy: defaultdict[int, float] = defaultdict(float)
        where: dict[int, str] = {}
        for task in chosen:
            busy[task.index] += task.work
            where[task.index] = task.executor
            if task.rows is not None:
                rows[task.index] = (rows[task.index] or 0) + task.rows
            elif counted:
                rows[task.index] = counted[task.index]
        return tuple(
            InstanceMetrics(i, rows[i], min(1.0, busy[i] / self.span), where[i])
            for i in sorted(where)
        )

    @cached_property
    def _first_metered(self) -> str | None:
        seen = {r.operator for r in self.reports}
        return next((name for name in self.operators if name in seen), None)

    def _metered(self) -> dict[str, Report]:
        """The reports of each operator added up."""
        sums: dict[str, Report] = {}
        for r in self.reports:
            s = sums.setdefault(r.operator, Report(r.operator, r.epoch, 0))
            s.rows_in += r.rows_in
            s.rows_out += r.rows_out
            s.seconds += r.seconds
            s.calls += r.calls
            s.total += r.total
            s.squares += r.squares
            if r.cpu is not None:
                s.cpu = (s.cpu or 0.0) + r.cpu
        return sums

    # --- operators ------------------------------------------------------------------------------

    def operators_in(self, graph: Graph) -> dict[str, OperatorMetrics]:
        """Every operator of the pipeline: rows as counted or estimated, times likewise."""
        metered = self._metered()
        rows = self._rows(graph, metered)
        seconds = self._seconds(graph, metered, rows)
        variation = arrival_cv(self.batches)
        found = {}
        for name in self.operators:
            came, left = rows[name]
            spent, measured = seconds.get(name, (None, False))
            found[name] = OperatorMetrics(
                name,
                rows_in=None if came is None else round(came),
                rows_out=None if left is None else round(left),
                rate_in=None if came is None else came / self.span,
                rate_out=None if left is None else left / self.span,
                service=spent / came if spent is not None and came else None,
                service_cv=_cv(metered[name]) if name in metered else None,
                arrival_cv=variation,
                busy=(
                    None
                    if spent is None
                    else min(1.0, spent / self.span / max(1, self.parallelism))
                ),
                measured=measured,
                cpu=_on_processor(metered[name]) if name in metered else None,
            )
        return found

    def _rows(
        self, graph: Graph, metered: Mapping[str, Report]
    ) -> dict[str, tuple[float | None, float | None]]:
        """Rows in and out. Python operators count; natives are counted by their neighbours.

        What a stateful operator makes of its rows nobody foretells: behind it one goes back from
        what has left the pipeline.
        """
        inside = set(self.operators)
        rows: dict[str, tuple[float | None, float | None]] = {}
        for name in self.operators:
            body = graph[name].body
            if name in metered:
                rows[name] = metered[name].rows_in, metered[name].rows_out
                continue
            came = self._entering(name, graph, rows, inside)
            left: float | None = None
            readers = [r for r in graph.successors[name] if r in inside]
            steps = [r for r in readers if not isinstance(graph[r].body, op.Write)]
            if isinstance(body, op.Read):
                left = came
            elif isinstance(body, op.Write):
                left = None
            elif not steps:  # the tail: its output is what leaves the pipeline
                left = self.rows_out
            elif len(steps) == 1 and steps[0] in metered and len(graph[steps[0]].inputs) == 1:
                left = metered[steps[0]].rows_in
            elif name in self.estimates and came is not None:
                left = came * self.estimates[name].selectivity
            rows[name] = came, left
        for name in reversed(self.operators):
            rows[name] = self._going_back(name, graph, rows)
        return rows

    def _going_back(
        self, name: str, graph: Graph, rows: Mapping[str, tuple[float | None, float | None]]
    ) -> tuple[float | None, float | None]:
        """Rows in and out, where they are not known by what the only reader and a trial say."""
        came, left = rows[name]
        readers = [r for r in graph.successors[name] if not isinstance(graph[r].body, op.Write)]
        if left is None and len(readers) == 1 and len(graph[readers[0]].inputs) == 1:
            left = rows.get(readers[0], (None, None))[0]
        share = self.estimates[name].selectivity if name in self.estimates else 0.0
        if came is None and left is not None and share > 0:
            came = left / share
        return came, left

    def _entering(
        self,
        name: str,
        graph: Graph,
        rows: Mapping[str, tuple[float | None, float | None]],
        inside: set[str],
    ) -> float | None:
        operator = graph[name]
        if isinstance(operator.body, op.Read):
            return self._read(name)
        parts = [
            rows[i][1] if i in inside else self._read(f"{i}>{name}")
            for i in dict.fromkeys(operator.inputs)
        ]
        return None if None in parts else sum(p for p in parts if p is not None)

    def _read(self, entry: str) -> float | None:
        if not self.batches:
            return None
        if not any(b.ranges for b in self.batches):  # a source of Spark's own
            return self.rows_in
        return sum(stop - first for b in self.batches for first, stop in [_range(b, entry)])

    def _seconds(
        self,
        graph: Graph,
        metered: Mapping[str, Report],
        rows: Mapping[str, tuple[float | None, float | None]],
    ) -> dict[str, tuple[float, bool]]:
        """Seconds of instances by operator, and whether they were measured.

        Python operators are timed. Natives have the time of a trial on a sample. What is left of
        the tasks before the shuffle belongs to the source, behind it to the stateful operator.
        """
        found = {name: (report.seconds, True) for name, report in metered.items()}
        for name, estimate in self.estimates.items():
            came = rows.get(name, (None, None))[0]
            if name not in found and came is not None:
                found[name] = (came * estimate.service, False)
        seen, tasks = self.known
        if not seen or not self.rows_in:
            return found
        scale = self.rows_in / seen  # batches whose tasks have not come in yet
        stateful = next((n for n in self.operators if graph[n].stateful), None)
        behind = {t.number for t in tasks if t.rows is not None} if stateful else set()
        after = graph.reachable(stateful) if stateful else frozenset()
        for side, owner in ((False, self._source(graph)), (True, stateful)):
            if owner is None or owner in found:
                continue
            work = scale * sum(t.work for t in tasks if (t.number in behind) is side)
            others = sum(s for n, (s, _) in found.items() if (n in after) is side)
            found[owner] = (max(0.0, work - others), False)
        return found

    def _source(self, graph: Graph) -> str | None:
        found = [n for n in self.operators if isinstance(graph[n].body, op.Read)]
        return found[0] if len(found) == 1 else None


def executor_metrics(
    facts: Iterable[ExecutorFacts],
    tasks: Sequence[Task],
    running: Iterable[Running],
    owners: Mapping[str, str],
    since: float,
    now: float,
    heap: int | None,
    parts: Mapping[str, Mapping[str, int]],
) -> dict[str, ExecutorMetrics]:
    """Executors over the window. owners: the pipeline of each run; parts: state by executor."""
    found = {}
    seconds = now - since
    held: defaultdict[str, float] = defaultdict(float)
    for task in tasks:
        held[task.executor] += min(task.slot, task.ended - since)
    for one in running:
        held[one.executor] += now - max(since, one.started)
    for fact in facts:
        here = [t for t in tasks if t.executor == fact.name]
        room = seconds * fact.slots
        placed: dict[str, set[int]] = defaultdict(set)
        for task in _of_instances(here):
            if task.run in owners:
                placed[owners[task.run]].add(task.index)
        found[fact.name] = ExecutorMetrics(
            name=fact.name,
            slots=fact.slots,
            busy=min(1.0, held[fact.name] / room),
            cpu=min(1.0, sum(t.cpu for t in here) / room),
            memory=min(1.0, fact.heap / heap) if heap and fact.heap else None,
            io_bytes=sum(t.moved_bytes for t in here) / seconds,
            instances={name: len(indices) for name, indices in placed.items()},
            state_parts=dict(parts.get(fact.name, {})),
        )
    return found


def _of_instances(tasks: Sequence[Task]) -> list[Task]:
    """Of each batch the tasks behind a shuffle, or else those of its first stage."""
    batches: dict[tuple[str, int], list[Task]] = defaultdict(list)
    for task in tasks:
        batches[task.run, task.batch].append(task)
    chosen = []
    for found in batches.values():
        shuffled = [t for t in found if t.rows is not None]
        first = min(t.stage for t in found)
        chosen += shuffled or [t for t in found if t.stage == first]
    return chosen


def _hottest(instances: Sequence[InstanceMetrics]) -> str | None:
    counted = [i for i in instances if i.rows is not None]
    total = sum(i.rows or 0 for i in counted)
    if len(counted) < 2 or not total:
        return None
    most = max(counted, key=lambda i: i.rows or 0)
    return f"{most.index} of {len(counted)}: {100 * (most.rows or 0) / total:.0f} % of the rows"


def _range(batch: Batch, entry: str) -> tuple[int, int]:
    return batch.ranges.get(entry, (0, 0))


def _cv(report: Report) -> float | None:
    if report.calls < 2 or not report.total:
        return None
    mean = report.total / report.calls
    return math.sqrt(max(0.0, report.squares / report.calls - mean**2)) / mean


def _on_processor(report: Report) -> float | None:
    if report.cpu is None or not report.seconds:
        return None
    return min(1.0, report.cpu / report.seconds)


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return sum(found) / len(found) if found else None
