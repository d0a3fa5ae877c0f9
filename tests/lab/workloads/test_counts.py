"""Commodity count, prime tester and the synthetic word count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock import workloads
from penstock.dataflow.load_profile import parse
from penstock.dataflow.operators import Map
from penstock.errors import InvalidInput
from penstock_lab.workloads import commodity_count, prime_tester


def test_views_of_an_item_are_counted_by_slot() -> None:
    clicks = pa.table(
        {
            "value": [
                "1700000000000,1,5,5,view",
                "1700000009999,2,5,5,view",
                "1700000010000,2,5,5,view",
                "1700000000000,1,6,6,buy",
                "1700000000000,1,x,6,view",
                "1700000000000,1,6,6",
                "",
            ]
        }
    )
    assert sorted(commodity_count.expected({"clicks": clicks})) == [
        (5, 170000000, 2),
        (5, 170000001, 1),
    ]


def primes(below: int) -> set[int]:
    sieve = np.ones(below, dtype=bool)
    sieve[:2] = False
    for i in range(2, int(below**0.5) + 1):
        sieve[i * i :: i] = False
    return set(np.flatnonzero(sieve).tolist())


def test_numbers_are_prime_as_a_sieve_has_it() -> None:
    odd = range(3, 4_000, 2)
    tester = prime_tester.Tester(40)
    assert {n for n in odd if tester({"n": n})[1]} == primes(4_000) - {2}
    said = prime_tester.expected({"numbers": pa.table({"n": list(odd)})})
    assert {n for n, prime in said if prime} == primes(4_000) - {2}


def test_great_numbers_are_told_apart() -> None:
    tester = prime_tester.Tester(40)
    assert tester({"n": 2**61 - 1}) == (2**61 - 1, True)  # a Mersenne prime
    assert tester({"n": 3825123056546413051}) == (3825123056546413051, False)  # fools 2 to 23
    assert tester({"n": (2**31 - 1) * (2**31 + 11)})[1] is False


def test_a_record_without_a_number_is_an_error_and_not_expected() -> None:
    with pytest.raises(ValueError, match="no number"):
        prime_tester.Tester(40)({"n": None})
    assert [*prime_tester.expected({"numbers": pa.table({"n": [None, 7]})})] == [(7, True)]


def test_too_few_rounds_are_refused() -> None:
    with pytest.raises(InvalidInput, match="35 rounds are too few"):
        workloads.build("prime-tester", "out", rounds=35)
    workloads.build("prime-tester", "out", rounds=36)


def test_the_load_warms_up_rises_stays_and_falls() -> None:
    load = parse(prime_tester.phases(100, "60s"))
    rates = [load.rate(60 * step + 1) for step in range(13)]
    assert rates == [100, 200, 300, 400, 500, 600, 600, 500, 400, 300, 200, 100, 100]


def test_a_tweet_waits_and_passes_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    body: Any = workloads.build("synthetic-wordcount", "out").graph["wait"].body
    assert isinstance(body, Map)
    record = {"value": "{}"}
    assert body.function(record) is record
    assert slept == [0.001]
    assert workloads.build("synthetic-wordcount", "out").graph.topological == (
        "tweets",
        "wait",
        "parse",
        "split",
        "count",
        "counts",
    )
