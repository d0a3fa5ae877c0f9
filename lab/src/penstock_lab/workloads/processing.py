"""Processing: page views are transformed once, then go to two sinks by two branches.

One branch selects failures and joins them with the section of their page. The other joins all
views with the region of their user and normalises their times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Generator, Parquet
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.operators import Estimate
from penstock_lab.workloads.lines import parse_json, read_json
from penstock_lab.workloads.views import VIEW, Views, region, section

USUAL = {"north": 180, "east": 220, "south": 200, "west": 250}
"""Usual page load time of each region, in milliseconds."""


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
    """Build the dataflow; failures go to `out`/failures, times to `out`/times."""
    flow = Dataflow("processing")
    source = Generator(Views(exponent, malformed, burst), "value string", load, seed, limit)
    parsed = parse_json(flow.source("views", source), "transform", VIEW)
    failed = parsed.frame(
        "filter",
        lambda df: df.where("status <> 200").selectExpr("view", "page", "status"),
        schema="view bigint, page bigint, status bigint",
        selectivity="workload-dependent",
        estimate=Estimate(1e-6, 0.08),
    )
    failed.map(
        "join-1",
        lambda record: (record["view"], section(record["page"]), record["status"]),
        schema="view bigint, section string, status bigint",
        estimate=Estimate(5e-6),
    ).sink("failures", Parquet(str(Path(out) / "failures")))
    placed = parsed.map(
        "join-2",
        lambda record: (record["view"], region(record["user"]), record["ms"]),
        schema="view bigint, region string, ms bigint",
        estimate=Estimate(6e-6),
    )
    placed.map(
        "normalise",
        normalised,
        schema="view bigint, region string, percent bigint",
        estimate=Estimate(4e-6),
    ).sink("times", Parquet(str(Path(out) / "times")))
    flow.constrain("transform", "join-1", latency=latency)
    flow.constrain("transform", "normalise", latency=latency)
    flow.expect("failures", failures)
    flow.expect("times", times)
    return flow


def normalised(record: Mapping[str, Any]) -> tuple[int, str, int]:
    """The time of a view in percent of the usual time of its region."""
    return record["view"], record["region"], 100 * record["ms"] // USUAL[record["region"]]


def failures(inputs: Mapping[str, Any]) -> Iterator[tuple[int, str, int]]:
    """The views that failed."""
    for view in read_json(inputs["views"]["value"], VIEW):
        if view["status"] != 200:
            yield view["view"], section(view["page"]), view["status"]


def times(inputs: Mapping[str, Any]) -> Iterator[tuple[int, str, int]]:
    """The times of all views."""
    for view in read_json(inputs["views"]["value"], VIEW):
        where = region(view["user"])
        yield view["view"], where, 100 * view["ms"] // USUAL[where]
