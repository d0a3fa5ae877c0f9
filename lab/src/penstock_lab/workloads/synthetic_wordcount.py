"""Synthetic word count: every tweet waits a little before it is parsed and counted.

The result is that of the word count; only the cost differs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Generator
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.operators import Estimate
from penstock_lab.workloads import costs, wordcount
from penstock_lab.workloads.tweets import Tweets


def build(
    out: Path | str,
    *,
    load: str = "500/s",
    seed: int = 0,
    limit: int | None = None,
    wait_ms: float = 1,
    words: int = 4000,
    exponent: float = 1.0,
    malformed: float = 0.005,
    burst: float = 20,
    latency: str = "3s",
) -> Dataflow:
    """Build the dataflow; counts go to `out`/counts as updates; the last row of a word counts."""
    flow = Dataflow("synthetic-wordcount")
    source = Generator(Tweets(words, exponent, malformed, burst), "value string", load, seed, limit)
    wait = costs.wait(wait_ms / 1000)
    waited = flow.source("tweets", source).map(
        "wait", Pause(wait), schema="value string", estimate=Estimate(wait.seconds)
    )
    wordcount.count(flow, waited, out)
    flow.constrain("wait", "count", latency=latency)
    return flow


@dataclass(frozen=True)
class Pause:
    """Delays every record, as an external service would, and passes it on unchanged."""

    cost: costs.Wait

    def __call__(self, record: dict[str, Any]) -> dict[str, Any]:
        time.sleep(self.cost.seconds)
        return record
