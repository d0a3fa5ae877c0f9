"""Network monitoring: finds hosts that scan ports or flood others in a connection log.

Connections are parsed and tested in two parallel branches. Suspicious ones of both are united and
added up per host, and hosts above a threshold are reported.

The paper shows the layout of its application only in a picture. This one has the same kinds of
steps, with the stateful one close to the sink.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Generator, Parquet
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.operators import Estimate
from penstock_lab.workloads.lines import parse_commas, read_commas
from penstock_lab.workloads.netflow import CONNECTION, Connections

SUSPECT = "source bigint, score bigint"
FLOOD = 1_000_000
"""Number of bytes from which a connection counts as a flood."""


def build(
    out: Path | str,
    *,
    load: str = "3000/s",
    seed: int = 0,
    limit: int | None = None,
    hosts: int = 1_000,
    exponent: float = 1.0,
    malformed: float = 0.005,
    burst: float = 15,
    alert: int = 100,
    latency: str = "3s",
) -> Dataflow:
    """Build the dataflow; hosts that score `alert` go to `out`/alerts; a host's last row counts."""
    flow = Dataflow("network")
    seen = Connections(hosts, exponent, malformed, burst)
    source = Generator(seen, "value string", load, seed, limit)
    parsed = parse_commas(flow.source("connections", source), "parse", CONNECTION)
    scans = parsed.frame(
        "scans",
        lambda df: df.where("flag = 'S' AND packets < 3").selectExpr("source", "1L AS score"),
        schema=SUSPECT,
        selectivity="workload-dependent",
        estimate=Estimate(1e-6, 0.04),
    )
    floods = parsed.frame(
        "floods",
        lambda df: df.where(f"bytes > {FLOOD}").selectExpr("source", f"bytes div {FLOOD} AS score"),
        schema=SUSPECT,
        selectivity="workload-dependent",
        estimate=Estimate(1e-6, 0.02),
    )
    scores = (
        scans.union("suspects", floods, schema=SUSPECT)
        .key_by("source")
        .aggregate(
            "scores",
            n="count(*)",
            score="sum(score)",
            schema="source bigint, n bigint, score bigint",
            estimate=Estimate(2e-6, 0.1),
        )
    )
    alerts = scores.frame(
        "alert",
        lambda df: df.where(f"score >= {alert}"),
        schema="source bigint, n bigint, score bigint",
        selectivity="workload-dependent",
        estimate=Estimate(1e-6, 0.5),
    )
    alerts.sink("alerts", Parquet(str(Path(out) / "alerts")))
    flow.constrain("parse", "alert", latency=latency)
    flow.expect("alerts", lambda inputs: expected(inputs, alert), keys=("source",))
    return flow


def expected(inputs: Mapping[str, Any], alert: int) -> Iterator[tuple[int, int, int]]:
    """The reported hosts with their number of events and score."""
    hosts: dict[int, list[int]] = {}
    for seen in read_commas(inputs["connections"]["value"], CONNECTION):
        if seen["flag"] == "S" and seen["packets"] < 3:
            hosts.setdefault(seen["source"], []).append(1)
        if seen["bytes"] > FLOOD:
            hosts.setdefault(seen["source"], []).append(seen["bytes"] // FLOOD)
    for source, scores in hosts.items():
        if sum(scores) >= alert:
            yield source, len(scores), sum(scores)
