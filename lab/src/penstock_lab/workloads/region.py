"""One region: a chain of multiplication operators, the last of them keyed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Generator, Parquet
from penstock.dataflow.flow import Dataflow
from penstock_lab.workloads import costs, multiply


def build(
    out: Path | str,
    *,
    multiplications: str = "1024,1024,1024,1024",
    load: str = "1000/s",
    seed: int = 0,
    limit: int | None = None,
    keys: int = 200,
    exponent: float = 0.5,
    malformed: float = 0.0,
    burst: float = 20,
    latency: str = "3s",
) -> Dataflow:
    """Build the dataflow, with an operator for each number of multiplications.

    Sums go to `out`/results as updates; the last row of a key counts.
    """
    numbers = multiply.counts(multiplications)
    steps = [
        multiply.step(f"multiply-{at}", number, ("a",))
        for at, number in enumerate(numbers, start=1)
    ]
    made = multiply.Numbers(("a",), keys, exponent, malformed=malformed, burst=burst)
    source = made.source(load, seed, limit)
    return chained(f"region-{len(steps)}", steps, source, out, latency)


def chained(
    name: str,
    steps: list[costs.Step],
    source: Generator,
    out: Path | str,
    latency: str,
) -> Dataflow:
    """One region of steps that pass its key on; the last step counts by that key."""
    *before, last = steps
    flow = Dataflow(name)
    stream = flow.source("numbers", source)
    for step in before:
        stream = step.attach(stream)
    tally = multiply.Tally(last, "a")
    tally.attach(stream).sink("results", Parquet(str(Path(out) / "results")))
    flow.constrain(steps[0].name, last.name, latency=latency)

    def expected(inputs: Mapping[str, Any]) -> Iterable[tuple[int, int, int]]:
        table = inputs["numbers"]
        for step in before:
            table = step.foresee(table)
        return tally.rows(table)

    flow.expect("results", expected, keys=("a",))
    return flow
