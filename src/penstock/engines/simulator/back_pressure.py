"""Back pressure: bounded queues, limits between pipelines, and admission.

Records are dealt out one after the other. An instance has a number of places, one for the record in
service and the others for records that wait. A record whose instance has no free place waits in
front of it, and all records behind it wait too, even for idle instances, because whoever deals them
out still holds that one. The n-th record of an instance with p places therefore enters once it has
arrived, the record before it has entered, and the record p places ahead of it has left:

    E[i] = max(A[i], E[i-1], D[same instance, n - p])

where D follows from E as in an unbounded queue. Most of these departures are known, because they
are of earlier records. Where they are not, E starts too low and rises to the one solution; the few
cases that converge slowly are computed record by record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.engines.simulator.queues import Floats, Groups, Numbers, by_group, by_server

if TYPE_CHECKING:
    from penstock.engines.simulator.continuous import RunningPipeline

_ROUNDS = 8
"""Iterations before records are computed one by one."""

_FEW = 400
"""Number of records up to which computing them one by one is fastest."""


@dataclass(frozen=True)
class Inside:
    """The state of instances at the start of a step.

    free: when each has finished; held: number of records of each; server and left: instance and
    departure of those that leave within the step, sorted by departure.
    """

    free: Floats
    held: Numbers
    server: Numbers
    left: Floats

    @property
    def leaving(self) -> Numbers:
        return np.bincount(self.server, minlength=len(self.free))


def fits(
    ready: Floats, left: Floats, server: Numbers, before: Floats, holder: Numbers, places: int
) -> bool:
    """True if each record finds a place when it is ready.

    Departures are those of unbounded queues.

    before, holder: departure and instance of the records that instances already have, in order for
    each instance.
    """
    servers = np.concatenate((holder, server))
    order = by_server(servers, int(servers.max(initial=0)) + 1)
    servers, left = servers.take(order), np.concatenate((before, left)).take(order)
    came = np.concatenate((np.full(len(before), np.inf), ready)).take(order)
    full = (left[:-places] > came[places:]) & (servers[:-places] == servers[places:])
    return not full.any()


def entry_times(
    ready: Floats, service: Floats, server: Numbers, inside: Inside, places: int, end: float
) -> Floats:
    """Return when records enter their instances, for those that do by `end`."""
    if len(ready) <= _FEW:
        return one_by_one(ready, service, server, inside, places, end)
    spare = places - inside.held
    known = _known(server, inside, spare)
    enters = np.fmax.accumulate(np.fmax(ready, known))
    count = int(np.searchsorted(enters, end, "right"))
    for _ in range(_ROUNDS):
        enters = enters[:count]
        ahead, which = _new(server[:count], inside, spare)
        if not len(which):
            return enters
        groups = Groups.of(server[:count], len(inside.free))
        left, _, _ = by_group(enters, service[:count], inside.free, groups)
        later = enters.copy()
        later[which] = np.fmax(later[which], left[ahead])
        np.fmax.accumulate(later, out=later)
        if np.array_equal(later, enters):
            return enters
        enters, count = later, int(np.searchsorted(later, end, "right"))
    return one_by_one(ready, service, server, inside, places, end)


def _turns(server: Numbers, servers: int) -> tuple[Numbers, Numbers]:
    """Indices that group records by instance, and positions in the groups."""
    counts = np.bincount(server, minlength=servers)
    order = by_server(server, servers)
    first = np.cumsum(counts) - counts
    return order, np.arange(len(server)) - np.repeat(first, counts)


def _known(server: Numbers, inside: Inside, spare: Numbers) -> Floats:
    """When the places become free that records from before the step have.

    Minus infinity where a place is free, infinity where it does not become free in this step.
    """
    order, number = _turns(server, len(spare))
    mine = server[order]
    leaving = inside.leaving
    ahead = number - spare[mine]  # records that must leave before this one enters, minus one
    earlier = by_server(inside.server, len(spare))
    first = np.cumsum(leaving) - leaving
    found = np.full(len(server), -np.inf)
    old = (ahead >= 0) & (ahead < leaving[mine])
    found[order[old]] = inside.left[earlier[first[mine[old]] + ahead[old]]]
    never = (ahead >= leaving[mine]) & (leaving < inside.held)[mine]
    found[order[never]] = np.inf
    return found


def _new(server: Numbers, inside: Inside, spare: Numbers) -> tuple[Numbers, Numbers]:
    """Records that enter when another new record has left: the indices of both."""
    order, number = _turns(server, len(spare))
    mine = server[order]
    back = spare[mine] + inside.leaving[mine]
    later = np.flatnonzero((number >= back) & (inside.leaving == inside.held)[mine])
    return order[later - back[later]], order[later]


def one_by_one(
    ready: Floats, service: Floats, server: Numbers, inside: Inside, places: int, end: float
) -> Floats:
    """Compute `entered` record by record."""
    free = inside.free.tolist()
    spare = (places - inside.held).tolist()
    whole = (inside.leaving == inside.held).tolist()
    gone: list[list[float]] = [[] for _ in free]
    for at, when in zip(inside.server.tolist(), inside.left.tolist(), strict=True):
        gone[at].append(when)
    numbers = [0] * len(free)
    found: list[float] = []
    now = -np.inf
    for at, came, took in zip(server.tolist(), ready.tolist(), service.tolist(), strict=True):
        ahead = numbers[at] - spare[at]
        if ahead >= len(gone[at]):
            break
        now = max(now, came, gone[at][ahead] if ahead >= 0 else now)
        if now > end:
            break
        found.append(now)
        numbers[at] += 1
        free[at] = max(now, free[at]) + took
        if whole[at]:
            gone[at].append(free[at])
    return np.array(found)


def limits(
    pipelines: Sequence[RunningPipeline],
    readers: Mapping[str, Sequence[str]],
    begin: float,
    end: float,
) -> dict[str, int | None]:
    """Return how many records each pipeline may take in a step; None for no limit.

    pipelines: in topological order; readers: the downstream pipelines of each. From the sinks to
    the sources: a pipeline has room for what it can process in the step and for what fits into its
    queue, minus what waits there; it may take what fits into the room downstream. Pipelines that
    write to the same one share its room in proportion to the last step. So a full queue holds back
    what feeds it, and in the end the source. Its precision is the step: a queue can overflow by the
    records of one step.
    """
    by_name = {pipeline.spec.name: pipeline for pipeline in pipelines}
    most: dict[str, float] = {}
    room: dict[str, float] = {}
    for pipeline in reversed(pipelines):
        name = pipeline.spec.name
        gain = max(pipeline.work.gain[i.entry] for i in pipeline.open_inlets)
        tail = pipeline.work.tail
        downstream = min(
            (room[r] * by_name[r].share(tail) for r in readers[name]), default=math.inf
        )
        most[name] = math.inf if gain == 0 else max(0.0, downstream) / gain
        own = pipeline.room(begin, end)
        fits = math.inf if pipeline.bound is None else float(pipeline.bound * pipeline.instances)
        if pipeline.spec.admission == 0 and not pipeline.draining:
            own = fits
        room[name] = min(own, fits + most[name]) - pipeline.held_back(end)
        if pipeline.takes_ahead:
            most[name] = min(most[name], max(own, 0.0))
    return {name: None if m == math.inf else math.floor(m) for name, m in most.items()}


class Admission:
    """Limit on a flow's records in progress, where every source's plan sets an admission.

    limits: records of each source pipeline that may be in progress; made: mean number of records at
    each pipeline for one record of a source.
    """

    def __init__(
        self,
        pipelines: Mapping[str, RunningPipeline],
        upstream: Mapping[str, Sequence[str]],
        queue: int | None,
        *,
        continuous: bool,
    ) -> None:
        self._pipelines = pipelines
        sources = [p for name, p in pipelines.items() if not upstream[name]]
        self.limits: dict[str, int] = {}
        if continuous and all(p.spec.admission for p in sources):
            self.limits = {p.spec.name: p.spec.admission or 0 for p in sources}
        self._total = sum(self.limits.values())
        self._made: dict[str, float] = {}
        for name, pipeline in pipelines.items():
            feeds = [pipelines[up] for up in upstream[name]]
            made = (self._made[f.spec.name] * max(f.work.gain.values()) for f in feeds)
            self._made[name] = sum(made) if feeds else 1 / len(sources)
            pipeline.bound = queue
            if self._total and feeds:
                each = max(1, math.ceil(self._total * self._made[name] / pipeline.instances))
                pipeline.bound = each if pipeline.bound is None else min(pipeline.bound, each)

    def restrict(self, most: dict[str, int | None]) -> None:
        """Lower the limits of the sources to what may still enter the flow."""
        if not self.limits:
            return
        free = max(0.0, 1 - self._in_progress() / self._total)
        for name, limit in self.limits.items():
            known, room = most[name], math.ceil(free * limit)
            most[name] = room if known is None else min(room, known)

    def _in_progress(self) -> float:
        """Records in the flow, counted in records of the sources."""
        return sum(
            (len(pipeline) + pipeline.held_back()) / max(1.0, self._made[name])
            for name, pipeline in self._pipelines.items()
        )

    def quarter(self) -> float:
        """Seconds in which the flow processes a quarter of what its sources admit."""
        times = (self._made[n] * p.mean() / p.instances for n, p in self._pipelines.items())
        return self._total * max(times) / 4
