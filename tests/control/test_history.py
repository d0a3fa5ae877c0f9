from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.errors import RunDirectoryError
from penstock.metrics.snapshot import (
    ChannelMetrics,
    ExecutorMetrics,
    InstanceMetrics,
    LatencyMetrics,
    OperatorMetrics,
    PipelineMetrics,
    Snapshot,
)
from penstock.plan.decision import Decision
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.transition import Transition
from penstock.store import recorder, tables
from penstock.store.history import (
    FILE,
    History,
    decisions,
    opened,
    recorded_snapshots,
    snapshots,
    transitions,
    turn_times,
)
from penstock.store.serialization import plain
from penstock.store.turn import Review, Tick, Veto
from tests.speed import within

PLAN = Plan((Pipeline(("a", "b"), 3),))
OTHER = Plan((Pipeline(("a", "b"), 4),))
CHANGE = Transition(2.0, ("a: parallelism 2 -> 3",), 0.5, 0.1, "why not", (("hold", 0.1),))


def tick(at: float, transition: Transition | None = None, **more: Any) -> Tick:
    metrics = {"a": PipelineMetrics("a", 3, rate_in=float("nan"))}
    shot = Snapshot(at, 5.0, None, 10, 9, 1, metrics, source_pipelines=frozenset({"a"}))
    made = Tick(at, PLAN, shot, Decision(None, "as it is", {"load": 0.5}), transition)
    return replace(made, **more)


def written(run_dir: Path, *ticks: Tick, tell: Callable[[str], None] = pytest.fail) -> None:
    history = History(run_dir, lambda: 1.7e9, tell)
    for one in ticks:
        history.append(one)
    history.close()
    history.close()


def sql(run_dir: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(run_dir / FILE)) as connection, connection:
        return [*connection.execute(statement)]


# --- one turn after the other -------------------------------------------------------------------


def test_every_turn_is_kept(tmp_path: Path) -> None:
    written(tmp_path, tick(1.0), tick(2.0, CHANGE))
    assert [s.at for s in snapshots(tmp_path)] == [1.0, 2.0]
    assert next(snapshots(tmp_path)).source_pipelines == {"a"}
    assert [d["reason"] for d in decisions(tmp_path)] == ["as it is"] * 2
    assert [d["numbers"] for d in decisions(tmp_path)] == [{"load": 0.5}] * 2
    assert [(t.turn, t.transition) for t in transitions(tmp_path)] == [(2, CHANGE)]


def test_what_is_not_a_number_is_not_measured(tmp_path: Path) -> None:
    written(tmp_path, tick(1.0))
    assert sql(tmp_path, "SELECT rate_in, busy, typeof(rows_in) FROM pipelines") == [
        (None, None, "null")
    ]
    found = next(snapshots(tmp_path)).pipelines["a"]
    assert found.rate_in is None
    assert found.busy is None


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    shot = Snapshot(np.float32(0.5), 5.0, np.int64(7), 1, 1, 0)  # type: ignore[arg-type]
    written(tmp_path, tick(1.0, snapshot=shot))
    assert next(snapshots(tmp_path)) == Snapshot(0.5, 5.0, 7, 1, 1, 0)


def test_a_second_run_appends_and_is_told_apart(tmp_path: Path) -> None:
    written(tmp_path, tick(1.0), tick(2.0))
    written(tmp_path, tick(1.0))
    assert [one.first for one in recorded_snapshots(tmp_path)] == [True, False, True]
    assert [(m.turn, m.run, m.at) for m in turn_times(tmp_path)] == [
        (1, 1, 1.0),
        (2, 1, 2.0),
        (3, 2, 1.0),
    ]


def test_what_is_found_out_about_a_change_later_is_put_in(tmp_path: Path) -> None:
    history = History(tmp_path, lambda: 1.7e9, pytest.fail)
    history.append(tick(2.0, CHANGE))
    history.append(tick(3.0))
    later = replace(CHANGE, interruption=0.7, settled=True)
    history.settle([later, replace(later, at=99.0)])
    history.settle([replace(later, interruption=5.0)])  # settled is settled
    history.close()
    assert [(t.turn, t.transition) for t in transitions(tmp_path)] == [(1, later)]


def test_a_directory_without_a_history_has_no_turns(tmp_path: Path) -> None:
    assert [*snapshots(tmp_path), *recorded_snapshots(tmp_path), *decisions(tmp_path)] == []
    assert [*transitions(tmp_path), *turn_times(tmp_path)] == []


def test_no_column_stands_for_two_things() -> None:
    for table in tables.ALL:
        names = [c.name for c in table.all]
        assert len({*names}) == len(names), table.name


def test_all_that_a_snapshot_holds_by_name_is_a_table() -> None:
    assert set(tables.PARTS) == {"pipelines", "operators", "channels", "executors", "latency"}


# --- other versions, other processes ------------------------------------------------------------


def test_a_file_from_before_a_field_gets_its_column_and_its_default(tmp_path: Path) -> None:
    written(tmp_path, tick(1.0))
    sql(tmp_path, "ALTER TABLE snapshots DROP COLUMN settled")
    sql(tmp_path, "ALTER TABLE pipelines DROP COLUMN parts")
    sql(tmp_path, "DROP TABLE executors")
    assert [plain(s) for s in snapshots(tmp_path)] == [plain(tick(1.0).snapshot)]
    written(tmp_path, tick(2.0))
    assert [s.settled for s in snapshots(tmp_path)] == [True, True]
    assert [s.pipelines["a"].parts for s in snapshots(tmp_path)] == [{}, {}]


def test_what_a_later_version_has_added_is_left_out(tmp_path: Path) -> None:
    written(tmp_path, tick(1.0))
    sql(tmp_path, "ALTER TABLE pipelines ADD COLUMN colour TEXT DEFAULT 'blue'")
    written(tmp_path, tick(2.0))
    assert [s.at for s in snapshots(tmp_path)] == [1.0, 2.0]


def test_it_is_read_while_it_is_written(tmp_path: Path) -> None:
    history = History(tmp_path, lambda: 1.7e9, pytest.fail)
    history.append(tick(1.0))
    reader = recorded_snapshots(tmp_path)
    next(reader)
    for at in (2.0, 3.0):
        history.append(tick(at))
        assert [s.at for s in snapshots(tmp_path)][-1] == at
    assert [*reader] == []  # what one reader sees is of one moment
    history.close()


def test_a_directory_that_cannot_be_written_to_can_be_read(tmp_path: Path) -> None:
    written(tmp_path, tick(1.0))
    assert sorted(f.name for f in tmp_path.iterdir()) == [FILE]
    tmp_path.chmod(0o555)
    try:
        assert [s.at for s in snapshots(tmp_path)] == [1.0]
    finally:
        tmp_path.chmod(0o755)


KILLED = """
import os, signal, sys
from pathlib import Path
from penstock.store.history import History
from tests.control.test_history import tick

history = History(Path(sys.argv[1]), lambda: 1.7e9)
for at in range(50):
    history.append(tick(float(at)))
history._connection.execute("INSERT INTO plans (json) VALUES ('half a turn')")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_loses_the_turn_under_way_at_most(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    ended = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": "src:."})
    assert ended.returncode == -signal.SIGKILL
    assert [s.at for s in snapshots(tmp_path)] == [float(at) for at in range(50)]
    assert sql(tmp_path, "SELECT count(*) FROM plans") == [(1,)]
    written(tmp_path, tick(0.0))
    assert len([*snapshots(tmp_path)]) == 51
    assert sql(tmp_path, "PRAGMA integrity_check") == [("ok",)]


# --- what cannot be written ---------------------------------------------------------------------


def test_a_full_disk_is_told_once_and_the_rest_is_kept(tmp_path: Path) -> None:
    said: list[str] = []
    history = History(tmp_path, lambda: 1.7e9, said.append)
    history.append(tick(1.0))
    connection = history._connection
    assert connection is not None
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")  # as if the disk were full
    big = {str(i): PipelineMetrics("x" * 9999, 1) for i in range(99)}
    history.append(tick(2.0, snapshot=Snapshot(2.0, 5.0, None, 1, 1, 0, big)))
    history.append(tick(3.0))
    history.append(tick(4.0, snapshot=Snapshot(2.0, 5.0, 2**80, 1, 1, 0)))
    history.append(tick(5.0))
    history.close()
    assert [s.at for s in snapshots(tmp_path)] == [1.0, 3.0, 5.0]
    assert [m.turn for m in turn_times(tmp_path)] == [1, 2, 3]
    (told,) = said
    assert told.startswith("cannot write to ")
    assert told.endswith("the flow goes on without: database or disk is full")


def test_a_file_that_cannot_be_made_is_told_and_made_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FILE).mkdir()
    history = History(tmp_path, lambda: 1.7e9)
    history.append(tick(1.0))
    (tmp_path / FILE).rmdir()
    history.append(tick(2.0))
    history.close()
    assert [(s.snapshot.at, s.first) for s in recorded_snapshots(tmp_path)] == [(2.0, True)]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("penstock: cannot write to ")


def test_a_file_that_is_no_history_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"something else " * 1000)
    with pytest.raises(RunDirectoryError, match=r"history.db cannot be read: file is not a data"):
        list(snapshots(tmp_path))
    said: list[str] = []
    written(tmp_path, tick(1.0), tell=said.append)
    assert [s.at for s in snapshots(tmp_path)] == [1.0]
    assert (tmp_path / f"{FILE}.broken-1700000000").exists()
    assert "it is history.db.broken-1700000000 now, and a new one begins" in said[0]


def test_what_was_left_beside_a_broken_file_does_not_get_into_the_new_one(tmp_path: Path) -> None:
    history = History(tmp_path, lambda: 1.7e9, pytest.fail)
    history.append(tick(1.0))
    left = (tmp_path / f"{FILE}-wal").read_bytes()
    history.close()
    (tmp_path / FILE).write_bytes(b"something else " * 1000)
    (tmp_path / f"{FILE}-wal").write_bytes(left[: len(left) // 2])
    written(tmp_path, tick(7.0), tell=lambda what: None)
    assert [s.at for s in snapshots(tmp_path)] == [7.0]
    assert sql(tmp_path, "PRAGMA integrity_check") == [("ok",)]


def test_a_turn_does_not_wait_long_for_somebody_who_writes_by_hand(tmp_path: Path) -> None:
    said: list[str] = []
    history = History(tmp_path, lambda: 1.7e9, said.append)
    with closing(sqlite3.connect(tmp_path / FILE)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        history.append(tick(1.0))
        assert time.monotonic() - began < 3
    history.append(tick(2.0))
    history.close()
    assert [s.at for s in snapshots(tmp_path)] == [2.0]
    assert "the flow goes on without: database is locked" in said[0]


# --- a long run ---------------------------------------------------------------------------------


def kept(turns: int, full: int) -> set[int]:
    """By the words: the newest whole, then each 10th of ten times as many, then each 100th..."""
    found, newest, step = set(), turns, 1
    while newest > 0:
        found |= {t for t in range(max(1, newest - full * step + 1), newest + 1) if t % step == 0}
        newest, step = newest - full * step, step * 10
    return found


@pytest.mark.parametrize("full", [1, 3, 20])
def test_turns_leave_as_it_is_written(full: int) -> None:
    there: set[int] = set()
    for turn in range(1, 3000):
        there.add(turn)
        for old in recorder.expired_turns(turn, full):
            there.discard(old)
        if turn % 7 == 0:
            assert there == kept(turn, full)


def test_a_hundred_thousand_turns_are_a_few_thousand() -> None:
    there: set[int] = set()
    for turn in range(1, 100_001):
        there.add(turn)
        there.difference_update(recorder.expired_turns(turn))
    assert len(there) == 3600 + 3600 + 604
    assert {*range(100_000 - 3600 + 1, 100_001)} <= there


def test_a_long_run_keeps_its_news_and_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder.expired_turns, "__defaults__", (20,))
    wants = Decision(OTHER, "more")
    special = {
        333: tick(333.0, plan=OTHER),
        555: tick(555.0, CHANGE),
        777: tick(777.0, refused="no"),
        888: tick(888.0, error="policy 'x' failed"),
        999: tick(999.0, decision=wants),
    }

    def vetoed(turn: int) -> Tick:
        veto = Veto("budget", f"load {turn}, the budget is 2")  # other numbers, no other news
        return tick(0.0, review=Review(Decision(None, "no"), wants, (veto,)))

    history = History(tmp_path, lambda: 1.7e9, pytest.fail)
    sizes = []
    for turn in range(1, 1501):
        usual = vetoed(turn) if 100 <= turn < 300 else tick(0.0)
        one = special.get(turn, usual)
        history.append(replace(one, snapshot=replace(one.snapshot, at=float(turn))))
        sizes.append(sql(tmp_path, "PRAGMA page_count")[0][0] if turn % 500 == 0 else 0)
    history.close()
    found = {m.turn for m in turn_times(tmp_path)}
    news = {1, 100, 300} | {t for turn in special for t in (turn, turn + 1)} - {556}
    assert found == kept(1500, 20) | news
    plans = {
        m.turn: one.plan
        for m, one in zip(turn_times(tmp_path), recorded_snapshots(tmp_path), strict=True)
    }
    assert {turn for turn, plan in plans.items() if plan == OTHER} == {333}
    assert sizes[1499] < 1.2 * sizes[499]
    for table in tables.PARTS:
        turns = {turn for (turn,) in sql(tmp_path, f"SELECT turn FROM {table}")}
        assert turns <= found


def test_news_are_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "NEWS", 5)
    monkeypatch.setattr(recorder.expired_turns, "__defaults__", (3,))
    written(tmp_path, *(tick(float(at), plan=(PLAN, OTHER)[at % 2]) for at in range(40)))
    assert len(turn_times(tmp_path)) == 5


def test_plans_of_turns_that_have_left_leave_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "NEWS", 5)
    monkeypatch.setattr(recorder.expired_turns, "__defaults__", (3,))
    plans = [PLAN.with_pipeline("a", admission=n) for n in range(1000)]
    written(tmp_path, *(tick(0.0, plan=plan) for plan in plans))
    assert sql(tmp_path, "SELECT count(*) FROM plans") == [(5,)]
    assert [one.plan for one in recorded_snapshots(tmp_path)] == plans[-5:]


def twelve() -> Snapshot:
    """A flow of twelve operators in four pipelines, everything measured."""
    pipelines, operators = {}, {}
    for p in range(4):
        instances = tuple(InstanceMetrics(i, 500, 0.4, "1") for i in range(2))
        pipelines[f"p{p}"] = PipelineMetrics(
            f"p{p}", 2, 3, 1000, 900, 200.0, 180.0, 210.0, 0.01, 0.05, 1.0, 1.0, 0.4, 0.2, 0.1,
            {"planning": 0.1, "log": 0.1, "work": 0.2, "commit": 0.1}, 0.5, 10, 0.1, 100, 1000,
            instances,
        )  # fmt: skip
        for o in range(3):
            name = f"p{p}o{o}"
            operators[name] = OperatorMetrics(name, 1000, 900, 200.0, 180.0, 0.001, 1.0, 1.0, 0.3)
    channels = {f"p{p}>p{p + 1}": ChannelMetrics(f"p{p}", f"p{p + 1}", 9, 0.1) for p in range(3)}
    executors = {"1": ExecutorMetrics("1", 4, 0.5, 0.4, 0.3, 1e6, {"p0": 2}, {"p1": 2})}
    latency = {"a->b": LatencyMetrics("a->b", 3.0, 1.0, 0.9, 1.9, 2.9, 900)}
    return Snapshot(
        1.0, 5.0, 5, 4, 3, 0, pipelines, latency, {"out": 3}, False, 0.5, frozenset({"p0"}),
        operators, channels, executors, True, 8.0,
    )  # fmt: skip


def test_a_turn_is_written_in_less_than_two_milliseconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder.expired_turns, "__defaults__", (100,))
    one = tick(1.0, snapshot=twelve())
    history = History(tmp_path, lambda: 1.7e9, pytest.fail)

    def fifty() -> None:
        for _ in range(50):
            history.append(one)

    assert within(50 * 0.002, fifty)
    history.close()


def test_a_moment_is_one_moment_for_all_tables(tmp_path: Path) -> None:
    history = History(tmp_path, lambda: 1.7e9, pytest.fail)
    history.append(tick(1.0))
    with opened(tmp_path) as connection:
        assert connection is not None
        assert len([*tables.SNAPSHOTS.read(connection)]) == 1
        history.append(tick(2.0))
        assert len([*tables.PARTS["pipelines"].read(connection)]) == 1
    history.close()
