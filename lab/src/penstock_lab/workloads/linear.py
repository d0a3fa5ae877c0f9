"""Linear: one source, a chain of three operators with the same cost, one sink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Generator, Parquet
from penstock.dataflow.flow import Dataflow
from penstock_lab.workloads import costs

LOADS = {"cpu": "200/s", "parse": "2000/s", "wait": "50/s"}


def build(
    out: Path | str,
    *,
    cost: str = "cpu",
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
    """Build the dataflow; ids and results go to `out`/results."""
    work = costs.named(cost, numbers=numbers, wait_ms=wait_ms)
    steps = [
        costs.Step(f"step-{i}", work, selectivity, carry=("value",) if i < 3 else ())
        for i in (1, 2, 3)
    ]

    flow = Dataflow("linear")
    made = costs.Orders(malformed=malformed, burst=burst)
    source = Generator(made, costs.RECORD, load or LOADS[cost], seed, limit)
    stream = flow.source("orders", source)
    for step in steps:
        stream = step.attach(stream)
    stream.sink("results", Parquet(str(Path(out) / "results")))
    flow.constrain("step-1", "step-3", latency=latency)

    def expected(inputs: Mapping[str, Any]) -> Iterable[tuple[int, int]]:
        table = inputs["orders"]
        for step in steps:
            table = step.foresee(table)
        return costs.rows(table)

    flow.expect("results", expected)
    return flow
