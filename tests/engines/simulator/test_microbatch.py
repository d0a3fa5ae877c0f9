"""What batches share, and when what is done when: as Spark does it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.engines.simulator.arrivals import Deterministic
from penstock.engines.simulator.batch_time import task_shares
from penstock.engines.simulator.distributions import Constant
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Keys, Machine, MicroBatch, OperatorCost
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan.plan import Pipeline, Plan

from .flows import chain, keyed, started

BATCH = MicroBatch(planning=0.02, log=0.01, commit=0.05, partition=0.0, task=0.02, job=0.1)


def run(
    run_dir: Path,
    steps: dict[str, OperatorCost],
    *pipelines: Pipeline,
    load: str = "100/s",
    batch: MicroBatch = BATCH,
    seed: int = 1,
    **model: Any,
) -> Snapshot:
    """One minute of a chain of `a` and `b`."""
    engine = started(
        chain("a", "b"),
        Plan(pipelines),
        steps,
        load,
        run_dir,
        seed=seed,
        batch=batch,
        arrivals=Deterministic(),
        **{"node": Machine(cores=8), **model},
    )
    engine.advance(60)
    return engine.observe()


def fused(parallelism: int = 1, cadence: float = 1.0, admission: int | None = None) -> Pipeline:
    return Pipeline(("in", "a", "b", "out"), parallelism, admission, cadence)


def latency(seen: Snapshot) -> float:
    return seen.latency["a->b"].mean


def test_the_output_is_there_before_the_commit(tmp_path: Path) -> None:
    steps = {"a": OperatorCost(Constant(0.001))}
    short = run(tmp_path / "1", steps, fused())
    long = run(
        tmp_path / "2", steps, fused(), batch=MicroBatch(0.02, 0.01, 0.35, 0.0, 0.02, job=0.1)
    )
    assert latency(long) == pytest.approx(latency(short), rel=1e-6)
    # half a second to wait, then planning, log, job, task and 100 ms of work
    assert latency(short) == pytest.approx(0.5 + 0.02 + 0.01 + 0.1 + 0.02 + 0.1, rel=0.02)
    found = [one.pipelines["in"].batch_seconds or 0.0 for one in (short, long)]
    assert found[1] - found[0] == pytest.approx(0.3, rel=0.01)


def test_a_beat_that_finds_nothing_is_made_up_for_when_something_comes(tmp_path: Path) -> None:
    first = Pipeline(("in", "a"), 1, cadence=1.0)
    second = Pipeline(("b", "out"), 1, cadence=1.0)
    seen = run(tmp_path, {}, first, second)
    assert seen.pipelines["in"].batches == pytest.approx(60, abs=1)
    assert seen.pipelines["b"].batches == pytest.approx(60, abs=1)
    assert seen.pipelines["b"].wait == pytest.approx(0.0, abs=0.01)
    assert latency(seen) == pytest.approx(0.5 + 0.15 + 0.15, rel=0.02)


def test_a_batch_longer_than_a_window_keeps_its_pipeline_at_work(tmp_path: Path) -> None:
    engine = started(
        chain("a", "b"),
        Plan((Pipeline(("in", "a", "b", "out"), 1),)),
        {"a": OperatorCost(Constant(0.03))},
        "100/s",
        tmp_path,
        batch=BATCH,
        arrivals=Deterministic(),
    )
    engine.advance(5)
    for _ in range(60):
        engine.advance(1)
        assert engine.observe().pipelines["in"].busy == pytest.approx(1.0, abs=0.01)


def test_a_cadence_is_a_beat_and_not_a_pause(tmp_path: Path) -> None:
    steps = {"a": OperatorCost(Constant(0.003))}  # batches of 0.15 s and 0.3 s a beat of 1 s
    found = run(tmp_path, steps, fused()).pipelines["in"]
    assert found.batches == pytest.approx(60, abs=1)


def test_tasks_of_all_pipelines_share_the_slots(tmp_path: Path) -> None:
    steps = {"a": OperatorCost(Constant(0.01), cpu=0.0), "b": OperatorCost(Constant(0.02), cpu=0.0)}
    plan = (Pipeline(("in", "a"), 4), Pipeline(("b", "out"), 4))
    roomy = run(tmp_path / "1", steps, *plan, node=Machine(cores=8))
    tight = run(tmp_path / "2", steps, *plan, node=Machine(cores=4))
    for name, service in (("in", 0.01), ("b", 0.02)):
        found = roomy.pipelines[name]
        rows = found.rows_in / found.batches
        assert _work(found) == pytest.approx(0.1 + 0.02 + service * rows / 4, rel=0.1)
    assert tight.pipelines["b"].rate_in == pytest.approx(100, rel=0.05)
    assert latency(tight) > 1.1 * latency(roomy)  # they wait for each other's tasks


def _work(metrics: PipelineMetrics) -> float:
    return metrics.parts["work"]


def test_work_shares_processors_and_waiting_does_not(tmp_path: Path) -> None:
    node = Machine(cores=4, processors=2.0)
    # 100 rows of 10 ms in 4 tasks are 0.25 s each, on half a processor 0.5 s
    for cpu, expected in ((1.0, 0.5), (0.0, 0.25)):
        steps = {"a": OperatorCost(Constant(0.01), cpu=cpu)}
        seen = run(tmp_path / str(cpu), steps, fused(4), node=node)
        found = _work(seen.pipelines["in"])
        assert found == pytest.approx(0.1 + 2 * 0.02 + expected, rel=0.02)
        assert seen.operators["a"].service == pytest.approx(expected / 25, rel=0.01)
        assert seen.operators["a"].cpu == pytest.approx(0.5 if cpu else 0.0, rel=1e-3)


def test_a_batch_without_admission_is_cut_to_the_pace(tmp_path: Path) -> None:
    steps = {"a": OperatorCost(Constant(0.01))}
    batch = MicroBatch(0.02, 0.01, 0.05, 0.0, 0.02, job=0.1, pace=2.0)
    for admission, expected in ((None, 400), (700, 700)):  # two instances for 2 s, or as told
        plan = fused(2, 0.0, admission)
        folder = tmp_path / str(admission)
        found = run(folder, steps, plan, batch=batch, load="500/s", window=20.0).pipelines["in"]
        assert found.rows_out == found.rows_in
        assert found.rows_in % expected == 0
        assert found.batch_seconds == pytest.approx(0.2 + expected / 2 * 0.01, rel=0.01)


@pytest.mark.parametrize(("channel", "seconds"), [(None, 1.2), (101, 1.2), (100, 2.4)])
def test_a_writer_waits_until_the_reader_of_a_full_channel_is_through(
    tmp_path: Path, channel: int | None, seconds: float
) -> None:
    steps = {"a": OperatorCost(Constant(0.01), cpu=0.0), "b": OperatorCost(Constant(0.01), cpu=0.0)}
    plan = (Pipeline(("in", "a"), 1, 100), Pipeline(("b", "out"), 1, 100))
    batch = replace(BATCH, channel=channel)
    seen = run(tmp_path, steps, *plan, batch=batch, load="1000/s", window=40.0)
    # batches of 1.2 s, at the same time or in turn
    assert seen.pipelines["b"].rate_in == pytest.approx(100 / seconds, rel=0.05)
    assert seen.pipelines["b"].batch_seconds == pytest.approx(1.2, rel=0.01)


def test_a_batch_that_waits_for_room_has_what_was_there_when_it_began_to(tmp_path: Path) -> None:
    steps = {"a": OperatorCost(Constant(0.0)), "b": OperatorCost(Constant(0.01), cpu=0.0)}
    plan = (Pipeline(("in", "a"), 1), Pipeline(("b", "out"), 1))
    seen = run(tmp_path, steps, *plan, batch=replace(BATCH, channel=1), load="100/s", window=40.0)
    writer, reader = seen.pipelines["in"], seen.pipelines["b"]
    assert writer.batches == pytest.approx(reader.batches, abs=1)
    # what comes while a batch of the reader runs is left for the batch after the next
    assert writer.wait > reader.batch_seconds


def test_pieces_of_inputs_are_put_together_until_each_task_has_some() -> None:
    assert task_shares(3, [1.0]).tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert task_shares(1, [1.0, 3.0]).tolist() == [1.0]
    assert task_shares(3, [5.0] * 4).tolist() == [0.25, 0.25, 0.5]
    assert task_shares(3, [3.0, 1.0]).tolist() == [0.375, 0.375, 0.25]


def test_keys_of_a_batch_are_paid_for_once_each(tmp_path: Path) -> None:
    step = OperatorCost(Constant(0.0), keys=Keys(10), touch=0.01)
    engine = started(
        keyed(),
        Plan((Pipeline(("in", "count", "out"), 2, cadence=1.0),)),
        {"count": step},
        "1000/s",
        tmp_path,
        batch=BATCH,
        node=Machine(cores=8),
    )
    engine.advance(30)
    # ten keys of 10 ms over two tasks, and two stages of tasks
    found = engine.observe().pipelines["in"]
    assert _work(found) == pytest.approx(0.1 + 2 * 0.02 + 0.05, rel=0.02)


def test_chance_in_batches_is_that_of_the_seed(tmp_path: Path) -> None:
    batch = MicroBatch(0.02, 0.01, 0.05, 0.0, 0.02, job=0.1, jitter=0.3, poll=0.02)
    steps = {"a": OperatorCost(Constant(0.001))}
    plan = (Pipeline(("in", "a"), 2), Pipeline(("b", "out"), 2))
    once, again, other = (
        run(tmp_path / str(at), steps, *plan, batch=batch, seed=seed)
        for at, seed in enumerate((1, 1, 2))
    )
    assert once == again
    assert latency(other) != latency(once)
    assert latency(other) == pytest.approx(latency(once), rel=0.1)


def test_a_batch_engine_needs_no_more_calls_for_many_small_advances(tmp_path: Path) -> None:
    steps = {"a": OperatorCost(Constant(0.001))}
    engines: list[SimulatorEngine] = []
    for at, step in enumerate((60.0, 0.25)):
        engine = started(
            chain("a", "b"),
            Plan((fused(2, 0.0),)),
            steps,
            "100/s",
            tmp_path / str(at),
            batch=BATCH,
            arrivals=Deterministic(),
        )
        for _ in range(round(60 / step)):
            engine.advance(step)
        engines.append(engine)
    assert engines[0].observe() == engines[1].observe()
