"""What is measured of simulated pipelines."""

from __future__ import annotations

import pytest

from penstock.engines.simulator.measurement import PipelineGauge


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
