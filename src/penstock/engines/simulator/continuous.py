"""A pipeline whose instances run all the time, as in Storm, Nephele or Joker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator import queues as kernel
from penstock.engines.simulator.arrays import Floats, Numbers
from penstock.engines.simulator.bounded_queues import Inside, entered, fits
from penstock.engines.simulator.instances import Given, Instances
from penstock.engines.simulator.latency import Ages
from penstock.engines.simulator.measurements import Gauge
from penstock.engines.simulator.model import Model
from penstock.engines.simulator.network import Leaving, Outlet, emitted
from penstock.engines.simulator.operator_work import Allotted, Work
from penstock.engines.simulator.records import Queue, Records, joined
from penstock.engines.simulator.records_in_hand import NO_JOBS, Inlet, Jobs, merged, together
from penstock.engines.simulator.source import Source

_FEW = 8
"""Of so many records one may be sorted that stays: to pick the others out takes longer."""


class Stage:
    """The instances of one pipeline.

    A record that is taken gets its instance and its time of leaving at once: what comes later
    cannot change them. Only a change of plan or a failure does, and then whatever has not begun
    goes back to its queue.
    """

    takes_ahead = True
    """Whether records are taken before an instance is free for them."""

    def __init__(
        self,
        work: Work,
        inlets: Sequence[Inlet],
        outlets: Sequence[Outlet],
        model: Model,
        now: float,
        rng: np.random.Generator,
        ends: frozenset[str] = frozenset(),
    ) -> None:
        self.work = work
        self.inlets = tuple(inlets)
        self.outlets = tuple(outlets)
        self.pipeline = work.pipeline
        inside = self.pipeline.operators
        self._inner = [i for i in self.inlets if i.writer in inside and i.writer != i.entry]
        self.instances = work.pipeline.parallelism
        self.draining = False
        self.blocked = False  # whether a full instance has kept records from the others
        self.gauge = Gauge(self.instances, len(self.inlets))
        self.delivered: Counter[str] = Counter()
        self._came = self._arrivals(now)
        self._gathered = self._kept()
        self._brought = [0] * len(self.inlets)
        self.jobs = NO_JOBS
        self.inherited: list[tuple[Work, Sequence[Inlet], Jobs]] = []
        self._ends = ends
        self._model = model
        self._window = model.step(work.tail).window if model.batch is None else 0.0
        self.bound = model.queue  # records that may wait for an instance
        self._keys = keys = None if work.keyed is None else model.step(work.keyed).keys
        self._recall: np.random.Generator | None = rng  # draws the keys of what is given back
        self.servers = Instances(
            self.instances,
            now,
            rng,
            dispatch=model.dispatch,
            shares=None if keys is None else keys.shares(self.instances),
        )

    # --- a step of time -----------------------------------------------------------------------

    def run(self, begin: float, end: float, most: int | None) -> Mapping[str, Sequence[Ages]]:
        """Take what comes by `end`, `most` at most, and let out what leaves by then.

        Returns the latencies of the records that left, by constraint.
        """
        before, work = self.servers.free, np.zeros(self.instances)
        fresh: list[Leaving] = []
        staying = NO_JOBS
        parts = self._taken(end, most)
        if parts:
            work, served = self._serve(parts, begin, end)
            fresh, staying = self._parted(served, end)
        had, left = self.servers.to_do(before, begin), self.servers.to_do(self.servers.free, end)
        self.gauge.worked(begin, end, work, had, left, self.servers.held)
        self.gauge.now.open += 0.0 if self.held_back() else end - begin
        self._note_arrivals(end)
        return self._let_out(end, fresh, staying)

    def _note_arrivals(self, end: float) -> None:
        came = self._arrivals(end)
        self._brought = [now - then for now, then in zip(came, self._came, strict=True)]
        self.gauge.now.came += sum(self._brought)
        self._came = came
        kept = self._kept()
        self.gauge.shipped([now - then for now, then in zip(kept, self._gathered, strict=True)])
        self._gathered = kept

    def _taken(self, end: float, most: int | None) -> list[tuple[int, Records, Allotted]]:
        if self.pipeline.admission == 0 and not self.draining:
            return []
        shares = self._split(end, most)
        found = []
        for number, inlet in enumerate(self.inlets):
            records = inlet.queue.take(end, shares[number])
            if len(records):
                found.append((number, records, self.work.allot(inlet.entry, len(records))))
        return found

    def _split(self, end: float, most: int | None) -> list[int | None]:
        """What each inlet may give; with too little room for all, each the same share."""
        if most is None or len(self.inlets) == 1:
            return [most] * len(self.inlets)
        waiting = [i.queue.waiting(end) for i in self.inlets]
        total = sum(waiting)
        return [w if total <= most else -(-w * most // total) for w in waiting]

    def _serve(
        self, parts: Sequence[tuple[int, Records, Allotted]], begin: float, end: float
    ) -> tuple[Floats, _Served]:
        """Give records to instances; the work that each instance got, and when records leave."""
        records, allotted, entry = in_order(parts)
        ready = records.time
        if ready[0] < begin:
            ready = np.maximum(ready, begin)
        free = self.servers.free
        settled = self._settled(records)
        groups = None if settled is None else self.servers.deal(len(records), settled)
        given = self.servers.give(ready, allotted.service, groups)
        enters = self._entered(ready, given, free, end)
        self.blocked = enters is not None and len(enters) < len(records)
        if enters is not None:
            fit, rest = slice(None, len(enters)), slice(len(enters), None)
            every = np.broadcast_to(entry, len(records))
            none = np.zeros(len(records) - len(enters), np.intp)
            back = Jobs(records[rest], allotted[rest], given.left[rest], none, every[rest])
            back.give_back(self.work, self.inlets)
            records, allotted, ready = records[fit], allotted[fit], enters
            entry = entry if entry.ndim == 0 else entry[fit]
            given = self.servers.give_back(given, enters, allotted.service, free)
            if not len(enters):
                return given.work, _Served(records, allotted, given, entry)
        each = given.ready - ready if entry.ndim and given.gathered else None
        self.gauge.served(
            records.time, given.left, given.service, given.gathered, given.rows, entry, each
        )
        self.gauge.gaps(self.servers.watched(given))
        allotted = Allotted(given.service, allotted.visits)
        return given.work, _Served(records, allotted, given, entry)

    def _settled(self, records: Records) -> Numbers | None:
        """The instances of records that have a key already, -1 for the others."""
        known = None if self.work.keyed is None else records.keys.get(self.work.keyed)
        if known is None or self._keys is None:
            return None
        return np.where(known < 0, -1, self._keys.places(self.instances)[known])

    def _entered(self, ready: Floats, given: Given, free: Floats, end: float) -> Floats | None:
        """When records come to their instances, if some have to wait for a place there."""
        if self.bound is None or not self.servers.can_block:
            return None
        jobs, places = self.jobs, self.bound + 1
        held = np.bincount(jobs.server, minlength=self.instances)
        if bool(np.all(held + given.rows <= places)):
            return None
        server = given.servers(np.arange(len(ready)))
        if fits(ready, given.left, server, jobs.left, jobs.server, places):
            return None
        soon = np.flatnonzero(jobs.left <= end)
        soon = soon[np.argsort(jobs.left[soon], kind="stable")]
        inside = Inside(free, held, jobs.server[soon], jobs.left[soon])
        return entered(ready, given.service, server, inside, places, end)

    def _parted(self, served: _Served | Jobs, end: float) -> tuple[list[Leaving], Jobs]:
        """Those that leave by `end`, and perhaps a few that do not, and all that stay."""
        late = served.left > end
        kept = np.flatnonzero(late)
        outputs, entry = served.allotted.outputs, served.entry
        records = Records(served.left, served.records.births)
        if not len(kept):
            self._count(entry, len(late))
            return [Leaving(records, outputs)], NO_JOBS
        stays = served[kept] if isinstance(served, Jobs) else served.jobs(kept)
        self._count(entry if entry.ndim == 0 else entry[~late], len(late) - len(kept))
        if _FEW * len(kept) < len(late):
            return [Leaving(records, outputs)], stays
        every, first = Leaving(records, outputs), int(kept[0])
        return [every[:first], every[first + np.flatnonzero(~late[first:])]], stays

    def _count(self, entry: npt.NDArray[np.uint8], count: int) -> None:
        """Note records that leave, by where they came in."""
        if entry.ndim == 0 or len(self.inlets) == 1:
            self.gauge.done(self.inlets[0 if entry.ndim else int(entry)].entry, count)
            return
        for inlet, n in zip(
            self.inlets, np.bincount(entry, minlength=len(self.inlets)), strict=True
        ):
            self.gauge.done(inlet.entry, int(n))

    def let_out(self, end: float) -> Mapping[str, Sequence[Ages]]:
        """Take nothing, only let out."""
        return self._let_out(end, [], NO_JOBS)

    def _let_out(
        self, end: float, fresh: list[Leaving], staying: Jobs
    ) -> Mapping[str, Sequence[Ages]]:
        """Send on everything that leaves by `end`; latencies by constraint."""
        groups = [(self.work, self.inlets, self.jobs), *self.inherited]
        self.jobs, self.inherited = staying, []
        leaving = []
        for at, (work, inlets, jobs) in enumerate(groups):
            if not len(jobs):
                continue
            gone, stays = jobs.parted(end)
            count = len(jobs) - len(stays)
            if count:
                if work.pipeline.operators == self.pipeline.operators:
                    self._count(jobs.entry[gone], count)
                records = Records(jobs.left, jobs.records.births)
                leaving.append(Leaving(records, jobs.allotted.outputs)[gone])
            if at == 0:
                self.jobs = merged(stays, staying)
            elif len(stays):
                self.inherited.append((work, inlets, stays))
        leaving += fresh
        if self.outlets or self._window:
            out = self._at_window_end(emitted(leaving, end))
            for outlet in self.outlets:
                outlet.put(out)
            sent = len(out)
        else:
            sent = sum(one.count(end) for one in leaving)
        self.gauge.out(sent)
        self.delivered.update(dict.fromkeys(self.work.sinks, sent))
        return _latencies(leaving, self._ends, end)

    def _at_window_end(self, out: Records) -> Records:
        """What goes out leaves with the end of its window, if the last operator has one."""
        if not self._window or not len(out):
            return out
        ends = np.ceil(out.time / self._window) * self._window
        self.gauge.now.held += float(ends.sum() - out.time.sum())
        return Records(ends, out.births)

    # --- changes ------------------------------------------------------------------------------

    def stop(self, now: float, *, begun_too: bool = False) -> None:
        """Give back what has not begun; what has begun stays and will leave in its time."""
        every = [(self.work, self.inlets, self.jobs), *self.inherited]
        self.jobs, self.inherited = NO_JOBS, []
        for at, (work, inlets, jobs) in enumerate(every):
            waits = jobs.left > now if begun_too else jobs.begun >= now
            jobs[np.flatnonzero(waits)].give_back(work, inlets, self._recall)
            stays = jobs[np.flatnonzero(~waits)]
            if at == 0:
                self.jobs = stays
            elif len(stays):
                self.inherited.append((work, inlets, stays))
        self.servers.reset(now, self.jobs.server, self.jobs.left)

    def inherit(self, old: Stage) -> None:
        """Go on with what a stopped stage has begun, and with the instances that stay.

        Those that are broken stay so until they are started again. Where keys go to other
        instances, none begins before those that had them are through, so that the order of a key is
        kept.
        """
        if len(old.jobs):
            self.inherited.append((old.work, old.inlets, old.jobs))
        self.inherited += old.inherited
        if old.pipeline.operators == self.pipeline.operators:
            both = min(self.instances, old.instances)
            free = self.servers.free
            free[:both] = np.maximum(free[:both], old.servers.free[:both])
            self.servers.hold(old.servers.held[:both], np.arange(both))
            if self._keys is not None and self.instances != old.instances:
                begun = [float(jobs.left.max()) for _, _, jobs in self.inherited if len(jobs)]
                self.servers.hold(max(begun, default=0.0))

    def move(self, now: float, servers: Numbers, pause: float) -> None:
        """Instances go elsewhere once they are through with what they have begun."""
        if len(self.jobs):
            self.stop(now)
        self.servers.hold(now + pause, servers)

    def fail(self, now: float, servers: Numbers, until: float) -> int:
        """Instances break: what they had begun or were given is done again; how many rows.

        What an instance began under an earlier plan goes with the one that has its number now.
        """
        begun = 0
        every = [(self.work, self.inlets, self.jobs), *self.inherited]
        self.inherited = []
        for at, (work, inlets, jobs) in enumerate(every):
            lost = np.isin(jobs.server % self.instances, servers) & (jobs.left > now)
            again, stays = jobs[np.flatnonzero(lost)], jobs[np.flatnonzero(~lost)]
            begun += int(np.count_nonzero(again.begun < now))
            again.give_back(work, inlets, self._recall)
            if at == 0:
                self.jobs = stays
            elif len(stays):
                self.inherited.append((work, inlets, stays))
        self.servers.free[servers] = now
        self.servers.hold(until, servers)
        return begun

    # --- what is in it ------------------------------------------------------------------------

    def __len__(self) -> int:
        """Records taken and not gone."""
        return len(self.jobs) + sum(len(jobs) for _, _, jobs in self.inherited)

    def waiting(self, now: float) -> int:
        """Records that have come and not begun, taken or not."""
        begun = int(np.count_nonzero(self.jobs.begun >= now)) if len(self.jobs) else 0
        return begun + sum(i.queue.waiting(now) for i in self.inlets)

    def backlog(self, now: float) -> list[int]:
        """The same by inlet."""
        taken = self.jobs.entry[self.jobs.begun >= now]
        counts = np.bincount(taken, minlength=len(self.inlets)).tolist()
        return [n + i.queue.waiting(now) for n, i in zip(counts, self.inlets, strict=True)]

    def _arrivals(self, now: float) -> list[int]:
        """Records that have ever come to each inlet."""
        queues = (i.queue for i in self.inlets)
        return [q.offered(now) if isinstance(q, Source) else q.came for q in queues]

    def _kept(self) -> list[float]:
        """Seconds that all records of each inlet together were gathered before it."""
        queues = (i.queue for i in self.inlets)
        return [q.gathered if isinstance(q, Queue) else 0.0 for q in queues]

    def share(self, writer: str) -> float:
        """The part of its room that is for what an operator writes.

        As much as that brought of all that came in the last step; a tenth is for all alike, so
        that one that has been silent can begin.
        """
        total, inlets = sum(self._brought), len(self.ways)
        mine = [n for n, inlet in zip(self._brought, self.inlets, strict=True)
                if inlet.writer == writer]  # fmt: skip
        if not total:
            return len(mine) / inlets
        return 0.9 * sum(mine) / total + 0.1 * len(mine) / inlets

    def next_departure(self, now: float) -> float:
        """When the next of the records leaves that were taken; infinity if there are none."""
        every = (self.jobs, *(jobs for _, _, jobs in self.inherited))
        return min((float(jobs.left.min()) for jobs in every if len(jobs)), default=np.inf)

    def held_back(self, until: float = np.inf) -> int:
        """Records from other pipelines that come by a time and were not taken."""
        return sum(i.queue.waiting(until) for i in self.inlets if isinstance(i.queue, Queue))

    @property
    def ways(self) -> tuple[Inlet, ...]:
        """The inlets that are in use: fed from outside, or not yet empty after a regrouping."""
        if not self._inner:
            return self.inlets
        return tuple(i for i in self.inlets if i not in self._inner or len(i.queue))

    def mean(self) -> float:
        """Seconds of an instance for a record, on average over the ways in."""
        times = [self.work.mean[i.entry] for i in self.ways]
        slow = 1.0 if self.servers.slow is None else float(self.servers.slow.mean())
        return slow * sum(times) / len(times)

    def wants(self, busy: Floats) -> Floats:
        """For how much of their time at work instances want a processor, or have one.

        While a record waits it wants none, and waiting does not take longer on a crowded machine.
        """
        slow = 1.0 if self.servers.slow is None else self.servers.slow
        return busy * (slow - 1.0 + self.work.cpu) / slow

    def room(self, begin: float, end: float) -> float:
        """Records it can take until `end` so that no instance has more than the bound waiting."""
        bound, mean = self.bound, self.mean()
        if bound is None or mean == 0:
            return np.inf
        stay = np.flatnonzero(self.jobs.left > end)
        held = np.bincount(self.jobs.server[stay], minlength=self.instances)
        return self.servers.room(bound, held, mean, begin, end)


@dataclass(frozen=True)
class _Served:
    """Records that were given to instances; entry is one number if all came the same way."""

    records: Records
    allotted: Allotted
    given: Given
    entry: npt.NDArray[np.uint8]

    @property
    def left(self) -> Floats:
        return self.given.left

    def jobs(self, kept: npt.NDArray[np.intp]) -> Jobs:
        server = self.given.servers(kept)
        entry = self.entry[kept] if self.entry.ndim else np.full(len(kept), self.entry)
        return Jobs(self.records[kept], self.allotted[kept], self.left[kept], server, entry)


def in_order(
    parts: Sequence[tuple[int, Records, Allotted]],
) -> tuple[Records, Allotted, npt.NDArray[np.uint8]]:
    """Records of all inlets in the order in which they came."""
    if len(parts) == 1:
        number, records, allotted = parts[0]
        return records, allotted, np.array(number, np.uint8)
    records = joined([records for _, records, _ in parts])
    numbers = np.array([number for number, _, _ in parts], np.uint8)
    entry = np.repeat(numbers, [len(r) for _, r, _ in parts])
    order = kernel.order(records.time)
    return records[order], together([a for _, _, a in parts])[order], entry[order]


def _latencies(
    leaving: Sequence[Leaving], ends: frozenset[str], until: float
) -> Mapping[str, Sequence[Ages]]:
    """How old records are, for the constraints that end with this pipeline."""
    found: dict[str, list[Ages]] = {}
    for one in leaving:
        for name in ends.intersection(one.records.births):
            ages = Ages.of(one.records.time, one.records.births[name], until)
            found.setdefault(name, []).append(ages)
    return found
