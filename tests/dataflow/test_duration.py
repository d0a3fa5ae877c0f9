from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dataflow.duration import seconds, text
from penstock.errors import InvalidInput


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("250ms", 0.25),
        ("2s", 2.0),
        (" 1.5 m ", 90.0),
        ("5min", 300.0),
        ("1h", 3600.0),
        ("-2s", -2.0),
        (3, 3.0),
        ("30", 30.0),
        (" 1.5 ", 1.5),
        (0.5, 0.5),
        ("10 seconds", 10.0),
        ("1 second", 1.0),
        ("1 minute", 60.0),
        ("500 milliseconds", 0.5),
        ("2 HOURS", 7200.0),
        ("1 day", 86_400.0),
        ("1 week", 604_800.0),
        ("interval 10 seconds", 10.0),
        ("INTERVAL 1 minute 30 seconds", 90.0),
        ("1 minute 30 seconds 250 milliseconds", 90.25),
        ("1h30m", 5400.0),
        ("250 microseconds", 0.000_25),
        ("1 day -1 hour", 82_800.0),
        (".5 seconds", 0.5),
    ],
)
def test_durations_are_read_as_people_write_them(given: str | float, expected: float) -> None:
    assert seconds(given) == pytest.approx(expected)


@pytest.mark.parametrize(
    "given", ["", " ", "ms", "2 dayz", "s", "10 20", "1,5s", "interval", "1 2s", "s 10", True, None]
)
def test_what_is_no_duration_is_refused_with_an_example(given: object) -> None:
    with pytest.raises(InvalidInput, match="write it like 250ms, 2s, 5m or 1h"):
        seconds(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["1 month", "2 years", "1 year 3 days"])
def test_units_without_a_length_are_refused_with_what_to_write(given: str) -> None:
    with pytest.raises(InvalidInput, match="write days"):
        seconds(given)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.25, "250ms"), (2, "2s"), (90, "90s"), (120, "2m"), (7200, "2h"), (0, "0ms")],
)
def test_durations_are_written_in_the_largest_unit_that_fits(value: float, expected: str) -> None:
    assert text(value) == expected


@given(st.integers(0, 100_000))
def test_what_is_written_is_read_back(milliseconds: int) -> None:
    assert seconds(text(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)
