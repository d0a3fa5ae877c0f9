"""Records through whole dataflows: none is lost, none is doubled, and nothing is by accident."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engines.simulator.arrivals import Bursty, Deterministic, Poisson, Renewal
from penstock.engines.simulator.changes import InjectedFailure
from penstock.engines.simulator.distributions import Constant, Exponential, of
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Dispatch, MicroBatch, Model, OperatorCost, Timing
from penstock.metrics.snapshot import Snapshot
from tests.engines.test_memory import _expected
from tests.strategies import dataflows, few, plans

from .flows import apart, chain, started

pytestmark = pytest.mark.large


@settings(few, max_examples=12)
@given(st.data())
def test_whatever_plans_were_in_force_every_row_is_delivered_once(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    graph = data.draw(dataflows())
    names = st.sampled_from([o.name for o in graph.operators])
    costs = data.draw(st.dictionaries(names, st.sampled_from((0.001, 0.01, 0.05)), max_size=4))
    inner = st.sampled_from([o.name for o in graph.operators if o not in graph.sources])
    selectivity = data.draw(st.dictionaries(inner, st.sampled_from((0.0, 0.3, 2.5)), max_size=3))
    steps = {
        name: OperatorCost(of(costs.get(name, 0.0), 1.0), selectivity.get(name, 1.0))
        for name in (o.name for o in graph.operators)
    }
    model = Model(
        steps,
        nodes=3,
        dispatch=data.draw(st.sampled_from(Dispatch)),
        delay=data.draw(st.sampled_from((0.0, 0.02))),
        between=data.draw(st.sampled_from((0.0, 0.05))),
        queue=data.draw(st.sampled_from((None, 3))),
        arrivals=data.draw(st.sampled_from((Poisson(), Deterministic(), Bursty(4), Renewal(1.5)))),
        batch=data.draw(st.sampled_from((None, MicroBatch()))),
        timing=Timing(
            executor_start=0.3, instance_start=0.1, stop=data.draw(st.sampled_from((0.0, 0.05)))
        ),
        send=data.draw(st.sampled_from((0.0, 0.002))),
        by_load=data.draw(st.booleans()),
    )
    failures = [
        InjectedFailure(0.5, executor="0"),
        InjectedFailure(1.9, pipeline=graph.sources[0].name),
    ]
    engine = SimulatorEngine(model, load="37/s", failures=failures, step=0.25)
    engine.start(graph, None, tmp_path_factory.mktemp("run"))
    for plan in data.draw(st.lists(plans(graph), min_size=1, max_size=4)):
        engine.advance(0.35)
        engine.apply(plan)
    engine.stop(drain=True)
    ingested = {name: source.taken for name, source in engine._sim.sources.items()}
    assert engine.observe().drained
    assert engine.observe().sinks == _expected(graph, selectivity, ingested)


def two(run_dir: Path, advances: list[float], seed: int = 1, step: float = 1.0) -> Snapshot:
    engine = started(
        chain("a", "b"),
        apart(("a", 3), ("b", 5)),
        {"a": OperatorCost(Exponential(0.002), 2.5), "b": OperatorCost(Exponential(0.001))},
        "sine:200-1200@7s",
        run_dir,
        seed=seed,
        dispatch=Dispatch.CHANCE,
        delay=0.001,
        options={"step": step},
    )
    for seconds in advances:
        engine.advance(seconds)
        seen = engine.observe()
    return seen


def test_the_same_seed_gives_the_same_to_the_last_bit(tmp_path: Path) -> None:
    first = two(tmp_path / "1", [5.0, 5.0])
    assert two(tmp_path / "2", [5.0, 5.0]) == first
    assert two(tmp_path / "3", [5.0, 5.0], seed=2) != first


def test_the_length_of_the_steps_makes_no_difference_but_for_rounding(tmp_path: Path) -> None:
    whole = two(tmp_path / "1", [10.0])
    parts = two(tmp_path / "2", [0.7, 0.05, 3.21, 6.04], step=0.13)
    assert parts.rows_ingested == whole.rows_ingested
    assert parts.rows_delivered == whole.rows_delivered
    assert parts.latency["a->b"].rows == whole.latency["a->b"].rows
    assert parts.latency["a->b"].mean == pytest.approx(whole.latency["a->b"].mean, rel=1e-9)
    assert parts.pipelines["b"].wait == pytest.approx(whole.pipelines["b"].wait, rel=1e-9)


def test_rows_offered_are_those_of_the_load(tmp_path: Path) -> None:
    engine = started(
        chain("a"), apart(("a", 1)), {}, "steps:100,400@1s", tmp_path, arrivals=Deterministic()
    )
    engine.advance(3.5)
    seen = engine.observe()
    assert seen.rows_offered == seen.rows_ingested == seen.rows_delivered == 100 + 400 + 100 + 200


def congested(run_dir: Path, queue: int = 50) -> SimulatorEngine:
    """`b` can do 400 a second, in comes 1000."""
    return started(
        chain("a", "b"),
        apart(("a", 2), ("b", 4)),
        {"a": OperatorCost(Exponential(0.0005)), "b": OperatorCost(Exponential(0.01))},
        "1000/s",
        run_dir,
        queue=queue,
        window=10.0,
    )


def test_back_pressure_reaches_the_source(tmp_path: Path) -> None:
    engine = congested(tmp_path)
    engine.advance(60)
    seen = engine.observe()
    source, a, b = (seen.pipelines[name] for name in ("in", "a", "b"))
    assert b.busy == pytest.approx(1.0, abs=0.03)
    # strictly in turn, the fullest instance holds back records that the others could take
    assert seen.throughput == pytest.approx(400, rel=0.05)
    assert source.backlog_rows == pytest.approx(600 * 60, rel=0.05)
    # queues of at most 4 * 50 and 2 * 50 records, and a little more for the grain of the step
    assert 0.25 * 200 < b.backlog_rows < 2.5 * 200
    assert a.backlog_rows <= 2.5 * 100
    assert seen.rows_ingested - seen.rows_delivered < 1000


def test_without_a_bound_the_queue_before_the_bottleneck_grows_instead(tmp_path: Path) -> None:
    engine = congested(tmp_path, queue=1_000_000)
    engine.advance(60)
    seen = engine.observe()
    assert seen.throughput == pytest.approx(1000, rel=0.02)
    assert seen.pipelines["in"].backlog_rows == 0
    assert seen.pipelines["b"].backlog_rows == pytest.approx(600 * 60, rel=0.05)
    assert seen.pipelines["b"].rate_in == pytest.approx(400, rel=0.03)


def resident() -> int:
    """Bytes of this process in memory now: the most so far would hide what a test brings."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_memory_does_not_grow_with_simulated_time(tmp_path: Path) -> None:
    engine = started(
        chain("a"),
        apart(("a", 1)),
        {"a": OperatorCost(Constant(1.0))},
        "500000/s",
        tmp_path,
        queue=10,
    )
    engine.advance(10)
    engine.observe()
    before = resident()
    engine.advance(18)
    backlog = engine.observe().pipelines["in"].backlog_rows
    assert backlog is not None
    assert backlog > 13_900_000  # the new ones would be 72 MB
    assert resident() - before < 30e6
