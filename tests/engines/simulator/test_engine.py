"""Effects of plans and machines on a simulated flow, and what a snapshot shows of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.dataflow.connectors import Generator, Memory
from penstock.dataflow.flow import Dataflow
from penstock.engines.simulator.arrivals import Deterministic
from penstock.engines.simulator.distributions import Constant, Exponential
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import (
    Dispatch,
    Keys,
    Machine,
    Model,
    OperatorCost,
    Timing,
)
from penstock.errors import Refused
from penstock.metrics.derived import queue, utilisation
from penstock.plan.plan import Pipeline, Plan
from tests.strategies import nothing

from .flows import BATCH, apart, chain, keyed, started


def test_a_snapshot_says_everything_that_policies_ask_for(tmp_path: Path) -> None:
    engine = started(
        chain("a", "b"),
        apart(("a", 2), ("b", 4), executors=3),
        {"a": OperatorCost(Constant(0.001), 0.5), "b": OperatorCost(Exponential(0.004))},
        "1000/s",
        tmp_path,
        dispatch=Dispatch.CHANCE,
        window=20.0,
        delay=0.003,
    )
    engine.advance(30)
    seen = engine.observe()
    assert (seen.at, seen.window, seen.settled) == (30.0, 20.0, True)
    a, b = seen.pipelines["a"], seen.pipelines["b"]
    assert a.arrival_rate == pytest.approx(1000, rel=0.02)
    assert (a.rate_in, a.rate_out) == pytest.approx((1000, 500), rel=0.02)
    assert (a.service, a.service_cv) == pytest.approx((0.001, 0.0), abs=1e-6)
    assert a.busy == pytest.approx(0.5, abs=0.02)
    assert utilisation(b) == pytest.approx(0.5, abs=0.03)
    assert b.service == pytest.approx(0.004, rel=0.03)
    assert (b.service_cv, b.arrival_cv) == pytest.approx((1.0, 1.0), abs=0.1)
    found = queue(b)
    assert found is not None
    assert found.wait == pytest.approx(found.kingman, rel=0.15)
    assert [i.index for i in b.instances] == [0, 1, 2, 3]
    assert sum(i.rows or 0 for i in b.instances) == pytest.approx(20 * 500, rel=0.03)
    assert {i.executor for i in b.instances} <= {"0", "1", "2"}
    assert seen.operators["a"].selectivity == pytest.approx(0.5, abs=0.001)
    assert seen.operators["b"].busy == pytest.approx(0.5, abs=0.03)
    assert seen.channels["a>b"].latency == pytest.approx((b.wait or 0) + 0.003)
    assert seen.executors.keys() == {"0", "1", "2"}
    assert sum(sum(e.instances.values()) for e in seen.executors.values()) == 7
    busy = sum((e.busy or 0) * e.slots for e in seen.executors.values())
    assert busy == pytest.approx(2 * 0.5 + 4 * 0.5, rel=0.05)
    assert seen.load == pytest.approx(busy / 12)
    latency = seen.latency["a->b"]
    served = 0.001 + 0.004 + (a.wait or 0) + (b.wait or 0)
    assert latency.mean == pytest.approx(served + 2 * 0.003, rel=0.03)  # two ways of 3 ms
    assert latency.p50 < latency.mean < latency.p95 < latency.p99
    assert seen.slot_seconds == 30 * 7


def test_more_instances_take_time_to_start_and_then_help(tmp_path: Path) -> None:
    plan = apart(("a", 1), executors=4)
    engine = started(
        chain("a"), plan, {"a": OperatorCost(Constant(0.002))}, "900/s", tmp_path, window=5.0
    )
    engine.advance(10)
    assert engine.observe().pipelines["a"].backlog_rows == pytest.approx(4000, rel=0.1)
    transition = engine.apply(plan.with_pipeline("a", parallelism=4))
    assert (transition.duration, transition.interruption) == (1.0, 0.0)
    assert transition.backlog_left == pytest.approx(4400, rel=0.1)
    assert not engine.observe().settled
    engine.advance(10)
    seen = engine.observe()
    assert seen.at == 21.0
    assert seen.settled
    assert seen.pipelines["a"].backlog_rows < 50
    assert seen.slot_seconds == 11 * 2 + 10 * 5


def test_new_executors_take_longer(tmp_path: Path) -> None:
    plan = apart(("a", 1), executors=1)
    engine = started(chain("a"), plan, {}, "10/s", tmp_path, nodes=2)
    engine.advance(1)
    more = apart(("a", 1), executors=2)
    times = Timing()  # and one of the instances moves there
    assert engine.apply(more).duration == times.executor_start + times.restart
    assert engine.observe().executors.keys() == {"0", "1"}
    with pytest.raises(Refused, match="has 3 executors and the simulated cluster 2"):
        engine.apply(apart(("a", 1), executors=3))


def test_state_that_moves_stops_its_pipeline(tmp_path: Path) -> None:
    keys = Keys(number=1000, bytes=200_000)  # 200 MB in all
    plan = apart(("count", 2), executors=2)
    engine = started(
        keyed(), plan, {"count": OperatorCost(Constant(0.0001), keys=keys)}, "2000/s", tmp_path
    )
    engine.advance(10)
    assert engine.observe().pipelines["count"].state_bytes == pytest.approx(200e6, rel=0.01)
    transition = engine.apply(plan.with_pipeline("count", parallelism=4))
    assert transition.keys_moved == pytest.approx(0.5, abs=0.05)
    assert transition.state_bytes_moved == pytest.approx(100e6, rel=0.1)
    assert transition.interruption == pytest.approx(1.0 + 0.5, rel=0.1)
    engine.advance(5)
    worst = engine.observe().latency["count->count"].p99
    assert 0.5 < worst < 2.0


def test_instances_and_executors_know_their_parts_of_the_keys(tmp_path: Path) -> None:
    plan = apart(("count", 3), executors=2)
    engine = started(keyed(), plan, {"count": OperatorCost(Constant(0.0001))}, "1000/s", tmp_path)
    engine.advance(5)
    seen = engine.observe()
    count = seen.pipelines["count"]
    assert [i.part for i in count.instances] == [0, 1, 2]
    assert count.hottest is not None
    assert count.hottest.parts == 3
    assert [i.part for i in seen.pipelines["in"].instances] == [None]
    found = {name: e.partitions for name, e in seen.executors.items()}
    assert sorted(p for held in found.values() for p in held.get("count", ())) == [0, 1, 2]
    for instance in count.instances:
        assert instance.part in found[instance.executor or ""]["count"]
    for one in seen.executors.values():
        assert {n: len(p) for n, p in one.partitions.items()} == one.state_parts


def test_which_of_many_parts_an_instance_has_is_not_said(tmp_path: Path) -> None:
    plan = apart(("count", 2)).with_pipeline("count", ceiling=6)
    engine = started(keyed(), plan, {}, "10/s", tmp_path)
    engine.advance(5)
    seen = engine.observe()
    assert [i.part for i in seen.pipelines["count"].instances] == [None, None]
    assert not any(one.partitions for one in seen.executors.values())


def test_behind_a_filter_the_times_between_records_are_not_known(tmp_path: Path) -> None:
    plan = Plan((Pipeline(("in",)), Pipeline(("a", "b", "c", "out"))), 1)
    steps = {"a": OperatorCost(Constant(0.0001)), "b": OperatorCost(Constant(0.0001), 0.5)}
    engine = started(chain("a", "b", "c"), plan, steps, "1000/s", tmp_path)
    engine.advance(10)
    seen = engine.observe()
    cv = seen.pipelines["a"].arrival_cv
    assert cv == pytest.approx(1.0, abs=0.1)
    found = {name: one.arrival_cv for name, one in seen.operators.items() if name != "in"}
    assert found == {"a": cv, "b": cv, "c": None, "out": None}


def test_operators_that_get_a_part_of_the_records_are_not_said_to_get_all(tmp_path: Path) -> None:
    flow = Dataflow("two")
    left = flow.source("left", Generator(nothing, "v string")).frame("a", nothing)
    right = flow.source("right", Generator(nothing, "v string")).frame("b", nothing)
    left.union("both", right).sink("out", Memory())
    plan = Plan((Pipeline(("left",)), Pipeline(("right",)), Pipeline(("a", "b", "both", "out"))), 1)
    engine = started(flow.graph, plan, {}, "1000/s", tmp_path)
    engine.advance(10)
    operators = engine.observe().operators
    assert operators["a"].arrival_cv is operators["b"].arrival_cv is None
    assert operators["both"].arrival_cv is not None


def test_skewed_keys_make_one_instance_the_hottest(tmp_path: Path) -> None:
    keys = Keys(number=10_000, skew=1.2)
    engine = started(
        keyed(),
        apart(("count", 8)),
        {"count": OperatorCost(Constant(0.001), keys=keys)},
        "1000/s",
        tmp_path,
    )
    engine.advance(20)
    found = engine.observe().pipelines["count"]
    shares = keys.shares(8)
    rows = [i.rows or 0 for i in found.instances]
    assert max(rows) / sum(rows) == pytest.approx(shares.max(), rel=0.05)
    assert found.skew is not None
    assert found.skew > 0.3


def test_more_busy_instances_than_cores_slow_each_other_down(tmp_path: Path) -> None:
    steps = {"a": OperatorCost(Constant(0.01))}
    alone = started(
        chain("a"), apart(("a", 8), executors=2), steps, "2000/s", tmp_path / "1", nodes=2
    )
    crowded = started(chain("a"), apart(("a", 8), executors=1), steps, "2000/s", tmp_path / "2")
    for engine in (alone, crowded):
        engine.advance(30)
    assert alone.observe().pipelines["a"].rate_in == pytest.approx(800, rel=0.02)
    assert crowded.observe().pipelines["a"].rate_in == pytest.approx(400, rel=0.1)


def test_interference_and_state_beyond_memory_cost_time(tmp_path: Path) -> None:
    steps = {"a": OperatorCost(Constant(0.01))}
    node = Machine(interference=0.1)
    engine = started(
        chain("a"), apart(("a", 4), executors=1), steps, "200/s", tmp_path / "1", node=node
    )
    engine.advance(30)
    assert engine.observe().pipelines["a"].service == pytest.approx(0.0112, rel=0.03)
    big = {"count": OperatorCost(Constant(0.0001), keys=Keys(1000, bytes=2e6))}
    engine = started(
        keyed(),
        apart(("count", 1)),
        big,
        "1000/s",
        tmp_path / "2",
        node=Machine(memory=1e9),
        window=1.0,
    )
    engine.advance(30)
    seen = engine.observe()
    assert seen.pipelines["count"].service == pytest.approx(0.0005, rel=0.01)
    assert seen.executors["0"].memory == 1.0


def test_gathering_delays_a_record_by_half_the_cadence(tmp_path: Path) -> None:
    plan = apart(("a", 4)).with_pipeline("a", cadence=0.1)
    engine = started(chain("a"), plan, {"a": OperatorCost(Constant(0.0001))}, "1000/s", tmp_path)
    engine.advance(20)
    found = engine.observe().pipelines["a"]
    assert found.batching == pytest.approx(0.05, rel=0.02)
    assert (found.wait or 0) - (found.batching or 0) < 0.003


def gathered(run_dir: Path, writers: int) -> SimulatorEngine:
    """Two instances that gather for 100 ms what so many write to them, and are 80 % busy."""
    plan = apart(("a", writers), ("b", 2)).with_pipeline("b", cadence=0.1)
    steps = {"b": OperatorCost(Constant(0.004))}
    options = {"window": 60.0, "dispatch": Dispatch.CHANCE}
    engine = started(chain("a", "b"), plan, steps, "400/s", run_dir, **options)
    engine.advance(60)
    return engine


@pytest.mark.parametrize(("writers", "least", "most"), [(1, 0.035, 0.06), (32, 0.006, 0.012)])
def test_each_channel_ships_on_its_own(
    writers: int, least: float, most: float, tmp_path: Path
) -> None:
    """Of one writer 20 records come at once, and wait for each other; of many about one at a time.

    These wait as if nothing had been gathered, 8 ms by Pollaczek and Khinchine.
    """
    seen = gathered(tmp_path, writers).observe()
    found = seen.pipelines["b"]
    assert found.batching == pytest.approx(0.05, rel=0.02)
    assert least < (found.wait or 0) - (found.batching or 0) < most
    assert seen.channels["a>b"].batching == pytest.approx(0.05, rel=0.02)
    assert seen.latency["a->b"].mean == pytest.approx((found.wait or 0) + 0.004, rel=0.02)


def test_what_is_gathered_is_gathered_once_when_others_write(tmp_path: Path) -> None:
    engine = gathered(tmp_path, 1)
    engine.apply(engine.plan.with_pipeline("a", parallelism=32))
    engine.advance(61)
    engine.apply(engine.plan.with_pipeline("b", cadence=0.0))
    engine.advance(80)
    engine.apply(engine.plan.with_pipeline("b", cadence=0.1))
    engine.advance(150)
    seen = engine.observe()
    assert seen.pipelines["b"].batching == pytest.approx(0.05, rel=0.02)
    assert seen.rows_delivered == pytest.approx(seen.rows_offered, abs=80)


def test_executors_say_what_of_their_time_was_on_a_processor(tmp_path: Path) -> None:
    steps = {"a": OperatorCost(Constant(0.004), cpu=0.1)}
    plan = apart(("a", 2), executors=1)
    for batch in (None, BATCH):
        engine = started(
            chain("a"), plan, steps, "400/s", tmp_path / str(batch), batch=batch, window=10.0,
            node=Machine(cores=4, processors=2.0),
        )  # fmt: skip
        engine.advance(20)
        one = engine.observe().executors["0"]
        assert one.busy is not None
        assert one.cpu is not None
        if batch is None:
            assert one.busy == pytest.approx(400 * 0.004 / 4, rel=0.05)
            assert one.cpu == pytest.approx(0.1 * one.busy)
        else:  # and what a batch costs beside its records
            assert 400 * 0.0004 / 4 < one.cpu < 0.5 * one.busy


def test_state_is_in_memory_and_spills_in_batches_too(tmp_path: Path) -> None:
    steps = {"count": OperatorCost(Constant(0.001), keys=Keys(1000, bytes=1e6))}
    found = []
    for memory in (4e9, 0.5e9):
        engine = started(
            keyed(), apart(("count", 1)), steps, "200/s", tmp_path / str(memory), batch=BATCH,
            node=Machine(memory=memory, processors=4.0), window=5.0,
        )  # fmt: skip
        engine.advance(60)
        found.append(engine.observe())
    assert found[0].executors["0"].memory == pytest.approx(0.25, rel=0.01)
    assert found[1].executors["0"].memory == 1.0
    first, second = (seen.pipelines["count"].service or 0 for seen in found)
    assert second == pytest.approx(Machine().spill * first, rel=0.05)


def test_channels_are_edges_and_say_what_waits_on_each(tmp_path: Path) -> None:
    flow = Dataflow("two")
    left = flow.source("left", Generator(nothing, "v string")).frame("a", nothing)
    right = flow.source("right", Generator(nothing, "v string")).frame("b", nothing)
    left.union("both", right).frame("c", nothing).sink("out", Memory())
    plan = Plan(
        (Pipeline(("left", "a")), Pipeline(("right", "b")), Pipeline(("both", "c", "out"), 2)), 4
    )
    for batch in (None, BATCH):
        model = Model(
            {"b": OperatorCost(selectivity=3.0), "c": OperatorCost(Constant(0.001))},
            nodes=4, queue=None, batch=batch, delay=0.01, arrivals=Deterministic(),
        )  # fmt: skip
        engine = SimulatorEngine(model, load="200/s", window=5.0)
        engine.start(flow.graph, plan.with_pipeline("both", cadence=1.0), tmp_path / str(batch))
        engine.advance(20.7)
        seen = engine.observe()
        one, other = (seen.channels[name] for name in ("a>both", "b>both"))
        assert seen.channels.keys() == {"a>both", "b>both"}
        assert (one.writer, one.reader, other.writer) == ("a", "both", "b")
        whole = seen.pipelines["both"]
        assert (one.backlog_rows or 0) + (other.backlog_rows or 0) == whole.backlog_rows
        assert (other.backlog_rows or 0) == pytest.approx(3 * (one.backlog_rows or 0), rel=0.3)
        assert one.backlog_seconds == pytest.approx(other.backlog_seconds, rel=0.3)
        waits = [(c.latency or 0, c.batching or 0) for c in (one, other)]
        assert whole.wait == pytest.approx((waits[0][0] + 3 * waits[1][0]) / 4 - 0.01, rel=0.05)
        assert all(latency > batching > 0 for latency, batching in waits)
