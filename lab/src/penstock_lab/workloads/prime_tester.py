"""PrimeTester: tests random numbers for primality at a rate that rises and falls in steps.

All rounds of a test are done regardless of the outcome, so every number costs the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from penstock.dataflow.connectors import Generator, Parquet
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.operators import Estimate
from penstock.errors import InvalidInput
from penstock_lab.workloads.bursts import bursts, check_every
from penstock_lab.workloads.spoiling import check_share, lacking, without_gaps

STEPS = 6
BASES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
"""If a number below 3 * 10^24 passes with all of these, it is prime (Sorenson and Webster)."""


def build(
    out: Path | str,
    *,
    load: str | None = None,
    rate: float = 100,
    step: str = "10s",
    seed: int = 0,
    limit: int | None = None,
    rounds: int = 40,
    malformed: float = 0.0,
    burst: float = 20,
    latency: str = "1s",
) -> Dataflow:
    """Build the dataflow; numbers and whether they are prime go to `out`/results.

    The default load has the phases of the paper: warm-up at `rate`, six steps up, a plateau, and
    down again. In the paper a step is a minute and the latency bound 20 ms.
    """
    if rounds + 1 < BASES[-1]:
        raise InvalidInput(f"{rounds} rounds are too few to be sure: at least {BASES[-1] - 1}")
    flow = Dataflow("prime-tester")
    numbers = Numbers(malformed, burst)
    source = Generator(numbers, "n bigint", load or phases(rate, step), seed, limit)
    tested = flow.source("numbers", source).map(
        "test",
        Tester(rounds),
        schema="n bigint, prime boolean",
        max_parallelism=520,
        estimate=Estimate(1e-5 * rounds),
    )
    tested.sink("results", Parquet(str(Path(out) / "results")))
    flow.constrain("test", "results", latency=latency)
    flow.expect("results", expected)
    return flow


def phases(rate: float, step: str) -> str:
    """Load profile with warm-up, increment, plateau and decrement."""
    up = [rate * i for i in range(1, STEPS + 1)]
    return f"steps:{','.join(f'{r:g}' for r in (*up, up[-1], *reversed(up[:-1])))}@{step}"


@dataclass(frozen=True)
class Numbers:
    """Makes the records of a generator: odd numbers of 62 bits, null where malformed.

    For the first tenth of every `burst` seconds, half of them are the same number.
    """

    malformed: float = 0.0
    burst: float = 0.0

    def __post_init__(self) -> None:
        check_share(self.malformed)
        check_every(self.burst)

    def __call__(self, rng: np.random.Generator, index: Any, at: Any) -> dict[str, Any]:
        burst = bursts(at, self.burst)
        asked = burst.hot & (rng.random(len(index)) < 0.5)
        usual = rng.integers(1 << 61, 1 << 62, size=len(index))
        number = np.where(asked, (1 << 61) + burst.number * 30, usual) | 1
        return {"n": lacking(rng, number, self.malformed)}


@dataclass(frozen=True)
class Tester:
    """Tests numbers with a given number of witnesses: 2 and the numbers after it."""

    rounds: int

    def __call__(self, record: Mapping[str, Any]) -> tuple[int, bool]:
        if record["n"] is None:
            raise ValueError("the record has no number")
        n = int(record["n"])
        return n, sum(passes(n, base) for base in range(2, self.rounds + 2)) == self.rounds


def passes(n: int, base: int) -> bool:
    """True if an odd number passes the Miller-Rabin test with one witness."""
    twos = ((n - 1) & -(n - 1)).bit_length() - 1
    x = pow(base, n - 1 >> twos, n)
    return base % n == 0 or x == 1 or any(pow(x, 1 << i, n) == n - 1 for i in range(twos))


def expected(inputs: Mapping[str, Any]) -> Iterator[tuple[int, bool]]:
    """Every number and whether it is prime, by an exact test that stops at the first witness."""
    for n in without_gaps(inputs["numbers"], "n")["n"].to_pylist():
        yield n, all(passes(n, base) for base in BASES)
