"""One queue for several servers: the next record goes to whichever is free first.

Each start depends on all before it, so there is no running maximum to be had. Few servers are done
side by side: the records are cut into chunks, and one pass over the places of a chunk works through
the n-th record of all chunks at once. A chunk begins with servers that are idle, and is done again
with what the chunk before it left, until that is what it began with. As a rule that is soon: once
all servers have been idle, what was before makes no difference. Only the few chunks that are left
then, and all of them where servers are never idle, are done record by record. Many servers are done
by sorting.
"""

from __future__ import annotations

import heapq
import itertools

import numpy as np

from penstock.engines.simulator import kernel
from penstock.engines.simulator.arrays import Floats, Indices

_SORTED = 48
"""Servers from which on sorting is faster."""

_CHUNK = 256
"""Records of a chunk."""

_FEW = 24
"""Chunks up to which one after the other is faster than side by side."""


def shared(arrivals: Floats, services: Floats, free: Floats) -> tuple[Floats, Floats]:
    """When records leave, and when servers are free again, in whatever order."""
    if len(free) == 1 or not len(arrivals):
        return kernel.single(arrivals, services, free)
    left = np.empty_like(arrivals)
    if len(free) < _SORTED:
        whole = len(arrivals) // _CHUNK
        done = whole * _CHUNK if whole > _FEW else 0
        if done:
            free = _side_by_side(arrivals[:done], services[:done], free, left[:done])
        return left, _one_by_one(arrivals[done:], services[done:], free, left[done:])
    free = np.sort(free)
    for at in range(0, len(arrivals), len(free)):
        part = slice(at, at + len(free))
        left[part], free = _by_sorting(arrivals[part], services[part], free)
    return left, free


def _side_by_side(arrivals: Floats, services: Floats, free: Floats, left: Floats) -> Floats:
    """Fill in `left` for records that are whole chunks; the new `free`."""
    table = (-1, _CHUNK)
    came = np.ascontiguousarray(arrivals.reshape(table).T)
    took = np.ascontiguousarray(services.reshape(table).T)
    begin = np.repeat(came[:1], len(free), axis=0)
    np.maximum(begin[:, 0], np.sort(free), out=begin[:, 0])
    gone, end = _pass(came, took, begin)
    again = _due(came, begin, end)
    while len(again) > _FEW:
        some = (every.take(again, axis=1) for every in (came, took, begin))  # rows stay in a row
        gone[:, again], end[:, again] = _pass(*some)
        wrong = _due(came, begin, end)
        if 4 * len(wrong) > 3 * len(again):
            again = wrong  # servers are never idle: each chunk depends on all before it
            break
        again = wrong
    _in_turn(came, took, gone, begin, end, again)
    left.reshape(table)[...] = gone.T
    return end[:, -1]


def _due(came: Floats, begin: Floats, end: Floats) -> Indices:
    """Chunks that did not begin with what the one before left; from now on they do."""
    due = np.maximum(end[:, :-1], came[0, 1:])
    wrong = np.flatnonzero((due != begin[:, 1:]).any(axis=0))
    begin[:, wrong + 1] = due[:, wrong]
    return wrong + 1


def _in_turn(
    came: Floats, took: Floats, gone: Floats, begin: Floats, end: Floats, wrong: Indices
) -> None:
    """Do chunks again that began with what is not so, and those after them for which it matters."""
    suspect, changed = set(wrong.tolist()), False
    for at in range(min(suspect, default=came.shape[1]), came.shape[1]):
        if not (changed or at in suspect):
            continue
        due = np.maximum(end[:, at - 1], came[0, at])
        changed = at in suspect or bool((due != begin[:, at]).any())
        if changed:
            end[:, at] = np.sort(_one_by_one(came[:, at], took[:, at], due, gone[:, at]))


def _pass(came: Floats, took: Floats, free: Floats) -> tuple[Floats, Floats]:
    """Work through chunks, the columns; `free`, a column each, is in order and stays so.

    The first of those that are free is gone, and those before the new one move up: what is n-th is
    the new one where it lies between what was n-th and what was the next.
    """
    gone, high = np.empty_like(came), np.empty_like(free)
    now = np.concatenate((free, np.full_like(free[:1], np.inf)))
    new = now.copy()
    ways = [(of[0], of[:-1], of[1:], to[:-1]) for of, to in ((now, new), (new, now))]
    for (first, these, nexts, to), arrivals, services, done in zip(
        itertools.cycle(ways), came, took, gone
    ):
        np.maximum(arrivals, first, out=done)
        np.add(done, services, out=done)
        np.maximum(these, done, out=high)
        np.minimum(high, nexts, out=to)
    return gone, to


def _one_by_one(arrivals: Floats, services: Floats, free: Floats, left: Floats) -> Floats:
    servers = free.tolist()
    heapq.heapify(servers)
    for at, (came, took) in enumerate(zip(arrivals.tolist(), services.tolist(), strict=True)):
        begin = servers[0]
        done = (came if came > begin else begin) + took
        heapq.heapreplace(servers, done)
        left[at] = done
    return np.array(servers)


def _by_sorting(arrivals: Floats, services: Floats, free: Floats) -> tuple[Floats, Floats]:
    """No more records than servers; `free` is sorted.

    Record n begins when it has come and n + 1 of the times at which a server becomes free have
    passed, where those times are `free` and the departures of earlier records. Records that come
    later begin later, so their departures do not change the n-th of the sorted times. Begins
    that are put in too early make departures too early and never too late: repeated from the
    earliest begins, the times rise to the one solution.
    """
    count = len(arrivals)
    begin = np.maximum(arrivals, free[:count])
    while True:
        times = np.sort(np.concatenate((free, begin + services)))
        again = np.maximum(arrivals, times[:count])
        if np.array_equal(again, begin):
            return begin + services, times[count:]
        begin = again
