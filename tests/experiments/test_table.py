from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from penstock.experiments.experiment import Claim
from penstock.experiments.table import (
    AGREES,
    BETTER,
    DIFFERS,
    DIRECTION,
    Row,
    judged,
    legend,
    markdown,
    number,
)

from .made_up import MADE_UP


def claim(seed: float | None, **more: object) -> Claim:
    return Claim("x", seed, lambda data: None, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seed", "value", "verdict"),
    [
        (1.65, 1.65, AGREES),
        (1.65, 2.06, AGREES),  # 25 % more
        (1.65, 1.24, AGREES),  # as much less
        (1.65, 1.23, DIRECTION),
        (1.65, 2.1, DIRECTION),
        (1.65, 1.1, DIRECTION),
        (1.65, 0.9, DIFFERS),
        (1.1, 1.0, DIFFERS),  # close, but it shows no difference
        (1.1, 0.98, DIFFERS),
        (3.3, 1.22, DIFFERS),  # less than a tenth of the gain: chance
        (3.3, 1.24, DIRECTION),
        (1.0, 1.1, AGREES),  # the seed saw none
        (1.0, 1.3, DIFFERS),
        (0.5, 0.9, DIRECTION),
        (0.5, 1.2, DIFFERS),
    ],
)
def test_a_ratio_agrees_in_size_or_in_direction(seed: float, value: float, verdict: str) -> None:
    assert judged(claim(seed, neutral=1.0), value).verdict == verdict


@pytest.mark.parametrize(
    ("seed", "neutral", "value", "verdict"),
    [
        (1.65, 1.0, 1.65, DIRECTION),  # as large by chance
        (1.65, 1.0, 40.0, DIRECTION),
        (1.65, 1.0, 0.9, DIFFERS),
        (0.5, 1.0, 0.94, DIRECTION),
        (0.5, 1.0, 0.96, DIFFERS),
        (1.0, 1.0, 1.1, AGREES),  # no direction: the seed saw no difference
        (0.91, None, 0.95, AGREES),
        (0.91, None, 0.4, DIFFERS),
    ],
)
def test_on_spark_the_direction_counts_where_there_is_one(
    seed: float, neutral: float | None, value: float, verdict: str
) -> None:
    assert judged(claim(seed, neutral=neutral), value, "spark").verdict == verdict


def test_a_reason_is_that_of_its_engine() -> None:
    one = claim(2.0, neutral=1.0, why="simulated", on_spark="batches")
    row = Row(one, {"simulator": judged(one, 1.1), "spark": judged(one, 1.1, "spark")})
    assert (row.reason("simulator"), row.reason("spark"), row.why) == ("simulated", "", "simulated")
    off = replace(row, cells={"spark": judged(one, 0.5, "spark")})
    assert (off.reason("simulator"), off.why) == ("", "batches")


def test_ours_may_be_better() -> None:
    assert judged(claim(0.5, better="higher"), 0.95).verdict == BETTER
    assert judged(claim(0.5, better="lower"), 0.95).verdict == DIFFERS
    assert judged(claim(40, better="lower"), 20).verdict == BETTER
    assert judged(claim(40, better="lower"), 30).verdict == AGREES


def test_who_is_better_has_a_reason_too() -> None:
    far = judged(claim(40, better="lower"), 20)
    assert Row(claim(40, better="lower", why="because"), {"simulator": far}).why == "because"
    assert Row(claim(40, better="lower"), {"simulator": far}).why == "no reason known"


def test_a_number_the_seed_does_not_give_has_no_verdict() -> None:
    assert judged(claim(None), 3.0).verdict == ""
    assert judged(claim(0.0), 0.0).verdict == AGREES
    assert judged(claim(0.0), 1.0).verdict == DIFFERS


def test_a_side_that_the_seed_has_in_words_alone_is_compared() -> None:
    longer = claim(None, neutral=1.0, side="above", why="because")
    assert judged(longer, 1.2).verdict == DIRECTION
    assert {judged(longer, value).verdict for value in (1.005, 1.0, 0.9)} == {DIFFERS}
    assert judged(replace(longer, side="below"), 0.9).verdict == DIRECTION
    row = Row(longer, {"simulator": judged(longer, 0.9)})
    assert row.said == "> 1.00"
    assert row.why == "because"
    assert replace(row, cells={"simulator": judged(longer, 1.2)}).why == ""


@pytest.mark.parametrize("seed", [1.65, None])
def test_a_side_takes_the_place_of_a_number_and_needs_a_neutral_one(seed: float | None) -> None:
    with pytest.raises(ValueError, match="a side is of a neutral number"):
        claim(seed, side="above", **({"neutral": 1.0} if seed else {}))


@pytest.mark.parametrize("basis", ["given", "varied"])
def test_what_was_put_in_is_not_judged_as_if_it_were_found(
    basis: Literal["given", "varied"],
) -> None:
    for value in (2.0, 9.0):
        cell = judged(claim(2.0, basis=basis), value)
        assert (cell.value, cell.ratio, cell.verdict) == (value, value / 2, basis)
        side = judged(claim(None, neutral=1.0, side="above", basis=basis), value)
        assert (side.value, side.ratio, side.verdict) == (value, None, basis)


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_what_is_not_measured_is_not_judged(value: float | None) -> None:
    assert judged(claim(1.0), value).verdict == "not measured"


def test_what_differs_has_a_reason_or_says_that_there_is_none() -> None:
    off = judged(claim(1.0), 9.0)
    assert Row(claim(1.0, why="because"), {"simulator": off}).why == "because"
    assert Row(claim(1.0), {"simulator": off}).why == "no reason known"
    assert Row(claim(1.0, why="because"), {"simulator": judged(claim(1.0), 1.0)}).why == ""


def test_what_is_always_to_be_said_stands_below_the_reasons() -> None:
    row = Row(claim(1.0, why="because"), {"simulator": judged(claim(1.0), 9.0)})
    lines = markdown(replace(MADE_UP, notes=("By the way.",)), (row,)).splitlines()
    *_, why, note, spark, read = [line for line in lines if line]
    assert (why, note) == ("1. because", "By the way.")
    assert spark.startswith("Not on Spark here")
    assert read.startswith("How to read it: ")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "-"), (0.0, "0"), (0.9142, "0.914"), (39.0, "39.0"), (348.2, "348"),
     (12345.6, "12,346")],
)  # fmt: skip
def test_numbers_have_three_digits(value: float | None, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize(
    ("seed", "here", "more", "shown"),
    [
        (4.0, 5.0, {}, ("4", "5")),
        (None, 1234.0, {}, ("-", "1,234")),
        (4.0, 4.5, {}, ("4.00", "4.50")),  # no fraction is hidden
        (3.5, 4.0, {}, ("3.50", "4.00")),
        (4.0, None, {}, ("4", "-")),
        (4.0, 5.0, {"unit": "ms"}, ("4.00", "5.00")),
        (4.0, 5.0, {"neutral": 1.0}, ("4.00", "5.00")),
    ],
)
def test_counts_are_whole(
    seed: float | None, here: float | None, more: dict[str, object], shown: tuple[str, str]
) -> None:
    one = claim(seed, **more)
    row = Row(one, {"simulator": judged(one, here)})
    assert (row.said, row.shown(here)) == shown


def test_a_count_on_one_engine_and_a_mean_on_the_other_are_shown_alike() -> None:
    one = claim(4.0)
    row = Row(one, {"simulator": judged(one, 5.0), "spark": judged(one, 4.5, "spark")})
    assert [row.said, row.shown(5.0), row.shown(4.5)] == ["4.00", "5.00", "4.50"]


def test_the_words_that_are_in_a_table_are_explained_and_no_others() -> None:
    near, varied = claim(2.0, within=0.1), claim(2.0, basis="varied")
    rows = tuple(Row(one, {"simulator": judged(one, 2.0)}) for one in (near, varied))
    said = legend(rows)
    assert "*agrees*, within 10 % of the seed's number" in said
    assert "*varied*, found with other parameters" in said
    assert not [word for word in ("differs", "given", "beside") if word in said]
    over = claim(2.0, neutral=1.0)
    besides = Row(replace(over, what="a beside b"), {"simulator": judged(over, 0.5)})
    assert "*a beside b* is a divided by b; *differs*, none of these" in legend((besides,))


def test_a_table_of_some_cases_says_so_first() -> None:
    row = Row(claim(1.0), {"simulator": judged(claim(1.0), 1.0)})
    lines = markdown(MADE_UP, (row,), {"simulator": "2 of 9", "spark": "1 of 3"}).splitlines()
    assert lines[:6:2] == [
        "# A few testers",
        "**Not complete: 2 of 9 cases.**",
        "**Not complete: 1 of 3 cases on Spark.**",
    ]
    assert "Not complete" not in markdown(MADE_UP, (row,), {})
