"""The mathematics of queues against a loop over records."""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engines.simulator import queues
from penstock.engines.simulator import queues as shared_queue
from penstock.engines.simulator.queues import Groups, shared
from tests.strategies import few

Floats = npt.NDArray[np.float64]

CASES = st.tuples(
    st.integers(0, 2**32),
    st.sampled_from((1, 2, 3, 17, 60, 200)),
    st.sampled_from((0, 1, 2, 59, 703)),
    st.sampled_from((0.3, 0.95, 3.0)),
)


def drawn(case: tuple[int, int, int, float]) -> tuple[np.random.Generator, Floats, Floats, Floats]:
    seed, servers, count, load = case
    rng = np.random.default_rng(seed)
    arrivals = 1e6 + np.cumsum(rng.exponential(1.0, count) * rng.integers(0, 2, count))
    services = rng.exponential(load * servers, count)
    return rng, arrivals, services, 1e6 + rng.normal(0, 3, servers)


def one_by_one(
    arrivals: Floats, services: Floats, free: Floats, server: npt.NDArray[np.intp]
) -> tuple[list[float], list[float]]:
    now, left = free.tolist(), []
    for came, took, which in zip(arrivals, services, server, strict=True):
        now[which] = max(now[which], came) + took
        left.append(now[which])
    return left, now


@few
@given(CASES, st.integers(0, 1000))
def test_records_in_turn_leave_as_in_a_loop(case: tuple[int, int, int, float], turn: int) -> None:
    _, arrivals, services, free = drawn(case)
    turn %= len(free)
    server = (turn + np.arange(len(arrivals))) % len(free)
    left, after = queues.robin(arrivals, services, free, turn)
    expected = one_by_one(arrivals, services, free, server)
    np.testing.assert_allclose(left, expected[0], rtol=0, atol=1e-7)
    np.testing.assert_allclose(after, expected[1], rtol=0, atol=1e-7)


@few
@given(CASES)
def test_records_with_a_given_server_leave_as_in_a_loop(
    case: tuple[int, int, int, float],
) -> None:
    rng, arrivals, services, free = drawn(case)
    server = rng.integers(0, len(free), len(arrivals)) // 2  # some servers get nothing
    left, after, work = queues.dealt(arrivals, services, free, Groups.of(server, len(free)))
    expected = one_by_one(arrivals, services, free, server)
    np.testing.assert_allclose(left, expected[0], rtol=0, atol=1e-7)
    np.testing.assert_allclose(after, expected[1], rtol=0, atol=1e-7)
    due = np.bincount(server, services, minlength=len(free))
    np.testing.assert_allclose(work, due, rtol=0, atol=1e-7)


@pytest.mark.parametrize("count", [1, 2, 1000, 5000, (1 << 20) + 5])
def test_times_are_put_in_order_and_equal_ones_stay_as_they_are(count: int) -> None:
    times = 1e5 + np.random.default_rng(0).integers(0, max(1, count // 3), count) * 1e-3
    np.testing.assert_array_equal(queues.order(times), np.argsort(times, kind="stable"))
    even = np.full(count, 7.5)
    np.testing.assert_array_equal(queues.order(even), np.arange(count))


@given(st.integers(1, 1000), st.floats(1e-9, 1e6), st.integers(0, 2**32 - 1))
def test_times_are_in_order_but_for_a_small_part_of_what_they_span(
    more: int, spread: float, seed: int
) -> None:
    times = 1e4 + np.random.default_rng(seed).exponential(spread, queues._FEW + more)
    found = times[queues.order(times)]
    assert np.sort(found).tolist() == np.sort(times).tolist()
    assert float((found[:-1] - found[1:]).max()) <= 2**-32 * (times.max() - times.min())


def test_groups_know_their_records() -> None:
    found = Groups.of(np.array([2, 0, 2, 4, 0, 0]), 5)
    assert found.order.tolist() == [1, 4, 5, 0, 2, 3]
    assert found.counts.tolist() == [3, 0, 2, 0, 1]
    assert len(Groups.of(np.zeros(0, np.intp), 3)) == 0


@pytest.mark.parametrize("count", [5, 256, 2000, 20_003, (1 << 18) + 3])
@pytest.mark.parametrize("servers", [1, 3, 60, 20_000, 70_000])
def test_groups_that_are_woven_know_them_too(count: int, servers: int) -> None:
    server = np.random.default_rng(count).integers(0, servers, count)
    found = Groups.of(server, servers)
    np.testing.assert_array_equal(np.sort(found.order), np.arange(count))
    np.testing.assert_array_equal(found.counts, np.bincount(server, minlength=servers))
    few = min(servers, 4)
    mine = [one.tolist() for one in found.first(few)]
    assert mine == [np.flatnonzero(server == n).tolist() for n in range(few)]
    plain = found.order[found.places(np.arange(count))]
    np.testing.assert_array_equal(plain, np.argsort(server, kind="stable"))
    if servers == 3 and count > 5:
        assert found.strand > 1


@pytest.mark.parametrize("what", [np.add, np.fmax])
@pytest.mark.parametrize("count", [8, 15, 16, 1003])
def test_sums_and_maxima_run_through_woven_values(what: np.ufunc, count: int) -> None:
    values = np.random.default_rng(count).normal(0, 1, count)
    woven = queues._woven(np.arange(count), 8)
    found = values[woven]
    queues.running(what, found, 8)
    np.testing.assert_allclose(found, what.accumulate(values)[woven], atol=1e-12)


@few
@given(CASES)
def test_records_of_a_shared_queue_go_to_whoever_is_free_first(
    case: tuple[int, int, int, float],
) -> None:
    _, arrivals, services, free = drawn(case)
    left, after = shared(arrivals, services, free)
    now, expected = sorted(free.tolist()), []
    for came, took in zip(arrivals, services, strict=True):
        done = max(now[0], came) + took
        now = sorted([*now[1:], done])
        expected.append(done)
    np.testing.assert_allclose(left, expected, rtol=0, atol=1e-7)
    np.testing.assert_allclose(np.sort(after), now, rtol=0, atol=1e-7)


@pytest.mark.parametrize("servers", [2, 3, 5, 20, 47])
@pytest.mark.parametrize("load", [0.3, 0.8, 0.97, 1.5])
def test_many_records_of_a_shared_queue_leave_as_from_a_heap_to_the_last_bit(
    servers: int, load: float
) -> None:
    rng = np.random.default_rng(servers)
    arrivals = 50.0 + np.cumsum(rng.exponential(1.0, 30_000))
    services = rng.exponential(load * servers, 30_000)
    free = 50.0 + rng.normal(0, 3, servers)
    left, after = shared(arrivals, services, free)
    heap, expected = sorted(free.tolist()), []
    for came, took in zip(arrivals.tolist(), services.tolist(), strict=True):
        expected.append(max(heap[0], came) + took)
        heapq.heapreplace(heap, expected[-1])
    assert left.tolist() == expected
    assert sorted(after.tolist()) == sorted(heap)


def test_few_records_are_left_to_a_loop_where_servers_are_idle_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(1)
    arrivals = np.cumsum(rng.exponential(1.0, 100_000))
    services = rng.exponential(0.8 * 5, 100_000)
    looped = []
    one_by_one = shared_queue._one_by_one

    def counted(came: Floats, took: Floats, free: Floats, left: Floats) -> Floats:
        looped.append(len(came))
        return one_by_one(came, took, free, left)

    monkeypatch.setattr(shared_queue, "_one_by_one", counted)
    shared(arrivals, services, np.zeros(5))
    assert sum(looped) < 10_000


@pytest.mark.parametrize("servers", [1, 5, 200])
@pytest.mark.parametrize("kind", ["in turn", "given", "shared"])
def test_a_stream_may_be_cut_into_blocks_anywhere(servers: int, kind: str) -> None:
    rng = np.random.default_rng(servers)
    arrivals = np.cumsum(rng.exponential(1.0, 5000))
    services = rng.exponential(0.95 * servers, 5000)
    server = rng.integers(0, servers, 5000)

    def through(cuts: list[int]) -> Floats:
        free, turn, found = np.zeros(servers), 0, []
        for part in np.split(np.arange(5000), cuts):
            came, took = arrivals[part], services[part]
            if kind == "in turn":
                left, free = queues.robin(came, took, free, turn)
                turn = (turn + len(part)) % servers
            elif kind == "given":
                found_groups = Groups.of(server[part], servers)
                left, free, _ = queues.dealt(came, took, free, found_groups)
            else:
                left, free = shared(came, took, free)
            found.append(left)
        return np.concatenate(found)

    cuts = sorted(rng.integers(0, 5000, 40).tolist())
    np.testing.assert_allclose(through(cuts), through([]), rtol=0, atol=1e-8)
