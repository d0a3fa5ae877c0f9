"""Failures of executors and instances, alone and during a change of plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engines.simulator.arrivals import Deterministic
from penstock.engines.simulator.changes import InjectedFailure
from penstock.engines.simulator.distributions import Constant
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import (
    Keys,
    MicroBatch,
    OperatorCost,
    Timing,
)

from .flows import apart, chain, keyed, started


def counting(
    run_dir: Path, failures: list[InjectedFailure], batch: MicroBatch | None
) -> SimulatorEngine:
    """Two instances, whose state takes 10 s to be dealt anew."""
    steps = {"count": OperatorCost(Constant(0.001), keys=Keys(1000))}
    return started(
        keyed(),
        apart(("count", 2), executors=1),
        steps,
        "100/s",
        run_dir,
        batch=batch,
        timing=Timing(restart=10.0, instance_start=0.5, detection=0.5),
        options={"failures": failures},
    )


@pytest.mark.parametrize("batch", [None, MicroBatch()])
def test_who_breaks_while_it_stands_still_does_not_go_on_the_sooner(
    tmp_path: Path, batch: MicroBatch | None
) -> None:
    delivered = []
    for failures in ([], [InjectedFailure(7.0, pipeline="count", instance=n) for n in range(3)]):
        engine = counting(tmp_path / str(len(failures)), failures, batch)
        engine.advance(5.0)
        engine.observe()
        engine.apply(apart(("count", 3), executors=1))
        delivered.append(engine.observe().rows_delivered)
    assert delivered[0] == delivered[1]


def test_a_broken_instance_stays_broken_whatever_is_changed(tmp_path: Path) -> None:
    engine = started(
        chain("a"),
        apart(("a", 1), executors=1),
        {"a": OperatorCost(Constant(0.001))},
        "100/s",
        tmp_path,
        timing=Timing(restart=0.1, instance_start=0.1, detection=60.0),
        window=5.0,
        options={"failures": [InjectedFailure(5.0, pipeline="a")]},
    )
    engine.advance(6.0)
    engine.observe()
    for count in (2, 3, 2):
        engine.apply(apart(("a", count), executors=1))
        engine.advance(10.0)
        seen = engine.observe().pipelines["a"]
        broken, *others = seen.instances
        assert broken.busy == pytest.approx(0.0, abs=1e-9)
        assert all((other.busy or 0) > 0.01 for other in others)
    engine.advance(65.1 - engine.now)
    engine.observe()
    engine.advance(10.0)
    assert (engine.observe().pipelines["a"].instances[0].busy or 0) > 0.01


@pytest.mark.parametrize("seed", range(4))
def test_a_query_does_not_begin_a_batch_before_the_one_under_way_is_through(
    tmp_path: Path, seed: int
) -> None:
    engine = started(
        keyed(),
        apart(("count", 8), executors=8),
        {"count": OperatorCost(Constant(20.0), keys=Keys(1000))},
        "1/s",
        tmp_path,
        seed=seed,
        arrivals=Deterministic(),
        batch=MicroBatch(commit=3.0),
        timing=Timing(restart=0.1, instance_start=0.1),
    )
    engine.advance(6.0)
    engine.observe()
    through = float(engine._sim.pipelines["count"].servers.free[0])
    assert through > 20
    engine.apply(apart(("count", 4), executors=4))
    assert float(engine._sim.pipelines["count"].servers.free[0]) == through
    engine.advance(through - 0.1 - engine.now)
    assert (engine.observe().pipelines["count"].batches or 0) == 0


def hosts(engine: SimulatorEngine) -> dict[str, int]:
    """Instances of all pipelines on each executor."""
    return {n: sum(e.instances.values()) for n, e in engine.observe().executors.items()}


def test_an_executor_that_fails_is_missed_and_its_records_are_done_again(tmp_path: Path) -> None:
    engine = started(
        chain("a"),
        apart(("a", 4), executors=4),
        {"a": OperatorCost(Constant(0.003))},
        "1000/s",
        tmp_path,
        options={"failures": [InjectedFailure(5.2, executor="1")], "step": 0.25},
        window=0.5,
    )
    engine.advance(4.9)
    assert engine.observe().pipelines["a"].backlog_rows < 20
    before = hosts(engine)
    assert before.keys() == {"0", "1", "2", "3"}
    engine.advance(2.0)
    seen = engine.observe()
    assert seen.pipelines["a"].backlog_rows > 400
    after = hosts(engine)
    assert after.keys() == {"0", "2", "3"}  # and with it its slots are gone
    assert sum(after.values()) == sum(before.values()) == 5
    assert {i.executor for i in seen.pipelines["a"].instances} <= {"0", "2", "3"}
    engine.advance(10)
    assert engine.observe().pipelines["a"].backlog_rows < 20
    assert engine.rows_replayed == 1
    engine.advance(5.2 + 1.0 + Timing().executor_start - 16.9 - 0.1)
    assert hosts(engine) == after
    engine.advance(0.2)
    assert sorted(hosts(engine).values()) == [1, 1, 1, 2]  # it gets its share at once
    assert hosts(engine)["4"] == 1
    engine.stop()
    seen = engine.observe()
    assert seen.rows_delivered == seen.rows_ingested


def only(run_dir: Path, **options: object) -> SimulatorEngine:
    """One machine of one, which fails after 5 s."""
    return started(
        chain("a"),
        apart(("a", 2), executors=1),
        {"a": OperatorCost(Constant(0.001))},
        "100/s",
        run_dir,
        options={"failures": [InjectedFailure(5.0, executor="0")]},
        window=1.0,
        **options,
    )


@pytest.mark.parametrize("batch", [None, MicroBatch()])
def test_the_only_executor_is_away_until_another_was_started(
    tmp_path: Path, batch: MicroBatch | None
) -> None:
    engine = only(tmp_path, batch=batch)
    away = 1.0 + Timing().executor_start + 1.0  # missed, started, and then its instances
    engine.advance(5.0 + away - 0.5)
    seen = engine.observe()
    assert seen.executors.keys() == {"1"}
    assert (seen.pipelines["a"].rows_in, seen.pipelines["a"].busy) == (0, 0)
    assert sum(p.backlog_rows or 0 for p in seen.pipelines.values()) > 100 * (away - 1.0)
    engine.advance(10.0)
    seen = engine.observe()
    assert sum(p.backlog_rows or 0 for p in seen.pipelines.values()) < 50
    assert seen.executors["1"].instances == {"in": 1, "a": 2}


def test_a_batch_that_is_lost_is_no_longer_at_work(tmp_path: Path) -> None:
    engine = only(tmp_path, batch=MicroBatch(planning=60.0))
    engine.advance(4.0)
    assert engine.observe().pipelines["in"].busy == 1.0
    engine.advance(4.0)
    assert engine.observe().pipelines["in"].busy == 0.0


def test_while_no_executor_is_there_none_is_shown_and_a_change_has_to_wait(tmp_path: Path) -> None:
    engine = only(tmp_path)
    engine.advance(6.0)
    seen = engine.observe()
    assert seen.executors == {}
    assert [i.executor for i in seen.pipelines["a"].instances] == [None, None]
    assert seen.load is None
    engine.apply(apart(("a", 4), executors=1))
    engine.advance(10.0)
    assert engine.observe().pipelines["a"].rate_in == 0
    engine.advance(20.0)
    assert engine.observe().pipelines["a"].backlog_rows == 0


def test_an_executor_that_is_only_restarted_has_its_instances_again(tmp_path: Path) -> None:
    engine = started(
        chain("a"),
        apart(("a", 4), executors=2),
        {"a": OperatorCost(Constant(0.003))},
        "500/s",
        tmp_path,
        options={"failures": [InjectedFailure(5.0, executor="1", comes_back=True)]},
    )
    engine.advance(4.0)
    before = hosts(engine)
    engine.advance(2.0)
    assert hosts(engine) == before


def test_what_was_begun_under_an_earlier_plan_breaks_with_its_instance(tmp_path: Path) -> None:
    engine = started(
        chain("a"),
        apart(("a", 1), executors=2),
        {"a": OperatorCost(Constant(4.0))},
        "0.5/s",
        tmp_path,
        arrivals=Deterministic(),
        options={"failures": [InjectedFailure(3.6, pipeline="a")], "step": 0.1},
    )
    engine.advance(2.5)  # the first record came after 2 s and would leave after 6 s
    engine.apply(apart(("a", 2), executors=2))
    engine.advance(2.0)
    engine.observe()
    assert engine.rows_replayed == 1
    engine.advance(2.4)  # the second one goes to the other instance, until 8 s
    assert engine.observe().rows_delivered == 0
    engine.stop()
    seen = engine.observe()
    assert seen.rows_delivered == seen.rows_ingested
