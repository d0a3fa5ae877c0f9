"""What waits with an instance of a keyed pipeline keeps its key when the instances change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from penstock.engines.simulator.arrivals import Deterministic
from penstock.engines.simulator.changes import InjectedFailure
from penstock.engines.simulator.distributions import Constant
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Keys, OperatorCost, Timing
from penstock.engines.simulator.simulation import Simulation

from .flows import apart, keyed, started

Numbers = npt.NDArray[np.integer[Any]]

KEYS = Keys(100, skew=2.0)
"""The hot key has 61 % of the records, and the instance of four that has it 83 %."""

HOT = 2


def backlog(run_dir: Path, *, service: float = 0.01, **options: Any) -> SimulatorEngine:
    """Four instances, one of which has more to do than it can: all that waits is with it."""
    engine = started(
        keyed(),
        apart(("count", 4), executors=4),
        {"count": OperatorCost(Constant(service), keys=KEYS)},
        f"{1.5 / service:g}/s",
        run_dir,
        nodes=8,
        arrivals=Deterministic(),
        timing=Timing(restart=0.1, instance_start=0.1, detection=0.1, executor_start=1.0),
        options=options,
    )
    engine.advance(60.0)
    engine.observe()
    return engine


def waits(sim: Simulation) -> Numbers:
    """Rows that each instance has."""
    stage = sim.pipelines["count"]
    return np.bincount(stage.taken.server, minlength=stage.instances)


def rescaled(engine: SimulatorEngine, count: int) -> None:
    engine.apply(apart(("count", count), executors=count))


def moved(engine: SimulatorEngine) -> None:
    engine._sim.pipelines["count"].move(engine.now, np.array([0, HOT]), 0.1)


def broken(engine: SimulatorEngine) -> None:
    InjectedFailure(engine.now, pipeline="count", instance=HOT).strike(engine._sim)


def lost(engine: SimulatorEngine) -> None:
    there = engine._sim.placement
    name = there.executors[there.hosts["count"][HOT]]
    InjectedFailure(engine.now, executor=name).strike(engine._sim)


def paused(engine: SimulatorEngine) -> None:
    """The process ends and another goes on."""
    engine._sim.put_back()


@pytest.mark.parametrize("change", [moved, broken, lost, paused])
def test_what_waits_stays_with_the_instance_that_has_its_key(
    tmp_path: Path, change: Callable[[SimulatorEngine], None]
) -> None:
    engine = backlog(tmp_path)
    before = waits(engine._sim)
    assert before[HOT] > 1000
    assert before.sum() - before[HOT] < 10
    change(engine)
    engine.advance(2.0)
    engine.observe()
    after = waits(engine._sim)
    assert after[HOT] > 1000
    assert after.sum() - after[HOT] < 10


@pytest.mark.parametrize("count", [2, 3, 6, 8])
def test_what_waits_goes_to_the_instances_that_get_the_keys_of_the_one_that_had_it(
    tmp_path: Path, count: int
) -> None:
    engine = backlog(tmp_path)
    sim = engine._sim
    waiting = int(waits(sim)[HOT])
    sim.switch(apart(("count", count), executors=4))
    queue = sim.pipelines["count"].inlets[0].queue
    keys = queue.take(sim.now).keys["count"]
    assert np.mean(KEYS.places(4)[keys] == HOT) > 0.99
    mine = KEYS.places(4) == HOT
    due = np.bincount(KEYS.places(count)[mine], KEYS._weights[mine], minlength=count)
    found = np.bincount(KEYS.places(count)[keys], minlength=count) / len(keys)
    assert len(keys) == pytest.approx(waiting, abs=10)
    assert found == pytest.approx(due / due.sum(), abs=0.04)


def test_a_key_is_the_same_after_any_number_of_changes(tmp_path: Path) -> None:
    engine = backlog(tmp_path)
    sim = engine._sim
    for count in (3, 6, 4):
        sim.switch(apart(("count", count), executors=4))
        sim.step(sim.now + 1e-6)
    after = waits(sim)
    assert after[HOT] > 1000
    assert after.sum() - after[HOT] < 10


def test_nothing_is_lost_and_the_seed_decides_everything(tmp_path: Path) -> None:
    found = []
    for at in range(2):
        failures = [
            InjectedFailure(61.0, pipeline="count", instance=HOT),
            InjectedFailure(64.0, executor="1"),
        ]
        engine = backlog(tmp_path / str(at), failures=failures)
        for count in (6, 3, 4):
            rescaled(engine, count)
            engine.advance(3.0)
            engine.observe()
        sim = engine._sim
        source = sim.sources["in"]
        assert sum(sim.delivered.values()) + sim.in_flight == source.taken
        found.append(
            (sim.delivered, waits(sim).tolist(), sim.pipelines["count"].taken.left.tolist())
        )
    assert found[0] == found[1]


@pytest.mark.parametrize("service", [0.011, 0.9])
def test_records_of_a_key_keep_their_order(tmp_path: Path, service: float) -> None:
    engine = backlog(tmp_path, service=service)
    sim = engine._sim
    old = sim.pipelines["count"].taken
    under_way = old.left[old.begun < sim.now].max()
    sim.switch(apart(("count", 6), executors=4))
    sim.step(sim.now + 1e-6)
    jobs = sim.pipelines["count"].taken
    assert jobs.begun.min() >= under_way - 1e-9
    keys = jobs.records.keys["count"]
    for key in np.unique(keys[keys >= 0]):
        mine = np.flatnonzero(keys == key)
        assert len(set(jobs.server[mine])) == 1
        assert (np.diff(jobs.left[mine][np.argsort(jobs.records.time[mine])]) > 0).all()


def test_keys_are_drawn_as_often_as_they_come() -> None:
    served = np.repeat(np.arange(4), 50_000)
    drawn = KEYS.drawn(served, 4, np.random.default_rng(1))
    assert (KEYS.places(4)[drawn] == served).all()
    for place in range(4):
        mine = np.where(KEYS.places(4) == place, KEYS._weights, 0.0)
        found = np.bincount(drawn[served == place], minlength=100) / 50_000
        assert found == pytest.approx(mine / mine.sum(), abs=0.01)


def test_an_instance_without_keys_says_nothing_of_a_record() -> None:
    few = Keys(1)
    drawn = few.drawn(np.arange(4), 4, np.random.default_rng(1))
    assert sorted(drawn.tolist()) == [-1, -1, -1, 0]
