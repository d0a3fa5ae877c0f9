"""Bounded queues: when a record comes to the instance that is meant for it.

Records are dealt out one after the other. Each instance has so many places, one for the record it
has in hand and the others for those that wait. A record whose instance has no place free waits
before it, and all behind it wait too, also for instances that are idle: whoever deals them out
holds that one in hand. So the n-th record of an instance with p places enters once it has come,
those before it have entered, and the record p places ahead of it has left:

    E[i] = max(A[i], E[i-1], D[same instance, n - p])

where D follows from E as without bounds. Most of these departures are known, since they are of
records that were there before. Where they are not, E is put in too early at first and rises to the
one solution; the few cases where that takes long are done record by record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.engines.simulator.arrays import Floats, Numbers
from penstock.engines.simulator.queues import Groups, by_server, dealt

_ROUNDS = 8

_FEW = 400
"""Records that are done one by one in less time than a few rounds take."""


@dataclass(frozen=True)
class Inside:
    """What instances have at the beginning of a step of time.

    free: when each has done it; held: how many records it is; server and left: of those that leave
    within the step, in the order in which they do.
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
    """Whether each record finds a place when it is ready, if they leave as without bounds.

    before and holder: when records leave that instances have already, and which has each, those of
    one instance in their order.
    """
    servers = np.concatenate((holder, server))
    order = by_server(servers, int(servers.max(initial=0)) + 1)
    servers, left = servers.take(order), np.concatenate((before, left)).take(order)
    came = np.concatenate((np.full(len(before), np.inf), ready)).take(order)
    full = (left[:-places] > came[places:]) & (servers[:-places] == servers[places:])
    return not full.any()


def entered(
    ready: Floats, service: Floats, server: Numbers, inside: Inside, places: int, end: float
) -> Floats:
    """When records enter, for those that do by `end`: the first so many."""
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
        left, _, _ = dealt(enters, service[:count], inside.free, groups)
        later = enters.copy()
        later[which] = np.fmax(later[which], left[ahead])
        np.fmax.accumulate(later, out=later)
        if np.array_equal(later, enters):
            return enters
        enters, count = later, int(np.searchsorted(later, end, "right"))
    return one_by_one(ready, service, server, inside, places, end)


def _turns(server: Numbers, servers: int) -> tuple[Numbers, Numbers]:
    """What puts records together by instance, and for each of these its number there."""
    counts = np.bincount(server, minlength=servers)
    order = by_server(server, servers)
    first = np.cumsum(counts) - counts
    return order, np.arange(len(server)) - np.repeat(first, counts)


def _known(server: Numbers, inside: Inside, spare: Numbers) -> Floats:
    """When the places are free that records of before have had; minus infinity where some were."""
    order, number = _turns(server, len(spare))
    mine = server[order]
    leaving = inside.leaving
    ahead = number - spare[mine]  # so many have to leave before this one can enter, but for one
    old_ones = by_server(inside.server, len(spare))
    first = np.cumsum(leaving) - leaving
    found = np.full(len(server), -np.inf)
    old = (ahead >= 0) & (ahead < leaving[mine])
    found[order[old]] = inside.left[old_ones[first[mine[old]] + ahead[old]]]
    never = (ahead >= leaving[mine]) & (leaving < inside.held)[mine]
    found[order[never]] = np.inf
    return found


def _new(server: Numbers, inside: Inside, spare: Numbers) -> tuple[Numbers, Numbers]:
    """Records that enter when another of the new ones has left: that one, and they."""
    order, number = _turns(server, len(spare))
    mine = server[order]
    back = spare[mine] + inside.leaving[mine]
    later = np.flatnonzero((number >= back) & (inside.leaving == inside.held)[mine])
    return order[later - back[later]], order[later]


def one_by_one(
    ready: Floats, service: Floats, server: Numbers, inside: Inside, places: int, end: float
) -> Floats:
    """The same, record by record."""
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
