"""Events of a run: recorded with the turns or by themselves, and read back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.app import run
from penstock.errors import FlowFailed
from penstock.metrics.events import Event, EventKind
from penstock.metrics.snapshot import Snapshot
from penstock.plan.limits import Limits
from penstock.plan.plan import Pipeline, Plan
from penstock.store import recorder
from penstock.store.history import FILE, History, RecordedEvent, events
from penstock.store.turn import Tick
from penstock.testing import MemoryEngine, fake_clock
from penstock.views.export import export
from tests.control.doubles import FailingEngine, flow

PLAN = Plan((Pipeline(("a", "b"), 3),))
RESTART = Event(2.0, EventKind.RESTART, "a: batch 7 failed: ValueError", "a")
LOST = Event(2.5, EventKind.EXECUTOR_LOST, "executor 3 of 4 is gone")


def tick(at: float, *happened: Event) -> Tick:
    return Tick(at, PLAN, Snapshot(at, 5.0, None, 10, 9, 1), events=happened)


def kinds(run_dir: str | Path) -> list[str]:
    return [one.event.kind for one in events(Path(run_dir))]


def test_events_come_back_with_the_turn_and_the_run_they_belong_to(tmp_path: Path) -> None:
    history = History(tmp_path, lambda: 1.7e9, pytest.fail)
    history.add_event(Event(0.0, EventKind.START, "memory, policy static"))
    history.append(tick(1.0))
    history.append(tick(3.0, RESTART, LOST))
    history.close()
    history.add_event(LOST)  # closed: nothing is recorded
    assert [*events(tmp_path)] == [
        RecordedEvent(1, 1, 0, 1.7e9, Event(0.0, "start", "memory, policy static")),
        RecordedEvent(2, 1, 2, 1.7e9, RESTART),
        RecordedEvent(3, 1, 2, 1.7e9, LOST),
    ]
    assert [one.number for one in events(tmp_path, after=2)] == [3]
    assert [one.event.is_problem for one in events(tmp_path)] == [False, True, True]


def test_a_second_run_continues_the_numbers(tmp_path: Path) -> None:
    for _ in range(2):
        history = History(tmp_path, lambda: 1.7e9, pytest.fail)
        history.append(tick(1.0, LOST))
        history.close()
    assert [(one.number, one.run, one.turn) for one in events(tmp_path)] == [(1, 1, 1), (2, 2, 2)]


def test_only_the_newest_events_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "NEWS", 3)
    history = History(tmp_path, lambda: 1.7e9, pytest.fail)
    for at in range(5):
        history.append(tick(at, Event(at, "x", "")))
    history.close()
    assert [one.event.at for one in events(tmp_path)] == [2.0, 3.0, 4.0]


def test_a_history_from_before_events_has_none_and_gets_the_table(tmp_path: Path) -> None:
    history = History(tmp_path, lambda: 1.7e9, pytest.fail)
    history.append(tick(1.0))
    history.close()
    with closing(sqlite3.connect(tmp_path / FILE)) as connection, connection:
        connection.execute("DROP TABLE events")
    assert [*events(tmp_path)] == []
    again = History(tmp_path, lambda: 1.7e9, pytest.fail)
    again.append(tick(1.0, LOST))
    again.close()
    assert [one.event for one in events(tmp_path)] == [LOST]


def test_a_directory_without_a_history_has_no_events(tmp_path: Path) -> None:
    assert [*events(tmp_path)] == []


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_an_export_has_the_events(form: str, tmp_path: Path) -> None:
    history = History(tmp_path, lambda: 1.7e9, pytest.fail)
    history.append(tick(1.0, RESTART, LOST))
    history.close()
    path, rows = export(tmp_path, tmp_path / "out", form)["events"]
    assert (path.name, rows) == (f"events.{form}", 2)


# --- what a run reports -------------------------------------------------------------------------


class Eventful(MemoryEngine):
    """Reports one event while it runs."""

    told = 0

    def take_events(self) -> tuple[Event, ...]:
        self.told += 1
        return (RESTART,) if self.told == 3 else ()


class Failing:
    """A policy that always fails."""

    name = "failing"

    def decide(self, context: Any, memory: Any) -> Any:
        raise RuntimeError(f"failed at {context.now}")


def test_a_run_reports_its_start_its_drain_and_its_end(tmp_path: Path) -> None:
    engine = MemoryEngine()
    run(flow(), engine=engine, seconds=3, clock=fake_clock(engine), run_dir=tmp_path)
    assert kinds(tmp_path) == ["start", "drain", "stop"]
    assert [one.event.text for one in events(tmp_path)] == [
        "memory, policy static",
        "3s are over",
        "drained",
    ]
    again = MemoryEngine()
    run(
        flow(),
        engine=again,
        seconds=3,
        clock=fake_clock(again),
        run_dir=tmp_path,
        drain=False,
    )
    assert kinds(tmp_path)[3:] == ["resume", "stop"]


def test_events_of_the_engine_are_recorded(tmp_path: Path) -> None:
    engine = Eventful()
    run(flow(), engine=engine, seconds=5, clock=fake_clock(engine), run_dir=tmp_path)
    assert kinds(tmp_path) == ["start", "restart", "drain", "stop"]


def test_a_flow_that_fails_says_why(tmp_path: Path) -> None:
    engine = FailingEngine()
    with pytest.raises(FlowFailed):
        run(flow(), engine=engine, seconds=9, clock=fake_clock(engine), run_dir=tmp_path)
    last = [*events(tmp_path)][-1].event
    assert last.kind == EventKind.FAILED
    assert last.text.startswith("FlowFailed: ")


def test_a_policy_that_fails_every_turn_is_one_event(tmp_path: Path) -> None:
    engine = MemoryEngine()
    clock = fake_clock(engine)
    run(flow(), engine=engine, policy=Failing(), seconds=5, clock=clock, run_dir=tmp_path)
    assert kinds(tmp_path) == ["start", "policy failed", "drain", "stop"]


def test_a_refused_change_is_an_event(tmp_path: Path) -> None:
    engine = MemoryEngine()
    run(
        flow(),
        engine=engine,
        changes=["2s:numbers=9"],
        limits=Limits(slots=4),
        seconds=4,
        clock=fake_clock(engine),
        run_dir=tmp_path,
    )
    found = [one.event.text for one in events(tmp_path) if one.event.kind == "refused"]
    assert found == ["scripted: numbers=9: 9 instances, the budget is 4"]
