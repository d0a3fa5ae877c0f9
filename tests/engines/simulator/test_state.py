"""A simulation that goes on with a flow: rows that wait are worked off, state has to be moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.dataflow.load_profile import parse
from penstock.engines.simulator import arrivals, state
from penstock.engines.simulator.arrivals import Deterministic
from penstock.engines.simulator.distributions import Constant
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Keys, Model, OperatorCost
from penstock.engines.simulator.state import InitialState, WaitingRows
from penstock.metrics.snapshot import ChannelMetrics, PipelineMetrics, Snapshot
from penstock.plan.plan import Pipeline, Plan

from .flows import apart, chain, keyed, started


def begun(begin: InitialState, run_dir: Path, load: str = "10/s") -> SimulatorEngine:
    return started(
        chain("a", "b"),
        apart(("a", 1), ("b", 1)),
        {"a": OperatorCost(Constant(0.01)), "b": OperatorCost(Constant(0.01))},
        load,
        run_dir,
        arrivals=Deterministic(),
        options={"begin": begin},
    )


def test_rows_that_wait_are_worked_off_and_have_waited_before(tmp_path: Path) -> None:
    waiting = {("in", "in"): WaitingRows(600, 6.0), ("a", "b"): WaitingRows(300, 2.0)}
    engine = begun(InitialState(waiting), tmp_path)
    first = engine.observe()
    assert first.rows_offered == 600
    assert first.channels["a>b"].backlog_rows == 300
    engine.advance(60.05)
    seen = engine.observe()
    assert seen.rows_offered == seen.rows_ingested == 600 + 600
    assert seen.rows_delivered == 1200 + 300
    assert [p.backlog_rows for p in seen.pipelines.values()] == [0, 0, 0]
    # 300 rows came evenly over 2 s and leave 10 ms apart; those of the source stand before `a`
    # for 6 s at most, and behind what `b` still has to do
    latency = seen.latency["a->b"]
    assert latency.rows == 1500
    assert latency.p99 > 6.0
    alone = begun(InitialState({("a", "b"): WaitingRows(300, 2.0)}), tmp_path / "alone", "0/s")
    alone.advance(60)
    mean = alone.observe().latency["a->b"].mean
    assert mean == pytest.approx(1.0 + 3.0 / 2 + 0.01, rel=0.01)


def test_many_rows_that_wait_are_made_when_they_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "_PART", 100)
    one = arrivals.SimulatedSource("in", parse("10/s"), Deterministic(), 1)
    one.owe(250, 5.0)
    assert (one.offered(0.0), one.waiting(0.0), one.taken) == (250, 250, 0)
    taken = one.take(0.0, 120)
    assert (len(taken), one.waiting(0.0), one.taken) == (120, 130, 120)
    assert taken.time[0] == -5.0
    assert (taken.time[1:] > taken.time[:-1]).all()
    rest = one.take(1.0)
    assert len(rest) == 130 + 10
    assert rest.time[129] == pytest.approx(-5.0 / 250)
    assert rest.time[130] == pytest.approx(0.1)


def test_state_that_is_there_has_to_be_moved_from_the_first_second_on(tmp_path: Path) -> None:
    steps = {"count": OperatorCost(Constant(0.0001), keys=Keys(1000, bytes=200_000))}
    plan = apart(("count", 2), executors=2)
    for rows in (0, 400, 1000):
        engine = started(
            keyed(), plan, steps, "10/s", tmp_path / str(rows),
            options={"initial": InitialState(state={"count": rows} if rows else {})},
        )  # fmt: skip
        assert engine.observe().pipelines["count"].state_rows == rows
        transition = engine.apply(plan.with_pipeline("count", parallelism=4))
        moved = rows * 200_000 / 2
        assert transition.state_bytes_moved == pytest.approx(moved, rel=0.1, abs=3e6)
        assert transition.interruption == pytest.approx(0.5 + moved / 100e6, rel=0.1, abs=0.03)


def snapshot(pipelines: list[PipelineMetrics], channels: list[ChannelMetrics]) -> Snapshot:
    return Snapshot(
        at=100.0, window=5.0, rows_offered=0, rows_ingested=0, rows_delivered=0, rows_dead=0,
        pipelines={p.name: p for p in pipelines},
        channels={f"{c.writer}>{c.reader}": c for c in channels},
    )  # fmt: skip


def test_a_snapshot_says_what_waits_where() -> None:
    plan = Plan((Pipeline(("in", "a")), Pipeline(("b", "out"))))
    seen = snapshot(
        [
            PipelineMetrics("in", 1, backlog_rows=500, arrival_rate=50.0),
            PipelineMetrics("b", 1, backlog_rows=80, backlog_seconds=4.0),
        ],
        [ChannelMetrics("a", "b", backlog_rows=60)],
    )
    found = state.state_of(chain("a", "b"), plan, seen)
    assert found.waiting == {("in", "in"): WaitingRows(500, 10.0), ("a", "b"): WaitingRows(60, 4.0)}
    assert found.owed == 500
    assert state.state_of(chain("a", "b"), plan, snapshot([], [])) == InitialState()


def test_state_is_that_of_the_operator_that_has_it() -> None:
    plan = Plan((Pipeline(("in", "count", "out")),))
    seen = snapshot([PipelineMetrics("in", 1, backlog_rows=0, state_rows=77)], [])
    assert state.state_of(keyed(), plan, seen) == InitialState({}, {"count": 77})


def test_a_run_that_is_continued_is_not_begun_again(tmp_path: Path) -> None:
    begin = InitialState({("in", "in"): WaitingRows(50, 1.0)})
    plan = apart(("a", 1))
    found = []
    for _ in range(2):
        engine = SimulatorEngine(Model(nodes=3), load="10/s", initial=begin)
        engine.start(chain("a"), plan, tmp_path)
        engine.advance(5)
        engine.stop()
        found.append(engine.observe().rows_ingested)
    assert found == [pytest.approx(100, abs=25), pytest.approx(150, abs=40)]
