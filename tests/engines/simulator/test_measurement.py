"""Sums over the window of a pipeline, and sampled latencies."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.dataflow.graph import Constraint
from penstock.engines.simulator.measurement import Ages, LatencyGauge, PipelineGauge


def test_batches_are_counted_whole() -> None:
    gauge = PipelineGauge(1)
    assert gauge.rates(9.0, 5.0) is None
    for number in range(4):
        gauge.batch(2.0 * number, 20)
    assert gauge.rates(0.5, 5.0) is None  # the first only says when the next has begun
    assert gauge.rates(6.5, 5.0) == (10.0, 10.0)
    assert gauge.rates(5.9, 1.0) == (10.0, 10.0)  # longer than the window: the last is known
    late = gauge.rates(16.0, 1.0)
    assert late is not None
    assert late[0] == pytest.approx(20 / 12)  # the next should have come long ago
    gauge.now.done["x"], gauge.now.out = 10, 30
    gauge.close(8.0, 5.0)
    assert gauge.rates(6.5, 5.0) == (10.0, 30.0)
    gauge.clear()
    assert gauge.rates(6.5, 5.0) is None


@pytest.mark.parametrize("count", [0, 1, 50, 4096, 100_000])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.9, 1.0])
@pytest.mark.parametrize("strange", [False, True])
def test_ages_are_those_of_records_that_leave_in_time_and_came_that_way(
    count: int, share: float, strange: bool
) -> None:
    rng = np.random.default_rng(count)
    births = 1000.0 + rng.random(count)
    left = births + rng.exponential(0.01, count)
    left[rng.random(count) < share] += 5.0
    if strange:
        births[::3] = np.nan
    due = (left - births)[(left <= 1002.0) & ~np.isnan(births)]
    ages = Ages.of(left, births, 1002.0)
    assert ages.rows == len(due)
    assert ages.total == pytest.approx(due.sum(), abs=1e-7)
    assert len(ages.sample) == len(due) if count <= 4096 else len(ages.sample) <= 4096
    assert bool(len(ages.sample)) == bool(len(due))
    if len(due) > 1000:
        assert np.median(ages.sample) == pytest.approx(np.median(due), rel=0.1)


def test_every_instance_is_in_the_sample() -> None:
    """Records in turn: every twentieth is of one instance, which must not stand for all."""
    ages = np.where(np.arange(80_000) % 20 == 0, 1.0, 0.001)
    found = Ages.of(5.0 + ages, np.full(80_000, 5.0), 10.0)
    assert np.mean(found.sample > 0.5) == pytest.approx(0.05, abs=0.01)


def test_parts_of_a_step_count_by_their_records() -> None:
    gauge = LatencyGauge(Constraint("a", "b", 1.0, 10.0))
    many = Ages.of(np.full(100_000, 5.01), np.full(100_000, 5.0), 6.0)
    few = Ages.of(np.full(8_000, 5.1), np.full(8_000, 5.0), 6.0)
    gauge.add(6.0, [few, many])
    found = gauge.window(6.0)
    assert found is not None
    assert found.rows == 108_000
    assert found.mean == pytest.approx((1000 + 800) / 108_000)
    assert found.p50 == pytest.approx(0.01, rel=0.03)
    assert found.p95 == pytest.approx(0.1, rel=0.03)
