"""The end of a simulated run: always the same, however fast the machine, and never for ever."""

from __future__ import annotations

import os
import signal
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock import app as runs
from penstock.app import run
from penstock.engines.simulator.arrivals import Deterministic
from penstock.engines.simulator.distributions import Constant
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import MicroBatch, Model, OperatorCost
from penstock.engines.simulator.simulation import Simulation
from penstock.plan.plan import Pipeline, Plan
from tests.control.doubles import Watcher, flow

from .flows import apart, chain, started


def backlogged(run_dir: Path, engine: SimulatorEngine, view: Watcher) -> Mapping[str, Any]:
    """A run that ends with 20 s or so to be worked off."""
    summary = run(flow(), engine=engine, clock=engine.clock, seconds=12, run_dir=run_dir, view=view,
                  load="steps:10,200@6s")  # fmt: skip
    return {**summary.to_json(), "run_dir": None}


SLOW = Model({"double": OperatorCost(Constant(0.03))})


def test_what_is_recorded_does_not_depend_on_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for number, polled in enumerate((1e-4, 0.1, 30.0)):
        monkeypatch.setattr(runs._Stopping, "done", _polled(polled))
        view = Watcher()
        told = backlogged(tmp_path / str(number), SimulatorEngine(SLOW, seed=1), view)
        ticks = [(s.phase, s.tick.at, s.tick.snapshot) for s in view.seen if s.tick]
        found.append((told, ticks))
    assert found[0] == found[1] == found[2]
    drained = [at for phase, at, _ in found[0][1] if phase == "draining"]
    assert len(set(drained)) > 10  # a window of the constraint after the other
    assert found[0][0]["rows_delivered"] == found[0][0]["rows_ingested"]


def _polled(seconds: float) -> Any:
    done = runs._Stopping.done
    return lambda self, within: done(self, seconds)


class Pressed(SimulatorEngine):
    """Somebody presses Ctrl-C so often in the second turn of draining."""

    presses = 1
    turns = 0

    def drain_for(self, seconds: float) -> bool:
        self.turns += 1
        if self.turns == 2:
            for _ in range(self.presses):
                os.kill(os.getpid(), signal.SIGINT)
        return super().drain_for(seconds)


def test_a_ctrl_c_ends_the_draining_of_a_simulation(tmp_path: Path) -> None:
    engine, view = Pressed(SLOW, seed=1), Watcher()
    told = backlogged(tmp_path / "one", engine, view)
    assert told["interrupted"]
    assert engine.turns == 2
    assert not engine.observe().drained
    assert told["rows_delivered"] < told["rows_ingested"]
    twice = Pressed(SLOW, seed=1)
    twice.presses = 2
    with pytest.raises(KeyboardInterrupt, match="what was in flight is kept"):
        backlogged(tmp_path / "two", twice, Watcher())


def long(run_dir: Path, seconds: float, **model: Any) -> SimulatorEngine:
    steps = {"a": OperatorCost(Constant(seconds / 2)), "b": OperatorCost(Constant(seconds))}
    engine = started(chain("a", "b"), apart(("a", 1), ("b", 2)), steps, "4/s", run_dir,
                     arrivals=Deterministic(), **model)  # fmt: skip
    engine.advance(5.0)
    return engine


@pytest.mark.parametrize("model", [{}, {"queue": 2}, {"batch": MicroBatch()}, {"delay": 40.0}])
def test_records_that_take_hours_are_not_waited_for_second_by_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: dict[str, Any]
) -> None:
    steps, step = [], Simulation.step

    def counted(self: Simulation, end: float) -> None:
        steps.append(end)
        step(self, end)

    monkeypatch.setattr(Simulation, "step", counted)
    engine = long(tmp_path, 7200.0, **model)
    engine.stop()
    seen = engine.observe()
    assert seen.drained
    assert 0 < seen.rows_delivered == seen.rows_ingested
    assert seen.at > 7200
    assert len(steps) < 200


@pytest.mark.parametrize("model", [{}, {"queue": 2}, {"batch": MicroBatch()}, {"delay": 4.0}])
def test_long_steps_while_draining_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: dict[str, Any]
) -> None:
    engine = long(tmp_path / "long", 20.0, **model)
    engine.stop()
    monkeypatch.setattr(Simulation, "next_departure", lambda self: self.now)
    short = long(tmp_path / "short", 20.0, **model)
    short.stop()
    one, other = (e.latency_totals()["a->b"] for e in (engine, short))
    assert one.rows == other.rows
    assert (one.mean, one.p99) == pytest.approx((other.mean, other.p99), rel=1e-3)
    assert engine.observe().at == pytest.approx(short.observe().at, abs=1.0)


def test_a_large_batch_is_not_copied_while_it_lasts(tmp_path: Path) -> None:
    engine = long(tmp_path, 100.0, batch=MicroBatch())
    engine.observe()
    held = engine._sim.pipelines["a"].taken
    assert len(held)
    engine.advance(20.0)
    engine.observe()
    assert engine._sim.pipelines["a"].taken is held


@pytest.mark.parametrize("fused", [False, True])
def test_memory_does_not_follow_what_is_made_of_a_record(tmp_path: Path, fused: bool) -> None:
    plan = apart(("a", 1), ("b", 1), ("c", 1))
    if fused:
        plan = Plan((Pipeline(("in", "a", "b", "c", "out")),), 1)
    steps = {"a": OperatorCost(selectivity=100.0), "b": OperatorCost(selectivity=40.0)}
    engine = started(chain("a", "b", "c"), plan, steps, "1000/s", tmp_path)
    tracemalloc.start()
    try:
        engine.advance(1.0)
        seen = engine.observe()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert seen.rows_delivered == pytest.approx(4e6, rel=0.1)
    assert peak < 40e6
