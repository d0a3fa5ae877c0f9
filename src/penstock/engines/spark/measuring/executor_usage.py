"""What executors, tasks and processes used in a window."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from penstock.engines.spark.measuring.operator_meter import MeterReport
from penstock.engines.spark.measuring.task_statistics import (
    ExecutorFacts,
    Running,
    Task,
    behind_shuffle,
    of_instances,
)
from penstock.metrics.snapshot import ExecutorMetrics

Places = Mapping[str, tuple[str, int, bool]]
"""By operator: run and epoch of its pipeline, and whether it runs after a shuffle."""


def in_python(
    tasks: Sequence[Task], reports: Iterable[MeterReport], places: Places
) -> dict[int, float]:
    """Processor seconds of Python processes, by task number."""
    behind = behind_shuffle(tasks)
    known = {(t.run, t.batch, t.index, t.number in behind): t.number for t in tasks}
    found: defaultdict[int, float] = defaultdict(float)
    for report in reports:
        if not report.worker or report.operator not in places:
            continue
        run, epoch, side = places[report.operator]
        keys = ((run, report.batch, report.partition, one) for one in (side, not side))
        number = next((known[key] for key in keys if key in known), None)
        if number is not None and epoch == report.epoch:
            found[number] += report.worker
    return found


@dataclass(frozen=True)
class ExecutorWork:
    """The tasks seen between `since` and `now`.

    owners: the pipeline of each run; python: processor seconds of Python processes by task, None if
    not measured.
    """

    since: float
    now: float
    tasks: Sequence[Task]
    running: Sequence[Running]
    owners: Mapping[str, str]
    python: Mapping[int, float] | None

    def of(
        self, fact: ExecutorFacts, heap: int | None, state: Mapping[str, Sequence[int]]
    ) -> ExecutorMetrics:
        """Metrics of one executor; state: its state partitions by pipeline.

        The use of a running task is unknown until it ends. It is taken to be that of the finished
        tasks; if there are none, it is None.
        """
        here = [t for t in self.tasks if t.executor == fact.name]
        inside = [min(t.slot, t.ended - self.since) for t in here]
        begun = (r.started for r in self.running if r.executor == fact.name)
        held = sum(inside) + sum(self.now - max(self.since, one) for one in begun)
        done = sum(inside)
        scale = held / done if done else None if held else 1.0
        shares = [s / t.slot if t.slot else 1.0 for s, t in zip(inside, here, strict=True)]
        moved = sum(s * t.moved_bytes for s, t in zip(shares, here, strict=True))
        seconds = self.now - self.since
        room = seconds * fact.slots
        used = self._on_processors(here, shares)
        return ExecutorMetrics(
            name=fact.name,
            slots=fact.slots,
            busy=min(1.0, held / room),
            cpu=None if used is None or scale is None else min(1.0, scale * used / room),
            memory=min(1.0, fact.heap / heap) if heap and fact.heap else None,
            io_bytes=None if scale is None else scale * moved / seconds,
            instances=self._instances(fact.name),
            state_parts={name: len(numbers) for name, numbers in state.items()},
            partitions={name: tuple(numbers) for name, numbers in state.items()},
        )

    def _on_processors(self, tasks: Sequence[Task], shares: Sequence[float]) -> float | None:
        if self.python is None:
            return None
        used = (t.cpu + self.python.get(t.number, 0.0) for t in tasks)
        return sum(share * one for share, one in zip(shares, used, strict=True))

    def _instances(self, executor: str) -> dict[str, int]:
        here = (self.owners.get(run) for (run, _), at in self._last.items() if at == executor)
        return dict(Counter(name for name in here if name is not None))

    @cached_property
    def _last(self) -> dict[tuple[str, int], str]:
        """The executor on which each instance ran last, by run and index.

        Spark may run a stateless task on any executor in each batch, so only the last one counts.
        In a run with a shuffle, tasks before the shuffle are no instances.
        """
        behind = behind_shuffle(self.tasks)
        shuffling = {t.run for t in self.tasks if t.number in behind}
        chosen = (
            t for t in of_instances(self.tasks) if t.number in behind or t.run not in shuffling
        )
        return {(t.run, t.index): t.executor for t in sorted(chosen, key=lambda t: t.ended)}


_SPREAD = 0.1
"""Least coefficient of variation of rows per task at which the two can be separated."""

Sample = tuple[int, int, float]
"""Tasks, rows and seconds of one batch."""


def fixed_and_per_row(samples: Sequence[Sample]) -> tuple[float, float] | None:
    """Fixed seconds of a task and seconds per row, both >= 0; None if they cannot be separated."""
    if len(samples) < 3:
        return None
    tasks, rows, seconds = (np.array(column, dtype=float) for column in zip(*samples, strict=True))
    size = rows / np.maximum(tasks, 1)
    if not rows.sum() or size.std() < _SPREAD * size.mean():
        return None
    (fixed, per_row), *_ = np.linalg.lstsq(np.column_stack([tasks, rows]), seconds, rcond=None)
    if fixed < 0:
        return 0.0, float(seconds.sum() / rows.sum())
    if per_row < 0:
        return float(seconds.sum() / tasks.sum()), 0.0
    return float(fixed), float(per_row)


_PARENT, _TIMES = 1, slice(11, 15)
"""Fields of `/proc/N/stat` after the name: the parent; user and system time of the process and of
its ended children."""


def processor_seconds(root: int | None = None, proc: Path = Path("/proc")) -> float | None:
    """Processor seconds of a process and its descendants; None without /proc.

    root: the process, by default this one; processes on other machines do not count.
    """
    stats = [one for path in _numbered(proc) if (one := _stat(path)) is not None]
    parents = {number: int(fields[_PARENT]) for number, fields in stats}
    ours = _descendants(os.getpid() if root is None else root, parents)
    ticks = [sum(int(t) for t in fields[_TIMES]) for number, fields in stats if number in ours]
    return sum(ticks) / os.sysconf("SC_CLK_TCK") if ticks else None


def _numbered(proc: Path) -> list[Path]:
    try:
        return [path for path in proc.iterdir() if path.name.isdigit()]
    except OSError:
        return []


def _stat(path: Path) -> tuple[int, list[str]] | None:
    """The id and the fields after the name, which may hold any character; None if it has ended."""
    try:
        return int(path.name), (path / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _descendants(root: int, parents: Mapping[int, int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for number, parent in parents.items():
        children.setdefault(parent, []).append(number)
    found: set[int] = set()
    waiting: Iterable[int] = [root] if root in parents else []
    while waiting:
        found.update(waiting)
        waiting = [child for one in waiting for child in children.get(one, ())]
    return found
