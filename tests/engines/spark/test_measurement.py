"""What snapshots say beside what is known to be true."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock import Dataflow, ForeachBatch, Generator, Memory, Pipeline, Plan
from penstock.engines.spark.engine import SparkEngine
from penstock.metrics.snapshot import ExecutorMetrics, KeyRange, Snapshot
from penstock.metrics.windows import summary
from tests.engines.spark.flows import SCHEMA, source, until
from tests.engines.spark.test_operators import POSITIONS, Position

pytestmark = pytest.mark.spark

TIMED = "id bigint, key string, loop double, nap double"


def looping(record: dict[str, Any]) -> dict[str, Any]:
    """Keeps a processor busy, and notes for how long."""
    began = time.perf_counter()
    while time.perf_counter() < began + 0.001:
        pass
    spent = time.perf_counter() - began
    return {"id": record["id"], "key": record["key"], "loop": spent, "nap": None}


def napping(record: dict[str, Any]) -> dict[str, Any]:
    began = time.perf_counter()
    time.sleep(0.002)
    return {**record, "nap": time.perf_counter() - began}


@pytest.fixture
def start(spark: Any, tmp_path: Path) -> Iterator[Callable[..., SparkEngine]]:
    engines: list[SparkEngine] = []

    def starting(flow: Dataflow, plan: Plan | None = None, **options: Any) -> SparkEngine:
        engines.append(SparkEngine(spark=spark, **options))
        engines[-1].start(flow.graph, plan, tmp_path / "run")
        return engines[-1]

    yield starting
    for engine in engines:
        engine.stop(drain=False)


def settled(engine: SparkEngine, also: Callable[[Snapshot], bool] = lambda s: True) -> Snapshot:
    """The first snapshot that shows nothing but the plan in force."""
    last: list[Snapshot] = []

    def good() -> bool:
        time.sleep(0.2)  # as often as a control loop looks, or a little more often
        last[:] = [engine.observe()]
        return last[0].settled and also(last[0])

    until(good, "a settled snapshot", 90)
    return last[0]


def over(engine: SparkEngine, seconds: float) -> Snapshot:
    """What is measured for so long, in windows that do not overlap."""
    seen = [engine.observe()]
    while seen[-1].at < seen[0].at + seconds:
        time.sleep(0.5)
        seen.append(engine.observe())
    found = summary(seen)
    assert found is not None
    return found


def test_operators_inside_a_pipeline_are_measured_one_by_one(
    start: Callable[..., SparkEngine],
) -> None:
    flow = Dataflow("known")
    rows = source(flow, limit=None, load="150/s")
    halved = rows.filter("half", lambda r: r["id"] % 2 == 0)
    looped = halved.map("loop", looping, schema=TIMED).map("nap", napping, schema=TIMED)
    looped.frame("same", lambda df: df.selectExpr("id", "loop", "nap")).sink("out", Memory())
    engine = start(flow, window=3.0)
    seen = settled(engine, lambda s: s.operators["same"].service is not None)
    operators = seen.operators
    whole = over(engine, 12.0)
    engine.stop()
    came = whole.operators["numbers"].rate_in or 0.0
    assert came == pytest.approx(150.0, rel=0.1)  # a busy machine may be behind for a while
    shares = {"half": 1.0, "loop": 0.5, "nap": 0.5, "same": 0.5}
    found = {name: (whole.operators[name].rate_in or 0.0) / came for name in shares}
    assert found == pytest.approx(shares, rel=0.02)
    assert whole.throughput == pytest.approx(came, rel=0.02)
    looped, napped = operators["loop"].cpu, operators["nap"].cpu
    assert looped is not None
    assert napped is not None
    assert looped > 3 * napped  # how near to 1 depends on who else is at work on the machine
    assert operators["half"].arrival_cv is not None
    assert operators["nap"].arrival_cv is None  # behind a filter nobody knows when rows come
    last, rows_in = seen.rows_ingested, seen.pipelines["numbers"].rows_in
    out = [row for row in engine.rows("out") if last - rows_in <= row.id < last]
    for name in ("loop", "nap"):
        truth = float(np.mean([getattr(row, name) for row in out]))
        assert operators[name].measured
        assert operators[name].service == pytest.approx(truth, rel=0.1)
        assert operators[name].rows_in == pytest.approx(len(out), rel=0.02)
    rate = operators["numbers"].rate_out
    assert operators["half"].rate_in == pytest.approx(rate, rel=0.02)
    assert operators["half"].selectivity == pytest.approx(0.5, rel=0.02)
    assert operators["same"].rate_in == pytest.approx(rate / 2, rel=0.02)
    assert not operators["same"].measured
    pipeline = seen.pipelines["numbers"]
    assert pipeline.service is not None
    inside = (operators["loop"].service or 0) + (operators["nap"].service or 0)
    assert pipeline.service > inside / 2  # of the rows that come in, half go through these two
    assert sum(pipeline.parts.values()) == pytest.approx(pipeline.batch_seconds, rel=0.05)
    assert pipeline.arrival_rate == pytest.approx(150, rel=0.05)
    (executor,) = seen.executors.values()
    assert 0 < (executor.busy or 0) <= 1
    assert executor.instances == {"numbers": pipeline.parallelism}


def skewed(rng: Any, index: Any, at: Any) -> Mapping[str, Any]:
    """Four records of five have one key."""
    hot = rng.random(len(index)) < 0.8
    keys = np.where(hot, "hot", [f"k{i % 100}" for i in index])
    return {"id": index, "key": list(keys), "amount": index % 7, "ts": index / 10}


@pytest.mark.parametrize("hot", [False, True])
def test_skew_is_seen(spark: Any, start: Callable[..., SparkEngine], hot: bool) -> None:
    flow = Dataflow("skew")
    if hot:
        rows = flow.source("numbers", Generator(skewed, SCHEMA, load="1500/s", block=100))
    else:
        rows = source(flow, limit=None, load="1500/s").frame(
            "spread", lambda df: df.withColumn("key", df.id.cast("string"))
        )
    places = rows.key_by("key").process("position", Position, schema=POSITIONS)
    if hot:  # operators behind state are tried and counted too
        places = places.frame("behind", lambda df: df.where("id % 4 = 0"))
    places.sink("out", Memory())
    engine = start(flow, window=3.0)
    seen = settled(engine, lambda s: not hot or s.operators["behind"].service is not None)
    pipeline = seen.pipelines["numbers"]
    if hot:
        counted = seen.operators["behind"].rows_in
        assert counted == pytest.approx(seen.operators["position"].rows_in, rel=0.1)
    assert len(pipeline.instances) == 2
    assert pipeline.skew is not None
    assert pipeline.hottest is not None
    (executor,) = seen.executors.values()
    assert executor.partitions == {"numbers": (0, 1)}
    if hot:
        assert pipeline.skew > 0.5
        (part,) = spark.sql("SELECT pmod(hash('hot'), 2)").first()
        share = pytest.approx(0.9, abs=0.09)  # four of five rows, and its part of the others
        assert pipeline.hottest == KeyRange(part, 2, share)
    else:
        assert pipeline.skew < 0.15
        assert pipeline.hottest.share < 0.6


LOOPS, ROWS = 4400, 6800


def first_works_then_waits(record: dict[str, Any]) -> dict[str, Any]:
    began = time.perf_counter()
    if record["id"] >= LOOPS:
        time.sleep(0.002)
    while time.perf_counter() < began + 0.002:
        pass
    return record


def test_work_is_told_from_waiting_and_from_nothing_to_do(
    start: Callable[..., SparkEngine],
) -> None:
    flow = Dataflow("phases")
    rows = source(flow, limit=ROWS, load="400/s").map("pass", first_works_then_waits, schema=SCHEMA)
    rows.sink("out", Memory())
    engine = start(flow, Plan((Pipeline(("numbers", "pass", "out")),)), window=3.0)

    def at_work(seen: Snapshot) -> bool:
        return (seen.operators["pass"].cpu or 0.0) > 0.5 and on_processors(seen) > 0.35

    working = settled(engine, at_work)  # in a window in which the machine has few others to serve
    assert working.rows_ingested < LOOPS

    begin = LOOPS + 4 * 400  # a window and its first batch are past the change by then
    waiting = settled(engine, lambda s: s.rows_ingested >= begin)
    assert (waiting.operators["pass"].cpu or 1.0) < 0.2
    assert on_processors(waiting) < 0.3

    until(lambda: engine.observe().rows_ingested == ROWS, "all records", 60)

    def idle() -> bool:
        seen = engine.observe().pipelines["numbers"]
        return (seen.busy, seen.batches, seen.rows_in, seen.rate_in) == (0.0, 0, 0, 0.0)

    until(idle, "an idle window", 30)
    nothing = engine.observe().operators["pass"]
    assert (nothing.rate_in, nothing.busy) == (0.0, 0.0)
    (executor,) = engine.observe().executors.values()
    assert (executor.cpu or 0.0) < 0.05


def on_processors(snapshot: Snapshot) -> float:
    """Of the time in which slots were held."""
    (executor,) = snapshot.executors.values()
    assert isinstance(executor, ExecutorMetrics)
    assert executor.cpu is not None
    assert executor.busy
    return executor.cpu / executor.busy


def test_during_a_batch_longer_than_the_window_the_pipeline_is_busy(
    start: Callable[..., SparkEngine],
) -> None:
    flow = Dataflow("long")
    rows = source(flow, limit=None, load="100/s").map("pass", naps_for_long, schema=SCHEMA)
    rows.sink("out", Memory())
    plan = Plan((Pipeline(("numbers", "pass", "out"), admission=120),))
    engine = start(flow, plan, window=2.0)
    seen = engine.observe().pipelines["numbers"]

    def under_way() -> bool:
        """After a whole batch of 120 rows, and with nothing but a batch in the window.

        A window that begins before the batch has the planning of the batch in it.
        """
        nonlocal seen
        seen = engine.observe().pipelines["numbers"]
        return (seen.rate_in or 0.0) > 10 and seen.batches == 0 and (seen.busy or 0.0) >= 0.98

    until(under_way, "a batch that takes longer than the window", 60)
    assert seen.rows_in == 0
    assert seen.busy is not None
    assert seen.busy <= 1.02
    assert seen.rate_in == pytest.approx(20.0, rel=0.15)
    assert seen.in_batches


def naps_for_long(record: dict[str, Any]) -> dict[str, Any]:
    time.sleep(0.05)
    return record


def stamped(rng: Any, index: Any, at: Any) -> Mapping[str, Any]:
    return {"id": index, "due": at}


def test_latency_agrees_with_records_that_carry_their_own_time(
    start: Callable[..., SparkEngine],
) -> None:
    arrived: list[tuple[float, np.ndarray[Any, Any]]] = []

    def note(frame: Any, label: Any) -> None:
        due = frame.toPandas()["due"].to_numpy()
        arrived.append((time.time(), due))

    flow = Dataflow("probe")
    rows = flow.source("stamps", Generator(stamped, "id bigint, due double", load="400/s"))
    rows.map("pass", lambda r: r, schema="id bigint, due double").sink("out", ForeachBatch(note))
    flow.constrain("stamps", "out", latency="5s", window="6s")
    plan = Plan((Pipeline(("stamps",)), Pipeline(("pass", "out"))))
    engine = start(flow, plan, window=3.0)
    until(lambda: engine.observe().at > 9, "a window without the start", 60)
    seen = engine.observe()
    now, clock = time.time(), engine.flow.clocks["stamps"]
    found = seen.latency["stamps->out"]
    lags = np.concatenate([at - clock - due for at, due in arrived if now - 6 < at <= now])
    assert found.mean == pytest.approx(float(lags.mean()), rel=0.05)
    assert found.p95 == pytest.approx(float(np.quantile(lags, 0.95)), rel=0.1)
    channel = seen.channels["stamps>pass"]
    assert channel.latency is not None
    assert 0 < channel.latency < found.mean


def test_before_anything_ran_nothing_is_zero(start: Callable[..., SparkEngine]) -> None:
    flow = Dataflow("idle")
    rows = source(flow, limit=None, load="points:0=0,1000=0")
    rows.map("pass", lambda r: r, schema=SCHEMA).sink("out", Memory())
    seen = start(flow).observe()
    assert not seen.settled
    operator = seen.operators["pass"]
    assert operator.service is None
    assert operator.rate_in is None
    assert operator.busy is None
    pipeline = seen.pipelines["numbers"]
    assert pipeline.service is None
    assert pipeline.wait is None
    assert (pipeline.busy, pipeline.rows_in, pipeline.rate_in) == (None, None, None)
    assert seen.throughput is None
