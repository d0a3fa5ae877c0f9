"""Generates the log of an ssh server: logins, mistyped passwords and break-in attempts.

A line is `2023-11-14T22:13:20.123Z web-3 sshd[412]: Failed password for root from 10.0.0.7 port 22
ssh2`. For the first tenth of every `burst` seconds, most lines come from one attacking address.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock_lab.workloads.bursts import bursts, check_every
from penstock_lab.workloads.lines import column, millis, picked
from penstock_lab.workloads.spoiling import check_share, complaint, empty, spoil
from penstock_lab.workloads.tweets import check_ranks, zipf_slots

_SLOTS = 1 << 16
_USERS = ("root", "admin", "alice", "bob", "carol", "git", "postgres", "deploy", "test", "www")
_ENTRIES = (
    "Accepted publickey for ",
    "Accepted password for ",
    "Connection closed by authenticating user ",
    "Failed password for ",
    "Failed password for invalid user ",
)
_USUAL = (0.45, 0.2, 0.15, 0.15, 0.05)
_ATTACK = (0.0, 0.01, 0.04, 0.45, 0.5)


def _cut(text: str, cut: float) -> str:
    """Cut the line off before the address, so that no reader finds one."""
    return text[: int(cut * text.index(" from "))]


def _no_address(text: str, cut: float) -> str:
    return text[: text.index(" from ")] + " from unknown port 0 ssh2"


@dataclass(frozen=True)
class AuthLog:
    """Makes the records of a generator with one column, `value`."""

    addresses: int = 5_000
    exponent: float = 0.5
    malformed: float = 0.005
    burst: float = 15.0

    def __post_init__(self) -> None:
        check_share(self.malformed)
        check_every(self.burst)
        check_ranks(self.addresses, self.exponent)

    def __call__(self, rng: np.random.Generator, index: Any, at: Any) -> dict[str, pa.Array]:
        count = len(index)
        burst = bursts(at, self.burst)
        attack = burst.hot & (rng.random(count) < 0.8)
        chance = rng.random(count)
        entry = np.where(attack, _drawn(chance, _ATTACK), _drawn(chance, _USUAL))
        slots = zipf_slots(self.addresses, self.exponent)
        usual = slots[rng.integers(0, _SLOTS, size=count, dtype=np.uint16)]
        guessing = burst.number * 31 % self.addresses
        address = np.where(attack, guessing, usual).astype(np.int64)
        parts = [
            pc.strftime(pa.array(millis(at)).cast(pa.timestamp("ms")), format="%Y-%m-%dT%H:%M:%SZ"),
            pa.scalar(" web-"),
            column(rng.integers(1, 9, size=count)),
            pa.scalar(" sshd["),
            column(rng.integers(300, 30_000, size=count)),
            pa.scalar("]: "),
            picked(_texts(_ENTRIES), entry),
            picked(_texts(_USERS), rng.integers(0, len(_USERS), size=count)),
            picked(_addresses(self.addresses), address),
            column(rng.integers(1024, 65_536, size=count)),
            pa.scalar(" ssh2"),
            pa.scalar(""),
        ]
        lines = pc.binary_join_element_wise(*parts)
        return {"value": spoil(rng, lines, self.malformed, (_cut, _no_address, complaint, empty))}


def _drawn(chance: npt.NDArray[np.float64], shares: tuple[float, ...]) -> npt.NDArray[np.int64]:
    return np.searchsorted(np.cumsum(shares)[:-1], chance, side="right")


@lru_cache(maxsize=4)
def _texts(texts: tuple[str, ...]) -> pa.Array:
    return pa.array(texts)


@lru_cache(maxsize=4)
def _addresses(number: int) -> pa.Array:
    return pa.array(
        [f" from 10.{i // 250 % 250}.{i % 250}.{7 * i % 250} port " for i in range(number)]
    )
