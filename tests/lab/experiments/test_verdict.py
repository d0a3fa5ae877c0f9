"""The judging of numbers: effects are compared, and what was put in counts for nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock_lab.experiments.experiment import Claim
from penstock_lab.experiments.verdict import (
    AGREES,
    BETTER,
    DIFFERS,
    DIRECTION,
    GIVEN,
    HALF,
    ONE_RUN,
    ROUNDS,
    SLIGHT,
    UNMEASURED,
    VERDICTS,
    WEAKER,
    effect,
    judged,
    meanings,
)


def claim(seed: float | None, **more: Any) -> Claim:
    return Claim("x", seed, lambda data: None, **more)


@pytest.mark.parametrize(
    ("seed", "value", "verdict"),
    [
        (1.319, 1.053, WEAKER),  # 5.3 % beside 31.9 %
        (1.341, 1.207, DIRECTION),  # 20.7 % beside 34.1 %
        (1.65, 1.65, AGREES),
        (1.65, 1.8125, AGREES),  # a quarter more of the gain
        (1.65, 1.4875, AGREES),  # as much less
        (1.65, 1.48, DIRECTION),
        (1.65, 2.06, DIRECTION),
        (1.65, 1.325, DIRECTION),  # half of it
        (1.65, 1.32, WEAKER),
        (1.65, 1.07, WEAKER),
        (1.65, 0.9, DIFFERS),
        (1.1, 1.0, DIFFERS),
        (3.3, 1.22, DIFFERS),  # less than a tenth of the gain: chance
        (3.3, 1.24, WEAKER),
        (1.0, 1.1, AGREES),  # the paper saw no difference
        (1.0, 1.3, DIFFERS),
        (0.5, 0.75, DIRECTION),
        (0.5, 0.9, WEAKER),
        (0.5, 1.2, DIFFERS),
    ],
)
def test_of_a_ratio_the_gain_is_compared(seed: float, value: float, verdict: str) -> None:
    assert judged(claim(seed, neutral=1.0), value).verdict == verdict


@pytest.mark.parametrize(
    ("seed", "value", "verdict"),
    [
        (0.91, 0.965, BETTER),  # 3.5 % are missed, in the paper 9 %
        (0.91, 0.92, AGREES),
        (0.91, 0.88, DIFFERS),  # a third more is missed
        (0.91, 0.737, DIFFERS),
        (0.96, 0.9996, BETTER),
        (1.0, 1.0, AGREES),
        (1.0, 0.995, AGREES),
        (1.0, 0.8, DIFFERS),  # the paper misses nothing
    ],
)
def test_of_a_share_of_hits_the_misses_are_compared(
    seed: float, value: float, verdict: str
) -> None:
    assert judged(claim(seed, ideal=1.0), value).verdict == verdict
    assert judged(claim(seed, ideal=1.0), value, "spark").verdict == verdict


@pytest.mark.parametrize(
    ("seed", "neutral", "value", "verdict"),
    [
        (1.65, 1.0, 1.65, DIRECTION),  # as large by chance
        (1.65, 1.0, 40.0, DIRECTION),
        (1.65, 1.0, 1.2, WEAKER),
        (1.65, 1.0, 0.9, DIFFERS),
        (0.5, 1.0, 0.96, DIFFERS),
        (1.0, 1.0, 1.1, AGREES),  # no direction: the paper saw no difference
        (30.0, None, 33.0, AGREES),
        (30.0, None, 90.0, DIFFERS),
    ],
)
def test_on_spark_the_direction_counts_where_there_is_one(
    seed: float, neutral: float | None, value: float, verdict: str
) -> None:
    assert judged(claim(seed, neutral=neutral), value, "spark").verdict == verdict


def test_ours_may_be_better() -> None:
    assert judged(claim(40, better="lower"), 20).verdict == BETTER
    assert judged(claim(40, better="lower"), 30).verdict == AGREES
    assert judged(claim(40, better="higher"), 20).verdict == DIFFERS
    assert judged(claim(2.0, neutral=1.0, better="higher"), 3.0).verdict == BETTER
    assert judged(claim(2.0, neutral=1.0, better="higher"), 1.3).verdict == WEAKER


def test_a_number_the_paper_does_not_give_has_no_verdict() -> None:
    assert judged(claim(None), 3.0).verdict == ""
    assert judged(claim(None), 3.0, "spark", rounds=1).verdict == ""
    assert judged(claim(0.0), 0.0).verdict == AGREES
    assert judged(claim(0.0), 1.0).verdict == DIFFERS


def test_a_side_that_the_paper_has_in_words_alone_is_compared() -> None:
    longer = claim(None, neutral=1.0, side="above")
    assert judged(longer, 1.2).verdict == DIRECTION
    assert {judged(longer, value).verdict for value in (1.005, 1.0, 0.9)} == {DIFFERS}
    assert judged(replace(longer, side="below"), 0.9).verdict == DIRECTION


@pytest.mark.parametrize("seed", [1.65, None])
def test_a_side_takes_the_place_of_a_number_and_needs_a_neutral_one(seed: float | None) -> None:
    with pytest.raises(ValueError, match="a side needs a neutral number"):
        claim(seed, side="above", **({"neutral": 1.0} if seed else {}))


def test_what_is_missed_is_not_a_gain_too() -> None:
    with pytest.raises(ValueError, match="an ideal number needs a number of the paper's"):
        claim(0.9, ideal=1.0, neutral=1.0)
    with pytest.raises(ValueError, match="an ideal number needs a number of the paper's"):
        claim(None, ideal=1.0)


def test_what_was_put_in_counts_for_nothing_where_it_comes_out() -> None:
    for value in (2.0, 2.4):
        cell = judged(claim(2.0, basis="given"), value)
        assert (cell.value, cell.ratio, cell.verdict) == (value, value / 2, GIVEN)
    side = claim(None, neutral=1.0, side="above", basis="given")
    assert judged(side, 1.2).verdict == GIVEN


def test_what_was_put_in_and_does_not_come_out_is_a_miss() -> None:
    assert judged(claim(4.0, basis="given"), 6.0).verdict == DIFFERS
    assert judged(claim(2.0, neutral=1.0, basis="given"), 1.2).verdict == WEAKER
    side = claim(None, neutral=1.0, side="above", basis="given")
    assert judged(side, 0.9).verdict == DIFFERS


def test_what_was_varied_is_not_judged() -> None:
    assert {judged(claim(2.0, basis="varied"), v).verdict for v in (2.0, 9.0)} == {"varied"}


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_what_is_not_measured_is_not_judged(value: float | None) -> None:
    assert judged(claim(1.0), value, "spark", rounds=1).verdict == UNMEASURED


def test_on_spark_it_takes_three_rounds_to_judge() -> None:
    one = claim(2.0, neutral=1.0)
    for value in (2.0, 0.5):
        cells = [judged(one, value, "spark", rounds) for rounds in (1, 2, 3)]
        assert [cell.verdict == ONE_RUN for cell in cells] == [True, True, False]
    assert judged(replace(one, basis="given"), 2.0, "spark", 1).verdict == GIVEN
    assert judged(one, 2.0, "simulator", 1).verdict == AGREES, "the same whenever it is repeated"


NUMBERS = st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-3)


@given(NUMBERS, NUMBERS, st.sampled_from([0.0, 1.0]), st.sampled_from(["simulator", "spark"]))
def test_an_effect_the_other_way_never_speaks_for_us(
    seed: float, value: float, neutral: float, engine: Literal["simulator", "spark"]
) -> None:
    one = claim(seed, neutral=neutral)
    share = effect(one, value)
    assume(seed != neutral and share is not None)
    found = judged(one, value, engine).verdict
    assert share is not None
    if share <= SLIGHT:
        assert found == DIFFERS
    elif share < HALF:
        assert found == WEAKER
    else:
        assert found in (AGREES, DIRECTION)


@given(NUMBERS, NUMBERS, NUMBERS, st.floats(0.01, 100))
def test_units_and_signs_do_not_matter(
    seed: float, value: float, neutral: float, factor: float
) -> None:
    share = effect(claim(seed, neutral=neutral), value)
    assume(share is None or all(abs(share - edge) > 1e-6 for edge in (SLIGHT, HALF, 0.75, 1.25)))
    assume(abs(seed - neutral) > 1e-3 * (1 + abs(neutral)))
    for by in (factor, -factor):
        scaled = claim(by * seed, neutral=by * neutral)
        found = judged(claim(seed, neutral=neutral), value).verdict
        assert judged(scaled, by * value).verdict == found


@given(st.floats(0, 0.99), st.floats(0, 1), st.floats(0, 1))
def test_who_misses_less_is_never_judged_worse(seed: float, one: float, other: float) -> None:
    order = (DIFFERS, AGREES, BETTER)
    low, high = sorted((one, other))
    found = [order.index(judged(claim(seed, ideal=1.0), v).verdict) for v in (low, high)]
    assert found == sorted(found)


@given(NUMBERS, NUMBERS, st.sampled_from(["found", "given", "varied"]), st.integers(1, 5))
def test_every_verdict_is_known_and_explained(
    seed: float, value: float, basis: Literal["found", "given", "varied"], rounds: int
) -> None:
    found = judged(claim(seed, neutral=1.0, basis=basis), value, "spark", rounds).verdict
    assert found in meanings()
    assert found in VERDICTS or basis == "varied"
    assert rounds >= ROUNDS or found in (ONE_RUN, GIVEN, "varied")
