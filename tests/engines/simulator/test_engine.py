"""What a plan, a machine and a failure do to a simulated flow, and what a snapshot says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.failure import Failure
from penstock.engines.simulator.model import Dispatch, Keys, MicroBatch, Node, Step, Timing
from penstock.engines.simulator.service import Constant, Exponential
from penstock.errors import Refused
from penstock.metrics.derived import queue, utilisation

from .flows import apart, chain, keyed, started


def test_a_snapshot_says_everything_that_policies_ask_for(tmp_path: Path) -> None:
    engine = started(
        chain("a", "b"),
        apart(("a", 2), ("b", 4), executors=3),
        {"a": Step(Constant(0.001), 0.5), "b": Step(Exponential(0.004))},
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
    engine = started(chain("a"), plan, {"a": Step(Constant(0.002))}, "900/s", tmp_path, window=5.0)
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
    assert engine.apply(more).duration == Timing().executor_start
    assert engine.observe().executors.keys() == {"0", "1"}
    with pytest.raises(Refused, match="wants 3 executors and the simulated cluster has 2"):
        engine.apply(apart(("a", 1), executors=3))


def test_state_that_moves_stops_its_pipeline(tmp_path: Path) -> None:
    keys = Keys(number=1000, bytes=200_000)  # 200 MB in all
    plan = apart(("count", 2), executors=2)
    engine = started(
        keyed(), plan, {"count": Step(Constant(0.0001), keys=keys)}, "2000/s", tmp_path
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


def test_skewed_keys_make_one_instance_the_hottest(tmp_path: Path) -> None:
    keys = Keys(number=10_000, skew=1.2)
    engine = started(
        keyed(),
        apart(("count", 8)),
        {"count": Step(Constant(0.001), keys=keys)},
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
    steps = {"a": Step(Constant(0.01))}
    alone = started(
        chain("a"), apart(("a", 8), executors=2), steps, "2000/s", tmp_path / "1", nodes=2
    )
    crowded = started(chain("a"), apart(("a", 8), executors=1), steps, "2000/s", tmp_path / "2")
    for engine in (alone, crowded):
        engine.advance(30)
    assert alone.observe().pipelines["a"].rate_in == pytest.approx(800, rel=0.02)
    assert crowded.observe().pipelines["a"].rate_in == pytest.approx(400, rel=0.1)


def test_interference_and_state_beyond_memory_cost_time(tmp_path: Path) -> None:
    steps = {"a": Step(Constant(0.01))}
    node = Node(interference=0.1)
    engine = started(
        chain("a"), apart(("a", 4), executors=1), steps, "200/s", tmp_path / "1", node=node
    )
    engine.advance(30)
    assert engine.observe().pipelines["a"].service == pytest.approx(0.0112, rel=0.03)
    big = {"count": Step(Constant(0.0001), keys=Keys(1000, bytes=2e6))}
    engine = started(
        keyed(),
        apart(("count", 1)),
        big,
        "1000/s",
        tmp_path / "2",
        node=Node(memory=1e9),
        window=1.0,
    )
    engine.advance(30)
    seen = engine.observe()
    assert seen.pipelines["count"].service == pytest.approx(0.0005, rel=0.01)
    assert seen.executors["0"].memory == 1.0


def test_gathering_delays_a_record_by_half_the_cadence(tmp_path: Path) -> None:
    plan = apart(("a", 4)).with_pipeline("a", cadence=0.1)
    engine = started(chain("a"), plan, {"a": Step(Constant(0.0001))}, "1000/s", tmp_path)
    engine.advance(20)
    found = engine.observe().pipelines["a"]
    assert found.batching == pytest.approx(0.05, rel=0.02)
    assert (found.wait or 0) - (found.batching or 0) < 0.003


def test_an_executor_that_fails_is_missed_and_its_records_are_done_again(tmp_path: Path) -> None:
    engine = started(
        chain("a"),
        apart(("a", 4), executors=4),
        {"a": Step(Constant(0.003))},
        "1000/s",
        tmp_path,
        options={"failures": [Failure(5.2, executor="1")], "step": 0.25},
        window=0.5,
    )
    engine.advance(4.9)
    assert engine.observe().pipelines["a"].backlog_rows < 20
    engine.advance(2.0)
    assert engine.observe().pipelines["a"].backlog_rows > 400
    engine.advance(10)
    assert engine.observe().pipelines["a"].backlog_rows < 20
    assert engine.rows_replayed == 1
    engine.stop()
    seen = engine.observe()
    assert seen.rows_delivered == seen.rows_ingested


BATCH = MicroBatch(planning=0.05, log=0.02, commit=0.03, partition=0.01, task=0.02)


def batched(run_dir: Path, load: str, cadence: float = 0.0, **options: object) -> SimulatorEngine:
    plan = apart(("a", 4), executors=1).with_pipeline("a", cadence=cadence)
    return started(
        chain("a"), plan, {"a": Step(Constant(0.001))}, load, run_dir, batch=BATCH, **options
    )


def test_a_batch_takes_its_fixed_costs_and_the_longest_task(tmp_path: Path) -> None:
    engine = batched(tmp_path, "400/s", cadence=1.0)
    engine.advance(60)
    found = engine.observe().pipelines["a"]
    assert found.batches == pytest.approx(60, abs=2)
    # 400 records over 4 tasks of 1 ms each
    assert found.batch_seconds == pytest.approx(
        0.05 + 0.02 + 0.03 + 4 * 0.01 + 0.02 + 0.1, rel=0.03
    )
    assert found.parts["work"] == pytest.approx(0.16, rel=0.04)
    assert found.busy == pytest.approx(0.26, rel=0.04)
    # 0.74 s for a record that comes while a batch runs, half of it for one that comes after
    assert found.batching == pytest.approx(0.26 * 0.74 + 0.74 * 0.37, rel=0.03)


def test_batches_grow_until_they_keep_up_or_cannot(tmp_path: Path) -> None:
    # a batch of n records takes 0.16 s + n / 4000 s, so at 2000/s it holds 0.32 s of records
    engine = batched(tmp_path / "1", "2000/s")
    engine.advance(60)
    found = engine.observe().pipelines["a"]
    assert found.batch_seconds == pytest.approx(0.32, rel=0.05)
    assert found.rate_in == pytest.approx(2000, rel=0.02)
    engine = batched(tmp_path / "2", "5000/s", queue=2000)
    engine.advance(60)
    seen = engine.observe()
    assert seen.throughput < 4000
    assert seen.pipelines["a"].backlog_rows < 4 * 2000 * 2
    assert seen.pipelines["in"].backlog_rows > 50_000


def test_more_tasks_than_slots_run_in_waves(tmp_path: Path) -> None:
    plan = apart(("a", 6), executors=1).with_pipeline("a", cadence=1.0)
    engine = started(chain("a"), plan, {"a": Step(Constant(0.001))}, "600/s", tmp_path, batch=BATCH)
    engine.advance(20)
    found = engine.observe().pipelines["a"]
    # six tasks of 0.1 s on four slots are two waves
    assert found.parts["work"] == pytest.approx(6 * 0.01 + 2 * 0.12, rel=0.1)
