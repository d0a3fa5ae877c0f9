"""Rates of all pipelines as lists of numbers, updated incrementally.

`Rates` has one object per pipeline, which is slow when a thousand slots are allocated one by one.
A rate table computes the same numbers as `rates.scaled` and `rates.grown`, to the last bit, in a
fraction of the time.
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
    """A topology with numbered pipelines; downstream pipelines have higher numbers."""

    topology: Topology

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.topology.pipelines)

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.names)}

    @cached_property
    def feeds(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Upstream pipelines of each pipeline, and how many times it reads each."""
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
        """Pipelines with sinks, and their index among these."""
        return {self.numbers[name]: at for at, name in enumerate(self.topology.sinks)}

    @cached_property
    def outlets(self) -> dict[int, tuple[int, bool]]:
        """Number of sinks in each of these pipelines, and True if it has nothing else."""
        found = self.topology.outlets
        return {self.numbers[n]: (found[n], rates.only_sinks(self.topology, n)) for n in found}

    @cached_property
    def joins(self) -> tuple[bool, ...]:
        """Pipelines with more than two inputs, whose sum must not depend on the order."""
        return tuple(len(feeds) > 2 or any(n > 1 for _, n in feeds) for feeds in self.feeds)


@dataclass(frozen=True)
class RateTable:
    """Rates by number of the pipeline. The lists must not be changed.

    changed: pipelines whose rates differ from the previous table; pressed: those of them that are
    congested; turned: those that became congested, or no longer are.
    """

    numbered: NumberedTopology
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
        numbered = NumberedTopology(topology)
        found = [known[name] for name in numbered.names]
        return cls(
            numbered,
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
        return {name: self.rate(at) for at, name in enumerate(self.numbered.names)}

    def congestion(self, at: int) -> float:
        """Rows arriving for each row processed; see `PipelineRate.congestion`."""
        if self.processed[at] == 0:
            return math.inf if self.arrival[at] > 0 else 1.0
        return self.arrival[at] / self.processed[at]

    def delivered(self, numbers: Iterable[int]) -> list[float]:
        """Rows per second delivered by the sinks in each of these pipelines."""
        taken, made = self.processed, self.output
        outlets = ((at, *self.numbered.outlets[at]) for at in numbers)
        return [count * (taken if alone else made)[at] for at, count, alone in outlets]

    @property
    def throughput(self) -> float:
        """Rows per second delivered by all sinks."""
        return math.fsum(self.delivered(self.numbered.sinks))

    def gains(self) -> list[float]:
        """Upper bound on the rows delivered for each additional row a pipeline processes.

        A pipeline at its capacity passes on nothing. A larger step gains no more per row than the
        smallest one, because capacities only reduce the gain.
        """
        found = [0.0] * len(self.arrival)
        for at in range(len(found) - 1, -1, -1):
            found[at] *= self.selectivity[at]
            if at in self.numbered.outlets:
                count, alone = self.numbered.outlets[at]
                found[at] += count if alone else count * self.selectivity[at]
            if self.arrival[at] < self.capacity[at]:
                for up, n in self.numbered.feeds[at]:
                    found[up] += n * found[at]
        return found

    def scaled(self, at: int, factor: float) -> RateTable:
        """Return the table after scaling a pipeline's capacity, propagated downstream."""
        return self._followed(at, self.arrival[at], self.capacity[at] * factor)

    def grown(self, at: int, factor: float) -> RateTable:
        """Return the table after multiplying both input and capacity of a pipeline."""
        return self._followed(at, self.arrival[at] * factor, self.capacity[at] * factor)

    def _followed(self, first: int, come: float, most: float) -> RateTable:
        """Propagate a change downstream, as far as inputs change."""
        feeds, readers, joins = self.numbered.feeds, self.numbered.readers, self.numbered.joins
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
                behind[at] = 0.0  # with capacity for all that arrives, the backlog goes
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
