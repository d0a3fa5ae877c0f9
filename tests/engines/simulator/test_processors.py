"""Machines with fewer processors than instances, and sources that admit so many records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.engines.simulator.distributions import Gamma
from penstock.engines.simulator.model import Machine, OperatorCost
from penstock.errors import InvalidInput

from .flows import apart, chain, started

A, B = 0.001, 0.002


def carried(
    first: int, second: int, run_dir: Path, cpu: float = 1.0, load: str = "5000/s"
) -> float:
    """Records a second through two operators of 1 and 2 ms on one machine with two processors."""
    steps = {"a": OperatorCost(Gamma(A, 0.3)), "b": OperatorCost(Gamma(B, 0.3), cpu=cpu)}
    engine = started(
        chain("a", "b"), apart(("a", first), ("b", second), executors=1), steps, load, run_dir,
        node=Machine(cores=2), queue=100,
    )  # fmt: skip
    engine.advance(8)
    before = engine.observe()
    engine.advance(10)
    after = engine.observe()
    return (after.rows_delivered - before.rows_delivered) / (after.at - before.at)


@pytest.mark.parametrize("instances", [(2, 2), (4, 4), (8, 2), (2, 8), (4, 16)])
def test_no_more_is_done_than_there_are_processors_and_no_less(
    instances: tuple[int, int], tmp_path: Path
) -> None:
    assert carried(*instances, tmp_path) == pytest.approx(2 / (A + B), rel=0.02)


def test_who_waits_needs_no_processor(tmp_path: Path) -> None:
    assert carried(2, 2, tmp_path / "1", cpu=0.0) == pytest.approx(2 / B, rel=0.02)
    assert carried(2, 8, tmp_path / "2", cpu=0.0) == pytest.approx(2 / A, rel=0.02)
    assert carried(8, 8, tmp_path / "3", cpu=0.25) == pytest.approx(2 / (A + B / 4), rel=0.02)


def test_a_light_load_is_not_slowed_down(tmp_path: Path) -> None:
    assert carried(4, 8, tmp_path, load="400/s") == pytest.approx(400, rel=0.05)


def test_a_share_of_time_is_between_nothing_and_all() -> None:
    for cpu in (-0.1, 1.1, float("nan")):
        with pytest.raises(InvalidInput, match="must be a share"):
            OperatorCost(cpu=cpu)


@pytest.mark.parametrize("pending", [50, 200])
def test_sources_admit_so_many_records_to_the_flow(pending: int, tmp_path: Path) -> None:
    """Then a record is as long on its way as Little's law says, and nothing is lost for it."""
    graph = chain("a", "b")
    plan = apart(("a", 2), ("b", 4))
    source = replace(plan.pipelines[0], admission=pending)
    plan = replace(plan, pipelines=(source, *plan.pipelines[1:]))
    steps = {"a": OperatorCost(Gamma(A, 0.3)), "b": OperatorCost(Gamma(B, 0.3))}
    engine = started(graph, plan, steps, "5000/s", tmp_path, window=5.0)
    engine.advance(8)
    seen = engine.observe()
    assert seen.pipelines["b"].rate_in == pytest.approx(2000, rel=0.05)
    assert seen.rows_ingested - seen.rows_delivered <= pending
    assert seen.latency["a->b"].mean <= 1.05 * pending / seen.pipelines["b"].rate_in


def test_without_admission_queues_are_as_long_as_the_model_says(tmp_path: Path) -> None:
    steps = {"a": OperatorCost(Gamma(A, 0.3)), "b": OperatorCost(Gamma(B, 0.3))}
    plan = apart(("a", 2), ("b", 4))
    engine = started(chain("a", "b"), plan, steps, "5000/s", tmp_path, queue=300, window=5.0)
    engine.advance(8)
    seen = engine.observe()
    assert seen.pipelines["b"].rate_in == pytest.approx(2000, rel=0.05)
    assert seen.rows_ingested - seen.rows_delivered > 500
