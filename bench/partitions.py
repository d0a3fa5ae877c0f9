"""What more parts of state than instances cost in each batch."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from bench.result import Claim, Result
from bench.running import keyed, outputs, plan_of, running, usual, warmed
from penstock.engines.spark.changes.wiring import default_ceiling

_PARTS = (2, 3, 4, 8, 16, 32)
_ROUNDS = 2
_BATCHES = 25


def run(spark: Any, folder: Path) -> Result:
    """Batches as fast as they come, two instances, and from two parts of state to many."""
    flow = keyed(10_000, 5000)
    found: dict[int, list[float]] = {parts: [] for parts in _PARTS}
    for number in range(_ROUNDS):
        for parts in _PARTS if number % 2 else reversed(_PARTS):
            plan = plan_of(flow, 2, ceiling=parts)
            with running(spark, flow, plan, folder / f"{number}-{parts}") as engine:
                warmed(engine, "out", 10 + _BATCHES)
                found[parts].append(median(usual(outputs(engine, "out"), _BATCHES)))
    least = median(found[2])
    rows = [
        {
            "parts of state": parts,
            "instances": 2,
            "batch (ms)": 1000 * median(times),
            "ratio": median(times) / least,
            "a part more (ms)": 1000 * (median(times) - least) / max(1, parts - 2),
        }
        for parts, times in found.items()
    ]
    chosen = default_ceiling(2)
    return Result(
        "partitions",
        f"Time from batch to batch at 5,000 rows/s by parts of state. Without a ceiling in the "
        f"plan, two instances get {chosen} parts.",
        rows,
        [Claim(f"batch with {chosen} parts / 2 parts", median(found[chosen]) / least, most=1.1)],
    )
