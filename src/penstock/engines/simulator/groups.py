"""Records that chance or a key sends to servers, put together by server.

The records of a server stand in the order in which they came, and one pass goes through those of
all servers. A running sum waits in each place for the one before, which is most of its time, so
records are woven where there are many: cut into strands of a few in a row, of which the first ones
stand together, then the second ones and so on. A pass over the places of a strand then works
through all strands at once, and the ends of the strands alone are done one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator.arrays import Floats, Indices

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
