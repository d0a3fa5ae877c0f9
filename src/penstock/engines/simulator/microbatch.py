"""A pipeline that works in batches, as Spark does: take what is there, split it, commit it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator.arrays import Floats, Numbers
from penstock.engines.simulator.batch_time import (
    Machine,
    Pool,
    Times,
    dealt,
    entries,
    shape_of,
    times,
)
from penstock.engines.simulator.continuous import Stage, in_order
from penstock.engines.simulator.instances import totals
from penstock.engines.simulator.latency import Ages
from penstock.engines.simulator.model import MicroBatch, Model
from penstock.engines.simulator.network import Outlet
from penstock.engines.simulator.operator_work import Allotted, Work
from penstock.engines.simulator.records import Records
from penstock.engines.simulator.records_in_hand import NO_JOBS, Inlet, Jobs

Latencies = Mapping[str, Sequence[Ages]]

_MEMORY = 2.0
"""Seconds after which two thirds of what a pipeline wanted of processors are forgotten."""


@dataclass(frozen=True)
class _Parts:
    """Of the time of a record that enters somewhere: by stage, on a processor and waiting."""

    cpu: Floats
    wait: Floats


class BatchStage(Stage):
    """One query. A batch begins when there is something to do, the batch before is through and
    the beat of the cadence has come; all its records leave when its work is done.
    """

    takes_ahead = False

    def __init__(
        self,
        work: Work,
        inlets: Sequence[Inlet],
        outlets: Sequence[Outlet],
        model: Model,
        now: float,
        rng: np.random.Generator,
        ends: frozenset[str] = frozenset(),
        pool: Pool | None = None,
    ) -> None:
        super().__init__(work, inlets, outlets, model, now, rng, ends)
        assert model.batch is not None
        self._cost: MicroBatch = model.batch
        self._few = math.inf if model.batch.few is None else model.batch.few
        self._rng = rng
        self._recall = None  # a batch is given back as a whole
        self._lag = 0.0
        self._began = -np.inf
        self._left: int | None = None
        self._ready: float | None = None  # since when a batch waits for room behind it
        self._in_hand: Mapping[int, int] = {}  # records of the last batch, by inlet
        self.readers: Sequence[BatchStage] = ()
        self._until = self._carried = -np.inf  # when the last batch ends; as of the step before
        self._parts = {name: _parts(work, model, name) for name in work.paths}
        self._reach = {
            entry: work.visits(entry)[path.index(work.stateful)]
            for entry, path in work.paths.items()
            if work.stateful in path
        }
        self.shape = shape_of(work.graph, self.pipeline)
        means = [work.mean[entry] for entry in entries(work.graph, self.pipeline.operators)]
        self._row = sum(means) / max(1, len(means)) + model.batch.row
        self.pool = Pool(1, 0.0, now) if pool is None else pool
        self.demand = 0.0
        self.aside = 0.0
        self.others = 0.0

    # --- a step of time -----------------------------------------------------------------------

    def run(self, begin: float, end: float, most: int | None) -> Latencies:
        return work_through([self], begin, end, {self.pipeline.name: most})[self.pipeline.name]

    def enter(self, most: int | None) -> None:
        """Begin a step of time in which it may take so many records."""
        self._left = most

    def next(self, begin: float, end: float) -> float:
        """When the next batch begins; infinity if none does before `end`."""
        if self._left == 0 or (self.pipeline.admission == 0 and not self.draining):
            return math.inf
        for inlet in self.inlets:
            inlet.queue.waiting(end)  # so that sources have made what is due
        first = min(i.queue.first() for i in self.inlets)
        free = float(self.servers.free[0])
        if first > free:  # it was idle, and has to look first
            first += self._lag
        start = max(free, first, begin, self._beat())
        if start < end and (room := self._room_from(start)) > start:
            self._ready = start if self._ready is None else min(start, self._ready)
            start = room
        return start if start < end else math.inf

    def _room_from(self, start: float) -> float:
        """When the channel behind it has room; infinity until a reader has taken from it again."""
        bound = self._cost.channel
        if bound is None:
            return start
        for reader in self.readers:
            waiting, in_hand = reader.unread(self.work.tail, start)
            if waiting >= bound:
                return math.inf
            if waiting + in_hand >= bound:
                start = reader._until
        return start

    def unread(self, writer: str, at: float) -> tuple[int, int]:
        """Records of a writer that wait here, and those of a batch that is not through yet."""
        mine = [n for n, inlet in enumerate(self.inlets) if inlet.writer == writer]
        in_hand = self._in_hand if self._until > at else {}
        every = [(self.inlets[n].queue.waiting(at), in_hand.get(n, 0)) for n in mine]
        return max(every, key=sum, default=(0, 0))

    def _beat(self) -> float:
        """The next beat of the cadence, which all pipelines with the same cadence share."""
        cadence = self.pipeline.cadence
        if not cadence or self._began == -np.inf:
            return -np.inf
        return (math.floor(self._began / cadence + 1e-9) + 1) * cadence

    def batch(self, start: float, end: float) -> Latencies:
        """Work through one batch, and let out what leaves by `end`.

        One that had to wait for room has what was there before.
        """
        came = start if self._ready is None else self._ready
        self._ready = None
        parts = self._taken(came, self._admitted())
        count = sum(len(records) for _, records, _ in parts)
        self._left = None if self._left is None else max(0, self._left - count)
        if not count:
            self._left = 0
            return {}
        gone, stays = self._parted(self._worked(parts, start), end)
        return self._let_out(end, gone, stays)

    def leave(self, begin: float, end: float) -> None:
        """End a step of time."""
        self._run_on(begin, end)
        self._note_arrivals(end)
        now, span = self.gauge.now, end - begin
        new = -math.expm1(-span / _MEMORY)
        self.demand += new * (now.runnable / span - self.demand)
        self.aside += new * (self._cost.aside * now.batches / span - self.aside)

    def _admitted(self) -> int | None:
        bounds = [b for b in (self._left, self.pipeline.admission) if b is not None]
        if self._cost.pace is not None and self.pipeline.admission is None and self._row:
            bounds.append(max(1, round(self.instances * self._cost.pace / self._row)))
        return min(bounds, default=None)

    # --- a batch ------------------------------------------------------------------------------

    def _worked(self, parts: Sequence[tuple[int, Records, Allotted]], start: float) -> Jobs:
        records, allotted, entry = in_order(parts)
        count = len(records)
        self._in_hand = {number: len(some) for number, some, _ in parts}
        server = self.servers.choose(count)
        if server is None:
            rows = np.diff(np.arange(self.instances + 1) * count // self.instances)
        else:
            rows = np.bincount(server, minlength=self.instances)
        cpu, wait = self._needs(parts, allotted.service, rows)
        machine = Machine(self.pool.slots, self.pool.processors, self.others)
        took = times(self._cost, self.shape, machine, cpu, wait, self._luck())
        done = start + took.planning + took.log + took.opening
        for tasks in took.tasks:
            done = self.pool.run(done, tasks)
        done += took.closing
        self._note(records, allotted.service, rows, entry, took, start, done)
        self._began = start
        self._lag = self._cost.poll * float(self._rng.random())
        self._until = done + took.commit
        self.servers.free = np.full(self.instances, self._until)
        batch = Allotted(np.full(count, done - start), allotted.visits)
        where = np.zeros(count, np.intp) if server is None else server
        return Jobs(records, batch, np.full(count, done), where, np.broadcast_to(entry, count))

    def _luck(self) -> float:
        spread = self._cost.jitter**2
        return float(self._rng.standard_gamma(1 / spread) * spread) if spread else 1.0

    def _needs(
        self, parts: Sequence[tuple[int, Records, Allotted]], service: Floats, rows: Numbers
    ) -> tuple[Floats, Floats]:
        """Seconds on a processor and of waiting, by stage and task.

        Those before a shuffle get even shares; behind it each gets what its keys bring.
        """
        tasks, stages = self.instances, self.shape.stages
        cpu, wait = np.zeros(stages), np.zeros(stages)
        for number, _, allotted in parts:
            found = self._parts[self.inlets[number].entry]
            total = float(allotted.service.sum())
            cpu += total * found.cpu
            wait += total * found.wait
        if stages == 1:
            shares = self._reading(parts, service)[None, :]
        else:
            shares = np.stack([np.full(tasks, 1 / tasks), rows / rows.sum()])
        slow = 1.0 if self.servers.slow is None else self.servers.slow
        beside = np.zeros((stages, tasks))
        beside[0] = self._cost.row * min(rows.sum(), self._few * tasks) * shares[0]
        touching, idle = self._touching(parts) / tasks, self._cost.idle
        beside[-1] += (1 - idle) * touching
        still = wait[:, None] * shares
        still[-1] += idle * touching
        return (cpu[:, None] * shares + beside) * slow, still * slow

    def _reading(self, parts: Sequence[tuple[int, Records, Allotted]], service: Floats) -> Floats:
        """The shares of tasks that read and do all the rest, too."""
        if not service.any():
            return dealt(self.instances, [len(records) for _, records, _ in parts])
        if len(parts) > 1:
            return dealt(self.instances, [allotted.service.sum() for _, _, allotted in parts])
        return totals(service, self.instances, 0) / float(service.sum())

    def _touching(self, parts: Sequence[tuple[int, Records, Allotted]]) -> float:
        """Seconds for the keys of a batch."""
        name = self.work.stateful
        step = None if name is None else self._model.step(name)
        if name is None or step is None or not step.touch:
            return 0.0
        reach = sum(
            len(records) * self._reach.get(self.inlets[number].entry, 0.0)
            for number, records, _ in parts
        )
        keys = step.keys.touched(reach)
        self.gauge.now.touched += keys
        return step.touch * keys

    def _note(
        self,
        records: Records,
        service: Floats,
        rows: npt.NDArray[np.intp],
        entry: npt.NDArray[np.uint8],
        took: Times,
        start: float,
        done: float,
    ) -> None:
        now, free = self.gauge.now, float(self.servers.free[0])
        spent = float(took.tasks.sum()) - took.fixed  # for records, as slowly as it went
        total = float(service.sum())
        service = service * (spent / total) if total else np.full(len(records), spent / len(rows))
        each = start - np.maximum(records.time, min(free, start))
        gathered = float(each.sum())
        self.gauge.served(records.time, start + service, service, gathered, rows, entry, each)
        self.gauge.gaps([np.array([start])])
        self.gauge.batch(done, len(records))
        now.batches += 1
        now.batch_seconds += done + took.commit - start
        spans = {
            "planning": took.planning,
            "log": took.log,
            "work": done - start - took.planning - took.log,
            "commit": took.commit,
        }
        now.parts.update(spans)
        now.tasks += took.tasks.size
        now.overhead += took.fixed
        now.worked += took.worked
        now.runnable += took.runnable
        now.needed += (spent - took.waiting) / took.slow
        now.stretched += spent - took.waiting
        now.busy += took.tasks.sum(axis=0)
        now.reading += took.tasks[:-1].sum(axis=0)

    def _run_on(self, begin: float, end: float) -> None:
        """How much of a step a batch was running."""
        jobs = self.gauge.now
        jobs.seconds += end - begin
        carried = max(0.0, min(self._carried, end) - begin)
        # a batch from before that goes on beyond the step is not among those that began in it
        beyond = max(0.0, self._until - max(end, self._carried))
        inside = max(0.0, jobs.batch_seconds - beyond)
        jobs.running += min(end - begin, carried + inside)
        self._carried = self._until

    def stop(self, now: float, *, begun_too: bool = False) -> None:
        """A batch that goes on ends as a whole, with its commit, whichever tasks have rows."""
        free, held = self.servers.free, len(self)
        super().stop(now, begun_too=begun_too)
        if len(self) == held:
            self.servers.free = np.maximum(self.servers.free, free)

    def move(self, now: float, servers: Numbers, pause: float) -> None:
        """State is moved between two batches, and none begins without it."""
        self.servers.hold(max(now, float(self.servers.free[0])) + pause)

    def fail(self, now: float, servers: Numbers, until: float) -> int:
        """A batch that loses a task is done again as a whole."""
        every = [(self.work, self.inlets, self.jobs), *self.inherited]
        self.jobs, self.inherited = NO_JOBS, []
        for work, inlets, jobs in every:
            jobs.give_back(work, inlets)
        self._until = self._carried = min(self._until, now)
        self.servers.free[:] = now
        self.servers.hold(until)
        return sum(len(jobs) for _, _, jobs in every)

    def next_departure(self, now: float) -> float:
        """The same, or when the next batch begins."""
        found = super().next_departure(now)
        waits = any(inlet.queue.first() <= now for inlet in self.inlets)
        return min(found, max(now, float(self.servers.free[0]), self._beat())) if waits else found

    def room(self, begin: float, end: float) -> float:
        bound, mean = self._model.queue, self.mean() + self._cost.row
        if bound is None or mean == 0:
            return np.inf
        idle = max(0.0, (end - begin) - max(0.0, float(self.servers.free[0]) - begin))
        return self.instances * (bound + idle / mean)


def work_through(
    stages: Sequence[BatchStage], begin: float, end: float, most: Mapping[str, int | None]
) -> dict[str, Latencies]:
    """Work through a step of time, batch by batch in the order in which they begin.

    So what a batch finds, of records and of free slots, is what those before it have left.
    Returns the latencies of the records that left, by pipeline and constraint.
    """
    found: dict[str, list[Latencies]] = {}
    wanted, aside = (
        sum(values) for values in zip(*((s.demand, s.aside) for s in stages), strict=True)
    )
    for stage in stages:
        stage.enter(most[stage.pipeline.name])
        stage.others = max(0.0, wanted - stage.demand) + aside
        found[stage.pipeline.name] = [stage.let_out(end)]
    while True:
        start, at = min((stage.next(begin, end), at) for at, stage in enumerate(stages))
        if start == math.inf:
            break
        found[stages[at].pipeline.name].append(stages[at].batch(start, end))
    for stage in stages:
        stage.leave(begin, end)
    return {name: _together(some) for name, some in found.items()}


def _together(some: Sequence[Latencies]) -> Latencies:
    names = dict.fromkeys(name for one in some for name in one)
    return {name: [ages for one in some for ages in one.get(name, ())] for name in names}


def _parts(work: Work, model: Model, entry: str) -> _Parts:
    """How the time of a record that enters at an operator is spread, on average."""
    stages = 1 + (work.stateful is not None)
    cpu, wait = np.zeros(stages), np.zeros(stages)
    path = [*zip(work.paths[entry], work.visits(entry), strict=False)]
    path += [(name, work.visits(entry)[-1]) for name in work.sinks if name != work.tail]
    stage = 0
    for name, visits in path:
        if name == work.stateful:
            stage = stages - 1
        step = model.step(name)
        cpu[stage] += visits * step.service.mean * step.cpu
        wait[stage] += visits * step.service.mean * (1 - step.cpu)
    total = float(cpu.sum() + wait.sum())
    return _Parts(cpu / total, wait / total) if total else _Parts(cpu, wait)
