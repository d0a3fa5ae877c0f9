from __future__ import annotations

from pathlib import Path

from penstock.control.history import DECISIONS, SNAPSHOTS, TRANSITIONS, History, read
from penstock.control.loop import Tick
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan.decision import Decision
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.transition import Transition

PLAN = Plan((Pipeline(("a", "b"), 3),))


def tick(at: float, transition: Transition | None = None) -> Tick:
    metrics = {"a": PipelineMetrics("a", 3, rate_in=float("nan"))}
    shot = Snapshot(at, 5.0, None, 10, 9, 1, metrics, source_pipelines=frozenset({"a"}))
    return Tick(at, PLAN, shot, Decision(None, "as it is", {"load": 0.5}), transition)


def written(run_dir: Path, *ticks: Tick) -> None:
    history = History(run_dir, lambda: 1.7e9)
    for one in ticks:
        history.append(one)
    history.close()
    history.close()


def test_every_turn_is_kept(tmp_path: Path) -> None:
    change = Transition(2.0, ("a: parallelism 2 -> 3",), 0.5, 0.1, "why not")
    written(tmp_path, tick(1.0), tick(2.0, change))
    assert [s["at"] for s in read(tmp_path / SNAPSHOTS)] == [1.0, 2.0]
    assert next(read(tmp_path / SNAPSHOTS))["source_pipelines"] == ["a"]
    assert [d["reason"] for d in read(tmp_path / DECISIONS)] == ["as it is"] * 2
    assert [t["interruption_ms"] for t in read(tmp_path / TRANSITIONS)] == [100.0]


def test_what_is_not_a_number_is_not_measured(tmp_path: Path) -> None:
    written(tmp_path, tick(1.0))
    assert next(read(tmp_path / SNAPSHOTS))["pipelines"]["a"]["rate_in"] is None


def test_a_second_run_appends(tmp_path: Path) -> None:
    written(tmp_path, tick(1.0))
    written(tmp_path, tick(1.0))
    assert len(list(read(tmp_path / SNAPSHOTS))) == 2


def test_a_torn_line_is_left_out_and_then_cut_off(tmp_path: Path) -> None:
    written(tmp_path, tick(1.0))
    with (tmp_path / SNAPSHOTS).open("a") as file:
        file.write('{"time": 17000')
    assert len(list(read(tmp_path / SNAPSHOTS))) == 1
    written(tmp_path, tick(2.0))
    assert [s["at"] for s in read(tmp_path / SNAPSHOTS)] == [1.0, 2.0]


def test_a_file_with_nothing_but_a_torn_line_becomes_empty(tmp_path: Path) -> None:
    (tmp_path / SNAPSHOTS).write_text("x" * 200_000)
    written(tmp_path)
    assert list(read(tmp_path / SNAPSHOTS)) == []


def test_a_missing_file_has_no_lines(tmp_path: Path) -> None:
    assert list(read(tmp_path / SNAPSHOTS)) == []
