"""The number of instances by marginal analysis, against a search of all of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.policies.es_stream.marginal_analysis import best_instances, objective
from penstock.policies.shared import queueing
from tests.speed import within


@given(load=st.floats(0, 40), share=st.floats(0.01, 0.9))
@settings(max_examples=200, deadline=None)
def test_it_is_where_the_objective_is_least(load: float, share: float) -> None:
    found = best_instances(load, share)
    least = min(objective(load, k, share) for k in range(1, 120))
    assert objective(load, found, share) == pytest.approx(least, rel=1e-12)
    # the condition of the marginal analysis, with its sign
    q = {k: queueing.mmk(load, 1.0, k).number for k in (found - 1, found, found + 1)}
    worth = share / (1 - share)
    assert q[found] - q[found + 1] <= worth
    assert found == 1 or worth <= q[found - 1] - q[found]


@given(load=st.floats(0, 40), share=st.floats(0.01, 0.9), least=st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_bounds_are_kept_and_cut_nothing_else(load: float, share: float, least: int) -> None:
    free = best_instances(load, share)
    assert best_instances(load, share, least) == max(free, least)
    assert best_instances(load, share, 1, least) == min(free, least)


@given(st.lists(st.floats(0, 40), min_size=2, max_size=2), st.floats(0.01, 0.9))
@settings(max_examples=100, deadline=None)
def test_more_load_never_needs_fewer(loads: list[float], share: float) -> None:
    assert best_instances(min(loads), share) <= best_instances(max(loads), share)


def test_the_edges() -> None:
    assert best_instances(0.0, 0.1) == 1
    assert best_instances(1.0, 0.1) > 1  # with one instance for a load of one the queue never ends
    assert best_instances(3.0, 0.999) == 4  # however dear an instance, the load has to be carried
    assert best_instances(30.0, 0.1, 1, 8) == 8
    assert objective(2.0, 2, 0.5) == math.inf
    with pytest.raises(ValueError, match="between 0 and 1"):
        best_instances(1.0, 1.0)


def test_thousands_of_instances_are_found_quickly() -> None:
    assert 9_500 < best_instances(9_500.0, 0.1) < 10_000
    assert within(0.5, lambda: best_instances(9_500.0, 0.1))
