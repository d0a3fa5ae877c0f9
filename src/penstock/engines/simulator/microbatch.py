"""A pipeline that works in batches, as Spark does: take what is there, split it, commit it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator import kernel
from penstock.engines.simulator.instances import totals
from penstock.engines.simulator.jobs import Inlet, Jobs, merged
from penstock.engines.simulator.model import MicroBatch, Model, weighed
from penstock.engines.simulator.network import Leaving, Outlet
from penstock.engines.simulator.records import Records
from penstock.engines.simulator.stage import NO_JOBS, Stage, in_order
from penstock.engines.simulator.work import Allotted, Work

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.integer[Any]]


class BatchStage(Stage):
    """One query. A batch begins when there is something to do, the batch before is through and
    the cadence has passed; all its records leave when it ends.
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
        slots: int = 1,
    ) -> None:
        super().__init__(work, inlets, outlets, model, now, rng, ends)
        assert model.batch is not None
        self._cost: MicroBatch = model.batch
        self._slots = slots
        self._began = -np.inf

    def run(self, begin: float, end: float, most: int | None) -> Mapping[str, Floats]:
        left = most
        staying = NO_JOBS
        fresh: list[Leaving] = []
        while left is None or left > 0:
            start = self._next(begin, end)
            if start >= end:
                break
            parts = self._taken(start, self._admitted(left))
            if not parts:
                break
            jobs = self._batch(parts, start)
            left = None if left is None else left - len(jobs)
            gone, stays = self._parted(jobs, end)
            fresh += gone
            staying = merged(staying, stays)
        self._run_on(begin, end)
        self._note_arrivals(end)
        return self._let_out(end, fresh, staying)

    def _next(self, begin: float, end: float) -> float:
        """When the next batch begins."""
        for inlet in self.inlets:
            inlet.queue.waiting(end)  # so that sources have made what is due
        first = min(i.queue.first() for i in self.inlets)
        return max(float(self.servers.free[0]), first, begin, self._began + self.pipeline.cadence)

    def _admitted(self, left: int | None) -> int | None:
        bounds = [b for b in (left, self.pipeline.admission) if b is not None]
        return min(bounds, default=None)

    def _batch(self, parts: Sequence[tuple[int, Records, Allotted]], start: float) -> Jobs:
        """Work through one batch."""
        records, allotted, entry = in_order(parts)
        count = len(records)
        server = self.servers.choose(count)
        service = allotted.service + self._cost.row
        if server is None:
            given, rows = totals(service, self.instances, 0), _even(count, self.instances)
        else:
            given = weighed(server, service, self.instances)
            rows = np.bincount(server, minlength=self.instances)
        if self.servers.slow is not None:
            given = given * self.servers.slow
        spent = self._spent(given)
        ready = float(self.servers.free[0])
        end = start + sum(spent.values())
        self._note(records, service, rows, given, spent, start, ready)
        self._began = start
        self.servers.free = np.full(self.instances, end)
        batch = Allotted(np.full(count, end - start), allotted.visits)
        where = np.zeros(count, np.intp) if server is None else server
        return Jobs(records, batch, np.full(count, end), where, np.broadcast_to(entry, count))

    def _spent(self, given: Floats) -> dict[str, float]:
        """Where the time of a batch goes, by the work of each task."""
        cost, pipeline = self._cost, self.pipeline
        pieces = max(self.instances, pipeline.ceiling or 0)
        tasks = given + cost.task
        work = float(tasks.max())
        if len(tasks) > self._slots:  # more tasks than slots: the next to whichever is free
            work = float(kernel.shared(np.zeros(len(tasks)), tasks, np.zeros(self._slots))[1].max())
        return {
            "planning": cost.planning,
            "log": cost.log,
            "work": work + cost.partition * pieces,
            "commit": cost.commit,
        }

    def _note(
        self,
        records: Records,
        service: Floats,
        rows: npt.NDArray[np.intp],
        given: Floats,
        spent: Mapping[str, float],
        start: float,
        ready: float,
    ) -> None:
        waited = np.full(len(records), start)
        gathered = float((start - np.maximum(records.time, min(ready, start))).sum())
        self.gauge.served(records.time, waited + service, service, gathered, rows)
        self.gauge.gaps(0, np.array([start]))
        now = self.gauge.now
        now.batches += 1
        now.batch_seconds += sum(spent.values())
        now.parts.update(spent)
        now.busy += given

    def _run_on(self, begin: float, end: float) -> None:
        """How much of a step a batch was running."""
        jobs = self.gauge.now
        jobs.seconds += end - begin
        carried = max(0.0, min(self._carried, end) - begin)
        beyond = max(0.0, float(self.servers.free[0]) - end) if self._began > -np.inf else 0.0
        jobs.running += min(end - begin, carried + jobs.batch_seconds - beyond)
        self._carried = float(self.servers.free[0])

    _carried = -np.inf

    def fail(self, now: float, servers: Numbers, until: float) -> int:
        """A batch that loses a task is done again as a whole."""
        again, self.jobs = self.jobs, NO_JOBS
        again.give_back(self.work, self.inlets)
        self.servers.free[:] = now
        self.servers.hold(until)
        return len(again)

    def room(self, begin: float, end: float) -> float:
        bound, mean = self._model.queue, self.mean() + self._cost.row
        if bound is None or mean == 0:
            return np.inf
        idle = max(0.0, (end - begin) - max(0.0, float(self.servers.free[0]) - begin))
        return self.instances * (bound + idle / mean)


def _even(count: int, servers: int) -> npt.NDArray[np.intp]:
    return np.diff(np.arange(servers + 1) * count // servers)
