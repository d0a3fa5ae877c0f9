"""What is read from a run directory, while it grows and when it is wrong."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.dashboard import run_reader
from penstock.dashboard.run_reader import RunReader, check
from penstock.errors import InvalidInput, RunDirectoryError
from penstock.metrics.events import Event, EventKind
from penstock.store import history, timeline
from penstock.store.run_directory import RunDirectory
from penstock.testing import MemoryEngine
from tests.control.doubles import flow, running

from .runs import WALL, ticks, write

GRAPH = flow().graph


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look reads."""
    monkeypatch.setattr(run_reader, "_FRESH", 0.0)


def test_points_are_the_lines_of_the_history(past: Path) -> None:
    found = RunReader(past).since(0).points
    lines = [*timeline.samples(history.recorded_snapshots(past))]
    assert len(found) == len(lines) > 100
    running = [n for n, one in enumerate(lines) if one.offered is not None and one.offered >= 0]
    assert len(running) > 100
    for n in running:
        assert found[n]["offered"] == lines[n].offered
        assert found[n]["sustained"] == lines[n].sustained
    assert [p["executors"] for p in found] == [one.executors for one in lines]
    assert [sum(p["backlog"].values()) for p in found[1:]] == [one.backlog for one in lines[1:]]


def test_a_turn_of_the_same_instant_has_the_rates_of_the_one_before(tmp_path: Path) -> None:
    turns = ticks(GRAPH, tmp_path / "engine", 3)
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    one = RunReader(run_dir)
    history.keep_dataflow(run_dir, GRAPH)
    with closing(history.History(run_dir, lambda: WALL)) as keep:
        for tick in (*turns, turns[-1]):
            keep.append(tick)
            one.since(0)  # read turn by turn, as while a run goes on
    for found in (one.since(0).points, RunReader(run_dir).since(0).points):
        assert [p["offered"] for p in found] == [None, 115.0, 125.0, 125.0]


def test_every_decision_of_the_history_is_in_exactly_one_entry(past: Path) -> None:
    entries = RunReader(past).since(0).entries
    told = {one["turn"]: one for one in history.decisions(past)}
    assert sum(one["times"] for one in entries) == len(told)
    made = {one.turn: one.transition for one in history.transitions(past)}
    changed = {one["turn"]: one for one in entries if one["kind"] == "changed"}
    assert changed.keys() == made.keys() != set()
    for turn, one in changed.items():
        assert one["reason"] == told[turn]["reason"]
        assert one["numbers"] == told[turn]["numbers"]
        assert one["title"] == "; ".join(made[turn].changes)
        assert one["change"] == made[turn].to_json()


def test_a_history_that_grows_reads_like_one_that_is_whole(tmp_path: Path) -> None:
    turns = ticks(GRAPH, tmp_path / "engine", 20)
    whole, grown = tmp_path / "whole", tmp_path / "grown"
    write(whole, GRAPH, turns)
    growing = RunReader(grown)
    grown.mkdir()
    seen = growing.since(0)
    assert (seen.turn, seen.points, seen.entries) == (0, [], [])
    points, entries = [], {}
    keep = history.History(grown, lambda: WALL)
    with closing(keep):
        history.keep_dataflow(grown, GRAPH)
        for n, tick in enumerate(turns):
            keep.append(tick)
            if n % 3 == 0:
                seen = growing.since(seen.turn)
                points += seen.points
                entries.update({one["turn"]: one for one in seen.entries})
    seen = growing.since(seen.turn)
    points += seen.points
    entries.update({one["turn"]: one for one in seen.entries})
    expected = RunReader(whole).since(0)
    without = [{k: v for k, v in p.items() if k != "time"} for p in expected.points]
    assert [{k: v for k, v in p.items() if k != "time"} for p in points] == without
    assert [(e["turn"], e["last"], e["times"]) for e in entries.values()] == [(1, 20, 20)]


def test_a_run_that_is_continued_goes_on_where_it_ended(tmp_path: Path) -> None:
    write(tmp_path / "run", GRAPH, ticks(GRAPH, tmp_path / "one", 5))
    write(tmp_path / "run", GRAPH, ticks(GRAPH, tmp_path / "two", 5), WALL + 1000)
    found = RunReader(tmp_path / "run").since(0).points
    assert [p["x"] for p in found] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert [p["turn"] for p in found if p["first"]] == [1, 6]
    assert RunReader(tmp_path / "run").status()["trouble"] is None


def test_long_histories_are_thinned_and_keep_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_reader, "_FULL", 40)
    turns = ticks(GRAPH, tmp_path / "engine", 170)
    write(tmp_path / "run", GRAPH, turns[:150])
    one = RunReader(tmp_path / "run")
    found = one.since(0).points
    assert len(found) <= 40
    assert (found[0]["turn"], found[-1]["turn"]) == (1, 150)
    for tick in turns[150:]:
        write(tmp_path / "run", GRAPH, [tick])
        one.since(0)
    found = one.since(0).points
    assert len(found) <= 41
    assert found[-1]["turn"] == 170


def test_another_history_in_the_same_place_is_read_anew(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    write(run_dir, GRAPH, ticks(GRAPH, tmp_path / "one", 9))
    one = RunReader(run_dir)
    assert one.since(0).turn == 9
    shutil.rmtree(run_dir)
    write(run_dir, GRAPH, ticks(GRAPH, tmp_path / "two", 3))
    assert [p["turn"] for p in one.since(0).points] == [1, 2, 3]


def test_a_running_flow_is_running_and_over_when_it_has_ended(tmp_path: Path) -> None:
    one = RunReader(tmp_path)
    assert one.status()["phase"] == "starting"
    with running(tmp_path, MemoryEngine()):
        assert one.status()["running"]
        assert one.status()["phase"] == "running"
    later = RunReader(tmp_path)
    assert later.status()["phase"] == "over"
    assert later.status()["summary"] == {"exact": None, "exact_reason": None}
    assert (later.head()["engine"], later.head()["policy"]) == ("memory", "static")
    write(tmp_path, GRAPH, ticks(GRAPH, tmp_path / "engine", 3), 4e9)  # continued, and killed
    assert RunReader(tmp_path).status()["summary"] is None


def test_a_moment_has_the_decision_of_its_turn(past: Path) -> None:
    one = RunReader(past)
    turn = next(e["turn"] for e in one.since(0).entries if e["kind"] == "changed")
    found = one.moment(turn)
    assert found is not None
    assert found["turn"] == turn
    assert found["decision"]["kind"] == "changed"
    assert "offers" not in found
    newest = one.moment()
    assert newest is not None
    assert newest["turn"] == one.since(0).turn


def test_offers_are_made_by_a_running_flow_at_its_newest_turn(tmp_path: Path) -> None:
    with running(tmp_path, MemoryEngine()):
        one = RunReader(tmp_path)
        while (found := one.moment()) is None:
            pass
        assert found["offers"]["numbers"]["split"] == ["double", "out"]


# --- what is wrong ------------------------------------------------------------------------------


def older(run_dir: Path) -> None:
    head = {"version": 0, "flow": "f", "fingerprint": "", "engine": "spark", "run": "r"}
    (run_dir / "run.json").write_text(json.dumps({**head, "created": 0.0}))


def no_database(run_dir: Path) -> None:
    (run_dir / history.FILE).write_text("this is no database, it is a letter" * 40)


def no_dataflow(run_dir: Path) -> None:
    (run_dir / history.DATAFLOW).unlink()


def other_tables(run_dir: Path) -> None:
    (run_dir / history.FILE).unlink()
    with closing(sqlite3.connect(run_dir / history.FILE)) as made:
        made.execute("CREATE TABLE snapshots (turn INTEGER PRIMARY KEY, at REAL)")
        made.execute("INSERT INTO snapshots VALUES (1, 1.0)")
        made.commit()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (older, "was written in layout 0, this is layout 1"),
        (no_database, "cannot be read: file is not a database"),
        (no_dataflow, "holds no run that can be read"),
        (other_tables, "was written by another version"),
    ],
)
def test_a_directory_that_cannot_be_shown_says_why(
    tmp_path: Path, spoil: Callable[[Path], None], words: str
) -> None:
    write(tmp_path / "run", GRAPH, ticks(GRAPH, tmp_path / "engine", 3))
    check(tmp_path / "run")
    spoil(tmp_path / "run")
    with pytest.raises((RunDirectoryError, InvalidInput), match=words) as raised:
        check(tmp_path / "run")
    assert "\n" not in str(raised.value)
    if spoil is not no_dataflow:  # one without is one that has not begun
        assert words in str(RunReader(tmp_path / "run").status()["trouble"])


def test_a_directory_whose_run_has_just_begun_is_waited_for(tmp_path: Path) -> None:
    RunDirectory.open(tmp_path / "run", GRAPH, "spark").close()
    check(tmp_path / "run")
    assert RunReader(tmp_path / "run").status()["phase"] == "starting"


def test_a_directory_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="there is no run directory"):
        check(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirectoryError, match="is a file, not a directory"):
        check(tmp_path / "file")


def test_a_directory_that_goes_away_is_told_and_what_was_read_stays(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    write(run_dir, GRAPH, ticks(GRAPH, tmp_path / "engine", 3))
    one = RunReader(run_dir)
    assert one.since(0).turn == 3
    shutil.rmtree(run_dir)
    assert "no longer exists" in one.status()["trouble"]
    assert len(one.since(0).points) == 3


def test_turns_of_two_processes_that_are_mixed_are_told(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    write(run_dir, GRAPH, ticks(GRAPH, tmp_path / "engine", 6))
    with closing(sqlite3.connect(run_dir / history.FILE)) as made:
        made.execute("UPDATE snapshots SET run = 2 WHERE turn IN (3, 4)")
        made.commit()
    assert "two processes write to this run directory" in RunReader(run_dir).status()["trouble"]


def test_a_flow_that_runs_and_writes_nothing_is_told(tmp_path: Path) -> None:
    with running(tmp_path, MemoryEngine()):
        one = RunReader(tmp_path, clock=lambda: 4e9)
        while one.moment() is None:
            pass
        assert "has recorded nothing for" in one.status()["trouble"]


def test_a_dataflow_with_a_cycle_is_told_and_not_drawn(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    write(run_dir, GRAPH, ticks(GRAPH, tmp_path / "engine", 3))
    first, second, third = GRAPH.operators
    cycle = replace(GRAPH, operators=(first, replace(second, inputs=("out",)), third))
    history.keep_dataflow(run_dir, cycle)
    assert "has a cycle" in RunReader(run_dir).status()["trouble"]


def test_events_come_once_with_their_place_on_the_time_axis(tmp_path: Path) -> None:
    turns = ticks(GRAPH, tmp_path / "engine", 4)
    lost = Event(3.0, EventKind.EXECUTOR_LOST, "executor 2 is gone")
    again = Event(3.0, EventKind.RESTART, "task failed", "double")
    write(tmp_path / "run", GRAPH, [*turns[:2], replace(turns[2], events=(lost, again)), turns[3]])
    one = RunReader(tmp_path / "run")
    found = one.since(0).events
    assert [(e["number"], e["turn"], e["x"], e["kind"]) for e in found] == [
        (1, 3, 3.0, "executor lost"),
        (2, 3, 3.0, "restart"),
    ]
    assert [(e["text"], e["pipeline"], e["problem"]) for e in found] == [
        ("executor 2 is gone", None, True),
        ("task failed", "double", True),
    ]
    assert [e["number"] for e in one.since(4, 1).events] == [2]
    assert one.since(4, 2).events == []
