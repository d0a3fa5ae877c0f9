"""Rates that follow a change upstream."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.metrics.snapshot import PipelineMetrics
from penstock.models.inflow import Inflow, follow, missing
from penstock.models.topology import Topology
from penstock.plan import fusion
from tests.policies.queues import chain


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
    assert follow(topology(), rates)["y"] == Inflow(18.0, pytest.approx(1.8))


def test_what_is_held_back_comes_once_there_are_instances_for_it() -> None:
    rates = found(numbers=(40.0, 40.0, 40.0), x=(40.0, 10.0, 20.0), y=(20.0, 20.0, 20.0))
    assert follow(topology(), rates)["y"].rate == pytest.approx(80.0)
    some = follow(topology(), rates, lambda name, flow: 3.0)
    assert some["x"].rate == pytest.approx(30.0)  # the source cannot keep up with 3 instances
    assert some["y"].rate == pytest.approx(60.0)


def test_what_has_processed_nothing_passes_on_what_it_gets() -> None:
    rates = found(numbers=(40.0, 40.0, 40.0), x=(40.0, 0.0, 0.0), y=(0.0, 0.0, 0.0))
    assert follow(topology(), rates)["y"].rate == pytest.approx(40.0)


def test_rows_that_arrive_in_bulks_are_as_many_as_were_sent() -> None:
    rates = found(numbers=(40.0, 40.0, 40.0), x=(40.0, 10.0, 20.0), y=(900.0, 20.0, 20.0))
    assert follow(topology(), rates)["y"].rate == pytest.approx(80.0)
    rates["y"] = replace(rates["y"], arrival_rate=0.0)  # between two bulks
    assert follow(topology(), rates)["y"].rate == pytest.approx(80.0)
    rates["x"] = replace(rates["x"], rate_out=None)
    rates["y"] = replace(rates["y"], arrival_rate=70.0)
    assert follow(topology(), rates)["y"].rate == 70.0  # all that is known of it


def test_what_takes_no_time_is_given_instances_too() -> None:
    rates = found(numbers=(9.0, 9.0, 9.0), x=(9.0, 9.0, 9.0), y=(9.0, 9.0, 9.0))
    rates["numbers"] = replace(rates["numbers"], service=0.0)
    asked = []

    def choose(name: str, flow: Inflow) -> float:
        asked.append((name, round(flow.load, 6)))
        return 4.0

    follow(topology(), rates, choose)
    assert asked == [("numbers", 0.0), ("x", 0.9), ("y", 0.9)]


def test_what_is_missing() -> None:
    assert missing(None) == ("everything",)
    assert missing(PipelineMetrics("x", 1)) == ("arrival rate",)
    both = ("service time", "rows processed")
    assert missing(PipelineMetrics("x", 1, arrival_rate=3.0)) == both
    assert missing(PipelineMetrics("x", 1, arrival_rate=3.0, rate_in=0.0)) == ("service time",)
    assert missing(PipelineMetrics("x", 1, arrival_rate=0.0)) == ()
    assert missing(PipelineMetrics("x", 1, arrival_rate=0.0, backlog_rows=3)) == both
