"""Break-ins and network monitoring: what is suspicious, by hand and under any batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import workloads
from penstock.errors import InvalidInput
from penstock_lab.workloads import break_ins, network
from tests.lab.workloads.doubles import processed


def lines(*given: str) -> pa.Table:
    return pa.table({"value": list(given)})


def failure(second: float, address: str = "10.0.0.7", user: str = "root") -> str:
    return (
        f"2023-11-14T22:13:{second:06.3f}Z web-1 sshd[400]: "
        f"Failed password for {user} from {address} port 4000 ssh2"
    )


BASE = 1_700_000_000_000  # 22:13:20


def test_enough_failures_close_together_are_an_attempt() -> None:
    log = lines(
        failure(20),
        failure(20.5, "10.0.0.8"),
        failure(21, user="invalid user bob"),
        failure(21.5).replace("Failed", "Accepted"),
        failure(22),  # three of .7 within 2 s
        failure(26),  # 22 to 26 is too long
        failure(26.1),
        failure(26.2),
        failure(26.3).replace("10.0.0.7", "unknown"),
        failure(26.4)[:70],
        "",
    )
    assert list(break_ins.expected({"log": log}, 3, 2000)) == [
        ("10.0.0.7", BASE + 2000, 2000),
        ("10.0.0.7", BASE + 6200, 200),
    ]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=6)))
def test_a_window_holds_the_last_failures_whatever_the_batches(
    batches: list[list[tuple[str, int]]],
) -> None:
    at = 0
    given: list[list[dict[str, Any]]] = []
    for batch in batches:
        rows = []
        for address, later in batch:
            at += later
            rows.append({"address": address, "at": at})
        given.append(rows)
    found = processed(lambda: break_ins.Window(3), ("address",), given)
    whole: list[tuple[str, int, int, int]] = []
    for address in "ab":
        times = [row["at"] for rows in given for row in rows if row["address"] == address]
        for i, last in enumerate(times):
            window = times[max(0, i - 2) : i + 1]
            whole.append((address, last, len(window), window[0]))
    assert sorted(found) == sorted(whole)


def test_one_failure_is_no_window() -> None:
    with pytest.raises(InvalidInput, match="at least 2"):
        workloads.build("break-ins", "out", failures=1)


def test_hosts_that_scan_or_flood_are_reported() -> None:
    seen = lines(
        "1,5,9,80,1,40,S",
        "2,5,9,81,2,40,S",
        "3,5,9,82,3,40,S",  # too many packets for a scan
        "4,6,9,80,5000,2500000,F",  # scores 2
        "5,6,9,80,1,1000001,S",  # both: scores 1 and 1
        "6,7,9,80,1,40,S",
        "7,?,9,80,1,40,S",
        "8,7,9,80,1,40",
    )
    assert sorted(network.expected({"connections": seen}, 2)) == [(5, 2, 2), (6, 3, 4)]
