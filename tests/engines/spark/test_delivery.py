"""Ends of runs and changes: every row delivered as often as its sink promises, and counted so."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

from penstock import (
    Dataflow,
    Files,
    ForeachBatch,
    Json,
    Memory,
    Pipeline,
    Plan,
    Spark,
)
from penstock.engines.spark.engine import SparkEngine
from penstock.errors import InvalidInput
from penstock.plan import fusion
from tests.engines.spark.flows import record, source, until
from tests.engines.spark.test_operators import POSITIONS, Position

pytestmark = pytest.mark.spark

RECORD = "id bigint, key string, amount bigint"

Start = Callable[..., SparkEngine]


@pytest.fixture
def start(spark: Any, tmp_path: Path) -> Iterator[Start]:
    """Starts an engine that is stopped whatever happens."""
    engines: list[SparkEngine] = []

    def starting(flow: Dataflow, plan: Plan | None = None, folder: str = "run") -> SparkEngine:
        engines.append(SparkEngine(spark=spark))
        engines[-1].start(flow.graph, plan, tmp_path / folder)
        return engines[-1]

    yield starting
    for engine in engines:
        engine.stop(drain=False)


def put(folder: Path, part: int, rows: int = 10) -> None:
    """A file of records, complete when it appears."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps(record(i)) for i in range(part * rows, (part + 1) * rows)]
    draft = folder / f"_{part}.draft"
    draft.write_text("\n".join(lines))
    draft.rename(folder / f"part {part:05d} é%20.json")


def ends(engine: SparkEngine, within: float = 60) -> None:
    """Stop with draining, in a thread, so that a drain without end fails the test."""
    thread = threading.Thread(target=engine.stop, daemon=True)
    thread.start()
    thread.join(within)
    assert not thread.is_alive(), f"still draining after {within} s"


# --- a run ends ---------------------------------------------------------------------------------


def test_files_before_a_processor_in_processing_time_are_drained_and_the_run_ends(
    start: Start, tmp_path: Path
) -> None:
    for part in range(4):
        put(tmp_path / "in", part)
    flow = Dataflow("timers")
    read = flow.source("files", Files(str(tmp_path / "in"), RECORD, maxFilesPerTrigger=1))
    keyed = read.key_by("key")
    keyed.process("position", Position, schema=POSITIONS, time_mode="processing_time").sink(
        "out", Memory()
    )
    engine = start(flow)
    ends(engine)
    assert sorted((row.key, row.n) for row in engine.rows("out")) == [
        (f"k{k}", n) for k in range(10) for n in range(1, 5)
    ]
    assert engine.observe().rows_ingested == engine.observe().rows_delivered == 40


def test_a_generator_before_a_processor_in_processing_time_is_drained_and_the_run_ends(
    start: Start,
) -> None:
    flow = Dataflow("timers")
    keyed = source(flow, limit=200, load="1000/s").key_by("key")
    keyed.process("position", Position, schema=POSITIONS, time_mode="processing_time").sink(
        "out", Memory()
    )
    engine = start(flow)
    until(lambda: engine.observe().rows_ingested >= 200, "all records")
    ends(engine)
    assert len(engine.rows("out")) == engine.observe().rows_delivered == 200


def test_a_directory_that_fills_faster_than_it_is_read_does_not_keep_a_run_from_ending(
    start: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    for part in range(3):
        put(folder, part)
    flow = Dataflow("filling")
    read = flow.source("files", Files(str(folder), RECORD, maxFilesPerTrigger=1))
    read.sink("out", Memory())
    engine = start(flow)
    over = threading.Event()

    def fill() -> None:
        part = 3
        while not over.wait(0.03):
            put(folder, part)
            part += 1

    filling = threading.Thread(target=fill, daemon=True)
    filling.start()
    try:
        until(lambda: len([*folder.glob("*.json")]) > 12, "some files")
        there = len([*folder.glob("*.json")])
        ends(engine)
    finally:
        over.set()
        filling.join()
    got = {row.id for row in engine.rows("out")}
    assert got >= set(range(10 * there))
    assert len(engine.rows("out")) == len(got) == engine.observe().rows_delivered


def test_a_drain_that_takes_long_is_ended_by_a_stop_at_once(start: Start, tmp_path: Path) -> None:
    for part in range(20):
        put(tmp_path / "in", part)
    flow = Dataflow("slow")
    read = flow.source("files", Files(str(tmp_path / "in"), RECORD, maxFilesPerTrigger=1))
    read.sink("out", ForeachBatch(lambda df, batch: time.sleep(2)))
    engine = start(flow)
    thread = threading.Thread(target=engine.stop, daemon=True)
    thread.start()
    until(lambda: engine.observe().rows_delivered > 0, "the first batch")
    assert thread.is_alive()
    began = time.monotonic()
    engine.stop(drain=False)
    assert time.monotonic() - began < 15
    thread.join(10)
    assert not thread.is_alive()


# --- nothing twice without a crash --------------------------------------------------------------


class Appending:
    """A foreach-batch function that cannot tell doubles: it keeps all that it ever gets."""

    def __init__(self, file: Path, seconds: float = 0.3) -> None:
        self.file, self.seconds = file, seconds

    def __call__(self, frame: Any, batch: int) -> None:
        rows = [str(row[0]) for row in frame.collect()]
        with self.file.open("a") as file:
            file.writelines(f"{row}\n" for row in rows)
        time.sleep(self.seconds)  # a sink that answers slowly, though it has everything

    def got(self) -> Counter[int]:
        return Counter(map(int, self.file.read_text().split())) if self.file.exists() else Counter()


def test_five_changes_give_no_row_twice_to_a_sink_that_keeps_everything(
    start: Start, tmp_path: Path
) -> None:
    sink = Appending(tmp_path / "got")
    flow = Dataflow("doubles")
    rate = flow.source("rate", Spark("rate", rowsPerSecond=400, numPartitions=2))
    rate.frame("values", lambda df: df.select("value")).sink("out", ForeachBatch(sink))
    engine = start(flow, Plan((Pipeline(("rate", "values", "out"), 1),)))
    for parallelism in (2, 3, 2, 1, 2):
        before = len(sink.got())
        until(lambda n=before: len(sink.got()) > n, "more rows")
        made = engine.apply(engine.plan.with_pipeline("rate", parallelism=parallelism))
        assert made.rows_replayed == 0
    engine.stop()
    got = sink.got()
    assert got == Counter(range(len(got)))
    assert engine.observe().rows_delivered == engine.observe().rows_ingested == len(got)
    assert engine.observe().rows_repeated == 0


class Ticking(StatefulProcessor):
    """Sends 0, 1, 2, ... for each key, one number a tick of a timer, once a record has come."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.next = handle.getValueState("next", StructType([StructField("n", LongType())]))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        if not self.next.exists():
            self.next.update((0,))
            self._wind(timerValues)
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expired: Any) -> Iterator[Row]:
        (n,) = self.next.get()
        self.next.update((n + 1,))
        self._wind(timerValues)
        yield Row(n=int(key[0][1:]) * 1_000_000 + n)

    def _wind(self, timer_values: Any) -> None:
        self.handle.registerTimer(timer_values.getCurrentProcessingTimeInMs() + 1)

    def close(self) -> None:
        pass


def test_a_change_does_not_double_what_timers_send_while_no_record_comes(
    start: Start, tmp_path: Path
) -> None:
    sink = Appending(tmp_path / "got")
    flow = Dataflow("ticks")
    keyed = source(flow, limit=10).key_by("key")
    ticks = keyed.process("tick", Ticking, schema="n bigint", time_mode="processing_time")
    ticks.sink("out", ForeachBatch(sink))
    engine = start(flow, Plan((Pipeline(("numbers", "tick", "out"), 1, ceiling=2),)))
    for ceiling in (3, 2):
        before = sum(sink.got().values())
        until(lambda n=before: sum(sink.got().values()) >= n + 20, "more ticks")
        engine.apply(engine.plan.with_pipeline("tick", ceiling=ceiling))
    engine.stop()
    got = sink.got()
    ticks_of = [sorted(n % 1_000_000 for n in got if n // 1_000_000 == k) for k in range(10)]
    assert all(of == [*range(len(of))] for of in ticks_of)
    assert set(got.values()) == {1}
    assert engine.observe().rows_delivered == len(got)


def test_what_a_crash_makes_a_sink_get_twice_is_counted(start: Start, tmp_path: Path) -> None:
    sink = Appending(tmp_path / "got", seconds=0)
    fail = [True]

    def failing(frame: Any, batch: int) -> None:
        sink(frame, batch)
        if len(sink.got()) >= 20 and fail:
            fail.clear()
            raise OSError("the connection was lost")

    def fussy(r: dict[str, Any]) -> bool:
        if r["id"] % 10 == 5:
            raise ValueError("no fives")
        return True

    for part in range(4):
        put(tmp_path / "in", part)
    flow = Dataflow("again")
    read = flow.source("files", Files(str(tmp_path / "in"), RECORD, maxFilesPerTrigger=1))
    read.filter("fussy", fussy).sink("out", ForeachBatch(failing))
    engine = start(flow)
    ends(engine)
    got = sink.got()
    assert sorted(got) == [i for i in range(40) if i % 10 != 5]
    assert sum(got.values()) == 36 + 9
    seen = engine.observe()
    assert (seen.rows_ingested, seen.rows_delivered, seen.rows_repeated) == (40, 36, 9)
    assert seen.rows_dead == 4


# --- what a run says of its rows ----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["each", "files", "native"])
def test_a_run_that_stops_right_after_its_last_batch_counts_every_row(
    start: Start, tmp_path: Path, kind: str
) -> None:
    """Whatever has been reported by then, and also when the run goes on in the same directory."""
    sinks = {
        "each": ForeachBatch(lambda df, batch: df.count()),
        "files": Json(str(tmp_path / "out")),
        "native": Spark("json", path=str(tmp_path / "out")),
    }
    folder, total = tmp_path / "in", 0
    folder.mkdir()
    flow = Dataflow("counting")
    read = flow.source("files", Files(str(folder), RECORD, maxFilesPerTrigger=1))
    read.frame("few", lambda df: df.filter("amount = 0")).sink("out", sinks[kind])
    for turn in range(3):
        for part in range(3 * turn, 3 * turn + 3):
            put(folder, part)
        total += 30
        engine = start(flow)
        engine.stop()
        seen = engine.observe()
        few = sum(i % 7 == 0 for i in range(total))
        assert (seen.rows_ingested, seen.rows_delivered) == (total, few)
        assert seen.sinks == {"out": few}


def test_reports_that_spark_has_thrown_away_are_counted(
    start: Start, spark: Any, tmp_path: Path
) -> None:
    for part in range(12):
        put(tmp_path / "in", part)
    flow = Dataflow("forgetful")
    read = flow.source("files", Files(str(tmp_path / "in"), RECORD, maxFilesPerTrigger=1))
    read.sink("out", Memory())
    key = "spark.sql.streaming.numRecentProgressUpdates"
    before = spark.conf.get(key)
    spark.conf.set(key, "2")  # one report is kept
    try:
        engine = start(flow)
        engine.flow.supervisor.stop()  # nobody looks while the batches run
        until(lambda: len(engine.rows("out")) == 120, "all rows")
        engine.stop()
    finally:
        spark.conf.set(key, before)
    assert (engine.observe().rows_ingested, engine.observe().rows_delivered) == (120, 120)


# --- sinks of Spark's own -----------------------------------------------------------------------


def test_a_native_file_sink_holds_every_row_through_splits_and_merges(
    start: Start, spark: Any, tmp_path: Path
) -> None:
    flow = Dataflow("native")
    rows = source(flow, limit=None, load="800/s").frame(
        "kept", lambda df: df.select("id"), reject="id % 100 = 7"
    )
    rows.filter("even", lambda r: r["id"] % 2 == 0).sink(
        "out", Spark("json", path=str(tmp_path / "out"))
    )
    plans = (fusion.default_plan(flow.graph, 2), fusion.finest_plan(flow.graph, 1))
    engine = start(flow, plans[0])
    for turn in range(4):
        before = engine.observe().rows_delivered
        until(lambda n=before: engine.observe().rows_delivered > n, "more rows")
        engine.apply(plans[(turn + 1) % 2])
    engine.stop()
    taken = engine.observe().rows_ingested
    found = [row.id for row in spark.read.json(str(tmp_path / "out")).collect()]
    assert sorted(found) == [*range(0, taken, 2)]
    assert engine.observe().rows_delivered == len(found)
    assert engine.observe().rows_dead == len(range(7, taken, 100))


def test_a_second_run_into_the_directory_of_a_native_sink_is_refused(
    start: Start, tmp_path: Path
) -> None:
    """Spark would take its batches for those of the first run, and write nothing at all."""
    flow = Dataflow("native")
    source(flow, limit=100).sink("out", Spark("json", path=str(tmp_path / "out")))
    first = start(flow)
    until(lambda: first.observe().rows_ingested >= 100, "all records")
    first.stop()
    start(flow).stop()  # the same run may go on
    with pytest.raises(InvalidInput, match="has written to: Spark's sink for json"):
        start(flow, folder="other")
