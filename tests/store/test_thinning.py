"""A long history: old turns without news are thinned out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

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
from penstock.store import recorder, tables
from penstock.store.history import (
    History,
    opened,
    recorded_snapshots,
    turn_times,
)
from penstock.store.turn import Review, Tick, Veto
from tests.speed import within
from tests.store.test_history import CHANGE, OTHER, PLAN, sql, tick, written


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
