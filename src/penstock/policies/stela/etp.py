"""Effective throughput percentage (ETP), and its update while slots are given.

A faster pipeline helps the sinks that its rows reach without a congested pipeline on the way; at a
congested one, more rows would only wait longer. A sink reached over two paths counts once.

`SinkReach` computes this for all pipelines at once. `EtpTable` updates it from one rate table to
the next: masks of sinks change only upstream of pipelines that became congested or no longer are,
and the sum over a mask only if one of its sinks delivers more or less.
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
"""One number for each sink, or for each pipeline."""


def congested(rates: Rates, over: float = CONGESTED) -> frozenset[str]:
    """Pipelines with more than `over` arriving rows per processed row, or a backlog."""
    return frozenset(name for name, rate in rates.items() if rate.congested(over))


@dataclass(frozen=True)
class SinkReach:
    """Sinks that each pipeline reaches without a congested pipeline downstream of it.

    masks: for each pipeline, one bit per entry of `sinks`, which is cheap for thousands of both.
    """

    sinks: tuple[str, ...]
    masks: Mapping[str, int]

    @classmethod
    def of(cls, topology: Topology, congested: Iterable[str]) -> SinkReach:
        """Compute the reach; only pipelines downstream must be free of congestion."""
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
        """Pipelines with sinks that a pipeline reaches."""
        mask = self.masks[pipeline]
        return frozenset(name for at, name in enumerate(self.sinks) if mask >> at & 1)

    def shares(self, delivered: Mapping[str, float], of: Iterable[str]) -> dict[str, float]:
        """Share of all delivered rows that goes to the sinks each pipeline reaches."""
        weights = np.array([delivered[name] for name in self.sinks], dtype=np.float64)
        total = float(weights.sum())
        if total <= 0:
            return dict.fromkeys(of, 0.0)
        return {name: min(1.0, weight_of(self.masks[name], weights) / total) for name in of}


def etp(topology: Topology, rates: Rates, over: float = CONGESTED) -> dict[str, float]:
    """Share of total sink throughput that depends on each pipeline, from 0 to 1."""
    reach = SinkReach.of(topology, congested(rates, over))
    return reach.shares(delivered(topology, rates), topology.pipelines)


def weight_of(mask: int, weights: Weights) -> float:
    """Sum of the weights whose bits are set."""
    if mask.bit_count() < 2:  # most pipelines reach one sink
        return float(weights[mask.bit_length() - 1]) if mask else 0.0
    packed = mask.to_bytes((len(weights) + 7) // 8, "little")
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=len(weights), bitorder="little")
    return float(np.where(bits, weights, 0.0).sum())


Numbers = npt.NDArray[np.intp]

_NEAR = 1e-9
"""Relative difference of shares beyond which rounding cannot change their order."""


@dataclass(frozen=True)
class EtpTable:
    """ETP of all pipelines, by number of the pipeline. The lists must not be changed.

    masks: sinks that each pipeline reaches, one bit per sink; due: pipelines whose mask is not
    computed yet, because it is not needed; weights: rows per second that each sink delivers; sums:
    for each congested pipeline, the sum of weights over its mask; ratios: its congestion, rounded.
    """

    table: RateTable
    masks: list[int]
    due: bytearray
    weights: Weights
    sums: Weights
    ratios: Weights

    @classmethod
    def of(cls, table: RateTable) -> EtpTable:
        masks, due = [0] * len(table.arrival), bytearray(b"\1" * len(table.arrival))
        _update(masks, due, table)
        weights = np.array(table.delivered(table.numbered.sinks), np.float64)
        congested = _where(table.congested)
        sums, ratios = np.zeros(len(masks)), np.zeros(len(masks))
        sums[congested] = _sums(masks, weights, congested)
        ratios[congested] = [rounded(table.congestion(at)) for at in congested]
        return cls(table, masks, due, weights, sums, ratios)

    def after(self, table: RateTable) -> EtpTable:
        """Return the table after a further change of the rates."""
        places, congested = table.numbered.sinks, table.congested
        few = len(table.changed) < len(places)
        sinks = [at for at in table.changed if at in places] if few else [*places]
        weights = self.weights.copy()
        weights[[places[at] for at in sinks]] = table.delivered(sinks)
        masks, due, moved = self.masks, self.due, set(table.turned)
        if table.turned:
            masks, due = masks[:], due[:]
            for at in table.turned:
                for up in table.numbered.upstream[at]:
                    due[up] = 1
            moved.update(_update(masks, due, table))
        if touched := _mask(weights != self.weights):
            moved.update([at for at in _where(congested) if masks[at] & touched])
        late = [at for at in moved if congested[at]]
        sums, ratios = self.sums.copy(), self.ratios.copy()
        sums[late] = _sums(masks, weights, late)
        ratios[table.pressed] = [rounded(table.congestion(at)) for at in table.pressed]
        return EtpTable(table, masks, due, weights, sums, ratios)

    def congested(self, among: npt.NDArray[np.bool_], count: int) -> list[int]:
        """Congested pipelines with the highest ETP; of equals, the most congested first."""
        found = np.array(_where(self.table.congested), np.intp)
        found = found[among[found]]
        return self._first(found, self.sums[found], self.ratios[found], count)

    def sources(self, among: npt.NDArray[np.bool_], many: Numbers, count: int) -> list[int]:
        """Sources with the highest ETP; of equals, those with the fewest instances first."""
        found = np.array([at for at in self.table.numbered.sources if among[at]], np.intp)
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
    """Indices of the marks that are set."""
    return np.flatnonzero(np.frombuffer(marks, np.uint8)).tolist()


def _mask(bits: npt.NDArray[np.bool_]) -> int:
    """Integer with these bits set."""
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")


def _sums(masks: list[int], weights: Weights, of: Iterable[int]) -> list[float]:
    """Sum of weights over the masks of some pipelines, many of which are equal."""
    known: dict[int, float] = {}
    found = []
    for mask in (masks[at] for at in of):
        value = known.get(mask)
        if value is None:
            value = known[mask] = weight_of(mask, weights)
        found.append(value)
    return found


def _update(masks: list[int], due: bytearray, table: RateTable) -> set[int]:
    """Compute the masks that are due; return the pipelines whose mask changed.

    Pipelines upstream of all congested ones are left out, because their masks are not needed.
    """
    bits, readers, upstream = table.numbered.sinks, table.numbered.readers, table.numbered.upstream
    congested = table.congested
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
