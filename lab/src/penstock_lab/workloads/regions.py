"""Several regions in a row: seven multiplication operators of different cost and selectivity.

The paper shows them in a picture and describes one in its text (the third: 20 multiplications,
selectivity 0.9). The others are chosen accordingly: five operators around one that is keyed by one
column, then two of which the last is keyed by another column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Parquet
from penstock.dataflow.flow import Dataflow
from penstock.errors import InvalidInput
from penstock_lab.workloads import costs, multiply

OPERATORS = (
    ("multiply-1", 200, 0.8, ("a", "b")),
    ("multiply-2", 100, 1.0, ("a", "b")),
    ("multiply-3", 20, 0.9, ("a", "b")),
    ("multiply-4", 400, 0.7, ("a", "b")),
    ("multiply-5", 100, 1.0, ("b",)),
    ("multiply-6", 300, 0.9, ("b",)),
    ("multiply-7", 200, 1.0, ("b",)),
)
"""Name, multiplications, selectivity, and the keys that are passed on."""


def build(
    out: Path | str,
    *,
    factor: float = 1.0,
    scale: float = 4,
    load: str = "800/s",
    seed: int = 0,
    limit: int | None = None,
    keys: int = 200,
    exponent: float = 0.5,
    malformed: float = 0.0,
    burst: float = 20,
    latency: str = "3s",
) -> Dataflow:
    """Build the dataflow; sums go to `out`/results as updates; the last row of a key counts.

    Selectivities are multiplied by `factor` (0.1 to 1 in the paper), multiplications by `scale`.
    """
    if not (0 < factor <= 1 and scale >= 0):
        raise InvalidInput(f"a factor of {factor:g} is not above 0 and at most 1")
    steps = [
        multiply.step(name, round(scale * number), carry, factor * selectivity)
        for name, number, selectivity, carry in OPERATORS
    ]
    one, two, three, four, five, six, seven = steps
    middle, last = multiply.Numbered(four, "a"), multiply.Tally(seven, "b")
    parts: list[costs.Step | multiply.Numbered] = [one, two, three, middle, five, six]

    flow = Dataflow("regions-7")
    numbers = multiply.Numbers(keys=keys, exponent=exponent, malformed=malformed, burst=burst)
    stream = flow.source("numbers", numbers.source(load, seed, limit))
    for part in parts:
        stream = part.attach(stream)
    last.attach(stream).sink("results", Parquet(str(Path(out) / "results")))
    flow.constrain("multiply-1", "multiply-7", latency=latency)

    def expected(inputs: Mapping[str, Any]) -> Iterable[tuple[int, int, int]]:
        table = inputs["numbers"]
        for part in parts:
            table = part.foresee(table)
        return last.rows(table)

    flow.expect("results", expected, keys=("b",))
    return flow
