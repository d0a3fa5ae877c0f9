"""Generates page views of a web site in JSON: user, page, load time, status and agent.

A view is `{"view":7,"user":12,"page":3,"ms":231,"status":200,"at":1700000000123,"agent":"app"}`,
its agent last. A few pages get most views; for the first tenth of every `burst` seconds the site is
slow. Views are reported up to two seconds late, so their times are out of order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock_lab.workloads.bursts import bursts, check_every
from penstock_lab.workloads.lines import column, millis, picked
from penstock_lab.workloads.spoiling import check_share, complaint, empty, spoil
from penstock_lab.workloads.tweets import check_ranks, zipf_slots

VIEW = "view bigint, user bigint, page bigint, ms bigint, status bigint, at bigint, agent string"
PAGES = 1_000
SECTIONS = ("news", "sport", "weather", "mail", "finance", "games", "internal")
USERS = 20_000
REGIONS = ("north", "east", "south", "west")
LATE = 2_000

_SLOTS = 1 << 16
_AGENTS = ("firefox", "chrome", "safari", "app", "bot")
_STATUS = np.array([200] * 92 + [404] * 5 + [500] * 3)


def section(page: int) -> str:
    """The section that a page belongs to."""
    return SECTIONS[page * 7919 % 101 % len(SECTIONS)]


def region(user: int) -> str:
    """The region in which a user lives."""
    return REGIONS[user * 104_729 % 13 % len(REGIONS)]


def _truncated(text: str, cut: float) -> str:
    return text[: 1 + int(cut * (len(text) - 4))]


def _without_page(text: str, cut: float) -> str:
    return text.replace(',"page":', ',"pag":')


@dataclass(frozen=True)
class Views:
    """Makes the records of a generator with one column, `value`."""

    exponent: float = 1.0
    malformed: float = 0.005
    burst: float = 20.0

    def __post_init__(self) -> None:
        check_share(self.malformed)
        check_every(self.burst)
        check_ranks(PAGES, self.exponent)

    def __call__(self, rng: np.random.Generator, index: Any, at: Any) -> dict[str, pa.Array]:
        count = len(index)
        slots = zipf_slots(PAGES, self.exponent)
        slow = bursts(at, self.burst).hot
        took = rng.gamma(2.0, 100.0, size=count) * np.where(slow, 5, 1) + 10
        parts = [
            pa.scalar('{"view":'),
            column(index),
            pa.scalar(',"user":'),
            column(rng.integers(0, USERS, size=count)),
            pa.scalar(',"page":'),
            column(slots[rng.integers(0, _SLOTS, size=count, dtype=np.uint16)]),
            pa.scalar(',"ms":'),
            column(took.astype(np.int64)),
            pa.scalar(',"status":'),
            column(rng.choice(_STATUS, size=count)),
            pa.scalar(',"at":'),
            column(millis(at) - rng.integers(0, LATE + 1, size=count)),
            pa.scalar(',"agent":"'),
            picked(pa.array(_AGENTS), rng.integers(0, len(_AGENTS), size=count)),
            pa.scalar('"}'),
            pa.scalar(""),
        ]
        lines = pc.binary_join_element_wise(*parts)
        ways = (_truncated, _without_page, complaint, empty)
        return {"value": spoil(rng, lines, self.malformed, ways)}
