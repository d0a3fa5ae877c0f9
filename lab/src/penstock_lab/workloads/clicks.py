"""Generates clicks in a shop: lines of milliseconds, user, item, category and action.

A few items get most of the attention; for the first tenth of every `burst` seconds, half of it goes
to one item on sale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock_lab.workloads.bursts import bursts, check_every
from penstock_lab.workloads.lines import column, millis, picked
from penstock_lab.workloads.spoiling import check_share, complaint, empty, short, spoil
from penstock_lab.workloads.tweets import check_ranks, zipf_slots

CLICK = "at bigint, user bigint, item bigint, category bigint, action string"

_SLOTS = 1 << 16
_ACTIONS = ("view", "cart", "like", "buy")
_SHARES = (0.85, 0.07, 0.03, 0.05)
_USERS = 100_000


def _no_item(text: str, cut: float) -> str:
    at, user, _, category, action = text.split(",")
    return f"{at},{user},null,{category},{action}"


@dataclass(frozen=True)
class Clicks:
    """Makes the records of a generator with one column, `value`."""

    items: int = 5_000
    exponent: float = 1.0
    malformed: float = 0.005
    burst: float = 20.0

    def __post_init__(self) -> None:
        check_share(self.malformed)
        check_every(self.burst)
        check_ranks(self.items, self.exponent)

    def __call__(self, rng: np.random.Generator, index: Any, at: Any) -> dict[str, pa.Array]:
        count = len(index)
        burst = bursts(at, self.burst)
        sale = burst.hot & (rng.random(count) < 0.5)
        slots = zipf_slots(self.items, self.exponent)
        usual = slots[rng.integers(0, _SLOTS, size=count, dtype=np.uint16)]
        offered = burst.number * 97 % self.items
        item = np.where(sale, offered, usual).astype(np.int64)
        action = np.searchsorted(np.cumsum(_SHARES)[:-1], rng.random(count), side="right")
        parts = [
            column(millis(at)),
            column(rng.integers(1, _USERS, size=count)),
            column(item),
            column(item % 100),
            picked(pa.array(_ACTIONS), action),
            pa.scalar(","),
        ]
        lines = pc.binary_join_element_wise(*parts)
        return {"value": spoil(rng, lines, self.malformed, (short, complaint, empty, _no_item))}
