"""Star: two sources feed one operator, which feeds two sinks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.dataflow.connectors import Generator, Parquet
from penstock.dataflow.flow import Dataflow
from penstock_lab.workloads import costs

LOADS = {"cpu": "100/s", "parse": "1000/s", "wait": "30/s"}
SOURCES = ("north", "south")
SINKS = ("east", "west")


def build(
    out: Path | str,
    *,
    cost: str = "parse",
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
    """Build the dataflow; each source has the load, results go to `out`/east and `out`/west."""
    work = costs.named(cost, numbers=numbers, wait_ms=wait_ms)
    centre = costs.Step("centre", work, selectivity)
    arms = {sink: costs.Step(f"to-{sink}", work, selectivity, carry=()) for sink in SINKS}

    flow = Dataflow("star")
    north, south = (
        flow.source(
            name,
            Generator(
                costs.Orders(which, len(SOURCES), malformed, burst),
                costs.RECORD,
                load or LOADS[cost],
                seed + which,
                limit,
            ),
        )
        for which, name in enumerate(SOURCES)
    )
    middle = centre.attach(north.union("gather", south, schema=costs.RECORD))
    for sink, arm in arms.items():
        arm.attach(middle).sink(sink, Parquet(str(Path(out) / sink)))
        flow.constrain("centre", arm.name, latency=latency)
        flow.expect(sink, _Expected(centre, arm))
    return flow


class _Expected:
    """The rows that one sink must hold."""

    def __init__(self, centre: costs.Step, arm: costs.Step) -> None:
        self._steps = (centre, arm)

    def __call__(self, inputs: Mapping[str, Any]) -> Iterable[tuple[int, int]]:
        table = pa.concat_tables([inputs[name] for name in SOURCES])
        for step in self._steps:
            table = step.foresee(table)
        return costs.rows(table)
