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
"""

from __future__ import annotations

import numpy as np

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
