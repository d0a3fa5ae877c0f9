"""Breaks the batches and tasks of a window down to the metrics of operators and instances."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from penstock.dataflow import operators as op
from penstock.dataflow.graph import Graph
from penstock.engines.spark.measuring.batches import Batch, arrival_cv, overdue, span_of, waits
from penstock.engines.spark.measuring.executor_usage import Sample, fixed_and_per_row
from penstock.engines.spark.measuring.operator_meter import MeterReport
from penstock.engines.spark.measuring.task_statistics import Task, behind_shuffle, of_instances
from penstock.metrics.snapshot import InstanceMetrics, OperatorMetrics, PipelineMetrics

_KEEPING = (op.Read, op.Map, op.Union)
"""Operators whose output rows are their input rows."""


@dataclass(frozen=True)
class CostEstimate:
    """The cost of a native operator, from trials on samples: seconds and output rows per row.

    rows: rows of all samples, the weight of the estimate.
    """

    service: float
    selectivity: float
    rows: int = 1

    def pooled(self, newer: CostEstimate, most: int) -> CostEstimate:
        """The mean of two estimates by rows; the older one has a weight of at most `most` rows."""
        kept = min(self.rows, most)
        share = newer.rows / (kept + newer.rows)
        return CostEstimate(
            self.service + share * (newer.service - self.service),
            self.selectivity + share * (newer.selectivity - self.selectivity),
            kept + newer.rows,
        )


@dataclass(frozen=True)
class PipelineWindow:
    """All observations of one pipeline between `since` and `now`.

    batches: oldest first; the last earlier one if none ended in the window; tasks, reports: those
    of these batches that have arrived; samples: tasks, rows and seconds outside Python operators,
    of more batches; metered_whole: every operator is timed in Python; key_parts: partitions of the
    keys, if each instance has exactly one; under_way: start of the running batch; quiet: since
    when no batch runs. None is unknown.
    """

    name: str
    operators: tuple[str, ...]
    parallelism: int
    since: float
    now: float
    batches: Sequence[Batch]
    tasks: Sequence[Task] = ()
    reports: Sequence[MeterReport] = ()
    estimates: Mapping[str, CostEstimate] = field(default_factory=dict)
    samples: Sequence[Sample] = ()
    metered_whole: bool = False
    key_parts: int | None = None
    under_way: float | None = None
    quiet: float | None = None

    @cached_property
    def span(self) -> float:
        """Seconds that the batches stand for."""
        return span_of(self.batches, self.now) or self.now - self.since

    @cached_property
    def ended(self) -> bool:
        """True if the batches ended in the window."""
        return bool(self.batches) and self.batches[-1].at > self.since

    @cached_property
    def idle(self) -> bool:
        """True if nothing ran in the window, for want of rows and not to gather them."""
        rested = self.quiet is not None and self.quiet <= self.since
        return rested and overdue(self.batches, self.now)

    @cached_property
    def busy(self) -> float | None:
        """Share of the window in which a batch was running."""
        if not self.batches:
            return 0.0 if self.idle else None
        spells = [(b.started, b.ended) for b in self.batches]
        if self.under_way is not None:
            spells.append((self.under_way, self.now))
        inside = (min(end, self.now) - max(begin, self.since) for begin, end in spells)
        return min(1.0, sum(max(0.0, s) for s in inside) / (self.now - self.since))

    def rate(self, rows: float | None) -> float | None:
        """Rows of the batches per second."""
        if self.idle:
            return 0.0
        return None if rows is None or not self.batches else rows / self.span

    def count(self, rows: float | None) -> int | None:
        """Rows of the batches, scaled to the part of them in the window."""
        if self.idle or (self.batches and not self.ended):
            return 0
        return None if rows is None or not self.batches else round(rows)

    @cached_property
    def rows(self) -> int:
        """Rows of the batches."""
        return sum(b.rows_in for b in self.batches)

    @cached_property
    def rows_out(self) -> int | None:
        counted = [b.rows_out for b in self.batches if b.rows_out is not None]
        return sum(counted) if counted else None

    @cached_property
    def known(self) -> tuple[int, Sequence[Task]]:
        """Rows of the batches whose tasks have arrived, and those tasks."""
        seen = {(t.run, t.batch) for t in self.tasks}
        rows = sum(b.rows_in for b in self.batches if (b.run, b.number) in seen)
        return rows, self.tasks

    @cached_property
    def costs(self) -> tuple[float | None, float | None]:
        """An instance's seconds per row, and its fixed seconds per batch.

        Time in Python operators is per row. If there are no other operators, the rest of a task is
        fixed; otherwise batches of different sizes separate the two, if there are any.
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
        """Metrics of the whole pipeline; `last` is its last batch, in the window or not."""
        rate = self.rate(self.rows)
        waited = waits(self.batches)
        names = self.batches[-1].parts if self.batches else ()
        return PipelineMetrics(
            name=self.name,
            parallelism=self.parallelism,
            batches=len(self.batches) if self.ended else 0,
            rows_in=self.count(self.rows),
            rows_out=self.count(self.rows_out),
            rate_in=rate,
            rate_out=self.rate(self.rows_out),
            arrival_rate=arrival_rate,
            service=self.costs[0],
            task_overhead=self.costs[1],
            service_cv=self._service_cv(),
            arrival_cv=self._arrival_cv(None),
            batch_seconds=_mean(b.seconds for b in self.batches),
            wait=waited.wait if waited else None,
            batching=waited.batching if waited else None,
            parts={n: _mean(b.parts.get(n, 0.0) for b in self.batches) or 0.0 for n in names},
            busy=self.busy,
            backlog_rows=backlog,
            backlog_seconds=backlog / rate if backlog is not None and rate else None,
            state_rows=last.state_rows if last else None,
            state_bytes=last.state_bytes if last else None,
            instances=self.instances(),
        )

    def _service_cv(self) -> float | None:
        """Coefficient of variation of a row's service time, from operators timed row by row.

        They are taken to be independent. None if they take less than half of the time of all
        Python operators.
        """
        metered = self._metered().values()
        found = [m for m in metered if m.calls > 1 and m.rows_in and m.total]
        if not self.rows or 2 * sum(m.seconds for m in found) < sum(m.seconds for m in metered):
            return None
        mean = variance = 0.0
        for m in found:
            per_row = m.rows_in / self.rows
            mean += per_row * m.seconds / m.rows_in
            variance += per_row * ((_cv(m) or 0.0) * m.seconds / m.rows_in) ** 2
        return math.sqrt(variance) / mean if mean else None

    def instances(self) -> tuple[InstanceMetrics, ...]:
        """Metrics by instance: by tasks after the shuffle if there is one, else all tasks."""
        chosen, behind = of_instances(self.tasks), behind_shuffle(self.tasks)
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
            if task.number in behind:
                rows[task.index] = (rows[task.index] or 0) + (task.rows or 0)
            elif counted:
                rows[task.index] = counted[task.index]
        if self.idle:
            rows, busy = defaultdict(int), defaultdict(float)
        return tuple(
            InstanceMetrics(i, rows[i], min(1.0, busy[i] / self.span), where[i], self._part(i))
            for i in sorted(where)
        )

    def _part(self, instance: int) -> int | None:
        """The partition of keys that an instance serves, if it serves only one."""
        return instance if self.key_parts is not None and instance < self.key_parts else None

    @cached_property
    def _first_metered(self) -> str | None:
        seen = {r.operator for r in self.reports}
        return next((name for name in self.operators if name in seen), None)

    def _metered(self) -> dict[str, MeterReport]:
        """The sum of the reports of each operator."""
        sums: dict[str, MeterReport] = {}
        for r in self.reports:
            s = sums.setdefault(r.operator, MeterReport(r.operator, r.epoch, 0))
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
        """Metrics of every operator: rows and times as measured or estimated."""
        metered = self._metered()
        rows = self._rows(graph, metered)
        seconds = self._seconds(graph, metered, rows)
        arriving = self._arriving(graph)
        found = {}
        for name in self.operators:
            came, left = rows[name]
            ends = isinstance(graph[name].body, op.Write)
            spent, measured = seconds.get(name, (None, False))
            found[name] = OperatorMetrics(
                name,
                rows_in=self.count(came),
                rows_out=None if ends else self.count(left),
                rate_in=self.rate(came),
                rate_out=None if ends else self.rate(left),
                service=spent / came if spent is not None and came else None,
                service_cv=_cv(metered[name]) if name in metered else None,
                arrival_cv=self._arrival_cv(arriving[name]) if arriving[name] else None,
                busy=self._share(spent),
                measured=measured,
                cpu=_on_processor(metered[name]) if name in metered else None,
            )
        return found

    def _share(self, spent: float | None) -> float | None:
        """A share of the instances' time."""
        if self.idle:
            return 0.0
        return None if spent is None else min(1.0, spent / self.span / max(1, self.parallelism))

    def _arriving(self, graph: Graph) -> dict[str, frozenset[str]]:
        """The inputs whose rows reach each operator unchanged in number.

        After an operator that drops or adds rows, interarrival times are different.
        """
        found: dict[str, frozenset[str]] = {}
        for name in self.operators:
            if isinstance(graph[name].body, op.Read):
                found[name] = frozenset({name})
                continue
            parts: list[frozenset[str]] = []
            for i in graph[name].inputs:
                if i not in found:
                    parts.append(frozenset({f"{i}>{name}"}))
                else:
                    keeps = isinstance(graph[i].body, _KEEPING)
                    parts.append(found[i] if keeps else frozenset())
            found[name] = frozenset(e for p in parts for e in p) if all(parts) else frozenset()
        return found

    def _arrival_cv(self, entries: frozenset[str] | None) -> float | None:
        """Coefficient of variation of interarrival times, of some inputs or of all."""
        known = self._variations
        if entries not in known:
            known[entries] = arrival_cv(self.batches, entries)
        return known[entries]

    @cached_property
    def _variations(self) -> dict[frozenset[str] | None, float | None]:
        return {}

    def _rows(
        self, graph: Graph, metered: Mapping[str, MeterReport]
    ) -> dict[str, tuple[float | None, float | None]]:
        """Rows in and out. Python operators count; native ones follow from their neighbours.

        The output of a stateful operator cannot be predicted, so the rows of operators after it
        are computed backwards from the output of the pipeline.
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
            elif not steps:  # the tail: its output is that of the pipeline
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
        """Complete rows in and out backwards, from the only reader and trials."""
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
        if not any(b.ranges for b in self.batches):  # one of Spark's own sources
            return self.rows
        return sum(stop - first for b in self.batches for first, stop in [_range(b, entry)])

    def _seconds(
        self,
        graph: Graph,
        metered: Mapping[str, MeterReport],
        rows: Mapping[str, tuple[float | None, float | None]],
    ) -> dict[str, tuple[float, bool]]:
        """Seconds of instances by operator, and whether they were measured.

        Python operators are timed, native ones have the time of trials on samples. The rest of the
        tasks before the shuffle is the source's, after it the stateful operator's.
        """
        found = {name: (report.seconds, True) for name, report in metered.items()}
        for name, estimate in self.estimates.items():
            came = rows.get(name, (None, None))[0]
            if name not in found and came is not None:
                found[name] = (came * estimate.service, False)
        seen, tasks = self.known
        if not seen or not self.rows:
            return found
        scale = self.rows / seen  # for batches whose tasks have not arrived yet
        stateful = next((n for n in self.operators if graph[n].stateful), None)
        behind = behind_shuffle(tasks) if stateful else set()
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


def _range(batch: Batch, entry: str) -> tuple[int, int]:
    return batch.ranges.get(entry, (0, 0))


def _cv(report: MeterReport) -> float | None:
    if report.calls < 2 or not report.total:
        return None
    mean = report.total / report.calls
    return math.sqrt(max(0.0, report.squares / report.calls - mean**2)) / mean


def _on_processor(report: MeterReport) -> float | None:
    if report.cpu is None or not report.seconds:
        return None
    return min(1.0, report.cpu / report.seconds)


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return sum(found) / len(found) if found else None
