"""Who comes first by effective throughput percentage, while one slot after the other is given out.

What `etp.Reach` finds for all pipelines at once, a standing carries on from one ledger to the
next: masks change only upstream of what became congested, or no longer is, and the sum over a
mask only where a sink in it delivers something else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.metrics.rounding import plain, plains
from penstock.models.etp import Weights, weight_of
from penstock.models.ledger import Ledger

Numbers = npt.NDArray[np.intp]

_NEAR = 1e-9
"""Difference of shares, as a part of the larger one, from which rounding cannot turn them."""


@dataclass(frozen=True)
class Standing:
    """What stands for each pipeline, by number; nobody writes into a standing that was made.

    masks: the sinks that each reaches without a congested one behind it, a bit for each; due: whose
    masks are still to be found, since nobody needs them; weights: what each sink delivers; sums:
    the weights of its mask for each that is congested; ratios: the congestion of these, rounded.
    """

    ledger: Ledger
    masks: list[int]
    due: bytearray
    weights: Weights
    sums: Weights
    ratios: Weights

    @classmethod
    def of(cls, ledger: Ledger) -> Standing:
        masks, due = [0] * len(ledger.arrival), bytearray(b"\1" * len(ledger.arrival))
        _update(masks, due, ledger)
        weights = np.array(ledger.delivered(ledger.wiring.sinks), np.float64)
        congested = _where(ledger.congested)
        sums, ratios = np.zeros(len(masks)), np.zeros(len(masks))
        sums[congested] = _sums(masks, weights, congested)
        ratios[congested] = [plain(ledger.congestion(at)) for at in congested]
        return cls(ledger, masks, due, weights, sums, ratios)

    def after(self, ledger: Ledger) -> Standing:
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
        ratios[ledger.pressed] = [plain(ledger.congestion(at)) for at in ledger.pressed]
        return Standing(ledger, masks, due, weights, sums, ratios)

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
        order = np.lexsort((-second, -plains(shares)))
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


def _update(masks: list[int], due: bytearray, ledger: Ledger) -> set[int]:
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
