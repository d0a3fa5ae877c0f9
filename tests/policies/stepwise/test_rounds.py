from __future__ import annotations

import pytest

from penstock.metrics.snapshot import LatencyMetrics, PipelineMetrics, Snapshot
from penstock.policies.stepwise.profile import Feature
from penstock.policies.stepwise.rounds import (
    BEAT,
    RoundObservation,
    is_draining,
    least_service_times,
    observe,
    sustained_throughput,
)


def seen(source: PipelineMetrics, latency: dict[str, LatencyMetrics]) -> Snapshot:
    return Snapshot(
        10.0, 5.0, 0, 0, 0, 0, {"in": source}, latency, source_pipelines=frozenset({"in"})
    )


def test_a_source_that_takes_batches_is_slowed_down_from_what_comes_in_a_beat() -> None:
    source = PipelineMetrics("in", 1, batches=4, rows_in=1000, rate_in=200.0)
    assert observe(seen(source, {}), 0.5).batches == {"in": 200.0 * BEAT}


def test_one_that_runs_all_the_time_from_what_may_be_under_way_within_the_latency() -> None:
    source = PipelineMetrics("in", 1, rows_in=1000, rate_in=200.0)
    assert observe(seen(source, {}), 0.5).batches == {"in": 100.0}
    bounds = {
        name: LatencyMetrics(name, bound, mean=0.1, p50=0.1, p95=0.1, p99=0.1, rows=1)
        for name, bound in (("a", 0.4), ("b", 0.2))
    }
    assert observe(seen(source, bounds), 0.5).batches == {"in": pytest.approx(40.0)}


@pytest.mark.parametrize(
    ("backlogs", "expected"),
    [
        ((900, 700, 500), True),
        ((500, 700, 900), False),  # it does not keep up: that is what the plan can do
        ((500, 500, 500), False),
        ((190, 150, 100), False),  # at 100 rows/s these are there within the 2 s that rows may take
        ((500,), False),  # nothing to compare with
    ],
)
def test_rows_from_before_are_being_worked_off(backlogs: tuple[int, ...], expected: bool) -> None:
    late = LatencyMetrics("a->b", 2.0, 9.0, 9.0, 9.0, 9.0, 10)
    found = tuple(
        Snapshot(
            at=5.0 * number,
            window=5.0,
            rows_offered=None,
            rows_ingested=0,
            rows_delivered=0,
            rows_dead=0,
            pipelines={
                "in": PipelineMetrics("in", 1, rate_in=100.0, backlog_rows=10_000),
                "x": PipelineMetrics("x", 1, batches=2, rate_in=100.0, backlog_rows=rows),
            },
            latency={"a->b": late},
            source_pipelines=frozenset({"in"}),
        )
        for number, rows in enumerate(backlogs)
    )
    assert is_draining(found, 0.5) == expected


def test_a_round_carries_what_its_slowest_pipeline_does_over_all_of_it() -> None:
    """In single observations another one is slowest, which is chance."""
    features = {
        "in": Feature(0.001, 1.0, source=True),
        "a": Feature(0.001, 0.5),
        "b": Feature(0.001, 0.5),
        "few": Feature(0.001, 0.1, dominated=True),
    }

    def one(a: float, b: float) -> RoundObservation:
        rates = {"in": 130.0, "a": a / 2, "b": b / 2, "few": 1.0}
        return RoundObservation(0.0, 130.0, None, {}, {}, rates, {}, {})

    windows = [one(80, 120), one(120, 60), one(100, 90)]
    assert sustained_throughput(windows, features) == pytest.approx((120, 60, 90))


def test_the_least_time_for_a_row_is_not_that_of_a_few_rows() -> None:
    def one(often: float, rarely: float, rows: int) -> RoundObservation:
        services = {"often": often, "rarely": rarely, "untold": rarely}
        return RoundObservation(
            0.0, 0.0, None, services, {}, {}, {}, {}, {"often": 40, "rarely": rows}
        )

    found = least_service_times([one(0.03, 0.01, 1), one(0.02, 0.05, 3)])
    assert found == pytest.approx({"often": 0.02, "rarely": 0.04, "untold": 0.01})
    assert least_service_times([one(0.03, 0.01, 29), one(0.02, 0.05, 30)])["rarely"] == 0.05
