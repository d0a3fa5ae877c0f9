"""Workloads on Spark: exact, through channels between all operators and a change on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import workloads
from penstock.app import run
from penstock.engines.spark.engine import SparkEngine
from penstock.plan import fusion


@pytest.mark.spark
@pytest.mark.all_workloads
@pytest.mark.parametrize("name", workloads.names())
def test_a_workload_is_exact(name: str, spark: Any, tmp_path: Path) -> None:
    flow = workloads.build(name, tmp_path / "out", load="300/s", limit=1500)
    graph = flow.graph
    steps = [o.name for o in graph.operators if o.inputs and o not in graph.sinks]
    scaled = next(name for name in reversed(steps) if graph[name].bounds.most != 1)
    summary = run(
        flow,
        engine=SparkEngine(spark=spark),
        plan=fusion.finest_plan(graph, 1),
        changes=[f"2s:{scaled}=2"],
        seconds=60,
        run_dir=tmp_path / "run",
    )
    assert summary.exact is True
    assert summary.rows_ingested == 1500 * len(graph.sources)
    assert summary.rows_delivered
    assert len(summary.transitions) == 1
