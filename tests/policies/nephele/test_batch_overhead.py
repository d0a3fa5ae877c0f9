"""What a further instance costs, against trying all numbers of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.policies.nephele.queue_model import (
    Station,
    most_useful_instances,
    overhead_per_instance,
    with_measured_overhead,
)


def station(p: int, load: float, wait: float, overhead: float) -> Station:
    return Station("x", p, load, 1.5 * overhead, wait, overhead)


@given(
    load=st.floats(0.05, 40),
    spare=st.integers(1, 40),
    wait=st.floats(0.001, 10),
    seconds=st.floats(1e-4, 0.5),
)
def test_no_other_number_of_instances_is_faster(
    load: float, spare: int, wait: float, seconds: float
) -> None:
    one = station(int(load) + spare, load, wait, 0.1)

    def takes(p: int) -> float:
        return 1.5 * seconds * p + one.a / (p - one.load)

    found = most_useful_instances(one, seconds)
    assert found is not None
    best = min(takes(p) for p in range(int(load) + 1, int(load) + 2000))
    assert takes(found) <= best * (1 + 1e-9)


@given(
    st.dictionaries(st.integers(1, 50), st.floats(0, 0.01), min_size=2, max_size=6),
    st.floats(0.001, 0.1),
    st.floats(0.01, 1),
)
def test_a_straight_line_is_found_again(
    blur: dict[int, float], seconds: float, fixed: float
) -> None:
    known = {p: fixed + seconds * p for p in blur}
    far_enough = max(known) >= 1.5 * min(known)
    assert overhead_per_instance(known) == pytest.approx(seconds if far_enough else 0.0)


def test_without_a_rise_there_is_no_limit() -> None:
    assert overhead_per_instance({}) == 0.0
    assert overhead_per_instance({4: 0.3}) == 0.0
    assert overhead_per_instance({2: 0.3, 8: 0.2}) == 0.0
    assert overhead_per_instance({10: 0.3, 11: 0.9}) == 0.0  # hardly another number of instances
    assert most_useful_instances(station(4, 1.0, 0.5, 0.3), 0.0) is None


def test_newer_measurements_count_more() -> None:
    first = with_measured_overhead({}, station(4, 1.0, 0.5, 0.2))
    second = with_measured_overhead(first, station(4, 1.0, 0.5, 0.4))
    assert first == {4: 0.2}
    assert 0.2 < second[4] < 0.4
    assert with_measured_overhead(second, station(8, 1.0, 0.5, 0.6))[8] == 0.6
    assert (
        with_measured_overhead(second, station(8, 1.0, 0.5, 0.0)) == second
    )  # no batches, nothing to learn
