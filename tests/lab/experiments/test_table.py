from __future__ import annotations

from dataclasses import replace

import pytest

from penstock_lab.experiments.experiment import Claim, Data
from penstock_lab.experiments.table import Row, legend, markdown, number, tabulate
from penstock_lab.experiments.verdict import ONE_RUN, judged

from .made_up import MADE_UP


def claim(seed: float | None, **more: object) -> Claim:
    return Claim("x", seed, lambda data: None, **more)  # type: ignore[arg-type]


def test_a_reason_is_that_of_its_engine() -> None:
    one = claim(2.0, neutral=1.0, why="simulated", on_spark="batches")
    row = Row(one, {"simulator": judged(one, 1.6), "spark": judged(one, 1.6, "spark")})
    assert (row.reason("simulator"), row.reason("spark"), row.why) == ("simulated", "", "simulated")
    off = replace(row, cells={"spark": judged(one, 0.5, "spark")})
    assert (off.reason("simulator"), off.why) == ("", "batches")
    weak = replace(row, cells={"spark": judged(one, 1.3, "spark")})
    assert weak.why == "batches", "less than half of the effect has a reason, on Spark too"
    once = replace(row, cells={"spark": judged(one, 0.5, "spark", rounds=1)})
    assert once.why == "batches"
    assert replace(once, claim=claim(2.0, neutral=1.0)).why == "", "of one run nothing is asked"


def test_of_several_rounds_the_median_and_the_spread_are_told() -> None:
    def seen(*values: float | None) -> tuple[str, str]:
        records = tuple(
            {"case": "a", "kind": "tick", "round": at, "x": x} for at, x in enumerate(values)
        )
        read = replace(claim(2.0, neutral=1.0), read=lambda data: data.of("a")[0]["x"])
        experiment = replace(MADE_UP, claims=(read,))
        (row,) = tabulate(experiment, {"spark": Data(records, "spark")})
        return row.measured(row.cells["spark"]), row.cells["spark"].verdict

    assert seen(1.9, 1.7, 4.0) == ("1.90 (1.70 to 4.00)", "same direction")
    assert seen(1.9, 1.7) == ("1.80 (1.70 to 1.90)", ONE_RUN)
    assert seen(1.9, None, 1.7) == ("1.80 (1.70 to 1.90)", ONE_RUN), "one round says nothing"
    assert seen(1.9) == ("1.90", ONE_RUN)
    assert seen(None) == ("-", "not measured")


def test_a_case_of_which_a_round_is_missing_is_not_taken_for_one_that_was_not_tried() -> None:
    records = tuple({"case": "a", "kind": "tick", "round": at, "x": 2.0} for at in range(3))
    data = Data(records, "spark")
    assert [one.cases for one in data.rounds] == [("a",)] * 3
    assert Data(records[:1]).rounds[0].records == records[:1]


def test_who_is_better_has_a_reason_too() -> None:
    far = judged(claim(40, better="lower"), 20)
    assert Row(claim(40, better="lower", why="because"), {"simulator": far}).why == "because"
    assert Row(claim(40, better="lower"), {"simulator": far}).why == "no reason known"


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
    assert "*agrees*, the effect is within 10 % of the paper's" in said
    assert "1.053 and 1.319 are compared as 5.3 % and 31.9 %" in said
    assert "*varied*, found with parameters other" in said
    assert not [word for word in ("differs", "given", "a beside b") if word in said]
    over = claim(2.0, neutral=1.0)
    besides = Row(replace(over, what="a beside b"), {"simulator": judged(over, 0.5)})
    said = legend((besides,))
    assert "*a beside b* is a divided by b" in said
    assert "*differs*, none of these" in said


def test_a_table_of_some_cases_says_so_first() -> None:
    row = Row(claim(1.0), {"simulator": judged(claim(1.0), 1.0)})
    lines = markdown(MADE_UP, (row,), {"simulator": "2 of 9", "spark": "1 of 3"}).splitlines()
    assert lines[:6:2] == [
        "# A few testers",
        "**Not complete: 2 of 9 cases.**",
        "**Not complete: 1 of 3 cases on Spark.**",
    ]
    assert "Not complete" not in markdown(MADE_UP, (row,), {})
