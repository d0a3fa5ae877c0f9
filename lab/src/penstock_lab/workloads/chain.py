"""Chains: two regions with different keys, of one or two multiplication operators each.

The third of four operators begins the second region, because the key of the first region does
not reach it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Parquet
from penstock.dataflow.flow import Dataflow
from penstock.errors import InvalidInput
from penstock_lab.workloads import multiply


def build(
    out: Path | str,
    *,
    operators: int = 2,
    multiplications: int = 1024,
    ratio: float = 1.0,
    load: str = "1000/s",
    seed: int = 0,
    limit: int | None = None,
    keys: int = 200,
    exponent: float = 0.5,
    malformed: float = 0.0,
    burst: float = 20,
    latency: str = "3s",
) -> Dataflow:
    """Build the dataflow; sums go to `out`/results as updates; the last row of a key counts.

    An operator of the first region does `multiplications` per record, `ratio` times as many as one
    of the second: 8 for the costly and the cheap region of the paper's figure 9.
    """
    if operators not in (2, 4) or ratio <= 0:
        raise InvalidInput(f"a chain has 2 or 4 operators and a ratio above 0, not {operators}")
    cheap = round(multiplications / ratio)
    first = multiply.Numbered(
        multiply.step("multiply-1", multiplications, ("a", "b") if operators == 4 else ("b",)), "a"
    )
    between = [
        multiply.step("multiply-2", multiplications, ("b",)),
        multiply.step("multiply-3", cheap, ("b",)),
    ][: operators - 2]
    last = multiply.Tally(multiply.step(f"multiply-{operators}", cheap, ("b",)), "b")

    flow = Dataflow(f"chain-{operators}")
    numbers = multiply.Numbers(keys=keys, exponent=exponent, malformed=malformed, burst=burst)
    stream = first.attach(flow.source("numbers", numbers.source(load, seed, limit)))
    for step in between:
        stream = step.attach(stream)
    last.attach(stream).sink("results", Parquet(str(Path(out) / "results")))
    flow.constrain("multiply-1", last.work.name, latency=latency)

    def expected(inputs: Mapping[str, Any]) -> Iterable[tuple[int, int, int]]:
        table = first.foresee(inputs["numbers"])
        for step in between:
            table = step.foresee(table)
        return last.rows(table)

    flow.expect("results", expected, keys=("b",))
    return flow
