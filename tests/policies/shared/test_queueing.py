"""Closed forms of queues against sums over their states."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.policies.shared import queueing

loads = st.floats(0.01, 20.0)


def states(load: float, servers: int) -> tuple[float, float]:
    """Share of arrivals that wait, and mean number, of M/M/k: the balance equations, summed up."""
    weight, total, waiting, number = 1.0, 0.0, 0.0, 0.0
    for n in itertools.count():
        total += weight
        number += n * weight
        waiting += weight if n >= servers else 0.0
        weight *= load / min(n + 1, servers)
        if n > servers and (n + 2) * weight < 1e-13 * number:
            return waiting / total, number / total
    raise AssertionError


@given(load=loads, spare=st.floats(0.05, 10.0))
def test_mmk_is_what_its_states_add_up_to(load: float, spare: float) -> None:
    servers = math.ceil(load + spare)
    waits, number = states(load, servers)
    assert queueing.erlang_c(load, servers) == pytest.approx(waits, rel=1e-6)
    means = queueing.mmk(load / 0.1, 0.1, servers)
    assert means.number == pytest.approx(number, rel=1e-6)
    assert means.wait == pytest.approx((number - load) / (load / 0.1), rel=1e-4, abs=1e-12)


@given(load=loads, servers=st.integers(0, 40))
def test_erlang_b_is_what_its_states_add_up_to(load: float, servers: int) -> None:
    weights = [load**n / math.factorial(n) for n in range(servers + 1)]
    assert queueing.erlang_b(load, servers) == pytest.approx(weights[-1] / sum(weights))


def test_erlang_b_as_printed_in_tables() -> None:
    assert queueing.erlang_b(2.0, 3) == pytest.approx(0.2105, abs=1e-4)
    assert queueing.erlang_c(2.0, 3) == pytest.approx(0.4444, abs=1e-4)
    assert queueing.mmk(2.0, 1.0, 3).number == pytest.approx(2.8889, abs=1e-4)


def test_ten_thousand_servers_do_not_overflow() -> None:
    assert 0.0 < queueing.erlang_b(9_900.0, 10_000) < 0.01
    assert 0.0 < queueing.erlang_c(9_900.0, 10_000) < 1.0
    assert queueing.mmk(9_900.0, 1.0, 10_000).number == pytest.approx(9_900, rel=0.02)
    assert queueing.erlang_b(10.0, 10_000) == 0.0


@given(load=loads)
def test_the_numbers_for_all_servers_are_those_for_each(load: float) -> None:
    for servers, number in enumerate(itertools.islice(queueing.mean_numbers(load), 50)):
        assert number == queueing.mmk(load, 1.0, servers).number or number == pytest.approx(
            queueing.mmk(load, 1.0, servers).number
        )


@given(load=loads)
def test_more_servers_help_and_each_helps_less(load: float) -> None:
    first = math.floor(load) + 1
    found = list(itertools.islice(queueing.mean_numbers(load), first, first + 30))
    gains = [x - y for x, y in itertools.pairwise(found)]
    assert all(gain >= -1e-12 for gain in gains)
    assert all(y <= x + 1e-9 for x, y in itertools.pairwise(gains))


def test_without_load_nobody_waits() -> None:
    assert queueing.erlang_b(0.0, 0) == 1.0
    assert queueing.erlang_b(0.0, 3) == 0.0
    assert queueing.erlang_c(0.0, 1) == 0.0
    for idle in (queueing.mmk(0.0, 2.0, 1), queueing.md1(0.0, 2.0), queueing.mg1(0.0, 2.0, 3.0)):
        assert (idle.wait, idle.sojourn, idle.number) == (0.0, 2.0, 0.0)
    assert queueing.kingman(0.0, 2.0, 1.0, 1.0) == 0.0


@given(st.floats(0, 1000))
def test_where_nobody_finds_all_servers_busy_it_is_known_at_once(load: float) -> None:
    most = math.floor(10 * load) + 1000
    assert queueing.erlang_b(load, most) < 1e-300
    assert queueing.erlang_b(load, 10**15) == 0
    assert queueing.mmk(load, 1.0, 10**15).number == pytest.approx(load)


@pytest.mark.parametrize("servers", [0, 1, 2, 3])
def test_too_few_servers_have_no_steady_state(servers: int) -> None:
    means = queueing.mmk(3.0, 1.0, servers)
    assert means.wait == means.sojourn == means.number == means.waiting == math.inf
    assert queueing.erlang_c(3.0, servers) == 1.0


@pytest.mark.parametrize("rate", [1.0, 1.5])
def test_one_server_that_is_never_idle_has_no_steady_state(rate: float) -> None:
    assert queueing.kingman(rate, 1.0, 1.0, 1.0) == math.inf
    assert queueing.md1(rate, 1.0).number == math.inf
    assert queueing.mg1(rate, 1.0, 2.0).number == math.inf


@given(rho=st.floats(0.01, 0.95))
def test_an_exponential_mg1_is_an_mm1_and_md1_waits_half(rho: float) -> None:
    mm1 = queueing.mmk(rho, 1.0, 1)
    assert queueing.mg1(rho, 1.0, 1.0).wait == pytest.approx(mm1.wait)
    assert queueing.md1(rho, 1.0).wait == pytest.approx(mm1.wait / 2)


def test_md1_against_its_chain() -> None:
    """The number left behind by a departure moves by the arrivals of one service time."""
    rho, size = 0.7, 200
    arrivals = [math.exp(-rho)]
    for n in range(1, size):
        arrivals.append(arrivals[-1] * rho / n)
    left = [1.0] + [0.0] * (size - 1)
    for _ in range(400):
        after = [left[0] * a for a in arrivals]
        for n in range(1, size):
            if left[n] > 1e-15:
                for come, share in enumerate(arrivals[:40]):
                    if n - 1 + come < size:
                        after[n - 1 + come] += left[n] * share
        left = after
    number = sum(n * share for n, share in enumerate(left))
    assert queueing.md1(rho, 1.0).number == pytest.approx(number, rel=1e-6)


@given(rho=st.floats(0.0, 0.99), cv=st.floats(0, 3), factor=st.floats(0.01, 100))
def test_time_has_no_scale(rho: float, cv: float, factor: float) -> None:
    once = queueing.kingman(rho, 1.0, cv, cv)
    assert queueing.kingman(rho / factor, factor, cv, cv) == pytest.approx(once * factor, rel=1e-6)
