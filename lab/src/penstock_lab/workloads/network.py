"""Network monitoring: hosts that scan ports or flood others, found in a log of connections.

Connections are parsed and looked at in two ways side by side; what is suspicious in either comes
together, is added up by host, and hosts with enough of it are reported.

The seed shows the layout of its application in a picture and names the one it is like. This one has
the same kinds of steps, with the stateful one close to the sink.
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
"""Bytes from which on a connection is a flood."""


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
    """Write the dataflow; hosts that score `alert` go to `out`/alerts, the last of one counts."""
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
    """The hosts that are suspicious enough, with how often and how much."""
    hosts: dict[int, list[int]] = {}
    for seen in read_commas(inputs["connections"]["value"], CONNECTION):
        if seen["flag"] == "S" and seen["packets"] < 3:
            hosts.setdefault(seen["source"], []).append(1)
        if seen["bytes"] > FLOOD:
            hosts.setdefault(seen["source"], []).append(seen["bytes"] // FLOOD)
    for source, scores in hosts.items():
        if sum(scores) >= alert:
            yield source, len(scores), sum(scores)
