from __future__ import annotations

import json
from dataclasses import replace

import pytest

from penstock.control.summary import EventSummary, RunTotals
from penstock.dataflow.graph import Constraint
from penstock.metrics.events import Event, EventKind
from penstock.metrics.snapshot import LatencyMetrics, Snapshot
from penstock.plan.plan import Pipeline, Plan
from penstock.store.turn import Tick

CONSTRAINT = Constraint("a", "b", latency=1.0, window=10.0)


def tick(at: float, mean: float | None = None, rows: int = 100, slots: int = 1) -> Tick:
    latency = {}
    if mean is not None:
        name = CONSTRAINT.name
        latency[name] = LatencyMetrics(name, 1.0, mean, mean, 2 * mean, 3 * mean, rows)
    shot = Snapshot(at, 5.0, None, 0, 0, 0, latency=latency)
    return Tick(at, Plan((Pipeline(("a", "b"), slots),)), shot)


def test_slots_are_summed_over_time() -> None:
    tally = RunTotals(())
    for one in (tick(1, slots=2), tick(3, slots=4)):
        tally.add(one)
    assert tally.slot_seconds == 1 * 2 + 2 * 4


def test_each_window_counts_once_although_snapshots_overlap() -> None:
    tally = RunTotals((CONSTRAINT,))
    for second in range(1, 31):
        tally.add(tick(second, mean=0.5 if second <= 20 else 2.0))
    found = tally.latency()["a->b"]
    assert found.met == pytest.approx(2 / 3)
    assert found.mean == pytest.approx((0.5 + 0.5 + 2.0) / 3)


def test_rows_weigh_the_mean() -> None:
    tally = RunTotals((CONSTRAINT,))
    tally.add(tick(10, mean=1.0, rows=300))
    tally.add(tick(20, mean=2.0, rows=100))
    assert tally.latency()["a->b"].mean == pytest.approx(1.25)


def test_a_run_shorter_than_a_window_still_has_a_latency() -> None:
    tally = RunTotals((CONSTRAINT,))
    tally.add(tick(2, mean=0.5))
    assert tally.latency()["a->b"].met == 1.0


def test_an_unmeasured_constraint_is_listed_without_numbers() -> None:
    found = RunTotals((CONSTRAINT,)).latency()["a->b"]
    assert (found.bound, found.mean, found.met) == (1.0, None, None)


def test_the_engines_own_totals_win_over_the_mean_of_windows() -> None:
    tally = RunTotals((CONSTRAINT,))
    tally.add(tick(10, mean=2.0))
    total = LatencyMetrics("a->b", 1.0, 0.9, 0.8, 0.95, 0.99, 1000)
    found = tally.latency({"a->b": total})["a->b"]
    assert (found.mean, found.p99, found.met) == (0.9, 0.99, 0.0)


def test_events_are_counted_and_the_last_three_kept() -> None:
    tally = RunTotals(())
    tally.add_event(Event(0.0, EventKind.START, "spark, policy static"))
    restarts = [Event(float(n), EventKind.RESTART, f"try {n}", "a..b") for n in range(1, 5)]
    for one in restarts:
        tally.add(replace(tick(one.at), events=(one,)))
    for kind in (EventKind.DRAIN, EventKind.STOP):
        tally.add_event(Event(9.0, kind, ""))
    assert tally.events == EventSummary(4, tuple(restarts[1:]))


def test_events_as_json_and_in_one_line() -> None:
    restart = Event(62.34567, EventKind.RESTART, "pipeline a failed:\n  ValueError: 'x'", "a")
    lost = Event(80.0, EventKind.EXECUTOR_LOST, "executor 3")
    unreachable = Event(81.0, EventKind.SOURCE_UNREACHABLE, "source in: refused", "b")
    found = EventSummary(1200, (restart, lost, unreachable))
    assert str(found) == (
        "1,200; last: 1:02 restart: pipeline a failed: ValueError: 'x'; "
        "1:20 executor lost: executor 3; 1:21 source unreachable: b: source in: refused"
    )
    data = json.loads(json.dumps(found.to_json()))
    assert data["count"] == 1200
    assert data["last"][0] == {
        "at_s": 62.346,
        "kind": "restart",
        "text": "pipeline a failed:\n  ValueError: 'x'",
        "pipeline": "a",
    }
    assert data["last"][1]["pipeline"] is None
