"""A pipeline whose instances run continuously, as in Storm, Nephele or Joker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator.arrivals import SimulatedSource
from penstock.engines.simulator.back_pressure import Inside, entry_times, fits
from penstock.engines.simulator.instances import Given, Instances
from penstock.engines.simulator.measurement import Ages, PipelineGauge
from penstock.engines.simulator.model import Model
from penstock.engines.simulator.network import Leaving, Outlet, emitted
from penstock.engines.simulator.operator_work import (
    NONE_TAKEN,
    Allotted,
    Inlet,
    PipelineWork,
    TakenRecords,
    combined,
    in_order,
)
from penstock.engines.simulator.queues import Floats, Indices, Numbers
from penstock.engines.simulator.records import RecordQueue, Records

_FEW = 8
"""If at most one in so many records stays, all are sorted: removing the others takes longer."""


class RunningPipeline:
    """The running instances of one pipeline of a plan.

    A record is assigned an instance and a departure time as soon as it is taken, because later
    records cannot change them. Only a change of plan or a failure can: then all records that have
    not begun go back to their queue.
    """

    takes_ahead = True
    """True if records are taken before an instance is free for them."""

    def __init__(
        self,
        work: PipelineWork,
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
        self.spec = work.spec
        inside = self.spec.operators
        self._internal_inlets = [
            i for i in self.inlets if i.writer in inside and i.writer != i.entry
        ]
        self.instances = work.spec.parallelism
        self.draining = False
        self.blocked = False  # a full instance has held back records for the others
        self.gauge = PipelineGauge(self.instances, len(self.inlets))
        self.delivered: Counter[str] = Counter()
        self._arrived = self._arrivals(now)
        self._gathered = self._gathering_time()
        self._new_arrivals = [0] * len(self.inlets)
        self.taken = NONE_TAKEN
        self.inherited: list[tuple[PipelineWork, Sequence[Inlet], TakenRecords]] = []
        self._ends = ends
        self._model = model
        self._window = model.cost(work.tail).window if model.batch is None else 0.0
        self.bound = model.queue  # records that may wait for an instance
        self._keys = keys = None if work.keyed is None else model.cost(work.keyed).keys
        self._key_rng: np.random.Generator | None = rng  # draws keys of records given back
        self.servers = Instances(
            self.instances,
            now,
            rng,
            dispatch=model.dispatch,
            shares=None if keys is None else keys.shares(self.instances),
        )

    # --- a step of time -----------------------------------------------------------------------

    def run(self, begin: float, end: float, most: int | None) -> Mapping[str, Sequence[Ages]]:
        """Take records that arrive by `end`, and send on those that leave by then.

        Returns the latencies of the records that left, by constraint.
        """
        before, work = self.servers.free, np.zeros(self.instances)
        fresh: list[Leaving] = []
        staying = NONE_TAKEN
        parts = self._take(end, most)
        if parts:
            work, served = self._serve(parts, begin, end)
            fresh, staying = self._split_by_departure(served, end)
        had = self.servers.unfinished(before, begin)
        left = self.servers.unfinished(self.servers.free, end)
        self.gauge.worked(begin, end, work, had, left, self.servers.held)
        self.gauge.now.open += 0.0 if self.held_back() else end - begin
        self._note_arrivals(end)
        return self._let_out(end, fresh, staying)

    def _note_arrivals(self, end: float) -> None:
        arrived = self._arrivals(end)
        self._new_arrivals = [now - then for now, then in zip(arrived, self._arrived, strict=True)]
        self.gauge.now.arrived += sum(self._new_arrivals)
        self._arrived = arrived
        kept = self._gathering_time()
        self.gauge.shipped([now - then for now, then in zip(kept, self._gathered, strict=True)])
        self._gathered = kept

    def _take(self, end: float, most: int | None) -> list[tuple[int, Records, Allotted]]:
        if self.spec.admission == 0 and not self.draining:
            return []
        shares = self._quotas(end, most)
        found = []
        for number, inlet in enumerate(self.inlets):
            records = inlet.queue.take(end, shares[number])
            if len(records):
                found.append((number, records, self.work.allot(inlet.entry, len(records))))
        return found

    def _quotas(self, end: float, most: int | None) -> list[int | None]:
        """Number of records each inlet may give: the same share if room is scarce."""
        if most is None or len(self.inlets) == 1:
            return [most] * len(self.inlets)
        waiting = [i.queue.waiting(end) for i in self.inlets]
        total = sum(waiting)
        return [w if total <= most else -(-w * most // total) for w in waiting]

    def _serve(
        self, parts: Sequence[tuple[int, Records, Allotted]], begin: float, end: float
    ) -> tuple[Floats, _Served]:
        """Give records to instances; return the work of each instance, and the records."""
        records, allotted, entry = in_order(parts)
        ready = records.time
        if ready[0] < begin:
            ready = np.maximum(ready, begin)
        free = self.servers.free
        settled = self._settled(records)
        groups = None if settled is None else self.servers.deal(len(records), settled)
        given = self.servers.give(ready, allotted.service, groups)
        enters = self._entry_times(ready, given, free, end)
        self.blocked = enters is not None and len(enters) < len(records)
        if enters is not None:
            fit, rest = slice(None, len(enters)), slice(len(enters), None)
            every = np.broadcast_to(entry, len(records))
            none = np.zeros(len(records) - len(enters), np.intp)
            back = TakenRecords(records[rest], allotted[rest], given.left[rest], none, every[rest])
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
        """Instances of records whose key is known, -1 for others; None if none is."""
        known = None if self.work.keyed is None else records.keys.get(self.work.keyed)
        if known is None or self._keys is None:
            return None
        return np.where(known < 0, -1, self._keys.places(self.instances)[known])

    def _entry_times(self, ready: Floats, given: Given, free: Floats, end: float) -> Floats | None:
        """When records enter their instances, if some have to wait for a place there."""
        if self.bound is None or not self.servers.can_block:
            return None
        taken, places = self.taken, self.bound + 1
        held = np.bincount(taken.server, minlength=self.instances)
        if bool(np.all(held + given.rows <= places)):
            return None
        server = given.servers(np.arange(len(ready)))
        if fits(ready, given.left, server, taken.left, taken.server, places):
            return None
        soon = np.flatnonzero(taken.left <= end)
        soon = soon[np.argsort(taken.left[soon], kind="stable")]
        inside = Inside(free, held, taken.server[soon], taken.left[soon])
        return entry_times(ready, given.service, server, inside, places, end)

    def _split_by_departure(
        self, served: _Served | TakenRecords, end: float
    ) -> tuple[list[Leaving], TakenRecords]:
        """Return the records that leave by `end`, and those that stay.

        The first may include a few that stay.
        """
        late = served.left > end
        kept = np.flatnonzero(late)
        outputs, entry = served.allotted.outputs, served.entry
        records = Records(served.left, served.records.births)
        if not len(kept):
            self._count(entry, len(late))
            return [Leaving(records, outputs)], NONE_TAKEN
        stays = served[kept] if isinstance(served, TakenRecords) else served.staying(kept)
        self._count(entry if entry.ndim == 0 else entry[~late], len(late) - len(kept))
        if _FEW * len(kept) < len(late):
            return [Leaving(records, outputs)], stays
        every, first = Leaving(records, outputs), int(kept[0])
        return [every[:first], every[first + np.flatnonzero(~late[first:])]], stays

    def _count(self, entry: npt.NDArray[np.uint8], count: int) -> None:
        """Count records that leave, by inlet."""
        if entry.ndim == 0 or len(self.inlets) == 1:
            self.gauge.done(self.inlets[0 if entry.ndim else int(entry)].entry, count)
            return
        for inlet, n in zip(
            self.inlets, np.bincount(entry, minlength=len(self.inlets)), strict=True
        ):
            self.gauge.done(inlet.entry, int(n))

    def let_out(self, end: float) -> Mapping[str, Sequence[Ages]]:
        """Send on records without taking any."""
        return self._let_out(end, [], NONE_TAKEN)

    def _let_out(
        self, end: float, fresh: list[Leaving], staying: TakenRecords
    ) -> Mapping[str, Sequence[Ages]]:
        """Send on everything that leaves by `end`; return latencies by constraint."""
        groups = [(self.work, self.inlets, self.taken), *self.inherited]
        self.taken, self.inherited = staying, []
        leaving = []
        for at, (work, inlets, taken) in enumerate(groups):
            if not len(taken):
                continue
            gone, stays = taken.split(end)
            count = len(taken) - len(stays)
            if count:
                if work.spec.operators == self.spec.operators:
                    self._count(taken.entry[gone], count)
                records = Records(taken.left, taken.records.births)
                leaving.append(Leaving(records, taken.allotted.outputs)[gone])
            if at == 0:
                self.taken = combined(stays, staying)
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
        """Delay output to the end of its window, if the last operator has one."""
        if not self._window or not len(out):
            return out
        ends = np.ceil(out.time / self._window) * self._window
        self.gauge.now.held += float(ends.sum() - out.time.sum())
        return Records(ends, out.births)

    # --- changes ------------------------------------------------------------------------------

    def stop(self, now: float, *, begun_too: bool = False) -> None:
        """Give back records that have not begun; the others leave in their time.

        begun_too: give back the others as well, as when the process ends.
        """
        every = [(self.work, self.inlets, self.taken), *self.inherited]
        self.taken, self.inherited = NONE_TAKEN, []
        for at, (work, inlets, taken) in enumerate(every):
            waits = taken.left > now if begun_too else taken.begun >= now
            taken[np.flatnonzero(waits)].give_back(work, inlets, self._key_rng)
            stays = taken[np.flatnonzero(~waits)]
            if at == 0:
                self.taken = stays
            elif len(stays):
                self.inherited.append((work, inlets, stays))
        self.servers.reset(now, self.taken.server, self.taken.left)

    def inherit(self, old: RunningPipeline) -> None:
        """Take over records that a stopped pipeline has begun, and its instances.

        Failed instances stay down until they restart. Where keys change instance, no instance
        begins before the previous owners of its keys have finished, so that the order of each key
        is kept.
        """
        if len(old.taken):
            self.inherited.append((old.work, old.inlets, old.taken))
        self.inherited += old.inherited
        if old.spec.operators == self.spec.operators:
            both = min(self.instances, old.instances)
            free = self.servers.free
            free[:both] = np.maximum(free[:both], old.servers.free[:both])
            self.servers.hold(old.servers.held[:both], np.arange(both))
            if self._keys is not None and self.instances != old.instances:
                begun = [float(taken.left.max()) for _, _, taken in self.inherited if len(taken)]
                self.servers.hold(max(begun, default=0.0))

    def move(self, now: float, servers: Numbers, pause: float) -> None:
        """Restart instances elsewhere once they have finished what they began."""
        if len(self.taken):
            self.stop(now)
        self.servers.hold(now + pause, servers)

    def fail(self, now: float, servers: Numbers, until: float) -> int:
        """Break instances until a time; returns how many of their records had begun.

        All their records are processed again. Records that an instance began under an earlier plan
        belong to the instance that has its number now.
        """
        begun = 0
        every = [(self.work, self.inlets, self.taken), *self.inherited]
        self.inherited = []
        for at, (work, inlets, taken) in enumerate(every):
            lost = np.isin(taken.server % self.instances, servers) & (taken.left > now)
            again, stays = taken[np.flatnonzero(lost)], taken[np.flatnonzero(~lost)]
            begun += int(np.count_nonzero(again.begun < now))
            again.give_back(work, inlets, self._key_rng)
            if at == 0:
                self.taken = stays
            elif len(stays):
                self.inherited.append((work, inlets, stays))
        self.servers.free[servers] = now
        self.servers.hold(until, servers)
        return begun

    # --- contents ----------------------------------------------------------------------------

    def __len__(self) -> int:
        """Number of records taken that have not left."""
        return len(self.taken) + sum(len(taken) for _, _, taken in self.inherited)

    def waiting(self, now: float) -> int:
        """Number of records that have arrived and not begun, taken or not."""
        begun = int(np.count_nonzero(self.taken.begun >= now)) if len(self.taken) else 0
        return begun + sum(i.queue.waiting(now) for i in self.inlets)

    def backlog(self, now: float) -> list[int]:
        """The waiting records of each inlet."""
        taken = self.taken.entry[self.taken.begun >= now]
        counts = np.bincount(taken, minlength=len(self.inlets)).tolist()
        return [n + i.queue.waiting(now) for n, i in zip(counts, self.inlets, strict=True)]

    def _arrivals(self, now: float) -> list[int]:
        """Total number of records that ever arrived at each inlet."""
        queues = (i.queue for i in self.inlets)
        return [q.offered(now) if isinstance(q, SimulatedSource) else q.arrived for q in queues]

    def _gathering_time(self) -> list[float]:
        """Total seconds for which records of each inlet were gathered before shipping."""
        queues = (i.queue for i in self.inlets)
        return [q.gathered if isinstance(q, RecordQueue) else 0.0 for q in queues]

    def share(self, writer: str) -> float:
        """The share of the room that is reserved for records of a writer.

        Nine tenths go in proportion to the records of the last step; a tenth is shared evenly, so
        that a writer that was silent can start.
        """
        total, inlets = sum(self._new_arrivals), len(self.open_inlets)
        mine = [n for n, inlet in zip(self._new_arrivals, self.inlets, strict=True)
                if inlet.writer == writer]  # fmt: skip
        if not total:
            return len(mine) / inlets
        return 0.9 * sum(mine) / total + 0.1 * len(mine) / inlets

    def next_departure(self, now: float) -> float:
        """When the next record leaves; infinity if there is none."""
        every = (self.taken, *(taken for _, _, taken in self.inherited))
        return min((float(taken.left.min()) for taken in every if len(taken)), default=np.inf)

    def held_back(self, until: float = np.inf) -> int:
        """Number of records that arrived from other pipelines and were not taken."""
        return sum(i.queue.waiting(until) for i in self.inlets if isinstance(i.queue, RecordQueue))

    @property
    def open_inlets(self) -> tuple[Inlet, ...]:
        """Inlets in use: fed by other pipelines, or not empty yet after a regrouping."""
        if not self._internal_inlets:
            return self.inlets
        return tuple(i for i in self.inlets if i not in self._internal_inlets or len(i.queue))

    def mean(self) -> float:
        """Mean seconds of an instance for a record, averaged over the inlets."""
        times = [self.work.mean[i.entry] for i in self.open_inlets]
        slow = 1.0 if self.servers.slow is None else float(self.servers.slow.mean())
        return slow * sum(times) / len(times)

    def wants(self, busy: Floats) -> Floats:
        """The share of time for which busy instances want a processor.

        A record that waits wants none, and its waiting does not take longer on a crowded machine.
        """
        slow = 1.0 if self.servers.slow is None else self.servers.slow
        return busy * (slow - 1.0 + self.work.cpu) / slow

    def room(self, begin: float, end: float) -> float:
        """Number of records it can take until `end` without a queue overflow."""
        bound, mean = self.bound, self.mean()
        if bound is None or mean == 0:
            return np.inf
        stay = np.flatnonzero(self.taken.left > end)
        held = np.bincount(self.taken.server[stay], minlength=self.instances)
        return self.servers.room(bound, held, mean, begin, end)


@dataclass(frozen=True)
class _Served:
    """Records given to instances; `entry` has no dimension if all are the same."""

    records: Records
    allotted: Allotted
    given: Given
    entry: npt.NDArray[np.uint8]

    @property
    def left(self) -> Floats:
        return self.given.left

    def staying(self, kept: Indices) -> TakenRecords:
        server = self.given.servers(kept)
        entry = self.entry[kept] if self.entry.ndim else np.full(len(kept), self.entry)
        return TakenRecords(self.records[kept], self.allotted[kept], self.left[kept], server, entry)


def _latencies(
    leaving: Sequence[Leaving], ends: frozenset[str], until: float
) -> Mapping[str, Sequence[Ages]]:
    """Ages of records, for the constraints that end with this pipeline."""
    found: dict[str, list[Ages]] = {}
    for one in leaving:
        for name in ends.intersection(one.records.births):
            ages = Ages.of(one.records.time, one.records.births[name], until)
            found.setdefault(name, []).append(ages)
    return found
