"""Queues with a bound before several instances, against a simulation event by event."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engines.simulator import back_pressure, continuous
from penstock.engines.simulator.back_pressure import Inside, entry_times, fits, one_by_one
from penstock.engines.simulator.distributions import Empirical, Exponential
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Dispatch, Keys, OperatorCost
from penstock.engines.simulator.queues import Groups, by_group

from .flows import apart, chain, keyed, started

MEAN = 0.1
STEP = 1.0
"""Seconds that are worked through at a time: many services, so that what counts is the law."""


class Events:
    """More comes than can be served; whoever deals records out holds one until it has a place."""

    def __init__(self, servers: int, bound: int, choose: Callable[[], int], seed: int = 7) -> None:
        self._rng = random.Random(seed)
        self._choose, self._places = choose, bound + 1
        self._inside = [0] * servers
        self._events: list[tuple[float, int]] = []
        self._hand = choose()

    def carried(self, seconds: float) -> float:
        """Records a second that are served."""
        now, done = 0.0, 0
        while now < seconds:
            while self._inside[self._hand] < self._places:
                self._inside[self._hand] += 1
                if self._inside[self._hand] == 1:
                    self._begin(now, self._hand)
                self._hand = self._choose()
            now, server = heapq.heappop(self._events)
            done += 1
            self._inside[server] -= 1
            if self._inside[server]:
                self._begin(now, server)
        return done / now

    def _begin(self, now: float, server: int) -> None:
        heapq.heappush(self._events, (now + self._rng.expovariate(1 / MEAN), server))


def flooded(
    run_dir: Path, servers: int, bound: int, seconds: float, **model: object
) -> SimulatorEngine:
    load = f"{2 * servers / MEAN:g}/s"
    engine = started(chain("a"), apart(("a", servers)), {"a": OperatorCost(Exponential(MEAN))},
                     load, run_dir, queue=bound, options={"finest": STEP}, **model)  # fmt: skip
    engine.advance(seconds)
    return engine


@pytest.mark.parametrize(("servers", "bound"), [(3, 1), (10, 5)])
@pytest.mark.parametrize("dispatch", [Dispatch.TURN, Dispatch.CHANCE])
def test_a_full_instance_keeps_records_from_the_others(
    tmp_path: Path, dispatch: Dispatch, servers: int, bound: int
) -> None:
    rng, turns = random.Random(1), iter(range(10**9))
    by_chance = dispatch is Dispatch.CHANCE
    events = Events(
        servers, bound, lambda: rng.randrange(servers) if by_chance else next(turns) % servers
    )
    expected = events.carried(2000.0)
    assert expected < 0.85 * servers / MEAN
    engine = flooded(tmp_path, servers, bound, 300.0, dispatch=dispatch)
    seen = engine.observe()
    assert seen.rows_delivered / 300 == pytest.approx(expected, rel=0.04)
    assert seen.pipelines["a"].busy == pytest.approx(expected * MEAN / servers, rel=0.05)
    waiting = seen.pipelines["a"].backlog_rows or 0
    assert waiting <= servers * (bound + 1 + STEP / MEAN)  # the source knows of it a step later
    assert seen.pipelines["in"].backlog_rows == pytest.approx(
        2 * servers / MEAN * 300 - seen.rows_delivered, rel=0.05
    )


def test_a_full_instance_of_a_key_keeps_records_from_the_others(tmp_path: Path) -> None:
    keys = Keys(50, skew=0.5)
    shares = keys.shares(4).tolist()
    rng = random.Random(2)
    expected = Events(4, 1, lambda: rng.choices(range(4), shares)[0]).carried(4000.0)
    assert expected < 0.9 * min(1 / (max(shares) * MEAN), 4 / MEAN)
    steps = {"count": OperatorCost(Exponential(MEAN), keys=keys)}
    engine = started(keyed(), apart(("count", 4)), steps, "100/s", tmp_path, queue=1,
                     options={"finest": STEP})  # fmt: skip
    engine.advance(300.0)
    assert engine.observe().rows_delivered / 300 == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("bound", [1, 5])
def test_a_shared_queue_keeps_all_instances_busy(tmp_path: Path, bound: int) -> None:
    engine = started(chain("a"), apart(("a", 10)), {"a": OperatorCost(Exponential(MEAN))}, "200/s",
                     tmp_path, queue=bound, dispatch=Dispatch.SHARED)  # fmt: skip
    engine.advance(30.0)
    seen = engine.observe()
    assert seen.pipelines["a"].busy > 0.97
    assert seen.rows_delivered == pytest.approx(30 * 10 / MEAN, rel=0.08)
    assert (seen.pipelines["a"].backlog_rows or 0) <= 2 * 10 * bound + 10


def test_a_shared_queue_does_not_stand_still_behind_one_slow_record(tmp_path: Path) -> None:
    found = []
    for bound in (None, 20):
        steps = {"a": OperatorCost(Empirical((0.01,) * 1999 + (200.0,)))}
        engine = started(chain("a"), apart(("a", 10)), steps, "50/s", tmp_path / str(bound),
                         queue=bound, dispatch=Dispatch.SHARED)  # fmt: skip
        engine.advance(150.0)
        found.append(engine.observe().rows_delivered)
    assert found[0] == pytest.approx(150 * 50, rel=0.05)
    assert found[1] == found[0]


def test_what_fits_is_not_looked_at_record_by_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(continuous, "entered", _unexpected)
    steps = {"a": OperatorCost(Exponential(0.01))}
    engine = started(chain("a"), apart(("a", 50)), steps, "4000/s", tmp_path, queue=60,
                     dispatch=Dispatch.CHANCE)  # fmt: skip
    engine.advance(20.0)
    assert engine.observe().pipelines["a"].rows_in > 50 * 60 * 20


def _unexpected(*_: object) -> np.ndarray:
    raise AssertionError("no instance was full")


@st.composite
def steps(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, Inside, int, float]:
    servers, places = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    times = st.integers(0, 12).map(float)
    took = st.integers(1, 5).map(float)
    inside = []
    free = np.zeros(servers)
    for server in range(servers):
        for each in draw(st.lists(took, max_size=places)):
            free[server] += each
            inside.append((float(free[server]), server))
    end = draw(times)
    soon = [one for one in sorted(inside) if one[0] <= end]
    held = np.bincount([s for _, s in inside], minlength=servers).astype(np.intp)
    given = Inside(free, held, np.array([s for _, s in soon], np.intp),
                   np.array([when for when, _ in soon]))  # fmt: skip
    count = draw(st.integers(0, 30))
    ready = np.sort(draw(st.lists(times, min_size=count, max_size=count)))
    service = np.array(draw(st.lists(took, min_size=count, max_size=count)))
    server = np.array(
        draw(st.lists(st.integers(0, servers - 1), min_size=count, max_size=count)), np.intp
    )
    return ready, service, server, given, places, end


@given(steps(), st.integers(0, 8), st.sampled_from([0, 400]))
def test_records_enter_when_there_is_a_place(
    step: tuple[np.ndarray, np.ndarray, np.ndarray, Inside, int, float], rounds: int, few: int
) -> None:
    ready, service, server, inside, places, end = step
    departures = [
        [w for w, s in zip(inside.left, inside.server, strict=True) if s == one]
        + [np.inf] * int(inside.held[one] - inside.leaving[one])
        for one in range(len(inside.free))
    ]
    free, now, expected = inside.free.tolist(), 0.0, []
    for came, took, one in zip(ready, service, server, strict=True):
        now = max(now, came)
        while sum(left > now for left in departures[one]) >= places:
            now = min(left for left in departures[one] if left > now)
        if now > end:
            break
        free[one] = max(free[one], now) + took
        departures[one].append(free[one])
        expected.append(now)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(back_pressure, "_ROUNDS", rounds)
        patched.setattr(back_pressure, "_FEW", few)
        found = entry_times(ready, service, server, inside, places, end)
    assert found.tolist() == expected


@given(steps())
def test_records_fit_if_all_of_them_enter_when_they_are_ready(
    step: tuple[np.ndarray, np.ndarray, np.ndarray, Inside, int, float],
) -> None:
    ready, service, server, inside, places, _ = step
    holder = np.repeat(np.arange(len(inside.free)), inside.held)
    before = np.concatenate([np.arange(n, 0, -1) * -1.0 for n in inside.held]) + 5.0
    order = np.argsort(before, kind="stable")
    free = np.where(inside.held > 0, 4.0, 0.0)
    whole = Inside(free, inside.held, holder[order], before[order])
    left, _, _ = by_group(ready, service, free, Groups.of(server, len(free)))
    enters = one_by_one(ready, service, server, whole, places, np.inf)
    assert fits(ready, left, server, before, holder, places) == (enters.tolist() == ready.tolist())
