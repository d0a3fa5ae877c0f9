"""What executors have had to do in a window: pure functions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from penstock.engines.spark.measuring.meter import Report
from penstock.engines.spark.measuring.task_statistics import (
    ExecutorFacts,
    Running,
    Task,
    behind_shuffle,
    of_instances,
)
from penstock.metrics.snapshot import ExecutorMetrics

Places = Mapping[str, tuple[str, int, bool]]
"""By operator: the run and the epoch of its pipeline, and whether it is behind a shuffle there."""


def in_python(tasks: Sequence[Task], reports: Iterable[Report], places: Places) -> dict[int, float]:
    """Seconds on a processor of the Python processes of each task, by its number."""
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
class Work:
    """What was seen between `since` and `now`.

    owners: the pipeline of each run; python: time on processors beside that of Spark's own threads,
    by task, None if nobody looked.
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
        """One executor; state: the parts of it that are there, by pipeline.

        What a task under way has used is not known until it ends: it is taken to be like those
        that have ended, and where there are none nothing is known.
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

        Spark puts a task without state anywhere, batch by batch: an instance is in one place all
        the same. Where a run shuffles, what is before the shuffle is no instance, nor are the
        tasks of a batch that has not come behind it yet.
        """
        behind = behind_shuffle(self.tasks)
        shuffling = {t.run for t in self.tasks if t.number in behind}
        chosen = (
            t for t in of_instances(self.tasks) if t.number in behind or t.run not in shuffling
        )
        return {(t.run, t.index): t.executor for t in sorted(chosen, key=lambda t: t.ended)}
