"""A pipeline that works in micro-batches, as in Spark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator.batch_time import (
    BatchTimes,
    SharedProcessors,
    SlotPool,
    batch_shape,
    batch_times,
    entries,
    task_shares,
)
from penstock.engines.simulator.continuous import RunningPipeline
from penstock.engines.simulator.instances import turn_totals
from penstock.engines.simulator.measurement import Ages
from penstock.engines.simulator.model import MicroBatch, Model
from penstock.engines.simulator.network import Outlet
from penstock.engines.simulator.operator_work import (
    NONE_TAKEN,
    Allotted,
    Inlet,
    PipelineWork,
    TakenRecords,
    in_order,
)
from penstock.engines.simulator.queues import Floats, Indices, Numbers
from penstock.engines.simulator.records import Records

Latencies = Mapping[str, Sequence[Ages]]

_MEMORY = 2.0
"""Time constant, in seconds, of the moving average of a pipeline's processor demand."""


@dataclass(frozen=True)
class _Shares:
    """Shares of a record's time by stage, on a processor and waiting."""

    cpu: Floats
    wait: Floats


class BatchPipeline(RunningPipeline):
    """One Spark query.

    A batch begins when there is input, the batch before has finished and the trigger interval has
    passed; all its records leave when its work is done.
    """

    takes_ahead = False

    def __init__(
        self,
        work: PipelineWork,
        inlets: Sequence[Inlet],
        outlets: Sequence[Outlet],
        model: Model,
        now: float,
        rng: np.random.Generator,
        ends: frozenset[str] = frozenset(),
        pool: SlotPool | None = None,
    ) -> None:
        super().__init__(work, inlets, outlets, model, now, rng, ends)
        assert model.batch is not None
        self._cost: MicroBatch = model.batch
        self._few = math.inf if model.batch.few is None else model.batch.few
        self._rng = rng
        self._key_rng = None  # a batch is given back as a whole
        self._poll_delay = 0.0
        self._began = -np.inf
        self._left: int | None = None
        self._ready: float | None = None  # since when a batch waits for room downstream
        self._in_batch: Mapping[int, int] = {}  # records of the last batch, by inlet
        self.readers: Sequence[BatchPipeline] = ()
        self._until = -np.inf  # end of the last batch
        self._carried = -np.inf  # the same as of the previous step
        self._shares = {name: _shares(work, model, name) for name in work.paths}
        self._reach = {
            entry: work.visits(entry)[path.index(work.stateful)]
            for entry, path in work.paths.items()
            if work.stateful in path
        }
        self.shape = batch_shape(work.graph, self.spec)
        means = [work.mean[entry] for entry in entries(work.graph, self.spec.operators)]
        self._row = sum(means) / max(1, len(means)) + model.batch.row
        self.pool = SlotPool(1, 0.0, now) if pool is None else pool
        self.demand = 0.0
        self.aside = 0.0
        self.others = 0.0

    # --- a step of time -----------------------------------------------------------------------

    def run(self, begin: float, end: float, most: int | None) -> Latencies:
        return work_through([self], begin, end, {self.spec.name: most})[self.spec.name]

    def enter(self, most: int | None) -> None:
        """Begin a step of time in which at most `most` records may be taken."""
        self._left = most

    def next(self, begin: float, end: float) -> float:
        """When the next batch begins; infinity if none does before `end`."""
        if self._left == 0 or (self.spec.admission == 0 and not self.draining):
            return math.inf
        for inlet in self.inlets:
            inlet.queue.waiting(end)  # makes sources generate what is due
        first = min(i.queue.first() for i in self.inlets)
        free = float(self.servers.free[0])
        if first > free:  # it was idle, so it polls first
            first += self._poll_delay
        start = max(free, first, begin, self._next_trigger())
        if start < end and (room := self._when_room(start)) > start:
            self._ready = start if self._ready is None else min(start, self._ready)
            start = room
        return start if start < end else math.inf

    def _when_room(self, start: float) -> float:
        """When the downstream channels have room for a batch.

        Infinity until a reader has taken from its channel again.
        """
        bound = self._cost.channel
        if bound is None:
            return start
        for reader in self.readers:
            waiting, in_batch = reader.unread(self.work.tail, start)
            if waiting >= bound:
                return math.inf
            if waiting + in_batch >= bound:
                start = reader._until
        return start

    def unread(self, writer: str, at: float) -> tuple[int, int]:
        """Records of a writer that wait here, and those of an unfinished batch."""
        mine = [n for n, inlet in enumerate(self.inlets) if inlet.writer == writer]
        in_batch = self._in_batch if self._until > at else {}
        every = [(self.inlets[n].queue.waiting(at), in_batch.get(n, 0)) for n in mine]
        return max(every, key=sum, default=(0, 0))

    def _next_trigger(self) -> float:
        """The next trigger; all pipelines with the same cadence share their triggers."""
        cadence = self.spec.cadence
        if not cadence or self._began == -np.inf:
            return -np.inf
        return (math.floor(self._began / cadence + 1e-9) + 1) * cadence

    def batch(self, start: float, end: float) -> Latencies:
        """Process one batch, and send on what leaves by `end`.

        A batch that had to wait for room contains what was there before the wait.
        """
        came = start if self._ready is None else self._ready
        self._ready = None
        parts = self._take(came, self._admitted())
        count = sum(len(records) for _, records, _ in parts)
        self._left = None if self._left is None else max(0, self._left - count)
        if not count:
            self._left = 0
            return {}
        gone, stays = self._split_by_departure(self._process(parts, start), end)
        return self._let_out(end, gone, stays)

    def leave(self, begin: float, end: float) -> None:
        """End a step of time."""
        self._note_running(begin, end)
        self._note_arrivals(end)
        now, span = self.gauge.now, end - begin
        new = -math.expm1(-span / _MEMORY)
        self.demand += new * (now.runnable / span - self.demand)
        self.aside += new * (self._cost.aside * now.batches / span - self.aside)

    def _admitted(self) -> int | None:
        bounds = [b for b in (self._left, self.spec.admission) if b is not None]
        if self._cost.pace is not None and self.spec.admission is None and self._row:
            bounds.append(max(1, round(self.instances * self._cost.pace / self._row)))
        return min(bounds, default=None)

    # --- a batch ------------------------------------------------------------------------------

    def _process(
        self, parts: Sequence[tuple[int, Records, Allotted]], start: float
    ) -> TakenRecords:
        records, allotted, entry = in_order(parts)
        count = len(records)
        self._in_batch = {number: len(some) for number, some, _ in parts}
        server = self.servers.choose(count)
        if server is None:
            rows = np.diff(np.arange(self.instances + 1) * count // self.instances)
        else:
            rows = np.bincount(server, minlength=self.instances)
        cpu, wait = self._task_times(parts, allotted.service, rows)
        processors = SharedProcessors(self.pool.slots, self.pool.processors, self.others)
        took = batch_times(self._cost, self.shape, processors, cpu, wait, self._random_factor())
        done = start + took.planning + took.log + took.opening
        for tasks in took.tasks:
            done = self.pool.run(done, tasks)
        done += took.closing
        self._note(records, allotted.service, rows, entry, took, start, done)
        self._began = start
        self._poll_delay = self._cost.poll * float(self._rng.random())
        self._until = done + took.commit
        self.servers.free = np.full(self.instances, self._until)
        batch = Allotted(np.full(count, done - start), allotted.visits)
        where = np.zeros(count, np.intp) if server is None else server
        return TakenRecords(
            records, batch, np.full(count, done), where, np.broadcast_to(entry, count)
        )

    def _random_factor(self) -> float:
        spread = self._cost.jitter**2
        return float(self._rng.standard_gamma(1 / spread) * spread) if spread else 1.0

    def _task_times(
        self, parts: Sequence[tuple[int, Records, Allotted]], service: Floats, rows: Numbers
    ) -> tuple[Floats, Floats]:
        """Seconds on a processor and of waiting, by stage and task.

        Tasks before a shuffle get even shares, those after it what their keys bring.
        """
        tasks, stages = self.instances, self.shape.stages
        cpu, wait = np.zeros(stages), np.zeros(stages)
        for number, _, allotted in parts:
            found = self._shares[self.inlets[number].entry]
            total = float(allotted.service.sum())
            cpu += total * found.cpu
            wait += total * found.wait
        if stages == 1:
            shares = self._single_stage_shares(parts, service)[None, :]
        else:
            shares = np.stack([np.full(tasks, 1 / tasks), rows / rows.sum()])
        slow = 1.0 if self.servers.slow is None else self.servers.slow
        beside = np.zeros((stages, tasks))
        beside[0] = self._cost.row * min(rows.sum(), self._few * tasks) * shares[0]
        touching, idle = self._key_time(parts) / tasks, self._cost.idle
        beside[-1] += (1 - idle) * touching
        still = wait[:, None] * shares
        still[-1] += idle * touching
        return (cpu[:, None] * shares + beside) * slow, still * slow

    def _single_stage_shares(
        self, parts: Sequence[tuple[int, Records, Allotted]], service: Floats
    ) -> Floats:
        """Shares of tasks in a single stage, which reads and does everything else."""
        if not service.any():
            return task_shares(self.instances, [len(records) for _, records, _ in parts])
        if len(parts) > 1:
            return task_shares(self.instances, [allotted.service.sum() for _, _, allotted in parts])
        return turn_totals(service, self.instances, 0) / float(service.sum())

    def _key_time(self, parts: Sequence[tuple[int, Records, Allotted]]) -> float:
        """Seconds to read and write the state of a batch's keys."""
        name = self.work.stateful
        cost = None if name is None else self._model.cost(name)
        if name is None or cost is None or not cost.touch:
            return 0.0
        reach = sum(
            len(records) * self._reach.get(self.inlets[number].entry, 0.0)
            for number, records, _ in parts
        )
        keys = cost.keys.touched(reach)
        self.gauge.now.touched += keys
        return cost.touch * keys

    def _note(
        self,
        records: Records,
        service: Floats,
        rows: Indices,
        entry: npt.NDArray[np.uint8],
        took: BatchTimes,
        start: float,
        done: float,
    ) -> None:
        now, free = self.gauge.now, float(self.servers.free[0])
        spent = float(took.tasks.sum()) - took.fixed  # for records, including slow-down
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

    def _note_running(self, begin: float, end: float) -> None:
        """Count for how much of a step a batch was running."""
        now = self.gauge.now
        now.seconds += end - begin
        carried = max(0.0, min(self._carried, end) - begin)
        # a batch from an earlier step that goes on beyond this one did not begin in it
        beyond = max(0.0, self._until - max(end, self._carried))
        inside = max(0.0, now.batch_seconds - beyond)
        now.running += min(end - begin, carried + inside)
        self._carried = self._until

    def stop(self, now: float, *, begun_too: bool = False) -> None:
        """Stop as its base class does; a running batch finishes and commits as a whole."""
        free, held = self.servers.free, len(self)
        super().stop(now, begun_too=begun_too)
        if len(self) == held:
            self.servers.free = np.maximum(self.servers.free, free)

    def move(self, now: float, servers: Numbers, pause: float) -> None:
        """Move state between two batches; none begins without it."""
        self.servers.hold(max(now, float(self.servers.free[0])) + pause)

    def fail(self, now: float, servers: Numbers, until: float) -> int:
        """Process the batch again as a whole if it loses a task."""
        every = [(self.work, self.inlets, self.taken), *self.inherited]
        self.taken, self.inherited = NONE_TAKEN, []
        for work, inlets, taken in every:
            taken.give_back(work, inlets)
        self._until = self._carried = min(self._until, now)
        self.servers.free[:] = now
        self.servers.hold(until)
        return sum(len(taken) for _, _, taken in every)

    def next_departure(self, now: float) -> float:
        """When the next record leaves or the next batch begins."""
        found = super().next_departure(now)
        waits = any(inlet.queue.first() <= now for inlet in self.inlets)
        return (
            min(found, max(now, float(self.servers.free[0]), self._next_trigger()))
            if waits
            else found
        )

    def room(self, begin: float, end: float) -> float:
        bound, mean = self._model.queue, self.mean() + self._cost.row
        if bound is None or mean == 0:
            return np.inf
        idle = max(0.0, (end - begin) - max(0.0, float(self.servers.free[0]) - begin))
        return self.instances * (bound + idle / mean)


def work_through(
    pipelines: Sequence[BatchPipeline], begin: float, end: float, most: Mapping[str, int | None]
) -> dict[str, Latencies]:
    """Process a step of time, batch by batch in the order in which they begin.

    A batch finds the records and free slots that the batches before it have left. Returns the
    latencies of the records that left, by pipeline and constraint.
    """
    found: dict[str, list[Latencies]] = {}
    wanted, aside = (
        sum(values) for values in zip(*((p.demand, p.aside) for p in pipelines), strict=True)
    )
    for pipeline in pipelines:
        pipeline.enter(most[pipeline.spec.name])
        pipeline.others = max(0.0, wanted - pipeline.demand) + aside
        found[pipeline.spec.name] = [pipeline.let_out(end)]
    while True:
        start, at = min((pipeline.next(begin, end), at) for at, pipeline in enumerate(pipelines))
        if start == math.inf:
            break
        found[pipelines[at].spec.name].append(pipelines[at].batch(start, end))
    for pipeline in pipelines:
        pipeline.leave(begin, end)
    return {name: _together(some) for name, some in found.items()}


def _together(some: Sequence[Latencies]) -> Latencies:
    names = dict.fromkeys(name for one in some for name in one)
    return {name: [ages for one in some for ages in one.get(name, ())] for name in names}


def _shares(work: PipelineWork, model: Model, entry: str) -> _Shares:
    """Mean shares of the time of a record that enters at an operator."""
    stages = 1 + (work.stateful is not None)
    cpu, wait = np.zeros(stages), np.zeros(stages)
    path = [*zip(work.paths[entry], work.visits(entry), strict=False)]
    path += [(name, work.visits(entry)[-1]) for name in work.sinks if name != work.tail]
    stage = 0
    for name, visits in path:
        if name == work.stateful:
            stage = stages - 1
        cost = model.cost(name)
        cpu[stage] += visits * cost.service.mean * cost.cpu
        wait[stage] += visits * cost.service.mean * (1 - cost.cpu)
    total = float(cpu.sum() + wait.sum())
    return _Shares(cpu / total, wait / total) if total else _Shares(cpu, wait)
