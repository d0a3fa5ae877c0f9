"""Derived figures against numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from penstock.metrics import derived
from penstock.metrics.snapshot import (
    InstanceMetrics,
    OperatorMetrics,
    PipelineMetrics,
    Snapshot,
)


def pipeline(**values: object) -> PipelineMetrics:
    return PipelineMetrics("count", 4, **values)  # type: ignore[arg-type]


def test_utilisation_is_work_that_arrives_for_each_instance() -> None:
    # 1000 rows a second at 3 ms are 3 s of work a second, for 4 instances
    assert derived.utilisation(pipeline(arrival_rate=1000.0, service=0.003)) == pytest.approx(0.75)
    assert derived.utilisation(pipeline(arrival_rate=1000.0)) is None
    assert derived.utilisation(pipeline(service=0.003)) is None


def test_congestion_is_what_comes_for_what_is_done() -> None:
    assert derived.congestion(pipeline(arrival_rate=1200.0, rate_in=1000.0)) == pytest.approx(1.2)
    assert derived.congestion(pipeline(arrival_rate=5.0, rate_in=0.0)) == math.inf
    assert derived.congestion(pipeline(arrival_rate=0.0, rate_in=0.0)) == 1.0
    assert derived.congestion(pipeline(rate_in=1000.0)) is None
    assert derived.congestion(pipeline(arrival_rate=5.0)) is None


def test_true_rate_is_that_of_instances_that_never_rest() -> None:
    assert derived.true_rate(pipeline(service=0.002)) == pytest.approx(2000.0)
    assert derived.true_rate(pipeline()) is None
    assert derived.true_rate(pipeline(service=0.0)) is None


def test_capacity_is_the_share_of_time_at_work() -> None:
    # 300 rows a second at 5 ms keep 1.5 instances at work, of 2
    busy = OperatorMetrics("count", rate_in=300.0, service=0.005)
    assert derived.capacity(busy, 2) == pytest.approx(0.75)
    assert derived.capacity(OperatorMetrics("count", rate_in=300.0), 2) is None


def test_the_queue_of_a_pipeline_has_kingmans_inputs() -> None:
    found = derived.queue(
        pipeline(
            arrival_rate=800.0,
            service=0.004,
            arrival_cv=2.0,
            service_cv=1.0,
            wait=0.5,
            batching=0.1,
        )
    )
    assert found is not None
    assert found.rate == pytest.approx(200.0)
    assert found.utilisation == pytest.approx(0.8)
    # 0.8 / 0.2 * 4 ms * (4 + 1) / 2 = 40 ms, and 400 ms were measured
    assert found.kingman == pytest.approx(0.04)
    assert found.error == pytest.approx(10.0)


def test_a_queue_without_an_end_has_no_error_to_speak_of() -> None:
    over = derived.PipelineQueue(1, 300.0, 0.004, 1.0, 1.0, 3.0)
    assert over.kingman == math.inf
    assert over.error is None
    idle = derived.PipelineQueue(1, 0.0, 0.004, 1.0, 1.0, 0.0)
    assert idle.kingman == 0.0
    assert idle.error is None


def test_what_was_not_measured_makes_no_queue() -> None:
    assert derived.queue(pipeline(arrival_rate=800.0, service=0.004)) is None
    assert derived.queue(pipeline(service=0.004, wait=0.1)) is None


def test_variation_that_was_not_measured_is_that_of_poisson_in_the_formula_alone() -> None:
    known = derived.queue(pipeline(arrival_rate=800.0, service=0.004, wait=0.1))
    assert known is not None
    assert (known.arrival_cv, known.service_cv) == (None, None)
    assert known.kingman == pytest.approx(0.8 / 0.2 * 0.004)


def test_skew_is_the_variation_of_rows_over_instances() -> None:
    even = pipeline(instances=tuple(InstanceMetrics(i, 100) for i in range(4)))
    assert even.skew == 0.0
    # 10, 10, 10, 70: mean 25, deviations 15, 15, 15, 45, so sqrt(675) / 25
    rows = (10, 10, 10, 70)
    uneven = pipeline(instances=tuple(InstanceMetrics(i, n) for i, n in enumerate(rows)))
    assert uneven.skew == pytest.approx(math.sqrt(675) / 25)
    assert pipeline(instances=(InstanceMetrics(0, 5),)).skew is None
    assert pipeline(instances=(InstanceMetrics(0), InstanceMetrics(1))).skew is None


def test_selectivity_and_throughput() -> None:
    assert OperatorMetrics("split", rows_in=10, rows_out=70).selectivity == 7.0
    assert OperatorMetrics("split", rows_in=0, rows_out=0).selectivity is None
    assert OperatorMetrics("split", rows_in=10).selectivity is None
    long = OperatorMetrics("split", rows_in=0, rows_out=0, rate_in=10.0, rate_out=70.0)
    assert long.selectivity == 7.0  # of a batch that is longer than the window
    flow = Snapshot(
        1.0,
        1.0,
        None,
        0,
        0,
        0,
        pipelines={
            "a": PipelineMetrics("a", 1, rate_in=5.0),
            "b": PipelineMetrics("b", 1, rate_in=7.0),
        },
        source_pipelines=frozenset({"a"}),
    )
    assert flow.throughput == 5.0
    both = frozenset({"a", "b"})
    assert replace(flow, source_pipelines=both).throughput == 12.0
    unknown = {**flow.pipelines, "b": PipelineMetrics("b", 1)}
    assert replace(flow, source_pipelines=both, pipelines=unknown).throughput is None
    assert replace(flow, source_pipelines=frozenset({"gone"})).throughput is None


def test_batches_without_rows_are_no_work() -> None:
    batches = PipelineMetrics("x", 2, batches=9, rate_in=10.0, service=0.05, busy=0.97)
    assert derived.at_work(batches) == pytest.approx(0.25)
    assert derived.at_work(PipelineMetrics("x", 2, busy=0.97)) == 0.97
    assert derived.at_work(PipelineMetrics("x", 2)) is None
    assert derived.at_work(PipelineMetrics("x", 2, service=0.05, busy=0.97)) is None
