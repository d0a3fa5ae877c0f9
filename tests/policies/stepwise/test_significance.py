"""The t-test against scipy's."""

from __future__ import annotations

import pytest
import scipy.special
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.policies.stepwise.significance import compare, incomplete_beta, p_value

# scipy squares variances: below this it divides nothing by nothing
number = st.floats(-1e3, 1e3).filter(lambda x: x == 0 or abs(x) > 1e-50)
numbers = st.lists(number, min_size=2, max_size=25)


@given(numbers, numbers)
def test_the_p_value_is_that_of_welch(one: list[float], other: list[float]) -> None:
    # series that hardly vary are at the mercy of rounding, here and there
    assume(min(max(s) - min(s) for s in (one, other)) > 1e-6 * max(map(abs, [*one, *other])))
    expected = scipy.stats.ttest_ind(one, other, equal_var=False).pvalue
    assert p_value(one, other) == pytest.approx(expected, abs=1e-7)


@given(st.floats(0.5, 200), st.floats(0.1, 20), st.floats(0, 1))
def test_the_incomplete_beta_function_is_right(a: float, b: float, x: float) -> None:
    assert incomplete_beta(a, b, x) == pytest.approx(scipy.special.betainc(a, b, x), abs=1e-7)


def test_the_unit_does_not_matter_even_where_squares_vanish() -> None:
    one, other = [1.0, 2.0, 4.0], [2.0, 5.0, 7.0]
    tiny = p_value([x * 1e-150 for x in one], [x * 1e-150 for x in other])
    assert tiny == pytest.approx(p_value(one, other))


def test_series_without_variation() -> None:
    assert p_value([5.0, 5.0], [5.0, 5.0]) == 1.0
    assert p_value([5.0, 5.0], [6.0, 6.0]) == 0.0
    assert p_value([5.0], [6.0]) == 1.0


def test_a_change_must_be_significant_and_large_enough() -> None:
    before = [100.0, 101.0, 99.0, 100.0, 100.5]
    assert compare(before, [x * 1.1 for x in before]) == "increased"
    assert compare(before, [x * 0.9 for x in before]) == "decreased"
    assert compare(before, [x * 1.001 for x in before]) == "unchanged"
    assert compare([100.0, 100.0], [100.5, 100.5]) == "increased"
    assert compare([100.0, 100.0], [100.5, 100.5], least=0.01) == "unchanged"
