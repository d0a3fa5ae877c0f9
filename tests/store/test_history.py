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
    PipelineMetrics,
    Snapshot,
)
from penstock.plan.decision import Decision
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.transition import Transition
from penstock.store import tables
from penstock.store.history import (
    FILE,
    History,
    decisions,
    recorded_snapshots,
    snapshots,
    transitions,
    turn_times,
)
from penstock.store.serialization import plain
from penstock.store.turn import Tick

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
from tests.store.test_history import tick

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
