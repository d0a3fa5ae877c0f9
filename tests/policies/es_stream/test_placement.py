"""Loads of executors: skewness, room for one more."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metrics.snapshot import ExecutorMetrics
from penstock.policies.es_stream.placement import (
    ExecutorLoad,
    count_unplaced,
    executor_load,
    fits,
    instance_need,
    skewness,
)

LIMITS = {"processor": 0.9, "memory": 0.9}


def made(name: str, processor: float, **instances: int) -> ExecutorLoad:
    return ExecutorLoad(name, {"processor": processor}, instances)


def test_skewness_as_printed() -> None:
    loads = [0.1, 0.1, 0.7]
    mean, spread = statistics.fmean(loads), statistics.pstdev(loads)
    printed = 3 * sum((x - mean) ** 3 for x in loads) / (2 * 1 * spread**3)
    assert skewness(loads) == pytest.approx(printed)
    assert skewness(loads) > 0 > skewness([0.7, 0.7, 0.1])


@pytest.mark.parametrize("loads", [[], [0.5], [0.1, 0.9], [0.3] * 5])
def test_skewness_that_is_not_defined_is_none_at_all(loads: list[float]) -> None:
    assert skewness(loads) == 0.0


@given(st.lists(st.floats(0, 1), min_size=3, max_size=20))
def test_the_mirror_image_leans_the_other_way(loads: list[float]) -> None:
    assert skewness([1 - x for x in loads]) == pytest.approx(-skewness(loads), abs=1e-6)


def test_the_load_is_that_of_the_scarcest_resource() -> None:
    found = executor_load(
        ExecutorMetrics("e", 4, busy=0.5, cpu=0.2, memory=0.6, io_bytes=70.0), 100.0
    )
    assert found is not None
    assert found.load == 0.7
    without = executor_load(ExecutorMetrics("e", 4, busy=0.5, cpu=0.2, memory=0.4, io_bytes=70.0))
    assert without is not None
    assert without.load == 0.5
    assert executor_load(ExecutorMetrics("e", 4)) is None


def test_every_resource_has_to_fit() -> None:
    now = {"processor": 0.5, "memory": 0.7}
    assert fits(now, {"processor": 0.4, "memory": 0.2}, LIMITS)
    assert not fits(now, {"processor": 0.41, "memory": 0.1}, LIMITS)
    assert not fits(now, {"processor": 0.1, "memory": 0.21}, LIMITS)


def test_a_new_instance_takes_what_the_others_take() -> None:
    nodes = [made("a", 0.6, x=2, y=1), made("b", 0.4, x=1, y=1), made("c", 0.1)]
    alike = {"x": 0.5, "y": 0.5}
    assert instance_need(nodes, "x", alike) == {"processor": pytest.approx(0.2)}
    assert instance_need(nodes, "unseen", alike) == {}
    assert (
        instance_need(nodes, "x", {"x": 0.5})
        == instance_need(nodes, "x", {})
        == instance_need(nodes, "x", alike)
    )
    assert instance_need(nodes, "x", {"x": 0.0, "y": 0.0}) == instance_need(nodes, "x", alike)


def test_a_busy_instance_takes_more_of_its_executor_than_an_idle_one() -> None:
    """An executor that is 0.6 loaded by two x, each at work three times as much as the one y."""
    nodes = [made("a", 0.6, x=2, y=1), made("b", 0.2, y=2)]
    work = {"x": 0.3, "y": 0.1}
    assert instance_need(nodes, "x", work) == {"processor": pytest.approx(0.6 * 3 / 7)}
    # (21) is the mean over the instances of the one pipeline: 0.6 / 7 and twice 0.1
    assert instance_need(nodes, "y", work) == {
        "processor": pytest.approx((0.6 / 7 + 0.1 + 0.1) / 3)
    }


def test_instances_go_to_the_least_loaded_until_it_is_full() -> None:
    nodes = [made("a", 0.5), made("b", 0.1)]
    more = [({"processor": 0.3}, 5)]
    # b: 0.4, b: 0.7, a: 0.8, and then none has room
    assert count_unplaced(nodes, more, LIMITS) == 2
    assert count_unplaced([], more, LIMITS) == 5
    assert count_unplaced(nodes, [], LIMITS) == 0
    assert count_unplaced(nodes, [({}, 10**9)], LIMITS) == 0


loads = st.dictionaries(
    st.sampled_from(("processor", "memory")), st.sampled_from((0.0, 0.1, 0.3, 0.7)), min_size=1
)


@given(
    st.lists(loads, max_size=5),
    st.lists(st.tuples(st.just({}) | loads, st.integers(0, 4)), max_size=5),
)
def test_placing_is_one_after_the_other(
    found: list[dict[str, float]], more: list[tuple[dict[str, float], int]]
) -> None:
    """The slow way: look at every executor for each new instance."""
    now, left_over = [{**shares} for shares in found], 0
    for shares, count in more:
        for _ in range(count):
            room = [one for one in now if fits(one, shares, LIMITS)]
            if room:
                least = min(room, key=lambda one: max(one.values()))
                least |= {name: share + shares.get(name, 0.0) for name, share in least.items()}
            left_over += not room
    nodes = [ExecutorLoad(f"{at}", shares, {}) for at, shares in enumerate(found)]
    assert count_unplaced(nodes, more, LIMITS) == left_over
