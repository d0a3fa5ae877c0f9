from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metrics.snapshot import ExecutorMetrics, LatencyMetrics, PipelineMetrics, Snapshot
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.transition import Transition
from penstock.store.history import RecordedSnapshot, RecordedTransition, TurnTime
from penstock.store.timeline import HEAD, Sample, chosen, events, in_order, lines, step

PLAN = Plan((Pipeline(("a",), 3), Pipeline(("b",), 2)), 2)


def seen(turn: int, at: float, rows: int, *, first: bool = False, **more: Any) -> RecordedSnapshot:
    shot = Snapshot(at, 1.0, more.pop("offered", None), rows, 0, 0, **more)
    return RecordedSnapshot(shot, PLAN, first, turn, 1.7e9 + at)


def decision(turn: int, **more: Any) -> dict[str, Any]:
    usual = {"refused": None, "error": None, "vetoes": [], "wanted": None, "reason": "so"}
    return {"turn": turn, "time": 1.7e9, "at": float(turn), **usual, **more}


# --- which turns get a line ---------------------------------------------------------------------


def moments(*at: float, run: int = 1, first: int = 1) -> list[TurnTime]:
    return [TurnTime(first + i, run, one, 0.0) for i, one in enumerate(at)]


@pytest.mark.parametrize(
    ("seconds", "every"),
    [(0, 1), (30, 1), (31, 2), (300, 10), (3600, 120), (10 * 86400, 8 * 3600)],
)
def test_the_time_between_lines_is_round(seconds: float, every: float) -> None:
    assert step(moments(0.0, float(seconds))) == every


def test_a_line_each_so_many_seconds_and_the_last() -> None:
    assert chosen(moments(1.0, 2.0, 3.0, 4.0, 5.0, 6.0), 2.0) == [1, 3, 5, 6]
    assert chosen(moments(1.0, 2.0, 3.0, 40.0, 41.0, 43.0), 2.0) == [1, 3, 4, 5, 6]
    assert chosen(moments(1.0, 2.95, 3.05, 4.95, 5.05), 2.0) == [1, 3, 5]
    assert chosen([], 2.0) == []


def test_every_run_has_its_first_and_last_line() -> None:
    both = [*moments(1.0, 2.0, 3.0), *moments(1.0, 2.0, 3.0, run=2, first=4)]
    assert chosen(both, 60.0) == [1, 3, 4, 6]


@given(st.lists(st.floats(0.001, 50), min_size=1, max_size=50), st.floats(0.5, 100))
def test_lines_are_in_order_and_not_too_many(gaps: list[float], every: float) -> None:
    at = [sum(gaps[: i + 1]) for i in range(len(gaps))]
    turns = chosen(moments(*at), every)
    assert turns == sorted(set(turns))
    assert {1, len(at)} <= set(turns)
    assert len(turns) <= (at[-1] - at[0]) / every + 2 + 1e-3


# --- lines --------------------------------------------------------------------------------------


def test_rates_are_means_since_the_line_before() -> None:
    first, second, again = lines(
        [
            seen(1, 1.0, 100, first=True, offered=150),
            seen(5, 5.0, 500, offered=950),
            seen(6, 1.0, 900, first=True),
        ]
    )
    assert (first.offered, first.sustained) == (None, None)
    assert (second.offered, second.sustained) == (200.0, 100.0)
    assert (again.offered, again.sustained, again.first) == (None, None, True)
    assert (second.instances, second.executors) == (5, 2)


def test_executors_are_those_that_were_there() -> None:
    there = {str(i): ExecutorMetrics(str(i), 4) for i in range(3)}
    (line,) = lines([seen(1, 1.0, 0, first=True, executors=there)])
    assert line.executors == 3


def test_what_was_not_measured_is_a_dash() -> None:
    (line,) = lines([seen(1, 61.0, 100, first=True)])
    assert str(line).split() == ["[", "1:01]", "-", "-", "-", "-", "5", "2", "-", "-"]
    assert len(str(line)) == len(HEAD)


def test_the_latency_is_the_one_nearest_to_its_bound() -> None:
    def latency(bound: float, mean: float) -> LatencyMetrics:
        return LatencyMetrics("x", bound, mean, mean, mean, mean, 1)

    shown = {
        "slow": latency(10.0, 5.0),
        "tight": latency(1.0, 1.5),
        "lost": latency(1.0, float("nan")),
    }
    pipelines = {"a": PipelineMetrics("a", 1, backlog_rows=3), "b": PipelineMetrics("b", 1)}
    (line,) = lines([seen(1, 5.0, 0, first=True, latency=shown, pipelines=pipelines, load=0.5)])
    assert (line.latency, line.bound, line.backlog, line.slots) == (1.5, 1.0, 3, 0.5)
    assert "1.50 s!   1.00 s" in str(line)


# --- events -------------------------------------------------------------------------------------


def test_what_is_told_again_and_again_stands_once() -> None:
    veto = [{"rule": "budget", "reason": "3 instances"}]
    more = [{"rule": "budget", "reason": "4 instances"}]
    other = [{"rule": "quiet", "reason": "not now"}]
    change = RecordedTransition(
        5, 0.0, Transition(5.0, ("a: parallelism 1 -> 2",), 0.5, 0.1, "why not")
    )
    told = [
        decision(1, vetoes=veto),
        decision(2, vetoes=more),
        decision(3, vetoes=other),
        decision(4, vetoes=other, wanted={"executors": 2}),
        decision(5),
        decision(6, vetoes=other, wanted={"executors": 2}),
        decision(7, error="failed at 7"),
        decision(8, error="failed at 8"),
        decision(9),
        decision(10, error="failed at 10"),
        decision(11, refused="no"),
    ]
    found = [*events([change], told)]
    assert [(e.turn, e.kind) for e in found] == [
        (1, "vetoed"),
        (3, "vetoed"),
        (4, "vetoed"),
        (5, "changed"),
        (6, "vetoed"),
        (7, "error"),
        (10, "error"),
        (11, "refused"),
    ]
    assert str(found[0]) == "[   0:01] vetoed: so [budget: 3 instances]"
    assert str(found[3]) == "[   0:05] a: parallelism 1 -> 2 (100 ms without output): why not"


def test_events_come_after_the_line_they_follow_from() -> None:
    measured = lines([seen(1, 1.0, 0, first=True), seen(3, 3.0, 0)])
    happened = events([], [decision(1, refused="no"), decision(2, refused="never")])
    found = [*in_order(measured, happened)]
    assert [(one.turn, isinstance(one, Sample)) for one in found] == [
        (1, True),
        (1, False),
        (2, False),
        (3, True),
    ]
