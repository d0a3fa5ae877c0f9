"""Reverse tree: two regions feed a third; each is one keyed multiplication operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.dataflow.connectors import Parquet
from penstock.dataflow.flow import Dataflow
from penstock_lab.workloads import multiply

SOURCES = ("north", "south")


def build(
    out: Path | str,
    *,
    multiplications: int = 1024,
    load: str = "500/s",
    seed: int = 0,
    limit: int | None = None,
    keys: int = 200,
    exponent: float = 0.5,
    malformed: float = 0.0,
    burst: float = 20,
    latency: str = "3s",
) -> Dataflow:
    """Build the dataflow; each source has the load, sums go to `out`/results as updates."""
    leaves = {
        name: multiply.Numbered(multiply.step(f"from-{name}", multiplications, ("b",)), "a")
        for name in SOURCES
    }
    root = multiply.Tally(multiply.step("root", multiplications, ("b",)), "b")

    flow = Dataflow("reverse-tree")
    streams = []
    for at, (name, leaf) in enumerate(leaves.items()):
        numbers = multiply.Numbers(("a", "b"), keys, exponent, at, len(SOURCES), malformed, burst)
        streams.append(leaf.attach(flow.source(name, numbers.source(load, seed + at, limit))))
        flow.constrain(leaf.work.name, "root", latency=latency)
    together = streams[0].union("gather", streams[1])
    root.attach(together).sink("results", Parquet(str(Path(out) / "results")))

    def expected(inputs: Mapping[str, Any]) -> Iterable[tuple[int, int, int]]:
        done = [leaf.foresee(inputs[name]) for name, leaf in leaves.items()]
        return root.rows(pa.concat_tables(done))

    flow.expect("results", expected, keys=("b",))
    return flow
