"""How long a micro-batch takes: costs, tasks on slots, shared processors.

The simulator uses it to predict batches, and `penstock.predict.calibration` to fit its costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.dataflow.graph import Graph
from penstock.engines.simulator.model import MicroBatch
from penstock.engines.simulator.queues import Floats, shared
from penstock.plan.plan import Pipeline


@dataclass(frozen=True)
class SharedProcessors:
    """Slots and processors that all batches share.

    others: mean number of processors that other pipelines want.
    """

    slots: int
    processors: float
    others: float = 0.0

    def stretch(self, tasks: float, waits: float = 0.0) -> float:
        """Factor on processor work while some tasks run.

        waits: seconds of waiting for each second on a processor. If more processors are wanted than
        there are, all get the same share. Waiting tasks leave processors to others: n tasks with a
        second of work and w of waiting keep m processors busy once n > m (1 + w), and each then
        takes n/m seconds in all.
        """
        if self.processors <= 0:
            return 1.0
        return max(1.0, (min(tasks, self.slots) + self.others) / self.processors - waits)

    def own(self, tasks: float, idle: float) -> float:
        """Factor on the tasks' own costs, of which they wait a share `idle`.

        These costs are small beside those of the records, or else all there is, so only their own
        waits count.
        """
        return (1 - idle) * self.stretch(tasks, idle / (1 - idle)) + idle

    def together(self, work: Floats, waits: float = 0.0) -> Floats:
        """Time on processors of tasks that begin together, given the work of each.

        Tasks with less work finish sooner and leave the processors to the others.
        """
        if (work == work[0]).all():
            return work * self.stretch(len(work), waits)
        order = np.argsort(work)
        more = np.diff(work[order], prepend=0.0)
        slow = [self.stretch(left, waits) for left in range(len(work), 0, -1)]
        found = np.empty_like(work)
        found[order] = np.cumsum(more * slow)
        return found

    def slowness(self, shares: Floats, waits: float = 0.0) -> float:
        """Mean factor on the work of tasks that begin together."""
        return float(self.together(shares, waits).sum() / shares.sum())


class SlotPool:
    """The slots of all executors; a task gets the first free one."""

    def __init__(self, slots: int, processors: float, now: float) -> None:
        self.slots = slots
        self.processors = processors
        self._free = np.full(slots, now)

    def resize(self, slots: int, processors: float, now: float) -> None:
        """Add or remove slots; the slots that are free first stay."""
        more = np.full(max(0, slots - self.slots), now)
        self._free = np.concatenate((np.sort(self._free)[:slots], more))
        self.slots, self.processors = slots, processors

    def run(self, ready: float, tasks: Floats) -> float:
        """Run tasks that are ready at a time; return when the last one ends."""
        idle = np.flatnonzero(self._free <= ready)
        if len(idle) >= len(tasks):
            ends = ready + tasks
            self._free[idle[: len(tasks)]] = ends
        else:
            came = np.full(len(tasks), ready)
            ends, self._free = shared(came, tasks, self._free)
        return float(ends.max())


@dataclass(frozen=True)
class BatchShape:
    """The properties of a pipeline that determine the time of its batches.

    tasks: of each stage; stages: 2 with a shuffle by key, one to read and one to keep state; parts:
    state partitions; inputs: sources and channels that it reads.
    """

    tasks: int
    stages: int = 1
    parts: int = 0
    inputs: int = 1


def entries(graph: Graph, operators: Sequence[str]) -> list[str]:
    """Operators at which records enter, once for each source and channel."""
    inside = set(operators)
    return [
        name
        for name in operators
        for upstream in dict.fromkeys(graph[name].inputs or (name,))
        if upstream not in inside or upstream == name
    ]


def batch_shape(graph: Graph, pipeline: Pipeline) -> BatchShape:
    """Return the shape of a pipeline's batches."""
    stateful = any(graph[name].stateful for name in pipeline.operators)
    parts = max(pipeline.parallelism, pipeline.ceiling or 0) if stateful else 0
    inputs = max(1, len(entries(graph, pipeline.operators)))
    return BatchShape(pipeline.parallelism, 1 + stateful, parts, inputs)


def task_shares(tasks: int, inputs: Sequence[float]) -> Floats:
    """Return the share of each task of a stage, given the sizes of the inputs.

    Spark cuts every input into the same number of pieces, at least as many in total as tasks, and
    joins neighbours until there are as many as tasks. Four inputs are one piece each for three
    tasks, so one task has two of them.
    """
    each = math.ceil(tasks / len(inputs))
    pieces = np.repeat(np.array(inputs, float) / sum(inputs) / each, each)
    first = np.arange(tasks) * len(pieces) // tasks
    return np.add.reduceat(pieces, first)


@dataclass(frozen=True)
class BatchTimes:
    """Where the time of a batch goes, in seconds.

    opening, closing: of its job; tasks: duration of each, by stage and task; fixed: seconds of all
    tasks not spent on records; slow: factor on the processor time of records; waiting, still: task
    seconds in which records, or the tasks' own costs, need no processor; worked: task seconds on a
    processor.
    """

    planning: float
    log: float
    opening: float
    closing: float
    commit: float
    tasks: Floats
    fixed: float
    slow: float
    waiting: float
    still: float
    worked: float

    @property
    def runnable(self) -> float:
        """Seconds for which the batch wanted or had a processor."""
        return self.beside + float(self.tasks.sum()) - self.waiting - self.still

    @property
    def beside(self) -> float:
        """Seconds for which only the driver works."""
        return self.planning + self.log + self.opening + self.closing + self.commit


def batch_times(
    cost: MicroBatch,
    shape: BatchShape,
    processors: SharedProcessors,
    cpu: Floats,
    wait: Floats,
    luck: float = 1.0,
) -> BatchTimes:
    """Return the times of a batch.

    cpu, wait: processor and waiting seconds of records by stage and task, `row` included; luck:
    random factor on the costs once a batch.
    """
    alone = luck * processors.stretch(1)
    begin = processors.own(shape.tasks, cost.idle)
    need, idle = float(cpu.sum()), float(wait.sum())
    waits = idle / need if need else 0.0
    working = np.array([processors.together(stage, waits) for stage in cpu])
    held = np.zeros((shape.stages, 1))
    held[-1] = cost.output + cost.state * shape.parts / shape.tasks
    unshared = np.broadcast_to(cost.task + held, cpu.shape)
    fixed = begin * unshared
    still = cost.idle * float(unshared.sum())
    pieces = max(shape.tasks * shape.stages, shape.parts)
    return BatchTimes(
        planning=alone * (cost.planning + cost.inlet * (shape.inputs - 1)),
        log=alone * cost.log,
        opening=alone * (cost.job / 2 + cost.partition * pieces),
        closing=alone * cost.job / 2,
        commit=alone * cost.commit,
        tasks=fixed + working + wait,
        fixed=float(fixed.sum()),
        slow=float(working.sum()) / need if need else processors.stretch(shape.tasks),
        waiting=idle,
        still=still,
        worked=need + float(unshared.sum()) - still,
    )
