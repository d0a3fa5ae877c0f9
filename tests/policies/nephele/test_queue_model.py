"""Pipelines as stations: what stays, and what more instances shorten."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metrics.snapshot import PipelineMetrics
from penstock.policies.nephele.queue_model import cadence_for, fitted_station, round_up


def batches(p: int, load: float, overhead: float, period: float) -> PipelineMetrics:
    """Batches of many small rows, each with what came in a period."""
    rows = 1_000_000
    return PipelineMetrics(
        "x",
        p,
        batches=10,
        rows_in=round(10 * rows * period),
        rate_in=rows,
        arrival_rate=rows,
        service=load / rows,
        batch_seconds=overhead + load / p * period,
        wait=period / 2,
        backlog_rows=0,
    )


@given(
    p=st.integers(1, 50),
    rho=st.floats(0.05, 0.9),
    overhead=st.floats(0.05, 1.0),
    other=st.integers(1, 80),
)
def test_batches_in_turn_are_predicted_for_any_number_of_instances(
    p: int, rho: float, overhead: float, other: int
) -> None:
    load = rho * p
    found = fitted_station(batches(p, load, overhead, overhead / (1 - rho)), 0.0, 1e9)
    whole = 1.5 * overhead / (1 - rho)
    assert found.task + found.wait == pytest.approx(whole, rel=1e-3)
    if other > load:
        there = 1.5 * overhead / (1 - load / other)
        predicted = found.task + found.vertex(1, 100).wait(other)
        assert predicted == pytest.approx(there, rel=1e-2)


@given(p=st.integers(1, 50), rho=st.floats(0.05, 0.9), overhead=st.floats(0.05, 1.0))
def test_a_cadence_changes_nothing_of_that(p: int, rho: float, overhead: float) -> None:
    in_turn = overhead / (1 - rho)
    one = fitted_station(batches(p, rho * p, overhead, in_turn), 0.0, 1e9)
    gathered = batches(p, rho * p, overhead, 3 * in_turn)
    other = fitted_station(gathered, 3 * in_turn, 1e9)
    assert other.task == pytest.approx(one.task, rel=1e-2)
    assert other.wait == pytest.approx(one.wait, rel=1e-2)


def test_rows_one_by_one_are_a_queue() -> None:
    seen = PipelineMetrics("x", 4, arrival_rate=100.0, service=0.02, wait=0.3, batching=0.1)
    found = fitted_station(seen, 0.0, 5.0)
    assert (found.load, found.task, found.wait) == (2.0, 0.02, pytest.approx(0.2))
    assert found.a == pytest.approx(0.4)
    single = replace(seen, batches=100, rows_in=100, batch_seconds=0.02)
    assert fitted_station(single, 0.0, 5.0).overhead == 0.02  # a batch of one row cannot be divided


@given(seconds=st.floats(0.02, 100), rho=st.floats(0, 0.99))
def test_a_cadence_costs_no_more_than_it_may(seconds: float, rho: float) -> None:
    found = cadence_for(seconds, rho)
    assert found * (0.5 + rho) <= seconds * (1 + 1e-9)
    assert found == 0 or found * (0.5 + rho) > 0.85 * seconds
    assert cadence_for(seconds, 1.0) == 0.0


def test_rounding_up_ignores_the_last_digits() -> None:
    assert round_up(0.1 * 3 * 10) == 3
    assert round_up(3.001) == 4
    assert round_up(0.0) == 0


def test_a_wait_while_a_backlog_was_drained_is_that_of_the_formula() -> None:
    # 4 instances, half busy: 0.5 / 0.5 * 0.1 s * (1 + 1) / 2
    seen = PipelineMetrics("x", 4, arrival_rate=20.0, service=0.1, wait=3.0, backlog_rows=1)
    assert fitted_station(seen, 0.0, 5.0).wait == 3.0
    assert fitted_station(seen, 0.0, 5.0, drained=True).wait == pytest.approx(0.1)
    assert fitted_station(replace(seen, wait=0.02), 0.0, 5.0, drained=True).wait == 0.02
    assert fitted_station(seen, 0.0, 5.0, drained=True).backlog == 0.0


def test_rows_that_waited_for_what_is_gone_say_nothing_of_what_comes() -> None:
    usual = batches(4, 1.0, 0.5, period=2 / 3)
    late = replace(usual, wait=12.0)  # a backlog of 12 s was worked off, and is gone
    assert fitted_station(late, 0.0, 20.0).wait < 2 * fitted_station(usual, 0.0, 20.0).wait
    still = replace(late, backlog_rows=12_000_000)  # what waits now will have waited as long
    assert fitted_station(still, 0.0, 20.0).wait > 11.0
    assert fitted_station(late, 10.0, 20.0).wait > 6.0  # with a batch every 10 s they may well wait
