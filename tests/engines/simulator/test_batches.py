"""Micro-batches of a simulated flow: their fixed costs, their growth, and waves of tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engines.simulator.distributions import Constant
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import (
    OperatorCost,
)

from .flows import BATCH, apart, chain, started


def batched(run_dir: Path, load: str, cadence: float = 0.0, **options: object) -> SimulatorEngine:
    plan = apart(("a", 4), executors=1).with_pipeline("a", cadence=cadence)
    return started(
        chain("a"),
        plan,
        {"a": OperatorCost(Constant(0.001))},
        load,
        run_dir,
        batch=BATCH,
        **options,
    )


def test_a_batch_takes_its_fixed_costs_and_the_longest_task(tmp_path: Path) -> None:
    engine = batched(tmp_path, "400/s", cadence=1.0)
    engine.advance(60)
    found = engine.observe().pipelines["a"]
    assert found.batches == pytest.approx(60, abs=2)
    # 400 records over 4 tasks of 1 ms each
    assert found.batch_seconds == pytest.approx(
        0.05 + 0.02 + 0.03 + 4 * 0.01 + 0.02 + 0.1, rel=0.03
    )
    assert found.parts["work"] == pytest.approx(0.16, rel=0.04)
    assert found.busy == pytest.approx(0.26, rel=0.04)
    # 0.74 s for a record that comes while a batch runs, half of it for one that comes after
    assert found.batching == pytest.approx(0.26 * 0.74 + 0.74 * 0.37, rel=0.03)


def test_batches_grow_until_they_keep_up_or_cannot(tmp_path: Path) -> None:
    # a batch of n records takes 0.16 s + n / 4000 s, so at 2000/s it holds 0.32 s of records
    engine = batched(tmp_path / "1", "2000/s")
    engine.advance(60)
    found = engine.observe().pipelines["a"]
    assert found.batch_seconds == pytest.approx(0.32, rel=0.05)
    assert found.rate_in == pytest.approx(2000, rel=0.02)
    engine = batched(tmp_path / "2", "5000/s", queue=2000)
    engine.advance(60)
    seen = engine.observe()
    assert seen.throughput < 4000
    assert seen.pipelines["a"].backlog_rows < 4 * 2000 * 2
    assert seen.pipelines["in"].backlog_rows > 50_000


def test_more_tasks_than_slots_run_in_waves(tmp_path: Path) -> None:
    plan = apart(("a", 6), executors=1).with_pipeline("a", cadence=1.0)
    engine = started(
        chain("a"), plan, {"a": OperatorCost(Constant(0.001))}, "600/s", tmp_path, batch=BATCH
    )
    engine.advance(20)
    found = engine.observe().pipelines["a"]
    # six tasks of 0.1 s on four slots are two waves
    assert found.parts["work"] == pytest.approx(6 * 0.01 + 2 * 0.12, rel=0.1)
