"""Top N: the best-selling items of a shop, by time slot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Generator
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.operators import Estimate
from penstock_lab.workloads import ranking
from penstock_lab.workloads.clicks import CLICK, Clicks
from penstock_lab.workloads.lines import parse_commas, read_commas

SLOT = 10_000


def build(
    out: Path | str,
    *,
    load: str = "2700/s",
    seed: int = 0,
    limit: int | None = None,
    items: int = 5_000,
    exponent: float = 1.0,
    malformed: float = 0.005,
    burst: float = 20,
    top: int = 10,
    latency: str = "5s",
) -> Dataflow:
    """Build the dataflow; rankings go to `out`/ranking; the last row of a rank counts."""
    flow = Dataflow("top-n")
    source = Generator(Clicks(items, exponent, malformed, burst), "value string", load, seed, limit)
    sold = parse_commas(flow.source("clicks", source), "parse", CLICK).frame(
        "sold",
        lambda df: df.where("action = 'buy'").selectExpr(
            "CAST(item AS string) AS name",
            f"at div {SLOT} AS slot",
            f"{ranking.part('item')} AS part",
        ),
        schema=ranking.NAMED,
        selectivity="workload-dependent",
        estimate=Estimate(1e-6, 0.05),
    )
    ranking.rank(flow, sold, top, out)
    flow.constrain("parse", "rank-all", latency=latency)
    flow.expect(
        "ranking", lambda inputs: ranking.expected(sales(inputs), top), keys=("slot", "place")
    )
    return flow


def sales(inputs: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Slot and item of every purchase."""
    for click in read_commas(inputs["clicks"]["value"], CLICK):
        if click["action"] == "buy":
            yield click["at"] // SLOT, str(click["item"])
