"""Departure times of queues, given arrival and service times.

One first-come-first-served server follows Lindley's recursion D = max(previous D, A) + S. Unrolled,
it is a running maximum over running sums: D = C + max(free, A - (C - S)), where C is the sum of S
so far. NumPy computes that without a loop over records. `free` holds the time at which each server
has finished earlier work. Every function returns the departures in the order of the records and the
new `free`, so a stream can be cut into blocks anywhere. Sums that are cut elsewhere round
elsewhere: results agree to about 1e-9 of the time that a block spans, not to the last bit.

Arrivals are sorted. Times are relative to the first arrival, so that precision does not fade as a
simulation goes on. Running maxima use `fmax`: there are no NaNs here, and skipping the check for
them saves a third of the time.

Records are grouped by server, each group in order of arrival, and one pass handles all groups. In a
running sum each element waits for the one before, which takes most of its time. Large groups are
therefore interleaved: they are cut into short strands, and the first elements of all strands are
stored together, then the second ones, and so on. A pass over the positions of a strand then works
on all strands at once, and only the ends of the strands are summed one by one.

In a queue that servers share, each start depends on all earlier ones, so no running maximum helps.
With few servers, the records are cut into chunks, and one pass over the positions of a chunk works
on the n-th record of all chunks at once. A chunk first assumes idle servers and is recomputed with
the state that the chunk before it left, until both agree. That is usually soon: once all servers
have been idle, earlier records make no difference. The few chunks that still disagree, and all of
them if servers are never idle, are computed record by record. Many servers are handled by sorting.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.integer[Any]]
Indices = npt.NDArray[np.intp]

_LOOP = 128
"""Number of servers from which a pass over whole rows is faster than running sums."""

_INSTANT = 1e-200
"""Seconds below which a span counts as zero."""

_FEW = 4096
"""Number of times up to which a comparison sort is used."""


def order(times: Floats) -> Indices:
    """Return the indices that sort times, stable for times equal up to rounding.

    Many times are sorted by digits, which takes a third of the time or less and gives the same
    result on every processor: two 16-bit digits, the lower one first, which NumPy sorts by radix.
    The resolution is then 2**-32 of the span of the times.
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
    """Departures from one server."""
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


def round_robin(
    arrivals: Floats, services: Floats, free: Floats, turn: int
) -> tuple[Floats, Floats]:
    """Departures from servers that take turns, each with its own queue.

    turn: server of the first record. Records form the rows of a table whose columns are the
    servers, starting with the one whose turn it is.
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
    """Fill in `left`; return the new `free`."""
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
"""Mean number of records of a server from which records are interleaved."""


@dataclass(frozen=True)
class Groups:
    """Records grouped by server.

    server: server of each record; order: indices of the records, server by server, interleaved;
    counts: number of records of each server; strand: length of a strand, 1 if not interleaved.
    """

    server: Numbers
    order: Indices
    counts: Indices
    strand: int = 1

    @classmethod
    def of(cls, server: Numbers, servers: int) -> Groups:
        """Group records by the server of each."""
        count = len(server)
        order = by_server(server, servers)
        counts = np.bincount(server, minlength=servers)
        strand = _STRAND if count >= _MANY * max(servers, _STRAND) else 1
        return cls(server, _interleaved(order, strand), counts, strand)

    def __len__(self) -> int:
        return len(self.order)

    def places(self, at: Indices) -> Indices:
        """Return where records are stored, given their places without interleaving."""
        if self.strand == 1:
            return at
        strands = len(self) // self.strand
        place = at % self.strand
        place *= strands
        place += at // self.strand
        return np.where(at < strands * self.strand, place, at)

    def first(self, servers: int) -> list[Indices]:
        """Return the records of each of the first servers."""
        ends = np.cumsum(self.counts[:servers]).tolist()
        plain = _deinterleaved(self.order, self.strand, ends[-1])
        return [plain[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def by_server(server: Numbers, servers: int) -> Indices:
    """Return the indices that group records by server; radix sort, so stable."""
    narrow = server.astype(np.uint16, copy=False) if servers <= 1 << 16 else server
    return np.argsort(narrow, kind="stable")


def _interleaved(values: Numbers, strand: int) -> Indices:
    """Interleave strands; values that do not fill a strand stay at the end."""
    if strand == 1:
        return values.astype(np.intp, copy=False)
    found = np.empty(len(values), np.intp)
    whole = len(values) // strand * strand
    found[:whole].reshape(strand, -1)[...] = values[:whole].reshape(-1, strand).T
    found[whole:] = values[whole:]
    return found


def _deinterleaved(values: Indices, strand: int, count: int) -> Indices:
    """Return the first `count` values without interleaving."""
    if strand == 1:
        return values[:count]
    whole = len(values) // strand * strand
    table = values[:whole].reshape(strand, -1)
    if count > whole:
        return np.concatenate((table.T.ravel(), values[whole:count]))
    return table[:, : -(-count // strand)].T.ravel()[:count]


def accumulate(what: np.ufunc, values: Floats, strand: int) -> None:
    """Compute running sums or maxima of interleaved values in place."""
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


def by_group(
    arrivals: Floats, services: Floats, free: Floats, groups: Groups
) -> tuple[Floats, Floats, Floats]:
    """Return departures, the new `free`, and the work that each server received.

    One running maximum covers the records of all servers: the sums before it drop so far from one
    server to the next that what one server leaves is below what the next begins with.
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
    latest = max(float(begin.max()), float(arrivals.max())) + _most_work(took, groups, first)
    origin = float(begin.min())
    came += took
    came[first] = begin + before
    took[first] -= latest - origin
    took[first[0]] += origin  # relative times keep their precision
    accumulate(np.add, took, groups.strand)
    came -= took
    accumulate(np.fmax, came, groups.strand)
    came += took
    work = np.zeros(len(free))
    work[used] = took[last] - took[first] + before
    free = free.copy()
    free[used] = came[last]
    left = np.empty_like(came)
    left[groups.order] = came
    return left, free, work


def _most_work(services: Floats, groups: Groups, first: Indices) -> float:
    """Upper bound of the work of one server; the tighter, the more precise the sums."""
    if groups.strand == 1:
        return float(np.add.reduceat(services, first).max())
    return min(float(services.max()) * int(groups.counts.max()), float(services.sum()))


_SORTED = 48
"""Number of servers from which sorting is faster."""

_CHUNK = 256
"""Records of a chunk."""

_FEW_LEFT = 24
"""Number of chunks up to which computing them one by one is faster than side by side."""


def shared(arrivals: Floats, services: Floats, free: Floats) -> tuple[Floats, Floats]:
    """Departures from servers that share a queue; the new `free` is unordered."""
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
    """Fill in `left` for whole chunks; return the new `free`."""
    table = (-1, _CHUNK)
    came = np.ascontiguousarray(arrivals.reshape(table).T)
    took = np.ascontiguousarray(services.reshape(table).T)
    begin = np.repeat(came[:1], len(free), axis=0)
    np.maximum(begin[:, 0], np.sort(free), out=begin[:, 0])
    gone, end = _chunks(came, took, begin)
    again = _corrected(came, begin, end)
    while len(again) > _FEW_LEFT:
        some = (every.take(again, axis=1) for every in (came, took, begin))  # keeps rows contiguous
        gone[:, again], end[:, again] = _chunks(*some)
        wrong = _corrected(came, begin, end)
        if 4 * len(wrong) > 3 * len(again):
            again = wrong  # servers are never idle: each chunk depends on all earlier ones
            break
        again = wrong
    _recompute(came, took, gone, begin, end, again)
    left.reshape(table)[...] = gone.T
    return end[:, -1]


def _corrected(came: Floats, begin: Floats, end: Floats) -> Indices:
    """Correct wrong starting states; return the chunks that had one."""
    due = np.maximum(end[:, :-1], came[0, 1:])
    wrong = np.flatnonzero((due != begin[:, 1:]).any(axis=0))
    begin[:, wrong + 1] = due[:, wrong]
    return wrong + 1


def _recompute(
    came: Floats, took: Floats, gone: Floats, begin: Floats, end: Floats, wrong: Indices
) -> None:
    """Recompute chunks whose starting state was wrong.

    That includes later chunks that depend on them.
    """
    suspect, changed = set(wrong.tolist()), False
    for at in range(min(suspect, default=came.shape[1]), came.shape[1]):
        if not (changed or at in suspect):
            continue
        due = np.maximum(end[:, at - 1], came[0, at])
        changed = at in suspect or bool((due != begin[:, at]).any())
        if changed:
            end[:, at] = np.sort(_one_by_one(came[:, at], took[:, at], due, gone[:, at]))


def _chunks(came: Floats, took: Floats, free: Floats) -> tuple[Floats, Floats]:
    """Compute all chunks, one a column; the columns of `free` stay sorted.

    The record takes the first server, and servers move up to make room for its departure: the n-th
    is the departure if that lies between the former n-th and the next.
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
    """Fill in `left` record by record; return the new `free`."""
    servers = free.tolist()
    heapq.heapify(servers)
    for at, (came, took) in enumerate(zip(arrivals.tolist(), services.tolist(), strict=True)):
        begin = servers[0]
        done = (came if came > begin else begin) + took
        heapq.heapreplace(servers, done)
        left[at] = done
    return np.array(servers)


def _by_sorting(arrivals: Floats, services: Floats, free: Floats) -> tuple[Floats, Floats]:
    """Departures of no more records than servers; `free` is sorted.

    Record n begins once it has arrived and n + 1 servers have become free, counting `free` and the
    departures of earlier records. Later records begin later, so their departures do not change the
    n-th of the sorted times. Begins that are assumed too early give departures that are too early
    and never too late: iterated from the earliest begins, the times rise to the one solution.
    """
    count = len(arrivals)
    begin = np.maximum(arrivals, free[:count])
    while True:
        times = np.sort(np.concatenate((free, begin + services)))
        again = np.maximum(arrivals, times[:count])
        if np.array_equal(again, begin):
            return begin + services, times[count:]
        begin = again
