"""Page load: load times per section of a site, without errors, robots and internal pages.

A chain of transform, filter, join, filter and aggregate, as in the paper. The join looks up the
section of a page in a table that every instance has. Times are aggregated in windows; a window is
dropped a minute after its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Generator, Parquet
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.operators import Estimate
from penstock_lab.workloads.lines import parse_json, read_json
from penstock_lab.workloads.views import VIEW, Views, section

SECONDS = 10


def build(
    out: Path | str,
    *,
    load: str = "2000/s",
    seed: int = 0,
    limit: int | None = None,
    exponent: float = 1.0,
    malformed: float = 0.005,
    burst: float = 20,
    latency: str = "3s",
) -> Dataflow:
    """Build the dataflow; windows go to `out`/loads as updates; the last row of a window counts."""
    flow = Dataflow("page-load")
    source = Generator(Views(exponent, malformed, burst), "value string", load, seed, limit)
    parsed = parse_json(flow.source("views", source), "transform", VIEW)
    loaded = parsed.frame(
        "filter",
        lambda df: df.where("status = 200 AND agent <> 'bot'").selectExpr(
            "page", "ms", "timestamp_millis(at) AS at"
        ),
        schema="page bigint, ms bigint, at timestamp",
        selectivity="workload-dependent",
        estimate=Estimate(1e-6, 0.74),
    )
    joined = loaded.map(
        "join",
        in_section,
        schema="section string, ms bigint, at timestamp",
        estimate=Estimate(5e-6),
    )
    public = joined.filter("filter-2", is_public, estimate=Estimate(3e-6, 0.9))
    windows = (
        public.key_by("section")
        .window(f"{SECONDS}s", on="at", watermark="60s")
        .aggregate(
            "aggregate",
            n="count(*)",
            total="sum(ms)",
            slowest="max(ms)",
            estimate=Estimate(2e-6, 0.05),
        )
    )
    flat = windows.frame(
        "flat",
        lambda df: df.selectExpr("section", "window.start AS start", "n", "total", "slowest"),
        schema="section string, start timestamp, n bigint, total bigint, slowest bigint",
    )
    flat.sink("loads", Parquet(str(Path(out) / "loads")))
    flow.constrain("transform", "aggregate", latency=latency)
    flow.expect("loads", expected, keys=("section", "start"))
    return flow


def in_section(record: Mapping[str, Any]) -> tuple[str, int, datetime]:
    """The view with the section of its page instead of the page."""
    return section(record["page"]), record["ms"], record["at"]


def is_public(record: Mapping[str, Any]) -> bool:
    """True if the page of a view is public."""
    return bool(record["section"] != "internal")


def expected(inputs: Mapping[str, Any]) -> Iterator[tuple[str, datetime, int, int, int]]:
    """Number of views, sum and maximum of their times, by section and window."""
    windows: dict[tuple[str, int], list[int]] = {}
    for view in read_json(inputs["views"]["value"], VIEW):
        if view["status"] == 200 and view["agent"] != "bot" and section(view["page"]) != "internal":
            start = view["at"] // 1000 // SECONDS * SECONDS
            windows.setdefault((section(view["page"]), start), []).append(view["ms"])
    for (name, start), times in windows.items():
        yield name, datetime.fromtimestamp(start, UTC), len(times), sum(times), max(times)
