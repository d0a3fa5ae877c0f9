"""Instances that break while a change is under way, and changes while instances are broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engines.simulator.arrivals import Deterministic
from penstock.engines.simulator.changes import InjectedFailure
from penstock.engines.simulator.distributions import Constant
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Keys, MicroBatch, OperatorCost, Timing

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
