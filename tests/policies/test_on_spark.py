"""Policies on Spark: whatever they change, every row comes out once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import Dataflow, Parquet
from penstock.app import run
from penstock.control.guard import Guard
from penstock.dataflow.connectors import Generator
from penstock.engines.spark.engine import SparkEngine
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock_lab.workloads import costs

ROWS = 900


def waits(out: Path) -> Dataflow:
    """A source and an operator that waits: 100 rows a second come, one instance does 60."""
    made = Dataflow("waits")
    step = costs.Step("slow", costs.wait(1 / 60), carry=())
    orders = made.source("orders", Generator(costs.Orders(), costs.RECORD, "100/s", limit=ROWS))
    step.attach(orders).sink("results", Parquet(str(out)))
    made.expect("results", lambda inputs: costs.rows(step.foresee(inputs["orders"])))
    return made


@pytest.mark.spark
@pytest.mark.parametrize("policy", ["stela:automatic=true,congested=1.1"])
def test_a_flow_that_a_policy_changes_stays_exact(policy: str, spark: Any, tmp_path: Path) -> None:
    flow = waits(tmp_path / "out")
    summary = run(
        flow,
        policy=policy,
        plan=fusion.finest_plan(flow.graph),
        engine=SparkEngine(spark=spark, window=2.0),
        guard=Guard(cooldown=1.0, settle=1.0),
        limits=Limits(slots=4),
        seconds=30,
        run_dir=tmp_path / "run",
    )
    assert summary.exact is True, summary.exact_reason
    assert summary.rows_ingested == ROWS
    assert summary.transitions
