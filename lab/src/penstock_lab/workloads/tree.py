"""Tree: one region feeds two others; each is one multiplication operator with its own key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Parquet
from penstock.dataflow.flow import Dataflow
from penstock_lab.workloads import multiply


def build(
    out: Path | str,
    *,
    multiplications: int = 1024,
    load: str = "800/s",
    seed: int = 0,
    limit: int | None = None,
    keys: int = 200,
    exponent: float = 0.5,
    malformed: float = 0.0,
    burst: float = 20,
    latency: str = "3s",
) -> Dataflow:
    """Build the dataflow; sums go to `out`/left and `out`/right; the last row of a key counts."""
    root = multiply.Numbered(multiply.step("root", multiplications, ("b", "c")), "a")
    branches = {
        name: multiply.Tally(multiply.step(f"to-{name}", multiplications, (key,)), key)
        for name, key in (("left", "b"), ("right", "c"))
    }

    flow = Dataflow("tree")
    columns = ("a", "b", "c")
    numbers = multiply.Numbers(columns, keys, exponent, malformed=malformed, burst=burst)
    stream = root.attach(flow.source("numbers", numbers.source(load, seed, limit)))
    for name, branch in branches.items():
        branch.attach(stream).sink(name, Parquet(str(Path(out) / name)))
        flow.constrain("root", branch.work.name, latency=latency)
        flow.expect(name, _Expected(root, branch), keys=(branch.key,))
    return flow


class _Expected:
    """The rows that one sink must hold."""

    def __init__(self, root: multiply.Numbered, branch: multiply.Tally) -> None:
        self._root, self._branch = root, branch

    def __call__(self, inputs: Mapping[str, Any]) -> Iterable[tuple[int, int, int]]:
        return self._branch.rows(self._root.foresee(inputs["numbers"]))
