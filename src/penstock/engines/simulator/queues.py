"""The mathematics of queues: when records leave, given when they come and how long they take.

One server, first come first served, is Lindley's recursion D = max(D before, A) + S. Unrolled it
is a running maximum over running sums, D = C + max(free, A - (C - S)) with C the sum of S so far,
so that NumPy does it without a loop over records. `free` says when each server has done what was
given to it before; every function returns the departures in the order of the records and the
new `free`, so a stream may be cut into blocks anywhere. Sums that are cut elsewhere are rounded
elsewhere: results agree to about 1e-9 of the time that a block spans, not to the last bit.

Arrivals are sorted. Times are taken relative to the first arrival, so that precision does not
fade as a simulation goes on. Running maxima are those of `fmax`: nothing here is not a number, and
not to look for that takes a third less time.

The records of a server stand in the order in which they came, and one pass goes through those of
all servers. A running sum waits in each place for the one before, which is most of its time, so
records are woven where there are many: cut into strands of a few in a row, of which the first ones
stand together, then the second ones and so on. A pass over the places of a strand then works
through all strands at once, and the ends of the strands alone are done one after the other.

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
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator.arrays import Floats, Indices

_LOOP = 128
"""Servers from which on a pass over whole rows of records is faster than running sums."""

_INSTANT = 1e-200
"""Seconds that are none."""

_FEW = 4096
"""Times up to which they are compared with each other to put them in order."""


def order(times: Floats) -> Indices:
    """What puts times in order; of times that are equal but for rounding, the first first.

    Many are sorted by digits, which takes a third of the time or less, and is the same on every
    processor: two of 16 bits each, the lower one first, which NumPy sorts by radix. So times count
    to 2**-32 of what they span.
    """
    if len(times) > _FEW:
        first = float(times.min())
        span = float(times.max()) - first
        if span > _INSTANT:
            since = times - first
            since *= ((1 << 32) - 1) / span
            digits = since.astype(np.uint32)
            found = np.argsort(digits.astype(np.uint16), kind="stable")
            digits >>= 16
            high = digits.astype(np.uint16).take(found, mode="wrap")
            return found.take(np.argsort(high, kind="stable"), mode="wrap")
    return np.argsort(times, kind="stable")


def single(arrivals: Floats, services: Floats, free: Floats) -> tuple[Floats, Floats]:
    """One server."""
    if not len(arrivals):
        return arrivals, free
    origin = arrivals[0]
    done = np.cumsum(services)
    latest = services - done
    latest += arrivals
    latest -= origin
    latest[0] = max(latest[0], free[0] - origin)
    np.fmax.accumulate(latest, out=latest)
    done += latest
    done += origin
    return done, done[-1:].copy()


def robin(arrivals: Floats, services: Floats, free: Floats, turn: int) -> tuple[Floats, Floats]:
    """Servers in turn, each with a queue of its own; `turn` is the first record's server.

    Records are the rows of a table whose columns are the servers, from the one whose turn it is.
    """
    servers, count = len(free), len(arrivals)
    if servers == 1 or not count:
        return single(arrivals, services, free)
    left = np.empty(count)
    now = np.roll(free, -turn)
    whole = count // servers * servers
    if whole:
        table = (whole // servers, servers)
        came, took = arrivals[:whole].reshape(table), services[:whole].reshape(table)
        now = _columns(came, took, now, left[:whole].reshape(table))
    rest = count - whole
    now = now.copy()
    now[:rest] = np.maximum(arrivals[whole:], now[:rest]) + services[whole:]
    left[whole:] = now[:rest]
    return left, np.roll(now, turn)


def _columns(came: Floats, took: Floats, free: Floats, left: Floats) -> Floats:
    """Fill in `left`; the new `free`."""
    if len(free) >= _LOOP:
        begin = np.empty_like(free)
        for arrivals, services, done in zip(came, took, left, strict=True):
            np.maximum(arrivals, free, out=begin)
            np.add(begin, services, out=done)
            free = done
        return free
    origin = came[0, 0]
    np.cumsum(took, axis=0, out=left)
    latest = took - left
    latest += came
    latest -= origin
    np.maximum(latest[0], free - origin, out=latest[0])
    np.fmax.accumulate(latest, axis=0, out=latest)
    left += latest
    left += origin
    return np.asarray(left[-1])


_STRAND = 8
"""Records of a strand."""

_MANY = 32
"""Records of a server, on average, from which on they are woven."""


@dataclass(frozen=True)
class Groups:
    """What puts records together by server.

    server: that of each; order: their places, server by server and woven; counts: how many each
    server has; strand: how many are in a row.
    """

    server: npt.NDArray[np.integer[Any]]
    order: Indices
    counts: Indices
    strand: int = 1

    @classmethod
    def of(cls, server: npt.NDArray[np.integer[Any]], servers: int) -> Groups:
        """By the server of each record."""
        count = len(server)
        order = by_server(server, servers)
        counts = np.bincount(server, minlength=servers)
        strand = _STRAND if count >= _MANY * max(servers, _STRAND) else 1
        return cls(server, _woven(order, strand), counts, strand)

    def __len__(self) -> int:
        return len(self.order)

    def places(self, at: Indices) -> Indices:
        """Where records stand, by their places without weaving."""
        if self.strand == 1:
            return at
        strands = len(self) // self.strand
        woven = at % self.strand
        woven *= strands
        woven += at // self.strand
        return np.where(at < strands * self.strand, woven, at)

    def first(self, servers: int) -> list[Indices]:
        """The records of the first servers, one server after the other."""
        ends = np.cumsum(self.counts[:servers]).tolist()
        plain = _plain(self.order, self.strand, ends[-1])
        return [plain[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def by_server(server: npt.NDArray[np.integer[Any]], servers: int) -> Indices:
    """What puts records together by server; NumPy sorts numbers of 16 bits by radix, fast."""
    narrow = server.astype(np.uint16, copy=False) if servers <= 1 << 16 else server
    return np.argsort(narrow, kind="stable")


def _woven(values: npt.NDArray[np.integer[Any]], strand: int) -> Indices:
    """The first ones of all strands, then the second ones; what makes no whole strand stays."""
    if strand == 1:
        return values.astype(np.intp, copy=False)
    found = np.empty(len(values), np.intp)
    whole = len(values) // strand * strand
    found[:whole].reshape(strand, -1)[...] = values[:whole].reshape(-1, strand).T
    found[whole:] = values[whole:]
    return found


def _plain(values: Indices, strand: int, count: int) -> Indices:
    """The first of woven values as they were before."""
    if strand == 1:
        return values[:count]
    whole = len(values) // strand * strand
    table = values[:whole].reshape(strand, -1)
    if count > whole:
        return np.concatenate((table.T.ravel(), values[whole:count]))
    return table[:, : -(-count // strand)].T.ravel()[:count]


def running(what: np.ufunc, values: Floats, strand: int) -> None:
    """Running sums or maxima of woven values, in place."""
    if strand == 1:
        what.accumulate(values, out=values)
        return
    whole = len(values) // strand * strand
    table = values[:whole].reshape(strand, -1)
    for before, row in pairwise(table):
        what(before, row, out=row)
    ends = what.accumulate(table[-1])
    what(table[:, 1:], ends[:-1], out=table[:, 1:])
    what.accumulate(values[whole - 1 :], out=values[whole - 1 :])


def dealt(
    arrivals: Floats, services: Floats, free: Floats, groups: Groups
) -> tuple[Floats, Floats, Floats]:
    """When records leave, when each server is free again, and the work that it got.

    One running maximum goes through the records of all servers: the sums before it fall so far
    from server to server that what one has left is below what the next begins with.
    """
    if not len(arrivals):
        return arrivals, free, np.zeros(len(free))
    came = arrivals.take(groups.order, mode="wrap")
    took = services.take(groups.order, mode="wrap")
    used = np.flatnonzero(groups.counts)
    counts = groups.counts[used]
    ends = np.cumsum(counts)
    first, last = groups.places(np.stack((ends - counts, ends - 1)))
    begin, before = np.maximum(came[first], free[used]), took[first]
    latest = max(float(begin.max()), float(arrivals.max())) + _most(took, groups, first)
    origin = float(begin.min())
    came += took
    came[first] = begin + before
    took[first] -= latest - origin
    took[first[0]] += origin  # times are relative to it, so that precision does not fade
    running(np.add, took, groups.strand)
    came -= took
    running(np.fmax, came, groups.strand)
    came += took
    work = np.zeros(len(free))
    work[used] = took[last] - took[first] + before
    free = free.copy()
    free[used] = came[last]
    left = np.empty_like(came)
    left[groups.order] = came
    return left, free, work


def _most(services: Floats, groups: Groups, first: Indices) -> float:
    """No server got more work; the nearer to the most, the finer the sums."""
    if groups.strand == 1:
        return float(np.add.reduceat(services, first).max())
    return min(float(services.max()) * int(groups.counts.max()), float(services.sum()))


_SORTED = 48
"""Servers from which on sorting is faster."""

_CHUNK = 256
"""Records of a chunk."""

_FEW_LEFT = 24
"""Chunks up to which one after the other is faster than side by side."""


def shared(arrivals: Floats, services: Floats, free: Floats) -> tuple[Floats, Floats]:
    """When records leave, and when servers are free again, in whatever order."""
    if len(free) == 1 or not len(arrivals):
        return single(arrivals, services, free)
    left = np.empty_like(arrivals)
    if len(free) < _SORTED:
        whole = len(arrivals) // _CHUNK
        done = whole * _CHUNK if whole > _FEW_LEFT else 0
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
    while len(again) > _FEW_LEFT:
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
