"""Instances of a pipeline: which one gets which record, and when it is idle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.engines.simulator import network, queues
from penstock.engines.simulator.distributions import Chooser, Dealer
from penstock.engines.simulator.model import Dispatch
from penstock.engines.simulator.queues import Floats, Groups, Indices, Numbers, by_group, shared

_WATCHED = 4
"""Instances of a pipeline whose gaps between records are measured."""


@dataclass(frozen=True)
class Given:
    """Records given to instances.

    ready: when each could begin but for the records before it; groups: the records by instance,
    None where they took turns from instance `turn` on; work, rows: of each instance; gathered:
    total seconds that records waited for the cadence.
    """

    ready: Floats
    service: Floats
    left: Floats
    groups: Groups | None
    turn: int
    work: Floats
    rows: Indices
    gathered: float

    def servers(self, which: Indices) -> Numbers:
        """Return the instances of some records."""
        if self.groups is None:
            return (self.turn + which) % len(self.rows)
        return self.groups.server[which]


class Instances:
    """Instances with a queue each, or one queue for all.

    free: when each has finished the work it was given; held: until when each stands still; slow:
    factor on a record's time at each (None: 1); shares: of the records, where keys decide; cadence:
    seconds for which an instance gathers its input, unless channels do that.
    """

    def __init__(
        self,
        count: int,
        now: float,
        rng: np.random.Generator,
        *,
        dispatch: Dispatch = Dispatch.TURN,
        shares: Floats | None = None,
    ) -> None:
        self.count = count
        self.free = np.full(count, now)
        self.held = np.full(count, now)
        self.slow: Floats | None = None
        self.shares = shares
        self._rng = rng
        chance = dispatch is Dispatch.CHANCE
        self._weights = np.ones(count) if shares is None and chance else shares
        self._dealer: Dealer | None = None
        self._chooser: Chooser | None = None
        self._shared = dispatch is Dispatch.SHARED and shares is None and count > 1
        self.cadence = 0.0
        self._phases = network.phases(count)
        self._turn = 0
        self._head: int | None = None

    def deal(self, count: int, settled: Numbers | None = None) -> Groups | None:
        """Group new records by instance; None if they take turns.

        A record that was given back because its instance was full keeps that instance. settled:
        instance of each record whose key is known, else -1.
        """
        if self.count == 1 or self._weights is None:
            return None
        self._dealer = self._dealer or Dealer(self._weights, self._rng)
        head, self._head = self._head, None
        return self._dealer.deal(count, head, settled)

    def choose(self, count: int) -> Numbers | None:
        """Return the instance of each record; None if they are split evenly."""
        if self.count == 1 or self._weights is None:
            return None
        self._chooser = self._chooser or Chooser(self._weights)
        return self._chooser.draw(self._rng, count)

    def give(self, ready: Floats, service: Floats, groups: Groups | None = None) -> Given:
        """Give records to instances, sorted by `ready`; groups: if already grouped."""
        turn = self._turn
        if not len(ready):
            none = np.zeros(self.count)
            return Given(ready, service, ready, None, turn, none, none.astype(np.intp), 0.0)
        groups = self.deal(len(ready)) if groups is None else groups
        if self.slow is not None:
            service = service * self._of_each(self.slow, groups, len(ready))
        gathered = 0.0
        if self.cadence:
            phases = self._of_each(self.cadence * self._phases, groups, len(ready))
            flushed = network.shipped(ready, phases, self.cadence)
            gathered = float(flushed.sum() - ready.sum())
            ready = flushed
        left, work, rows = self._queue(ready, service, groups)
        self._turn = (turn + len(ready)) % self.count
        return Given(ready, service, left, groups, turn, work, rows, gathered)

    @property
    def can_block(self) -> bool:
        """True if a full instance holds back the records for the others."""
        return self.count > 1 and not self._shared and not self.cadence

    def give_back(self, given: Given, enters: Floats, service: Floats, free: Floats) -> Given:
        """Give only the records that can enter; the next record keeps its instance.

        enters: when each enters; free: when instances were free before anything was given.
        """
        count, self.free, self._turn = len(enters), free, given.turn
        groups = given.groups
        if groups is not None:
            self._head = int(groups.server[count]) if count < len(groups) else None
            groups = Groups.of(groups.server[:count], self.count)
        return self.give(enters, service, groups)

    def _of_each(self, values: Floats, groups: Groups | None, count: int) -> Floats:
        """Return the value of each record's instance."""
        turns = (self._turn + np.arange(count)) % self.count if groups is None else groups.server
        return values.take(turns)

    def _queue(
        self, ready: Floats, service: Floats, groups: Groups | None
    ) -> tuple[Floats, Floats, Indices]:
        rows = turn_counts(len(ready), self.count, self._turn) if groups is None else groups.counts
        if service[0] == 0.0 and not service.any() and float(self.free.max()) <= ready.min():
            return ready, np.zeros(self.count), rows
        if groups is not None:
            left, self.free, work = by_group(ready, service, self.free, groups)
            return left, work, rows
        if self._shared:
            left, self.free = shared(ready, service, self.free)
            even = np.full(self.count, service.sum() / self.count)
            return left, even, turn_counts(len(ready), self.count, 0)
        left, self.free = queues.round_robin(ready, service, self.free, self._turn)
        return left, turn_totals(service, self.count, self._turn), rows

    def watched(self, given: Given) -> list[Floats]:
        """Ready times of the records of a few instances; of all if they share a queue."""
        if self._shared:
            return [given.ready]
        few = min(self.count, _WATCHED)
        if given.groups is not None:
            return [given.ready[mine] for mine in given.groups.first(few)]
        return [
            given.ready[(which - given.turn) % self.count :: self.count] for which in range(few)
        ]

    def unfinished(self, free: Floats, at: float) -> Floats:
        """Unfinished work of each instance at a time; the mean if they share a queue."""
        left = np.maximum(free - at, 0.0)
        return np.full(self.count, left.mean()) if self._shared else left

    def hold(self, until: float | Floats, servers: Numbers | None = None) -> None:
        """Stop instances until a time (None: all), or longer if they already are."""
        which = slice(None) if servers is None else servers
        self.held[which] = np.maximum(self.held[which], until)
        self.free[which] = np.maximum(self.free[which], self.held[which])

    def reset(self, now: float, server: Numbers, left: Floats) -> None:
        """Drop all work except that of records already begun."""
        self.free, self._head = np.maximum(self.held, now), None
        if self._shared:  # any instance may have begun a record of a shared queue
            server = np.arange(len(left)) % self.count
        np.maximum.at(self.free, server, left)

    def room(self, bound: int, held: Numbers, mean: float, begin: float, end: float) -> float:
        """Records that fit until `end` with at most `bound` waiting at an instance.

        held: records of each instance that will not have left by then. What an instance gathers
        waits in front of it, so it takes no room.
        """
        if self.cadence:
            idle = (end - begin) - np.maximum(self.free - self.cadence - begin, 0.0)
            return self._tightest(np.maximum(bound + idle / mean, 0.0))
        places = bound + 1 - held + np.maximum(end - np.maximum(self.free, begin), 0.0) / mean
        if not self.can_block:
            return max(0.0, float(places.sum()))
        places = np.maximum(places, 0.0)
        likely = self._tightest(places + 4.0 * np.sqrt(places) + 6.0)  # practically never more
        return min(float(places.sum()), likely)

    def _tightest(self, places: Floats) -> float:
        """Number of records until the first instance is full, given their shares."""
        if self.shares is None:
            return float(places.min()) * self.count
        with np.errstate(divide="ignore"):
            return float(np.min(places / self.shares))


def turn_counts(count: int, servers: int, turn: int) -> Indices:
    """Number of records that each server gets in turn."""
    rows = np.full(servers, count // servers, np.intp)
    rows[(turn + np.arange(count % servers)) % servers] += 1
    return rows


def turn_totals(service: Floats, servers: int, turn: int) -> Floats:
    """Work that each server gets in turn."""
    whole = len(service) // servers * servers
    given = np.zeros(servers)
    if whole:
        given = np.roll(service[:whole].reshape(-1, servers).sum(axis=0), turn)
    given[(turn + np.arange(len(service) - whole)) % servers] += service[whole:]
    return given
