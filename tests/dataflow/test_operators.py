"""Joins in the spellings of Spark."""

from __future__ import annotations

import pytest

from penstock.dataflow import operators
from penstock.dataflow.operators import Join


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        *((how, "left_outer") for how in ("leftOuter", "left", "LEFT OUTER", "left_outer")),
        *((how, "right_outer") for how in ("rightOuter", "right", "right outer")),
        *(
            (how, "full_outer")
            for how in ("outer", "full", "fullouter", "full_outer", "Full Outer")
        ),
        *((how, "left_semi") for how in ("semi", "leftsemi", "left_semi", "leftSemi")),
        *((how, "inner") for how in ("inner", "INNER", " inner ")),
    ],
)
def test_every_spelling_is_kept_as_one(how: str, kind: str) -> None:
    assert Join(how).how == kind
    assert Join(how) == Join(kind)
    assert operators.join_refusal(Join(how).how) is None


@pytest.mark.parametrize("how", ["cross", "anti", "left_anti", "leftAnti"])
def test_joins_that_streams_do_not_have_are_told_so(how: str) -> None:
    assert "join of two streams, only inner, left_outer" in str(
        operators.join_refusal(Join(how).how)
    )


@pytest.mark.parametrize("how", ["sideways", "", 7, None])
def test_other_words_are_refused_with_those_there_are(how: str) -> None:
    assert f"how is {how!r}, it must be one of inner" in str(operators.join_refusal(Join(how).how))
