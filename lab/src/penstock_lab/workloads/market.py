"""Generates trades and quotes: lines of milliseconds, symbol, price in cents and size.

A few symbols have most of the trades. Prices vary around a mean per symbol; for the first tenth of
every `burst` seconds they vary more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock_lab.workloads.bursts import bursts, check_every
from penstock_lab.workloads.lines import column, millis, picked
from penstock_lab.workloads.spoiling import check_share, complaint, empty, short, spoil
from penstock_lab.workloads.tweets import check_ranks, zipf_slots

TRADE = "at bigint, symbol string, price bigint, volume bigint"
QUOTE = "at bigint, symbol string, ask bigint, size bigint"

_SLOTS = 1 << 16


def _no_price(text: str, cut: float) -> str:
    at, symbol, _, size = text.split(",")
    return f"{at},{symbol},halted,{size}"


@dataclass(frozen=True)
class Market:
    """Makes the records of a generator with one column, `value`: trades, or offers to sell."""

    symbols: int = 200
    exponent: float = 1.0
    malformed: float = 0.005
    burst: float = 20.0

    def __post_init__(self) -> None:
        check_share(self.malformed)
        check_every(self.burst)
        check_ranks(self.symbols, self.exponent)

    def __call__(self, rng: np.random.Generator, index: Any, at: Any) -> dict[str, pa.Array]:
        count = len(index)
        slots = zipf_slots(self.symbols, self.exponent)
        symbol = slots[rng.integers(0, _SLOTS, size=count, dtype=np.uint16)].astype(np.int64)
        since = np.where(np.isfinite(at), at, 0.0)
        nervous = bursts(at, self.burst).hot
        usual = 2_000 + symbol * 37 % 9_000
        swing = np.sin(since / 7 + symbol) * 0.01
        noise = rng.standard_normal(count) * np.where(nervous, 0.02, 0.004)
        price = np.maximum(np.rint(usual * (1 + swing + noise)).astype(np.int64), 1)
        parts = [
            column(millis(at)),
            picked(_symbols(self.symbols), symbol),
            column(price),
            column(rng.integers(1, 20, size=count) * 100),
            pa.scalar(","),
        ]
        lines = pc.binary_join_element_wise(*parts)
        return {"value": spoil(rng, lines, self.malformed, (short, complaint, empty, _no_price))}


@lru_cache(maxsize=4)
def _symbols(number: int) -> pa.Array:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return pa.array(
        [letters[i // 676 % 26] + letters[i // 26 % 26] + letters[i % 26] for i in range(number)]
    )
