"""Selectivity: one region in which the number of records grows and shrinks.

Four multiplication operators of different cost with selectivities 4, 0.25, 0.5 and 1.
"""

from __future__ import annotations

from pathlib import Path

from penstock.dataflow.flow import Dataflow
from penstock_lab.workloads import multiply, region


def build(
    out: Path | str,
    *,
    multiplications: str = "1024,256,1024,2048",
    selectivities: str = "4,0.25,0.5",
    load: str = "500/s",
    seed: int = 0,
    limit: int | None = None,
    keys: int = 200,
    exponent: float = 0.5,
    malformed: float = 0.0,
    burst: float = 20,
    latency: str = "3s",
) -> Dataflow:
    """Build the dataflow; sums go to `out`/results as updates; the last row of a key counts."""
    steps = []
    between = multiply.factors(selectivities)
    for at, number in enumerate(multiply.counts(multiplications), start=1):
        steps.append(multiply.step(f"multiply-{at}", number, ("a",)))
        if at <= len(between):
            steps.append(multiply.step(f"select-{at}", 0, ("a",), between[at - 1]))
    made = multiply.Numbers(("a",), keys, exponent, malformed=malformed, burst=burst)
    return region.chained("selectivity", steps, made.source(load, seed, limit), out, latency)
