"""The rates of all pipelines in arrays, updated incrementally for a thousand changes in a row.

A `Rates` holds an object for each pipeline. Where a thousand slots are given out one by one and
each changes most of what is behind it, lists of plain numbers take a fraction of the time. Step
by step a ledger reckons as `rates.scaled` and `rates.grown` do, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from penstock.policies.shared import rates
from penstock.policies.shared.rates import ROUNDING, PipelineRate, Rates
from penstock.policies.shared.topology import Topology


@dataclass(frozen=True)
class NumberedTopology:
    """A topology by number. Numbers follow the records, so that readers have higher ones."""

    topology: Topology

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.topology.pipelines)

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.names)}

    @cached_property
    def feeds(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Whom each reads, and how many times."""
        numbers, feeds = self.numbers, self.topology.feeds
        return tuple(tuple((numbers[up], n) for up, n in feeds[name].items()) for name in numbers)

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        numbers, readers = self.numbers, self.topology.downstream
        return tuple(tuple(numbers[r] for r in readers[name]) for name in numbers)

    @cached_property
    def upstream(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(up for up, _ in feeds) for feeds in self.feeds)

    @cached_property
    def sources(self) -> tuple[int, ...]:
        return tuple(self.numbers[name] for name in self.topology.sources)

    @cached_property
    def sinks(self) -> dict[int, int]:
        """Those that hold sinks, with their places among these."""
        return {self.numbers[name]: at for at, name in enumerate(self.topology.sinks)}

    @cached_property
    def outlets(self) -> dict[int, tuple[int, bool]]:
        """How many sinks they hold, and whether nothing else."""
        found = self.topology.outlets
        return {self.numbers[n]: (found[n], rates.only_sinks(self.topology, n)) for n in found}

    @cached_property
    def joins(self) -> tuple[bool, ...]:
        """Those for whose input it is not enough to add one or two outputs."""
        return tuple(len(feeds) > 2 or any(n > 1 for _, n in feeds) for feeds in self.feeds)


@dataclass(frozen=True)
class RateTable:
    """Rates by number; nobody writes into the lists of a ledger that was made.

    changed: the pipelines that differ from those of the ledger before; pressed: those of them that
    are congested; turned: those that have become so, or are no longer.
    """

    wiring: NumberedTopology
    over: float
    arrival: list[float]
    processed: list[float]
    capacity: list[float]
    selectivity: list[float]
    output: list[float]
    behind: list[float]
    congested: bytearray
    changed: list[int]
    pressed: list[int]
    turned: list[int]

    @classmethod
    def of(cls, topology: Topology, known: Rates, over: float) -> RateTable:
        wiring = NumberedTopology(topology)
        found = [known[name] for name in wiring.names]
        return cls(
            wiring,
            over,
            arrival=[rate.arrival for rate in found],
            processed=[rate.processed for rate in found],
            capacity=[rate.capacity for rate in found],
            selectivity=[rate.selectivity for rate in found],
            output=[rate.output for rate in found],
            behind=[rate.behind for rate in found],
            congested=bytearray(rate.congested(over) for rate in found),
            changed=[],
            pressed=[],
            turned=[],
        )

    def rate(self, at: int) -> PipelineRate:
        return PipelineRate(
            self.arrival[at],
            self.processed[at],
            self.capacity[at],
            self.selectivity[at],
            self.behind[at],
        )

    @property
    def rates(self) -> Rates:
        return {name: self.rate(at) for at, name in enumerate(self.wiring.names)}

    def congestion(self, at: int) -> float:
        """Rows that come for each row processed, as `Rate.congestion`."""
        if self.processed[at] == 0:
            return math.inf if self.arrival[at] > 0 else 1.0
        return self.arrival[at] / self.processed[at]

    def delivered(self, numbers: Iterable[int]) -> list[float]:
        """Rows per second delivered by the sinks of pipelines that hold some."""
        taken, made = self.processed, self.output
        outlets = ((at, *self.wiring.outlets[at]) for at in numbers)
        return [count * (taken if alone else made)[at] for at, count, alone in outlets]

    @property
    def throughput(self) -> float:
        """Rows per second delivered by all sinks."""
        return math.fsum(self.delivered(self.wiring.sinks))

    def gains(self) -> list[float]:
        """Rows that the sinks deliver more for each that a pipeline processes more, at most.

        Who can do no more passes nothing on. Capacities only ever bend a gain down, so that a
        larger step gains no more for each row than the smallest one.
        """
        found = [0.0] * len(self.arrival)
        for at in range(len(found) - 1, -1, -1):
            found[at] *= self.selectivity[at]
            if at in self.wiring.outlets:
                count, alone = self.wiring.outlets[at]
                found[at] += count if alone else count * self.selectivity[at]
            if self.arrival[at] < self.capacity[at]:
                for up, n in self.wiring.feeds[at]:
                    found[up] += n * found[at]
        return found

    def scaled(self, at: int, factor: float) -> RateTable:
        """After a pipeline can process `factor` times as much; what is behind it follows."""
        return self._followed(at, self.arrival[at], self.capacity[at] * factor)

    def grown(self, at: int, factor: float) -> RateTable:
        """After `factor` times as much comes to a pipeline, and it can process that."""
        return self._followed(at, self.arrival[at] * factor, self.capacity[at] * factor)

    def _followed(self, first: int, come: float, most: float) -> RateTable:
        """Only those are looked at whose input changes: who can do no more puts out no more."""
        feeds, readers, joins = self.wiring.feeds, self.wiring.readers, self.wiring.joins
        before, selectivity, limit = self.output, self.selectivity, self.over * (1 + ROUNDING)
        arrival, processed, output = self.arrival[:], self.processed[:], self.output[:]
        capacity, behind, congested = self.capacity[:], self.behind[:], self.congested[:]
        changed: list[int] = []
        pressed: list[int] = []
        turned: list[int] = []
        arrival[first], capacity[first] = come, most
        more = [0.0] * len(arrival)
        due = bytearray(len(arrival))
        calm, find = limit < 1.0, due.find
        at = first
        while at >= 0:
            changed.append(at)
            if joins[at]:
                gain = math.fsum([n * (output[up] - before[up]) for up, n in feeds[at]])
                come = arrival[at] + gain
            else:
                come = arrival[at] + more[at]
            if come < 0.0:
                come = 0.0
            arrival[at] = come
            most = capacity[at]
            if come <= most:
                processed[at] = most = come
                behind[at] = 0.0  # with instances for what comes, what waits will be done
                full = calm
            else:
                processed[at] = most
                full = behind[at] > 0 or not most or come / most > limit
            if full:
                pressed.append(at)
            if full != congested[at]:
                congested[at] = full
                turned.append(at)
            then = most * selectivity[at]
            change = then - before[at]
            if change:
                output[at] = then
                for reader in readers[at]:
                    more[reader] += change
                    due[reader] = 1
            at = find(1, at + 1)
        return replace(
            self,
            arrival=arrival,
            processed=processed,
            capacity=capacity,
            output=output,
            behind=behind,
            congested=congested,
            changed=changed,
            pressed=pressed,
            turned=turned,
        )
