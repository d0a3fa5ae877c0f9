"""Who is congested and what depends on each of them, kept up to date while rates change.

It is the effective throughput percentage of `etp`, of congested pipelines only. When some rates
change, no more is reckoned anew than what these can have changed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.models.etp import Reach, congested, total
from penstock.models.rates import Rates, delivered
from penstock.models.topology import Topology

Worth = tuple[float, float, int]
"""Rows delivered that depend on a pipeline, how congested it is, and how near to the sources."""


@dataclass(frozen=True)
class Standing:
    """The congested pipelines of a flow, by worth: the largest counts most.

    masks: what each pipeline reaches, as in `Reach`; rows: what the pipelines with sinks deliver.
    """

    topology: Topology
    rates: Rates
    over: float
    masks: dict[str, int]
    rows: npt.NDArray[np.float64]
    worth: Mapping[str, Worth]

    @classmethod
    def of(cls, topology: Topology, rates: Rates, over: float) -> Standing:
        """The standing under some rates, all of it reckoned."""
        closed = congested(rates, over)
        masks = dict(Reach.of(topology, closed).masks)
        rows = np.array([delivered(topology, rates, name) for name in topology.sinks], np.float64)
        empty = cls(topology, rates, over, masks, rows, {})
        worth = {name: empty._worth(name) for name in topology.pipelines if name in closed}
        return cls(topology, rates, over, masks, rows, worth)

    @cached_property
    def congested(self) -> frozenset[str]:
        return frozenset(self.worth)

    @cached_property
    def best(self) -> str | None:
        """The congested pipeline that counts most; None if none is congested."""
        return max(self.worth, key=self.worth.__getitem__, default=None)

    def after(self, moved: Rates) -> Standing:
        """The standing when some pipelines have other rates."""
        rates = {**self.rates, **moved}
        now = {name for name in moved if rates[name].congestion > self.over}
        turned = [name for name in moved if (name in self.worth) != (name in now)]
        closed = set(self.worth).difference(moved) | now
        masks, stale = self._reached(turned, closed)
        rows, changed = self.rows.copy(), []
        for name in moved:
            at = self.topology.outlet_at.get(name)
            if at is not None and (found := delivered(self.topology, rates, name)) != rows[at]:
                rows[at] = found
                changed.append(name)
        stale |= self._depending(changed, closed) | now
        rest = Standing(self.topology, rates, self.over, masks, rows, {})
        worth = {name: one for name, one in self.worth.items() if name in closed}
        worth.update({name: rest._worth(name) for name in stale & closed})
        return Standing(self.topology, rates, self.over, masks, rows, worth)

    def _worth(self, name: str) -> Worth:
        place = self.topology.place[name]
        return total(self.masks[name], self.rows), self.rates[name].congestion, -place

    def _reached(self, turned: Iterable[str], closed: set[str]) -> tuple[dict[str, int], set[str]]:
        """The masks when some have become congested or are so no longer, and whose have changed."""
        upstream, downstream = self.topology.upstream, self.topology.downstream
        order, place = self.topology.order, self.topology.place
        queued = {up for name in turned for up in upstream[name]}
        heap = [-place[name] for name in queued]
        heapq.heapify(heap)
        masks = dict(self.masks) if queued else self.masks
        stale: set[str] = set()
        while heap:
            name = order[-heapq.heappop(heap)]
            at = self.topology.outlet_at.get(name)
            mask = 0 if at is None else 1 << at
            for reader in downstream[name]:
                if reader not in closed:
                    mask |= masks[reader]
            if mask == masks[name]:
                continue
            masks[name] = mask
            stale.add(name)
            if name not in closed:  # behind a congested one nobody is reached
                for up in upstream[name]:
                    if up not in queued:
                        queued.add(up)
                        heapq.heappush(heap, -place[up])
        return masks, stale

    def _depending(self, sinks: Iterable[str], closed: set[str]) -> set[str]:
        """The pipelines that reach one of these."""
        found: set[str] = set(sinks)
        stack = [*found]
        while stack:
            name = stack.pop()
            if name in closed:
                continue
            new = [up for up in self.topology.upstream[name] if up not in found]
            found.update(new)
            stack += new
        return found
