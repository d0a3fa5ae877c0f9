"""Changes while records flow: who is touched, what it costs, and what comes out."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock import Dataflow, Memory, Pipeline, Plan
from penstock.engines.spark.engine import SparkEngine
from penstock.errors import Refused
from penstock.plan.transition import Transition
from tests.engines.spark.flows import record, source, until
from tests.engines.spark.test_operators import POSITIONS, Position
from tests.processes import command, descendants

pytestmark = pytest.mark.spark

N = 7_000

Start = Callable[..., SparkEngine]


@pytest.fixture
def start(spark: Any, tmp_path: Path) -> Iterator[Start]:
    """Starts an engine that is stopped whatever happens."""
    engines: list[SparkEngine] = []

    def starting(flow: Dataflow, plan: Plan, **options: Any) -> SparkEngine:
        engines.append(SparkEngine(spark=spark, **options))
        engines[-1].start(flow.graph, plan, tmp_path / "run")
        return engines[-1]

    yield starting
    for engine in engines:
        engine.stop(drain=False)


def branches(limit: int | None = N) -> tuple[Dataflow, Plan]:
    """Two keyed branches behind one source, each a pipeline of its own."""
    flow = Dataflow("branches")
    rows = source(flow, limit=limit, load="800/s")
    for name in ("one", "two"):
        rows.key_by("key").aggregate(name, n="count(*)").sink(f"{name}-out", Memory())
    plan = Plan(
        (
            Pipeline(("numbers",)),
            Pipeline(("one", "one-out"), 1, ceiling=2),
            Pipeline(("two", "two-out"), 1, ceiling=2),
        )
    )
    return flow, plan


def counts(engine: SparkEngine, sink: str) -> dict[str, int]:
    return {row.key: row.n for row in engine.rows(sink)}


def expected(rows: int) -> dict[str, int]:
    return dict(Counter(record(i)["key"] for i in range(rows)))


EXPECTED = expected(N)


def finish(engine: SparkEngine, rows: int = N) -> None:
    until(lambda: engine.observe().rows_ingested >= rows, "all records to be taken in", 120)
    engine.stop()
    assert engine.failure is None


def settled(engine: SparkEngine) -> Transition:
    until(lambda: engine.transitions()[-1].settled, "the change to settle")
    return engine.transitions()[-1]


@pytest.mark.parametrize("shadow", [True, False])
def test_a_moved_ceiling_is_measured_exact_and_leaves_its_neighbours_alone(
    start: Start, shadow: bool
) -> None:
    flow, plan = branches(None)  # records come as long as the change takes
    engine = start(flow, plan, make_before_break=shadow)
    outputs_of = engine.observer.outputs
    until(lambda: all(len(outputs_of.get(n, ())) > 3 for n in ("one", "two")), "some batches")
    query = engine.pipelines["two"].query.runId
    outputs = len(engine.observer.outputs["two"])
    engine.apply(plan.with_pipeline("one", ceiling=5))
    assert len(engine.observer.outputs["two"]) > outputs  # its batches went on meanwhile
    assert engine.pipelines["two"].query.runId == query
    found = settled(engine)
    names = [name for name, _ in found.phases]
    assert names == (
        ["prepare", "quiesce", "hand over", "catch-up"]
        if shadow
        else ["quiesce", "repartition", "restart", "catch-up"]
    )
    assert found.changes == ("one: ceiling 2 -> 5",)
    assert found.state_rows_moved == 10
    assert found.keys_moved == 0.0  # one instance before, one after
    assert found.rows_replayed == 0
    assert found.backlog_left is not None
    assert 0 < found.interruption <= found.duration + 30
    assert found.sink_gap is not None
    assert found.usual_gap is not None
    engine.stop()
    assert engine.failure is None
    right = expected(engine.ingested()["numbers"])
    assert counts(engine, "one-out") == counts(engine, "two-out") == right


def test_a_change_that_moves_nothing_says_so(start: Start) -> None:
    flow, plan = branches()
    engine = start(flow, plan)
    until(lambda: len(engine.observer.outputs.get("one", ())) > 3, "some batches")
    engine.apply(plan.with_pipeline("one", parallelism=2))
    found = settled(engine)
    assert [name for name, _ in found.phases] == ["catch-up"]
    assert found.state_rows_moved == 0
    assert found.keys_moved == 0.5
    finish(engine)
    assert counts(engine, "one-out") == EXPECTED


def test_letters_are_kept_once_though_a_successor_reads_the_same_records(
    start: Start, tmp_path: Path
) -> None:
    def fussy(r: dict[str, Any]) -> dict[str, Any]:
        if r["id"] % 100 == 0:
            raise ValueError("no hundreds")
        return {"key": r["key"]}

    flow = Dataflow("letters")
    kept = source(flow, limit=N, load="800/s").map("fussy", fussy, schema="key string")
    kept.key_by("key").aggregate("count", n="count(*)").sink("out", Memory())
    plan = Plan((Pipeline(("numbers", "fussy", "count", "out"), 2, ceiling=2),))
    engine = start(flow, plan)
    until(lambda: engine.observe().rows_ingested > 500, "some records")
    engine.apply(plan.with_pipeline("count", ceiling=3))
    finish(engine)
    expected = Counter(record(i)["key"] for i in range(N) if i % 100 != 0)
    assert counts(engine, "out") == dict(expected)
    assert engine.observe().rows_dead == N // 100
    letters = [
        line
        for file in (tmp_path / "run" / "dead").rglob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert len(letters) == N // 100
    states = [f.name for f in (tmp_path / "run" / "checkpoints").iterdir()]
    assert len([name for name in states if name.startswith("state-")]) == 1


def test_windows_move_without_a_successor_and_stay_exact(start: Start) -> None:
    flow = Dataflow("windows")
    rows = source(flow, limit=N, load="800/s")
    windows = rows.key_by("key").window("20s", on="ts", watermark="5s")
    windows.aggregate("windows", n="count(*)").sink("out", Memory())
    plan = Plan((Pipeline(("numbers", "windows", "out"), 2, ceiling=2),))
    engine = start(flow, plan)
    for ceiling, rows_in in ((4, 1500), (3, 3500)):
        until(lambda n=rows_in: engine.observe().rows_ingested > n, "some records")
        made = engine.apply(engine.plan.with_pipeline("windows", ceiling=ceiling))
        assert "prepare" not in dict(made.phases)
    finish(engine)
    got: Counter[Any] = Counter()
    for row in engine.rows("out"):
        got[(int(row.window.start.timestamp()) // 20, row.key)] = row.n
    assert got == Counter((i // 10 // 20, record(i)["key"]) for i in range(N))


def test_a_pipeline_that_dies_is_restarted_alone(start: Start) -> None:
    flow, plan = branches()
    engine = start(flow, plan)
    until(lambda: engine.observe().rows_ingested > 1000, "some records")
    before = {name: p.query.runId for name, p in engine.pipelines.items()}
    engine.pipelines["one"].query.stop()  # nobody asked for this

    def again() -> bool:
        query = engine.pipelines["one"].query
        return query is not None and query.runId != before["one"]

    until(again, "a restart")
    finish(engine)
    events = [(event.kind, event.pipeline) for event in engine.take_events()]
    assert events == [("restart", "one"), ("recovered", "one")]
    assert engine.take_events() == ()
    assert counts(engine, "one-out") == counts(engine, "two-out") == EXPECTED
    after = {name: p.query.runId for name, p in engine.pipelines.items()}
    assert {n for n in before if before[n] != after[n]} == {"one"}


def test_python_workers_that_are_killed_lose_nothing(start: Start) -> None:
    flow, plan = branches()
    engine = start(flow, plan)
    for goal in (1000, 3000):
        until(lambda g=goal: engine.observe().rows_ingested > g, "some records")
        workers = [p for p in descendants(os.getpid()) if "pyspark.daemon" in command(p)]
        os.kill(workers[-1], signal.SIGKILL)
    finish(engine)
    assert counts(engine, "one-out") == counts(engine, "two-out") == EXPECTED


def test_executors_cannot_be_changed_on_one_machine(start: Start) -> None:
    flow, plan = branches()
    engine = start(flow, plan)
    with pytest.raises(Refused, match="a local master is one executor, 2 are wanted"):
        engine.apply(Plan(plan.pipelines, executors=2))
    assert engine.plan == plan


def test_moved_state_outlives_its_old_place_and_the_run_directory_may_be_moved_too(
    spark: Any, tmp_path: Path
) -> None:
    """Spark notes the full path of a processor's schemas; neither a copy nor a move may mind."""
    flow = Dataflow("positions")
    keyed = source(flow, limit=N, load="800/s").key_by("key")
    positions = keyed.process("position", Position, schema=POSITIONS)
    positions.sink("out", Memory())
    pipeline = Pipeline(("numbers", "position", "out"), 1, ceiling=2)
    before, after = SparkEngine(spark=spark), SparkEngine(spark=spark)
    before.start(flow.graph, Plan((pipeline,)), tmp_path / "here")
    try:
        until(lambda: before.observe().rows_ingested > 500, "state")
        before.apply(Plan((replace(pipeline, ceiling=4),)))
        until(lambda: before.observe().rows_ingested > 2000, "more state")
    finally:
        before.stop(drain=False)
    shutil.move(tmp_path / "here", tmp_path / "there")
    after.start(flow.graph, None, tmp_path / "there")
    try:
        finish(after)
    finally:
        after.stop(drain=False)
    seen = [(row.key, row.n) for engine in (before, after) for row in engine.rows("out")]
    assert sorted(set(seen)) == sorted((k, n + 1) for k in EXPECTED for n in range(EXPECTED[k]))
