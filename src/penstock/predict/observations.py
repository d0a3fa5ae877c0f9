"""Observations of batches in a recorded run, by pipeline and settled window."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from penstock.dataflow.graph import Graph
from penstock.engines.simulator.batch_time import BatchShape, SharedProcessors, batch_shape
from penstock.errors import InvalidInput
from penstock.metrics.snapshot import OperatorMetrics, PipelineMetrics, Snapshot
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.transition import Transition
from penstock.store import history, run_directory
from penstock.store.history import RecordedSnapshot

_MOST = 500
"""Maximum number of windows of a run; more add no information."""

_LATE = 0.5
"""Maximum delay in seconds of the snapshot taken one window earlier."""


@dataclass(frozen=True)
class BatchObservation:
    """One pipeline over one window; times are mean seconds per batch.

    seconds: time span of the batches; spent: total of all tasks; behind: of those after a shuffle;
    longest: from the start of the first task to the end of the last, if each finds a slot; visits:
    rows that entered each operator; shares: of the rows, by instance, if keys decide; hashed:
    instances are hash partitions of the keys; fresh: no other window shows the same batches.
    """

    pipeline: Pipeline
    shape: BatchShape
    batches: int
    seconds: float
    rows: float
    planning: float
    log: float
    work: float
    commit: float
    spent: float
    longest: float
    behind: float
    operators: Mapping[str, OperatorMetrics]
    visits: Mapping[str, float] = field(default_factory=dict)
    shares: tuple[float, ...] = ()
    hashed: bool = False
    stateful: str | None = None
    fresh: bool = True
    state_rows: int | None = None
    state_bytes: int | None = None

    def stage(self, operator: str) -> int:
        """Index of the stage in which an operator runs."""
        names = self.pipeline.operators
        behind = self.stateful is not None and names.index(operator) >= names.index(self.stateful)
        return self.shape.stages - 1 if behind else 0

    @property
    def whole(self) -> float:
        return self.planning + self.log + self.work + self.commit

    @property
    def beside(self) -> float:
        """Seconds of a batch in which only the driver works."""
        return max(0.0, self.whole - self.longest)


@dataclass(frozen=True)
class ObservedWindow:
    """All pipelines over one window, which overlaps with its neighbours.

    plan: number of the plan, counted from the start; processors: number that can run at once, if
    known; used: processors that all processes of the run kept busy; by_tasks: those that tasks kept
    busy, including their Python operators.
    """

    at: float
    plan: int
    window: float
    slots: int
    processors: float | None
    tasks: int
    pipelines: tuple[BatchObservation, ...]
    used: float | None = None
    by_tasks: float | None = None

    @property
    def beside(self) -> float | None:
        """Processors kept busy by work outside tasks."""
        known = self.used is not None and self.by_tasks is not None
        return max(0.0, (self.used or 0.0) - (self.by_tasks or 0.0)) if known else None

    @property
    def crowded(self) -> bool:
        """True if tasks may have waited for slots."""
        return self.tasks > self.slots


@dataclass(frozen=True)
class PlacedObservation:
    """An observation and the state of the machine during it.

    crowded: tasks may have waited for slots; plan: number of the plan, counted from the start.
    """

    seen: BatchObservation
    machine: SharedProcessors
    crowded: bool
    plan: int = 0


@dataclass(frozen=True)
class RunRecord:
    """What a fit needs of a run directory.

    plan: the last one; now: the last window that showed a plan at work; today: the last state of
    the flow before its sources were closed; missing: number of windows that could not be used, by
    reason; channel: rows in a channel above which its writer waits, if that was recorded.
    """

    run_dir: Path
    graph: Graph
    windows: tuple[ObservedWindow, ...]
    plan: Plan
    now: Snapshot
    today: RecordedSnapshot
    transitions: tuple[Transition, ...]
    missing: Mapping[str, int]
    channel: int | None = None


def read_run(run_dir: Path) -> RunRecord:
    """Read a run. Raises `InvalidInput` if it has no usable windows."""
    if not run_dir.is_dir():
        raise InvalidInput(f"there is no run directory '{run_dir}'")
    if not (run_dir / history.FILE).exists():
        raise InvalidInput(f"'{run_dir}' holds no history of a run ({history.FILE})")
    graph = history.dataflow(run_dir)
    seen = [*history.recorded_snapshots(run_dir)]
    if not any(p.batches for one in seen for p in one.snapshot.pipelines.values()):
        raise InvalidInput(f"the run in '{run_dir}' has no batches, so there is nothing to fit")
    windows: list[ObservedWindow] = []
    missing: dict[str, int] = {}
    now = seen[-1].snapshot
    for number, (plan, some) in enumerate(_periods(seen)):
        used = _used(some)
        for snapshot in _at_work(some):
            made = _moment(graph, plan, snapshot, number, missing)
            if made is not None:
                now = snapshot
                made = replace(made, used=used.get(snapshot.at), by_tasks=_by_tasks(snapshot))
                windows.append(_fresh(made, windows[-1] if windows else None))
    if not windows:
        raise InvalidInput(
            f"the run in '{run_dir}' has no settled window with measured tasks: "
            "let it run for half a minute without a change"
        )
    changed = tuple(one.transition for one in history.transitions(run_dir))
    windows = windows[:: len(windows) // _MOST + 1]
    plan, today = seen[-1].plan, _today(seen)
    channel = run_directory.settings(run_dir).get("channel_rows")
    return RunRecord(run_dir, graph, tuple(windows), plan, now, today, changed, missing, channel)


def _today(seen: Sequence[RecordedSnapshot]) -> RecordedSnapshot:
    """The last turn of a run before its sources were closed."""
    coming = [s for s in seen if not s.snapshot.ending]
    return (coming or seen)[-1]


def _periods(seen: Sequence[RecordedSnapshot]) -> Iterator[tuple[Plan, list[Snapshot]]]:
    """Yield each plan and its windows, separately for each start of the run."""
    begins = [
        at
        for at, (before, one) in enumerate(pairwise(seen), 1)
        if one.first or one.plan != before.plan
    ]
    for first, end in pairwise([0, *begins, len(seen)]):
        yield seen[first].plan, [one.snapshot for one in seen[first:end]]


def _at_work(snapshots: Sequence[Snapshot]) -> Iterator[Snapshot]:
    """Snapshots that show only a plan: no change, and not the end of the input."""
    return (one for one in snapshots if one.settled and not one.ending)


def _fresh(moment: ObservedWindow, before: ObservedWindow | None) -> ObservedWindow:
    """Mark observations that repeat the batches of the previous window."""
    known = () if before is None else before.pipelines
    same = [replace(one, fresh=one.fresh and _new(one, known)) for one in moment.pipelines]
    return replace(moment, pipelines=tuple(same))


def _new(one: BatchObservation, known: Sequence[BatchObservation]) -> bool:
    return all(replace(one, fresh=True) != replace(other, fresh=True) for other in known)


def _moment(
    graph: Graph, plan: Plan, snapshot: Snapshot, number: int, missing: dict[str, int]
) -> ObservedWindow | None:
    found = []
    for pipeline in plan.pipelines:
        metrics = snapshot.pipelines.get(pipeline.name)
        why = _missing(metrics) or _held_back(pipeline, snapshot)
        if why is not None:
            missing[why] = missing.get(why, 0) + 1
            continue
        assert metrics is not None
        found.append(_observation(graph, pipeline, metrics, snapshot.operators))
    slots = sum(e.slots for e in snapshot.executors.values())
    if not found or not slots:
        return None
    return ObservedWindow(
        snapshot.at,
        number,
        snapshot.window,
        slots,
        _processors(snapshot, slots),
        plan.slots,
        tuple(found),
    )


def _missing(metrics: PipelineMetrics | None) -> str | None:
    """Why a pipeline's window cannot be used, or None."""
    if metrics is None or not (metrics.batches and metrics.rows_in and metrics.rate_in):
        return "no batch with rows"
    if "work" not in metrics.parts or "commit" not in metrics.parts:
        return "another version recorded other parts of a batch"
    if metrics.service is None or not metrics.instances:
        return "tasks were not measured"
    return None


def _held_back(pipeline: Pipeline, snapshot: Snapshot) -> str | None:
    """Why its batches' time may include waiting for a downstream pipeline, or None."""
    for channel in snapshot.channels.values():
        late = channel.backlog_seconds is not None and channel.backlog_seconds > snapshot.window
        if channel.writer in pipeline.operators and late:
            return "a downstream pipeline was far behind and may have held them back"
    return None


def _observation(
    graph: Graph,
    pipeline: Pipeline,
    metrics: PipelineMetrics,
    operators: Mapping[str, OperatorMetrics],
) -> BatchObservation:
    batches, parts = metrics.batches, metrics.parts
    shape = batch_shape(graph, pipeline)
    assert metrics.rows_in
    assert metrics.rate_in
    seconds = metrics.rows_in / metrics.rate_in
    rows = metrics.rows_in / batches
    last = [(i.busy or 0.0) * seconds / batches for i in metrics.instances]
    assert metrics.service is not None
    spent = metrics.service * rows + (metrics.task_overhead or 0.0) * shape.tasks * shape.stages
    spent = max(spent, sum(last))
    inner = {n: operators[n] for n in pipeline.operators if n in operators}
    counts = [i.rows or 0 for i in metrics.instances]
    total = sum(counts)
    return BatchObservation(
        pipeline=pipeline,
        shape=shape,
        batches=batches,
        seconds=seconds,
        rows=rows,
        planning=parts.get("planning", 0.0),
        log=parts.get("log", 0.0),
        work=parts["work"],
        commit=parts["commit"] + parts.get("other", 0.0),
        spent=spent,
        longest=min(parts["work"], (spent - sum(last)) / shape.tasks + max(last)),
        behind=sum(last) if shape.stages > 1 else 0.0,
        operators=inner,
        visits={n: o.rows_in / batches for n, o in inner.items() if o.rows_in is not None},
        shares=tuple(c / total for c in counts) if shape.stages > 1 and total else (),
        hashed=all(i.part is not None for i in metrics.instances),
        stateful=next((n for n in pipeline.operators if graph[n].stateful), None),
        state_rows=metrics.state_rows,
        state_bytes=metrics.state_bytes,
    )


def _used(snapshots: Sequence[Snapshot]) -> dict[float, float]:
    """Processors kept busy in a window, by the time of its end, if measured."""
    known = [(s, s.processor_seconds) for s in snapshots if s.processor_seconds is not None]
    times = [s.at for s, _ in known]
    found: dict[float, float] = {}
    for snapshot, total in known:
        first = bisect_right(times, snapshot.at - snapshot.window + _LATE) - 1
        if first >= 0:
            passed = snapshot.at - times[first]
            found[snapshot.at] = max(0.0, total - known[first][1]) / passed
    return found


def _by_tasks(snapshot: Snapshot) -> float | None:
    shares = [(e.cpu, e.slots) for e in snapshot.executors.values()]
    known = [cpu * slots for cpu, slots in shares if cpu is not None]
    return sum(known) if known and len(known) == len(shares) else None


def _processors(snapshot: Snapshot, slots: int) -> float | None:
    """Number of processors; None if the snapshot does not show it.

    The load of a snapshot is relative to the processors, that of its executors relative to slots.
    """
    busy = sum((e.busy or 0.0) * e.slots for e in snapshot.executors.values())
    if not snapshot.load or snapshot.load > 0.99 or not busy:
        return None
    return min(float(slots), round(busy / snapshot.load, 1))
