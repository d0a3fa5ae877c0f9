from __future__ import annotations

import math

import pytest

from penstock_lab.experiments.reading import convergence_time


def after(series: list[float], **options: float) -> float | None:
    return convergence_time(range(len(series)), series, 0.0, **options)


def test_it_settles_with_the_second_swing_to_each_side() -> None:
    #          dip            above below above below
    series = [50.0, 20.0, 60.0, 102.0, 98.0, 102.0, 98.0, 100.0, 100.0, 100.0]
    assert after(series, average=100.0) == 6.0


def test_large_swings_do_not_count() -> None:
    series = [0.0, 150.0, 50.0, 150.0, 50.0, 104.0, 97.0, 103.0, 96.0, 100.0]
    assert after(series, average=100.0) == 8.0
    assert after(series, average=100.0, spread=0.6) == 4.0


def test_several_samples_on_one_side_are_one_swing() -> None:
    series = [101.0, 102.0, 101.0, 99.0, 98.0, 101.0, 101.0, 99.0]
    assert after(series, average=100.0) == 7.0
    assert after(series[:7], average=100.0) is None


def test_a_series_that_stands_still_settles_after_four_samples() -> None:
    assert after([10.0, 40.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0]) == 5.0


def test_a_series_that_never_comes_to_rest_has_no_time() -> None:
    assert after([100.0 * 1.5**i for i in range(20)]) is None
    assert after([100.0 + 30 * (-1) ** i for i in range(20)]) is None
    assert after([]) is None
    assert after([1.0, 1.0]) is None


def test_what_was_before_the_change_does_not_count() -> None:
    times = [float(t) for t in range(20)]
    series = [50.0] * 10 + [90.0 + 2 * (-1) ** t for t in range(10)]
    assert convergence_time(times, series, 10.0) == 3.0
    assert convergence_time(times, [x * 7 for x in series], 10.0) == 3.0
    assert convergence_time(times[:10], series[:10], 10.0) is None


def test_the_average_is_that_of_the_second_half() -> None:
    swings = [102.0, 98.0]
    assert after([0.0] * 6 + swings * 3) == 9.0
    assert after([0.0] * 6 + swings * 3, average=50.0) is None


def test_a_series_that_comes_from_one_side_only_never_swings() -> None:
    assert after([100 * (1 - math.exp(-t)) for t in range(15)], average=100.0) is None


def test_times_and_samples_go_together() -> None:
    with pytest.raises(ValueError, match="2 times for 1 samples"):
        convergence_time([0.0, 1.0], [1.0], 0.0)
