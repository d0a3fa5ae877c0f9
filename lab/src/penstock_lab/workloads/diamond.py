"""Diamond: one source, four parallel operators that each get every record, one sink.

One of the four is CPU-bound, one parses and two wait; or all have the same cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.dataflow.connectors import Generator, Parquet
from penstock.dataflow.flow import Dataflow
from penstock.errors import InvalidInput
from penstock_lab.workloads import costs

LOADS = {"mixed": "50/s", "cpu": "200/s", "parse": "1000/s", "wait": "30/s"}


def build(
    out: Path | str,
    *,
    cost: str = "mixed",
    load: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    numbers: int = 10_000,
    wait_ms: float = 5,
    selectivity: float = 1.0,
    malformed: float = 0.0,
    burst: float = 20,
    latency: str = "2s",
) -> Dataflow:
    """Build the dataflow; ids and results go to `out`/results, four rows per id."""
    if cost not in LOADS:
        raise InvalidInput(f"no cost '{cost}': there are {', '.join(LOADS)}")
    kinds = ("cpu", "parse", "wait", "wait") if cost == "mixed" else (cost,) * 4
    steps = [
        costs.Step(
            f"branch-{i}", costs.named(kind, numbers=numbers, wait_ms=wait_ms), selectivity, ()
        )
        for i, kind in enumerate(kinds, start=1)
    ]

    flow = Dataflow("diamond")
    made = costs.Orders(malformed=malformed, burst=burst)
    source = Generator(made, costs.RECORD, load or LOADS[cost], seed, limit)
    orders = flow.source("orders", source)
    first, *others = [step.attach(orders) for step in steps]
    together = first.union("merge", *others, schema=costs.RESULT)
    together.sink("results", Parquet(str(Path(out) / "results")))
    flow.constrain("orders", "merge", latency=latency)

    def expected(inputs: Mapping[str, Any]) -> Iterable[tuple[int, int]]:
        return costs.rows(pa.concat_tables([step.foresee(inputs["orders"]) for step in steps]))

    flow.expect("results", expected)
    return flow
