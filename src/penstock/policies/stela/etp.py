"""Effective throughput percentage: who has how much of it, while slots are given out.

A pipeline that gets faster helps the sinks that its rows reach without meeting a congested
pipeline on the way; behind a congested one, more rows only wait longer. The sinks are a set: one
that is reached over two paths counts once.

What `etp.Reach` finds for all pipelines at once, a standing carries on from one ledger to the
next: masks change only upstream of what became congested, or no longer is, and the sum over a
mask only where a sink in it delivers something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.metrics.derived import rounded, rounded_array
from penstock.policies.shared.rates import CONGESTED, Rates, delivered
from penstock.policies.shared.topology import Topology
from penstock.policies.stela.rate_table import RateTable

Weights = npt.NDArray[np.float64]
"""Numbers in the order of the sinks, or of the pipelines."""


def congested(rates: Rates, over: float = CONGESTED) -> frozenset[str]:
    """The pipelines to which more than `over` rows come for each they process, or are behind."""
    return frozenset(name for name, rate in rates.items() if rate.congested(over))


@dataclass(frozen=True)
class SinkReach:
    """Which pipelines with sinks every pipeline reaches without a congested one behind it.

    masks: for each pipeline one bit for each of `sinks`, so that thousands of both are cheap.
    """

    sinks: tuple[str, ...]
    masks: Mapping[str, int]

    @classmethod
    def of(cls, topology: Topology, congested: Iterable[str]) -> SinkReach:
        """The reach in a topology; a pipeline itself may be congested, those behind it may not."""
        closed = frozenset(congested)
        bit = {name: 1 << at for at, name in enumerate(topology.sinks)}
        masks: dict[str, int] = {}
        for name in reversed(tuple(topology.pipelines)):
            mask = bit.get(name, 0)
            for reader in topology.downstream[name]:
                if reader not in closed:
                    mask |= masks[reader]
            masks[name] = mask
        return cls(topology.sinks, masks)

    def names(self, pipeline: str) -> frozenset[str]:
        """The pipelines with sinks that a pipeline reaches."""
        mask = self.masks[pipeline]
        return frozenset(name for at, name in enumerate(self.sinks) if mask >> at & 1)

    def shares(self, delivered: Mapping[str, float], of: Iterable[str]) -> dict[str, float]:
        """The share of all that is delivered which each pipeline reaches; 0 if nothing is."""
        weights = np.array([delivered[name] for name in self.sinks], dtype=np.float64)
        total = float(weights.sum())
        if total <= 0:
            return dict.fromkeys(of, 0.0)
        return {name: min(1.0, weight_of(self.masks[name], weights) / total) for name in of}


def etp(topology: Topology, rates: Rates, over: float = CONGESTED) -> dict[str, float]:
    """The share of the throughput of all sinks that depends on each pipeline, between 0 and 1."""
    reach = SinkReach.of(topology, congested(rates, over))
    return reach.shares(delivered(topology, rates), topology.pipelines)


def weight_of(mask: int, weights: Weights) -> float:
    """The weights whose bits are set."""
    if mask.bit_count() < 2:  # most pipelines near the end reach one sink
        return float(weights[mask.bit_length() - 1]) if mask else 0.0
    packed = mask.to_bytes((len(weights) + 7) // 8, "little")
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=len(weights), bitorder="little")
    return float(np.where(bits, weights, 0.0).sum())


Numbers = npt.NDArray[np.intp]

_NEAR = 1e-9
"""Difference of shares, as a part of the larger one, from which rounding cannot turn them."""


@dataclass(frozen=True)
class EtpTable:
    """What stands for each pipeline, by number; nobody writes into a standing that was made.

    masks: the sinks that each reaches without a congested one behind it, a bit for each; due: whose
    masks are still to be found, since nobody needs them; weights: what each sink delivers; sums:
    the weights of its mask for each that is congested; ratios: the congestion of these, rounded.
    """

    ledger: RateTable
    masks: list[int]
    due: bytearray
    weights: Weights
    sums: Weights
    ratios: Weights

    @classmethod
    def of(cls, ledger: RateTable) -> EtpTable:
        masks, due = [0] * len(ledger.arrival), bytearray(b"\1" * len(ledger.arrival))
        _update(masks, due, ledger)
        weights = np.array(ledger.delivered(ledger.wiring.sinks), np.float64)
        congested = _where(ledger.congested)
        sums, ratios = np.zeros(len(masks)), np.zeros(len(masks))
        sums[congested] = _sums(masks, weights, congested)
        ratios[congested] = [rounded(ledger.congestion(at)) for at in congested]
        return cls(ledger, masks, due, weights, sums, ratios)

    def after(self, ledger: RateTable) -> EtpTable:
        """The standing after one more change of the rates."""
        places, congested = ledger.wiring.sinks, ledger.congested
        few = len(ledger.changed) < len(places)
        sinks = [at for at in ledger.changed if at in places] if few else [*places]
        weights = self.weights.copy()
        weights[[places[at] for at in sinks]] = ledger.delivered(sinks)
        masks, due, moved = self.masks, self.due, set(ledger.turned)
        if ledger.turned:
            masks, due = masks[:], due[:]
            for at in ledger.turned:
                for up in ledger.wiring.upstream[at]:
                    due[up] = 1
            moved.update(_update(masks, due, ledger))
        if touched := _mask(weights != self.weights):
            moved.update([at for at in _where(congested) if masks[at] & touched])
        late = [at for at in moved if congested[at]]
        sums, ratios = self.sums.copy(), self.ratios.copy()
        sums[late] = _sums(masks, weights, late)
        ratios[ledger.pressed] = [rounded(ledger.congestion(at)) for at in ledger.pressed]
        return EtpTable(ledger, masks, due, weights, sums, ratios)

    def congested(self, among: npt.NDArray[np.bool_], count: int) -> list[int]:
        """The congested with the highest shares, of equals the most congested, in that order."""
        found = np.array(_where(self.ledger.congested), np.intp)
        found = found[among[found]]
        return self._first(found, self.sums[found], self.ratios[found], count)

    def sources(self, among: npt.NDArray[np.bool_], many: Numbers, count: int) -> list[int]:
        """The sources with the highest shares, of equals those with fewest instances."""
        found = np.array([at for at in self.ledger.wiring.sources if among[at]], np.intp)
        sums = np.array(_sums(self.masks, self.weights, found.tolist()))
        return self._first(found, sums, -many[found].astype(np.float64), count)

    def _first(self, found: Numbers, sums: Weights, second: Weights, count: int) -> list[int]:
        total = float(self.weights.sum())
        shares = np.minimum(1.0, sums / total) if total > 0 else np.zeros(len(found))
        if count < len(found):
            near = shares >= np.partition(shares, -count)[-count] * (1 - _NEAR)
            found, shares, second = found[near], shares[near], second[near]
        order = np.lexsort((-second, -rounded_array(shares)))
        return [int(at) for at in found[order[:count]]]


def _where(marks: bytearray) -> list[int]:
    """The numbers that are marked."""
    return np.flatnonzero(np.frombuffer(marks, np.uint8)).tolist()


def _mask(bits: npt.NDArray[np.bool_]) -> int:
    """A number with these bits."""
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")


def _sums(masks: list[int], weights: Weights, of: Iterable[int]) -> list[float]:
    """The weights of the masks of some; many have the same."""
    known: dict[int, float] = {}
    found = []
    for mask in (masks[at] for at in of):
        value = known.get(mask)
        if value is None:
            value = known[mask] = weight_of(mask, weights)
        found.append(value)
    return found


def _update(masks: list[int], due: bytearray, ledger: RateTable) -> set[int]:
    """Write the masks that are due, and of those before them that change; who has another one.

    No further than to the first that is congested: nobody asks for those before it.
    """
    bits, readers, upstream = ledger.wiring.sinks, ledger.wiring.readers, ledger.wiring.upstream
    congested = ledger.congested
    least = max(0, congested.find(1))
    moved = set()
    at = due.rfind(1, least)
    while at >= 0:
        due[at] = 0
        mask = 1 << bits[at] if at in bits else 0
        for reader in readers[at]:
            if not congested[reader]:
                mask |= masks[reader]
        if mask != masks[at]:
            masks[at] = mask
            moved.add(at)
            if not congested[at]:
                for up in upstream[at]:
                    due[up] = 1
        at = due.rfind(1, least, at)
    return moved
