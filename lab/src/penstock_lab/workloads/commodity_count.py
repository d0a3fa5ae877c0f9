"""Commodity count: how often each item of a shop is viewed, by time slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Generator, Parquet
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.operators import Estimate
from penstock_lab.workloads.clicks import CLICK, Clicks
from penstock_lab.workloads.lines import parse_commas, read_commas

SLOT = 10_000


def build(
    out: Path | str,
    *,
    load: str = "1800/s",
    seed: int = 0,
    limit: int | None = None,
    items: int = 5_000,
    exponent: float = 1.0,
    malformed: float = 0.005,
    burst: float = 20,
    latency: str = "3s",
) -> Dataflow:
    """Build the dataflow; counts go to `out`/counts as updates; the last row of an item counts."""
    flow = Dataflow("commodity-count")
    source = Generator(Clicks(items, exponent, malformed, burst), "value string", load, seed, limit)
    parsed = parse_commas(flow.source("clicks", source), "parse", CLICK)
    counts = (
        parsed.frame(
            "views",
            lambda df: df.where("action = 'view'").selectExpr("item", f"at div {SLOT} AS slot"),
            schema="item bigint, slot bigint",
            selectivity="workload-dependent",
            estimate=Estimate(1e-6, 0.85),
        )
        .key_by("item", "slot")
        .aggregate(
            "count",
            n="count(*)",
            schema="item bigint, slot bigint, n bigint",
            estimate=Estimate(2e-6, 0.5),
        )
    )
    counts.sink("counts", Parquet(str(Path(out) / "counts")))
    flow.constrain("parse", "count", latency=latency)
    flow.expect("counts", expected, keys=("item", "slot"))
    return flow


def expected(inputs: Mapping[str, Any]) -> Iterator[tuple[int, int, int]]:
    """The number of views of every item in every slot."""
    views = Counter(
        (click["item"], click["at"] // SLOT)
        for click in read_commas(inputs["clicks"]["value"], CLICK)
        if click["action"] == "view"
    )
    return ((item, slot, n) for (item, slot), n in views.items())
