"""What pipelines cost beside their operators, and what they share."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from penstock.engines.simulator.arrivals import Deterministic
from penstock.engines.simulator.changes import InjectedFailure
from penstock.engines.simulator.distributions import Constant
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Machine, Model, OperatorCost
from penstock.errors import InvalidInput
from penstock.plan.plan import Pipeline, Plan

from .flows import apart, chain, started


def rate(engine: SimulatorEngine, seconds: float = 20.0) -> float:
    """Rows a second that are delivered once the flow has warmed up."""
    engine.advance(seconds)
    first = engine.observe().rows_delivered
    engine.advance(seconds)
    return (engine.observe().rows_delivered - first) / seconds


def test_a_hop_is_paid_by_every_pipeline_but_that_of_a_source(tmp_path: Path) -> None:
    steps = {
        "in": OperatorCost(Constant(0.001)),
        "a": OperatorCost(Constant(0.002)),
        "b": OperatorCost(Constant(0.002)),
    }
    fused = Plan((Pipeline(("in",)), Pipeline(("a", "b", "out"))), 3)
    found = []
    for at, plan in enumerate((fused, apart(("a", 1), ("b", 1), executors=3))):
        model = Model(steps, nodes=3, arrivals=Deterministic(), hop=0.006, queue=100)
        engine = SimulatorEngine(model, load="2000/s")
        engine.start(chain("a", "b"), plan, tmp_path / str(at))
        found.append(rate(engine))
    # 6 + 2 + 2 ms in one pipeline; 6 + 2 ms in the slower of two
    assert found == pytest.approx([100, 125], rel=0.02)
    with pytest.raises(InvalidInput, match="must not be negative"):
        Model(hop=-1.0)


def test_who_gives_a_record_to_another_pipeline_pays_for_it(tmp_path: Path) -> None:
    """`a` takes 2 ms and makes two of each record, to send each of which takes 3 ms more."""
    steps = {"a": OperatorCost(Constant(0.002), 2.0), "b": OperatorCost(Constant(0.001))}
    for send, carried in ((0.0, 500.0), (0.003, 125.0)):
        engine = started(chain("a", "b"), apart(("a", 1), ("b", 1)), steps, "600/s",
                         tmp_path / str(send), window=5.0, send=send)  # fmt: skip
        engine.advance(10.0)
        seen = engine.observe()
        assert seen.pipelines["a"].rate_in == pytest.approx(carried, rel=0.02)
        assert seen.operators["a"].service == pytest.approx(0.002)
    with pytest.raises(InvalidInput, match="must not be negative"):
        Model(send=-1.0)


@pytest.mark.parametrize(("instances", "carried"), [(1, 500.0), (2, 800.0), (5, 1250.0)])
def test_instances_of_a_pipeline_are_in_each_others_way(
    tmp_path: Path, instances: int, carried: float
) -> None:
    """2 ms for a record, and half a millisecond more for each other instance."""
    steps = {"a": OperatorCost(Constant(0.002))}
    engine = started(chain("a"), apart(("a", instances)), steps, "2000/s", tmp_path, window=5.0,
                     crowding=0.0005)  # fmt: skip
    engine.advance(10.0)
    assert engine.observe().pipelines["a"].rate_in == pytest.approx(carried, rel=0.02)
    with pytest.raises(InvalidInput, match="must not be negative"):
        Model(crowding=-1.0)


def test_who_has_nothing_to_do_looks_for_it_and_who_is_held_back_does_not(tmp_path: Path) -> None:
    """`b` is full and holds `a` back, which would do twice as much; `c` has half of its time."""
    steps = {
        "in": OperatorCost(Constant(0.001)),
        "a": OperatorCost(Constant(0.01)),
        "b": OperatorCost(Constant(0.02)),
        "c": OperatorCost(Constant(0.01)),
    }
    plan = apart(("a", 1), ("b", 1), ("c", 1), executors=4)
    engine = started(chain("a", "b", "c"), plan, steps, "200/s", tmp_path, window=20.0, queue=10,
                     looking=0.3)  # fmt: skip
    engine.advance(40.0)
    busy = {name: one.busy for name, one in engine.observe().pipelines.items()}
    assert busy["a"] == pytest.approx(0.5, abs=0.03)
    assert busy["b"] == pytest.approx(1.0, abs=0.01)
    assert busy["c"] == pytest.approx(0.8, abs=0.03)
    with pytest.raises(InvalidInput, match="looking must be a share"):
        Model(looking=1.5)


def test_a_hop_is_overhead_and_not_time_of_an_operator(tmp_path: Path) -> None:
    model = Model({"a": OperatorCost(Constant(0.002))}, nodes=3, hop=0.006, queue=100)
    engine = SimulatorEngine(model, load="100/s")
    engine.start(chain("a"), apart(("a", 1)), tmp_path)
    engine.advance(30.0)
    seen = engine.observe()
    assert seen.pipelines["a"].busy == pytest.approx(0.8, rel=0.1)
    assert seen.operators["a"].busy == pytest.approx(0.2, rel=0.1)


@pytest.mark.parametrize(("executors", "hops"), [(1, (0, 0)), (2, (0.5, 0.5)), (4, (1, 1))])
def test_ways_between_executors_take_longer(
    tmp_path: Path, executors: int, hops: tuple[float, float]
) -> None:
    # dealt to those with the fewest: in, a, b are on 0; 1, 0; 1, 0 of two, and none beside another
    engine = between(tmp_path, executors)
    engine.advance(10.0)
    seen = engine.observe()
    ways = 0.003 * sum(hops)
    assert seen.latency["a->b"].mean == pytest.approx(0.004 + ways, rel=1e-6)
    assert seen.channels["in>a"].latency == pytest.approx(0.003 * hops[0], abs=1e-9)
    assert seen.channels["a>b"].latency == pytest.approx(0.003 * hops[1], abs=1e-9)


def test_who_is_put_beside_another_after_a_failure_has_no_way_to_go(tmp_path: Path) -> None:
    engine = between(tmp_path, 2, InjectedFailure(2.0, executor="1"))
    engine.advance(12.0)
    assert engine.observe().channels["a>b"].latency == pytest.approx(0, abs=1e-9)


def between(run_dir: Path, executors: int, *failures: InjectedFailure) -> SimulatorEngine:
    """Two operators of 2 ms, two instances of each, 3 ms between executors, little to do."""
    steps = {"a": OperatorCost(Constant(0.002)), "b": OperatorCost(Constant(0.002))}
    model = Model(steps, nodes=4, arrivals=Deterministic(), between=0.003)
    engine = SimulatorEngine(model, load="50/s", window=5.0, failures=failures)
    engine.start(chain("a", "b"), apart(("a", 2), ("b", 2), executors=executors), run_dir)
    return engine


@pytest.mark.parametrize("queue", [20, 50, 400])
def test_a_filter_inside_a_pipeline_does_not_hold_back_what_feeds_it(
    tmp_path: Path, queue: int
) -> None:
    # four rows come of one, a quarter of them goes on: "c" sees one for one
    steps = {
        "a": OperatorCost(Constant(0.005), 4.0),
        "b": OperatorCost(Constant(0.002), 0.25),
        "c": OperatorCost(Constant(0.004)),
    }
    plan = Plan((Pipeline(("in",)), Pipeline(("a",)), Pipeline(("b", "c", "out"))), 3)
    model = Model(steps, nodes=3, arrivals=Deterministic(), queue=queue)
    engine = SimulatorEngine(model, load="1000/s")
    engine.start(chain("a", "b", "c"), plan, tmp_path)
    # the second pipeline takes 4 * 2 + 4 ms for one row that comes to the first
    assert rate(engine) == pytest.approx(1 / 0.012, rel=0.03)


def test_more_instances_than_cores_do_no_more_than_the_cores(tmp_path: Path) -> None:
    # eight instances on two cores: each alone could be busy for 0.4 of its time, together 3.2
    model = Model(
        {"a": OperatorCost(Constant(0.01))},
        node=Machine(cores=2),
        arrivals=Deterministic(),
        queue=50,
    )
    engine = SimulatorEngine(model, load="320/s")
    engine.start(chain("a"), apart(("a", 8), executors=1), tmp_path)
    assert rate(engine) == pytest.approx(200, rel=0.03)


def test_more_instances_than_cores_are_not_slow_while_there_is_little_to_do(
    tmp_path: Path,
) -> None:
    model = Model(
        {"a": OperatorCost(Constant(0.01))},
        node=Machine(cores=2),
        arrivals=Deterministic(),
        queue=50,
    )
    engine = SimulatorEngine(model, load="150/s")
    engine.start(chain("a"), apart(("a", 8), executors=1), tmp_path)
    assert rate(engine) == pytest.approx(150, rel=0.01)
    assert engine.observe().pipelines["a"].service == pytest.approx(0.01, rel=0.01)


def test_a_selectivity_that_was_computed_is_the_number_that_was_meant(tmp_path: Path) -> None:
    assert OperatorCost(selectivity=0.1 * 0.8).ratio == Fraction(2, 25)
    assert OperatorCost(selectivity=1 / 3).ratio == Fraction(1, 3)
    assert OperatorCost(selectivity=1e-5).ratio == Fraction(1, 100_000)
    steps = {
        "a": OperatorCost(Constant(0.0001), 0.1 * 0.8),
        "b": OperatorCost(Constant(0.0001), 0.1 * 0.9),
    }
    engine = SimulatorEngine(Model(steps, nodes=3, arrivals=Deterministic()), load="5000/s")
    plan = Plan((Pipeline(("in",)), Pipeline(("a", "b", "out"))), 3)
    engine.start(chain("a", "b"), plan, tmp_path)
    engine.advance(60.0)
    engine.stop()
    seen = engine.observe()
    assert seen.rows_delivered == seen.rows_ingested * 2 // 25 * 9 // 100
