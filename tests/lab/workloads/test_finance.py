"""Average prices and bargains, by hand and under any batches."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_lab.workloads import finance
from penstock_lab.workloads.lines import read_commas
from penstock_lab.workloads.market import QUOTE, TRADE
from tests.lab.workloads.doubles import processed


def lines(*given: str) -> pa.Table:
    return pa.table({"value": pa.array(list(given), pa.string())})


def test_a_bargain_asks_for_less_than_the_average_of_its_second() -> None:
    given = {
        "trades": lines(
            "1000,AAA,100,10",
            "1500,AAA,200,30",  # (1000 + 6000) / 40 = 175 in second 1
            "2000,AAA,90,10",  # closes second 1; second 2 is never closed
            "1200,BBB,50,10",
            "1300,BBB,halted,10",
        ),
        "quotes": lines(
            "1100,AAA,170,2",  # saves 2 * (17500 - 17000)
            "1900,AAA,175,2",  # not below the average
            "2100,AAA,1,1",  # its second is not over
            "1100,BBB,1,1",  # nor is this one's
            "1100,CCC,1,1",  # nobody trades in it
            "1100,AAA",
        ),
    }
    assert list(finance.expected(given)) == [("AAA", 1, 17500, 170, 1000)]


def test_a_second_without_trades_has_no_bargains() -> None:
    given = {
        "trades": lines("1000,AAA,100,1", "3000,AAA,100,1", "4000,AAA,100,1"),
        "quotes": lines("2000,AAA,1,1", "3500,AAA,99,5"),
    }
    assert list(finance.expected(given)) == [("AAA", 3, 10000, 99, 500)]


times = st.lists(st.integers(0, 9000), max_size=30).map(sorted)
cuts = st.lists(st.integers(0, 30), max_size=6)


def cut(rows: list[Any], at: list[int]) -> list[list[Any]]:
    ends = [0, *sorted(at), len(rows)]
    return [rows[a:b] for a, b in pairwise(ends)]


@settings(max_examples=50, deadline=None)
@given(st.data(), times, times)
def test_the_processors_find_the_same_whatever_the_batches(
    data: st.DataObject, traded: list[int], quoted: list[int]
) -> None:
    price = st.integers(1, 50)
    symbol = st.sampled_from(["A", "B"])
    given = {
        "trades": lines(
            *(f"{at},{data.draw(symbol)},{data.draw(price)},{data.draw(price)}" for at in traded)
        ),
        "quotes": lines(
            *(f"{at},{data.draw(symbol)},{data.draw(price)},{data.draw(price)}" for at in quoted)
        ),
    }
    trades = list(read_commas(given["trades"]["value"], TRADE))
    averages = [
        {"symbol": s, "second": second, "vwap": 100 * value // volume, "ask": None, "size": None}
        for s, second, value, volume in processed(
            finance.Averages, ("symbol",), cut(trades, data.draw(cuts))
        )
    ]
    quotes = [
        {
            "symbol": q["symbol"],
            "second": q["at"] // 1000,
            "vwap": None,
            "ask": q["ask"],
            "size": q["size"],
        }
        for q in read_commas(given["quotes"]["value"], QUOTE)
    ]
    # Each side comes in its order; how they come together is anybody's guess.
    merged, left, right = [], list(averages), list(quotes)
    while left or right:
        side = left if left and (not right or data.draw(st.booleans())) else right
        merged.append(side.pop(0))
    found = processed(finance.Bargains, ("symbol",), cut(merged, data.draw(cuts)))
    assert Counter(found) == Counter(finance.expected(given))


def test_an_average_serves_all_quotes_of_its_second() -> None:
    average = {"symbol": "A", "second": 1, "vwap": 1000, "ask": None, "size": None}
    quote = {"symbol": "A", "second": 1, "vwap": None, "ask": 9, "size": 1}
    batches = [[average, quote], [quote], [{**average, "second": 2}, quote], [quote]]
    assert list(processed(finance.Bargains, ("symbol",), batches)) == [("A", 1, 1000, 9, 100)] * 4
