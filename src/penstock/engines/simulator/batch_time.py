"""How long a batch takes: its costs, its tasks over slots, and processors that are shared.

The simulator goes by it, and `calibration` finds the costs that make it come out as recorded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.dataflow.graph import Graph
from penstock.engines.simulator.arrays import Floats
from penstock.engines.simulator.model import MicroBatch
from penstock.engines.simulator.queues import shared
from penstock.plan.plan import Pipeline


@dataclass(frozen=True)
class Machine:
    """What all batches share: slots, processors, and how many of those others want on average."""

    slots: int
    processors: float
    others: float = 0.0

    def stretch(self, tasks: float, waits: float = 0.0) -> float:
        """How many times as long work on a processor takes while so many tasks run.

        waits: seconds of waiting for a second on a processor. Where more is wanted than there is,
        everyone gets the same. Tasks that wait leave the processors to others: n tasks with a
        second of work and w of waiting keep m processors busy once n > m (1 + w), and then each
        takes n/m seconds for both.
        """
        if self.processors <= 0:
            return 1.0
        return max(1.0, (min(tasks, self.slots) + self.others) / self.processors - waits)

    def own(self, tasks: float, idle: float) -> float:
        """How many times as long it takes what tasks do for themselves, of which they wait a share.

        It is little beside their records, or else all there is, so only its own waits count.
        """
        return (1 - idle) * self.stretch(tasks, idle / (1 - idle)) + idle

    def together(self, work: Floats, waits: float = 0.0) -> Floats:
        """How long work on a processor takes for tasks that begin together, each with its own.

        Those that have less are through sooner, and leave the processors to the others.
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
        """How many times as long it takes them, on average over the work."""
        return float(self.together(shares, waits).sum() / shares.sum())


class Pool:
    """The slots of all executors. A task gets whichever is free first."""

    def __init__(self, slots: int, processors: float, now: float) -> None:
        self.slots = slots
        self.processors = processors
        self._free = np.full(slots, now)

    def resize(self, slots: int, processors: float, now: float) -> None:
        """Executors come or go: of the slots that are there, those that are free first stay."""
        more = np.full(max(0, slots - self.slots), now)
        self._free = np.concatenate((np.sort(self._free)[:slots], more))
        self.slots, self.processors = slots, processors

    def run(self, ready: float, tasks: Floats) -> float:
        """Run tasks that are ready at a time; when the last of them is done."""
        idle = np.flatnonzero(self._free <= ready)
        if len(idle) >= len(tasks):
            ends = ready + tasks
            self._free[idle[: len(tasks)]] = ends
        else:
            came = np.full(len(tasks), ready)
            ends, self._free = shared(came, tasks, self._free)
        return float(ends.max())


@dataclass(frozen=True)
class Shape:
    """What of a pipeline decides on the time of its batches.

    tasks: of each of its stages; stages: 2 where records are dealt out again by their keys, once
    for those who read them and once for those who keep their state; parts: of the state; inputs:
    sources and channels that it reads.
    """

    tasks: int
    stages: int = 1
    parts: int = 0
    inputs: int = 1


def entries(graph: Graph, operators: Sequence[str]) -> list[str]:
    """Where records come in from outside, once for each source and channel."""
    inside = set(operators)
    return [
        name
        for name in operators
        for upstream in dict.fromkeys(graph[name].inputs or (name,))
        if upstream not in inside or upstream == name
    ]


def shape_of(graph: Graph, pipeline: Pipeline) -> Shape:
    """The shape of a pipeline."""
    stateful = any(graph[name].stateful for name in pipeline.operators)
    parts = max(pipeline.parallelism, pipeline.ceiling or 0) if stateful else 0
    inputs = max(1, len(entries(graph, pipeline.operators)))
    return Shape(pipeline.parallelism, 1 + stateful, parts, inputs)


def dealt(tasks: int, inputs: Sequence[float]) -> Floats:
    """The shares of what comes through some inputs that the tasks of a stage have.

    Spark cuts every input into as many pieces, no fewer than tasks together, and puts neighbours
    together until there are as many as tasks. Four inputs are one piece each for three tasks, so
    one of these has two of them.
    """
    each = math.ceil(tasks / len(inputs))
    pieces = np.repeat(np.array(inputs, float) / sum(inputs) / each, each)
    first = np.arange(tasks) * len(pieces) // tasks
    return np.add.reduceat(pieces, first)


@dataclass(frozen=True)
class Times:
    """Where the time of a batch goes, in seconds; opening and closing are those of its job.

    tasks: how long each one takes, by stage and task; fixed: seconds of all of them that are not
    for records; slow: how many times as long records keep a processor as if they were alone;
    waiting: seconds of all tasks in which records need no processor, still: and in which what they
    do for themselves needs none; worked: seconds of all on one.
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
        """Seconds for which something of the batch wanted a processor, or had one."""
        return self.beside + float(self.tasks.sum()) - self.waiting - self.still

    @property
    def beside(self) -> float:
        """Seconds for which only the driver works on it."""
        return self.planning + self.log + self.opening + self.closing + self.commit


def times(
    cost: MicroBatch,
    shape: Shape,
    machine: Machine,
    cpu: Floats,
    wait: Floats,
    luck: float = 1.0,
) -> Times:
    """The times of a batch whose records need so much of a processor, and wait so long.

    cpu, wait: seconds by stage and task, `row` included; luck: how many times as long as usual
    takes what is once a batch.
    """
    alone = luck * machine.stretch(1)
    begin = machine.own(shape.tasks, cost.idle)
    need, idle = float(cpu.sum()), float(wait.sum())
    waits = idle / need if need else 0.0
    working = np.array([machine.together(stage, waits) for stage in cpu])
    held = np.zeros((shape.stages, 1))
    held[-1] = cost.output + cost.state * shape.parts / shape.tasks
    unshared = np.broadcast_to(cost.task + held, cpu.shape)
    fixed = begin * unshared
    still = cost.idle * float(unshared.sum())
    pieces = max(shape.tasks * shape.stages, shape.parts)
    return Times(
        planning=alone * (cost.planning + cost.inlet * (shape.inputs - 1)),
        log=alone * cost.log,
        opening=alone * (cost.job / 2 + cost.partition * pieces),
        closing=alone * cost.job / 2,
        commit=alone * cost.commit,
        tasks=fixed + working + wait,
        fixed=float(fixed.sum()),
        slow=float(working.sum()) / need if need else machine.stretch(shape.tasks),
        waiting=idle,
        still=still,
        worked=need + float(unshared.sum()) - still,
    )
