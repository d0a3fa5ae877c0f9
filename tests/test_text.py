from __future__ import annotations

import pytest

from penstock import text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0, "0"),
        (812, "812"),
        (9999, "9,999"),
        (12_345, "12.3k"),
        (123_456, "123k"),
        (999_960, "1.00M"),
        (1_250_000, "1.25M"),
        (3_000_000_000, "3.00G"),
    ],
)
def test_counts(value: float | None, shown: str) -> None:
    assert text.count(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0.0082, "8.2 ms"),
        (0.41, "410 ms"),
        (0.9996, "1.00 s"),
        (1.324, "1.32 s"),
        (12.44, "12.4 s"),
        (190, "3m10s"),
        (7260, "2h01m"),
    ],
)
def test_spans(value: float | None, shown: str) -> None:
    assert text.span(value) == shown


def test_rates_keep_a_digit_when_small() -> None:
    assert [text.rate(v) for v in (None, 0, 0.5, 9.96, 5000)] == ["-", "0", "0.5", "10", "5,000"]


def test_clock() -> None:
    assert [text.clock(v) for v in (7.9, 750, 3723)] == ["0:07", "12:30", "1:02:03"]


def test_sizes() -> None:
    assert [text.size(v) for v in (None, 12, 2048, 3 * 1024**3)] == [
        "-",
        "12 B",
        "2.0 KiB",
        "3.0 GiB",
    ]


def test_sparks_show_the_last_values_from_zero() -> None:
    assert text.spark([9, 0, 4, 8], 3) == "▁▅█"
    assert text.spark([0, 0], 5) == "▁▁"
    assert text.spark([], 5) == ""
    assert text.spark([5], 5, top=10) == "▅"


def test_bars_fill_up() -> None:
    assert text.bar(0.5, 4) == ("██", "░░")
    assert text.bar(7.0, 4) == ("████", "")


def test_a_long_chain_loses_its_middle() -> None:
    names = ("tweets", "parse", "split", "count", "counts")
    assert text.chain(names, 60) == "tweets · parse · split · count · counts"
    assert text.chain(names, 30) == "tweets · parse · … · counts"
    assert text.chain(names, 10) == "tweets · …"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), None])
def test_what_is_no_number_is_a_dash(value: float | None) -> None:
    for show in (text.count, text.rate, text.span, text.share, text.size, text.figure):
        assert show(value) == "-"


def test_rounding_leaves_no_sign() -> None:
    assert [text.span(v) for v in (-1e-12, -0.002, -75)] == ["0.0 ms", "-2.0 ms", "-75.0 s"]
    assert text.share(-0.001) == "0%"


def test_what_a_record_brings_along_is_not_obeyed_by_a_terminal() -> None:
    assert text.line("bad \x1b[31mred\x1b[0m\n\trecord\x07\u202e") == "bad  [31mred [0m record  "
