"""Effective throughput percentage: how much of what is delivered depends on a pipeline.

A pipeline that gets faster helps the sinks that its rows reach without meeting a congested
pipeline on the way; behind a congested one, more rows only wait longer. The sinks are a set: one
that is reached over two paths counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.models.rates import CONGESTED, Rates, sinks
from penstock.models.topology import Topology

Weights = npt.NDArray[np.float64]
"""Numbers in the order of the sinks, or of the pipelines."""


def congested(rates: Rates, over: float = CONGESTED) -> frozenset[str]:
    """The pipelines to which more than `over` rows come for each they process, or are behind."""
    return frozenset(name for name, rate in rates.items() if rate.congested(over))


@dataclass(frozen=True)
class Reach:
    """Which pipelines with sinks every pipeline reaches without a congested one behind it.

    masks: for each pipeline one bit for each of `sinks`, so that thousands of both are cheap.
    """

    sinks: tuple[str, ...]
    masks: Mapping[str, int]

    @classmethod
    def of(cls, topology: Topology, congested: Iterable[str]) -> Reach:
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
    reach = Reach.of(topology, congested(rates, over))
    return reach.shares(sinks(topology, rates), topology.pipelines)


def weight_of(mask: int, weights: Weights) -> float:
    """The weights whose bits are set."""
    if mask.bit_count() < 2:  # most pipelines near the end reach one sink
        return float(weights[mask.bit_length() - 1]) if mask else 0.0
    packed = mask.to_bytes((len(weights) + 7) // 8, "little")
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=len(weights), bitorder="little")
    return float(np.where(bits, weights, 0.0).sum())
