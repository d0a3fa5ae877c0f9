"""Telling the cost of a task from that of its rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engines.spark.measuring.executor_usage import fixed_and_per_row


@given(
    fixed=st.floats(0, 1),
    per_row=st.floats(0, 0.1),
    sizes=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 5000)), min_size=4, max_size=30),
)
def test_exact_costs_are_found(fixed: float, per_row: float, sizes: list[tuple[int, int]]) -> None:
    found = fixed_and_per_row([(k, n, fixed * k + per_row * n) for k, n in sizes])
    if found is not None:
        assert found[0] == pytest.approx(fixed, abs=1e-6, rel=1e-5)
        assert found[1] == pytest.approx(per_row, abs=1e-6, rel=1e-5)


def test_batches_of_one_size_tell_nothing() -> None:
    assert fixed_and_per_row([(2, 100, 0.5)] * 20) is None
    assert fixed_and_per_row([(2, 100, 0.5), (2, 900, 1.5)]) is None
    assert fixed_and_per_row([(1, 0, 0.1)] * 5) is None


def test_noise_never_makes_a_cost_negative() -> None:
    assert fixed_and_per_row([(1, 100, 0.1), (1, 200, 0.3), (1, 300, 0.9)]) == (
        0.0,
        pytest.approx(1.3 / 600),
    )
    assert fixed_and_per_row([(1, 100, 0.9), (1, 200, 0.5), (1, 300, 0.1)]) == (
        pytest.approx(0.5),
        0.0,
    )
