"""Rates that follow a change upstream."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metrics.snapshot import PipelineMetrics
from penstock.plan import fusion
from penstock.policies.shared.rates import Inflow, missing, predicted_inflow, required_rate
from penstock.policies.shared.topology import Topology
from tests.policies.queues import chain
from tests.strategies import few


def found(**rates: tuple[float, float, float]) -> dict[str, PipelineMetrics]:
    """Arrival rate, rows processed and rows put out a second, of pipelines with 0.1 s a row."""
    return {
        name: PipelineMetrics(name, 1, rate_in=done, rate_out=out, arrival_rate=come, service=0.1)
        for name, (come, done, out) in rates.items()
    }


def topology() -> Topology:
    graph = chain("x", "y")
    return Topology(graph, fusion.finest_plan(graph))


def test_what_keeps_up_stays_as_it_was_measured() -> None:
    rates = found(numbers=(9.0, 9.0, 9.0), x=(9.0, 9.0, 18.0), y=(18.0, 18.0, 18.0))
    assert predicted_inflow(topology(), rates)["y"] == Inflow(18.0, pytest.approx(1.8))


def test_what_is_held_back_comes_once_there_are_instances_for_it() -> None:
    rates = found(numbers=(40.0, 40.0, 40.0), x=(40.0, 10.0, 20.0), y=(20.0, 20.0, 20.0))
    assert predicted_inflow(topology(), rates)["y"].rate == pytest.approx(80.0)
    some = predicted_inflow(topology(), rates, lambda name, flow: 3.0)
    assert some["x"].rate == pytest.approx(30.0)  # the source cannot keep up with 3 instances
    assert some["y"].rate == pytest.approx(60.0)


def test_what_has_processed_nothing_passes_on_what_it_gets() -> None:
    rates = found(numbers=(40.0, 40.0, 40.0), x=(40.0, 0.0, 0.0), y=(0.0, 0.0, 0.0))
    assert predicted_inflow(topology(), rates)["y"].rate == pytest.approx(40.0)


def test_rows_that_arrive_in_bulks_are_as_many_as_were_sent() -> None:
    rates = found(numbers=(40.0, 40.0, 40.0), x=(40.0, 10.0, 20.0), y=(900.0, 20.0, 20.0))
    assert predicted_inflow(topology(), rates)["y"].rate == pytest.approx(80.0)
    rates["y"] = replace(rates["y"], arrival_rate=0.0)  # between two bulks
    assert predicted_inflow(topology(), rates)["y"].rate == pytest.approx(80.0)
    rates["x"] = replace(rates["x"], rate_out=None)
    rates["y"] = replace(rates["y"], arrival_rate=70.0)
    assert predicted_inflow(topology(), rates)["y"].rate == 70.0  # all that is known of it


def test_what_takes_no_time_is_given_instances_too() -> None:
    rates = found(numbers=(9.0, 9.0, 9.0), x=(9.0, 9.0, 9.0), y=(9.0, 9.0, 9.0))
    rates["numbers"] = replace(rates["numbers"], service=0.0)
    asked = []

    def choose(name: str, flow: Inflow) -> float:
        asked.append((name, round(flow.load, 6)))
        return 4.0

    predicted_inflow(topology(), rates, choose)
    assert asked == [("numbers", 0.0), ("x", 0.9), ("y", 0.9)]


def test_what_is_missing() -> None:
    assert missing(None) == ("everything",)
    assert missing(PipelineMetrics("x", 1)) == ("arrival rate",)
    both = ("service time", "rows processed")
    assert missing(PipelineMetrics("x", 1, arrival_rate=3.0)) == both
    assert missing(PipelineMetrics("x", 1, arrival_rate=3.0, rate_in=0.0)) == ("service time",)
    assert missing(PipelineMetrics("x", 1, arrival_rate=0.0)) == ()
    assert missing(PipelineMetrics("x", 1, arrival_rate=0.0, backlog_rows=3)) == both


def waits(rows: int | None) -> PipelineMetrics:
    return PipelineMetrics("x", 1, backlog_rows=rows)


def test_rows_that_wait_are_to_be_done_in_time() -> None:
    assert required_rate(10.0, waits(None)) == required_rate(10.0, waits(0)) == 10.0
    assert required_rate(10.0, waits(20)) == 10.0  # those of two seconds wait for the batch before
    assert required_rate(10.0, waits(320), 30.0) == pytest.approx(20.0)
    assert required_rate(0.0, waits(300), 30.0) == pytest.approx(10.0)
    assert required_rate(10.0, waits(320), 1.0) == pytest.approx(320.0)


@few
@given(
    st.floats(0, 1e6),
    st.integers(0, 10**9),
    st.floats(0.1, 1000.0),
    st.floats(0, 1e6),
    st.integers(0, 10**9),
)
def test_more_that_comes_or_waits_is_more_to_do(
    rate: float, rows: int, seconds: float, more: float, others: int
) -> None:
    least = required_rate(rate, waits(rows), seconds)
    assert required_rate(rate + more, waits(rows + others), seconds) >= least * (1 - 1e-9)
    assert required_rate(8 * rate, waits(8 * rows), seconds) == pytest.approx(8 * least)


def test_what_waits_comes_to_those_behind_too() -> None:
    rates = found(numbers=(9.0, 9.0, 9.0), x=(9.0, 9.0, 18.0), y=(18.0, 18.0, 18.0))
    rates["x"] = replace(rates["x"], backlog_rows=318)
    assert predicted_inflow(topology(), rates)["x"].rate == pytest.approx(19.0)
    assert predicted_inflow(topology(), rates)["y"].rate == pytest.approx(38.0)
