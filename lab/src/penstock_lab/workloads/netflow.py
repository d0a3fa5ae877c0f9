"""Generates network connections: lines of time, both ends, port, packets, bytes and flag.

Most are harmless. For the first tenth of every `burst` seconds, one host scans all ports of the
others and another one floods them.
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

CONNECTION = (
    "at bigint, source bigint, target bigint, port bigint, packets bigint, bytes bigint, "
    "flag string"
)

_SLOTS = 1 << 16
_PORTS = np.array([22, 25, 53, 80, 80, 443, 443, 443, 8080])


def _no_source(text: str, cut: float) -> str:
    at, _, rest = text.split(",", 2)
    return f"{at},?,{rest}"


@dataclass(frozen=True)
class Connections:
    """Makes the records of a generator with one column, `value`."""

    hosts: int = 1_000
    exponent: float = 1.0
    malformed: float = 0.005
    burst: float = 15.0

    def __post_init__(self) -> None:
        check_share(self.malformed)
        check_every(self.burst)
        check_ranks(self.hosts, self.exponent)

    def __call__(self, rng: np.random.Generator, index: Any, at: Any) -> dict[str, pa.Array]:
        count = len(index)
        burst = bursts(at, self.burst)
        chance = rng.random(count)
        scan, flood = burst.hot & (chance < 0.4), burst.hot & (chance > 0.8)
        slots = zipf_slots(self.hosts, self.exponent)
        usual = slots[rng.integers(0, _SLOTS, size=count, dtype=np.uint16)]
        attacker = burst.number * 13 + flood
        packets = rng.integers(3, 60, size=count)
        packets = np.where(scan, 1, np.where(flood, packets * 1000, packets))
        port = np.where(scan, rng.integers(1, 10_000, size=count), rng.choice(_PORTS, size=count))
        parts = [
            column(millis(at)),
            column(np.where(scan | flood, attacker % self.hosts, usual)),
            column(rng.integers(0, self.hosts, size=count)),
            column(port),
            column(packets),
            column(packets * rng.integers(40, 1400, size=count)),
            picked(pa.array(["F", "S"]), (scan | (rng.random(count) < 0.02)).astype(np.int64)),
            pa.scalar(","),
        ]
        lines = pc.binary_join_element_wise(*parts)
        return {"value": spoil(rng, lines, self.malformed, (short, complaint, empty, _no_source))}
