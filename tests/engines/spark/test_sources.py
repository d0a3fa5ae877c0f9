"""The sources: how much of what is there a valve lets in, and into how many splits it is cut."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql.types import LongType, StructField, StructType

from penstock.dataflow.connectors import Generator
from penstock.engines.spark.channels import python_sources
from penstock.engines.spark.channels.channel import MARK, Channel
from penstock.engines.spark.channels.event_time import hidden
from penstock.engines.spark.channels.python_sources import (
    ChannelReader,
    ChannelSource,
    GeneratorReader,
    GeneratorSource,
    NumberedReader,
    cut,
)
from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.channels.valve import Valve, acknowledged
from penstock.engines.spark.session.pickling import pickled, portable
from tests.strategies import few

BEGAN = 1_794_777_812.0


class Clock:
    """The time as the sources see it."""

    def __init__(self) -> None:
        self.now = BEGAN

    def time(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(python_sources, "time", clock)
    return clock


def row(number: int, of: str = "words") -> dict[str, Any]:
    return {"row": number, "of": of}


class Hundred(NumberedReader):
    """A source with a hundred rows."""

    def read(self, partition: Any) -> Any:
        raise NotImplementedError

    def available(self, valve: Valve) -> int:
        return 100


class Pipeline:
    """A valve and the options that a pipeline gives its sources."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "words.valve"
        self.valve = Valve()

    def turn(self, **changes: Any) -> None:
        self.valve = Valve(**changes, turn=self.valve.turn + 1)
        self.valve.save(self.path)

    def options(self, **more: Any) -> dict[str, str]:
        known = {"valve": self.path, "input": "words", "first": 0, "inputs": 1}
        return {name: str(value) for name, value in {**known, **more}.items()}


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    pipeline = Pipeline(tmp_path)
    pipeline.turn()
    return pipeline


@few
@given(first=st.integers(0, 10**12), size=st.integers(0, 1000), parts=st.integers(-1, 1200))
def test_any_cut_covers_its_range_with_nearly_equal_parts(
    first: int, size: int, parts: int
) -> None:
    found = cut(first, first + size, parts)
    assert [n for a, b in found for n in range(a, b)] == list(range(first, first + size))
    assert len(found) == min(max(parts, 1), size)
    sizes = [b - a for a, b in found]
    assert not sizes or 1 <= min(sizes) <= max(sizes) <= min(sizes) + 1
    assert all(before[1] == after[0] for before, after in pairwise(found))


def test_a_cut_is_literally_this() -> None:
    assert cut(10, 20, 3) == [(10, 13), (13, 16), (16, 20)]
    assert cut(10, 12, 5) == [(10, 11), (11, 12)]
    assert cut(10, 10, 5) == []


def test_a_source_begins_at_the_row_its_wiring_says(pipeline: Pipeline) -> None:
    assert Hundred(pipeline.options(first=40)).initialOffset() == row(40)


def test_an_open_valve_lets_everything_in(pipeline: Pipeline) -> None:
    reader = Hundred(pipeline.options())
    assert reader.latestOffset(row(0), reader.getDefaultReadLimit()) == row(100)
    assert reader.latestOffset(row(100)) == row(100)
    assert reader.latestOffset(row(120)) == row(120)


def test_a_closed_valve_lets_nothing_in_and_is_acknowledged_at_the_second_look(
    pipeline: Pipeline,
) -> None:
    reader = Hundred(pipeline.options())
    pipeline.turn(open=False)
    assert reader.latestOffset(row(30)) == row(30)
    assert not acknowledged(pipeline.path, "words", 2)
    assert reader.latestOffset(row(30)) == row(30)
    assert acknowledged(pipeline.path, "words", 2)
    pipeline.turn(open=True)
    assert reader.latestOffset(row(30)) == row(100)


def test_a_pipeline_without_a_valve_takes_nothing(tmp_path: Path) -> None:
    assert Hundred(Pipeline(tmp_path).options()).latestOffset(row(5)) == row(5)


def test_admission_bounds_a_batch(pipeline: Pipeline) -> None:
    reader = Hundred(pipeline.options())
    pipeline.turn(admission=30)
    assert reader.latestOffset(row(0)) == row(30)
    assert reader.latestOffset(row(90)) == row(100)
    pipeline.turn(admission=45)
    assert reader.latestOffset(row(30)) == row(75)


def test_admission_is_shared_by_the_inputs_of_a_pipeline(pipeline: Pipeline) -> None:
    reader = Hundred(pipeline.options(inputs=3))
    pipeline.turn(admission=31)
    assert reader.latestOffset(row(0)) == row(10)
    pipeline.turn(admission=2)
    assert reader.latestOffset(row(0)) == row(1)


def test_cadence_lets_one_batch_in_with_every_beat(pipeline: Pipeline, clock: Clock) -> None:
    reader = Hundred(pipeline.options())
    pipeline.turn(cadence=2.0, admission=10)
    assert reader.latestOffset(row(0)) == row(10)
    clock.now += 1.9
    assert reader.latestOffset(row(10)) == row(10)
    clock.now += 0.1
    assert reader.latestOffset(row(10)) == row(20)
    assert reader.latestOffset(row(20)) == row(20)
    pipeline.turn(admission=10)
    assert reader.latestOffset(row(20)) == row(30)


def test_a_beat_without_rows_is_not_used_up(pipeline: Pipeline) -> None:
    reader = Hundred(pipeline.options())
    pipeline.turn(cadence=2.0)
    assert reader.latestOffset(row(100)) == row(100)
    assert reader.latestOffset(row(40)) == row(100)


def test_inputs_of_a_pipeline_keep_the_same_beat(pipeline: Pipeline, clock: Clock) -> None:
    one, two = (Hundred(pipeline.options(input=name, inputs=2)) for name in ("a", "b"))
    pipeline.turn(cadence=2.0, admission=20)
    taken = []
    at = {"a": row(0, "a"), "b": row(0, "b")}
    for _ in range(6):
        clock.now += 0.7
        for reader in (one, two):
            at[reader.input] = reader.latestOffset(at[reader.input])
        taken.append((at["a"]["row"], at["b"]["row"]))
    assert taken == [(10, 10), (10, 10), (20, 20), (20, 20), (20, 20), (30, 30)]


@pytest.mark.parametrize(
    ("parallelism", "inputs", "splits"), [(1, 1, 1), (4, 1, 4), (4, 2, 2), (5, 2, 3), (1, 3, 1)]
)
def test_a_batch_has_the_inputs_share_of_the_parallelism_as_splits(
    pipeline: Pipeline, parallelism: int, inputs: int, splits: int
) -> None:
    pipeline.turn(parallelism=parallelism)
    found = Hundred(pipeline.options(inputs=inputs)).partitions(row(10), row(70))
    assert len(found) == splits
    assert [n for s in found for n in range(s.first, s.stop)] == list(range(10, 70))


def test_a_batch_of_few_rows_has_no_empty_split(pipeline: Pipeline) -> None:
    pipeline.turn(parallelism=8)
    reader = Hundred(pipeline.options())
    assert [(s.first, s.stop) for s in reader.partitions(row(5), row(7))] == [(5, 6), (6, 7)]
    assert reader.partitions(row(5), row(5)) == []


# --- the generator ------------------------------------------------------------------------------


def make(rng: Any, index: Any, at: Any) -> dict[str, Any]:
    return {"id": index, "draw": rng.random(len(index))}


def generator(pipeline: Pipeline, **settings: Any) -> GeneratorReader:
    file = pipeline.path.with_name("words.pickle")
    made = Generator(make, "id bigint, draw double", load="10/s", block=7, **settings)
    file.write_bytes(pickled(portable(made)))
    return GeneratorReader(pipeline.options(generator=file))


def test_a_generator_offers_what_is_due_by_its_clock(pipeline: Pipeline, clock: Clock) -> None:
    reader = generator(pipeline)
    pipeline.turn(clocks={"words": BEGAN - 2.0})
    assert reader.latestOffset(row(0)) == row(20)
    clock.now += 0.55
    assert reader.latestOffset(row(20)) == row(25)


def test_a_generator_whose_time_has_not_begun_offers_nothing(pipeline: Pipeline) -> None:
    reader = generator(pipeline)
    pipeline.turn(clocks={"words": BEGAN + 5.0})
    assert reader.latestOffset(row(0)) == row(0)


def test_a_generator_ends_at_its_limit_or_at_the_valves(pipeline: Pipeline) -> None:
    reader = generator(pipeline, limit=90)
    pipeline.turn(clocks={"words": BEGAN - 8.0})
    assert reader.latestOffset(row(0)) == row(80)
    pipeline.turn(clocks={"words": BEGAN - 80.0})
    assert reader.latestOffset(row(0)) == row(90)
    pipeline.turn(clocks={"words": BEGAN - 80.0}, limits={"words": 33})
    assert reader.latestOffset(row(0)) == row(33)
    assert reader.latestOffset(row(40)) == row(40)
    pipeline.turn(clocks={"words": BEGAN - 80.0}, limits={"others": 33})
    assert reader.latestOffset(row(40)) == row(90)


def test_any_splits_of_a_generator_hold_the_same_records(pipeline: Pipeline) -> None:
    reader = generator(pipeline)
    tables = []
    for parallelism in (1, 2, 5):
        pipeline.turn(parallelism=parallelism)
        splits = reader.partitions(row(3), row(60))
        tables.append(pa.Table.from_batches([b for s in splits for b in reader.read(s)]))
    assert tables[0]["id"].to_pylist() == list(range(3, 60))
    assert tables[0].equals(tables[1].combine_chunks())
    assert tables[0].equals(tables[2].combine_chunks())


# --- the channel --------------------------------------------------------------------------------

COLUMNS = StructType([StructField("n", LongType())])


def append(channel: Channel, tag: str, values: range) -> None:
    folder = Path(channel.store.path(f"data/{tag}"))
    folder.mkdir()
    pq.write_table(pa.table({"n": values}), folder / "part-0.parquet", row_group_size=4)
    channel.commit(tag, ((f"data/{tag}/part-0.parquet", len(values)),))


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    return Channel(FileStore(str(tmp_path / "channel")))


def reader_of(channel: Channel, pipeline: Pipeline, **more: Any) -> ChannelReader:
    options = pipeline.options(channel=channel.store.root, input="words>count", **more)
    return ChannelReader(options, COLUMNS)


def numbers(reader: ChannelReader, start: int, stop: int) -> Iterator[int]:
    of = "words>count"
    for split in reader.partitions(row(start, of), row(stop, of)):
        shipped = cloudpickle.loads(cloudpickle.dumps((reader, split)))
        for batch in shipped[0].read(shipped[1]):
            yield from batch["n"].to_pylist()


def test_a_channel_is_read_end_to_end(channel: Channel, pipeline: Pipeline) -> None:
    reader = reader_of(channel, pipeline)
    at, got = reader.initialOffset(), []
    assert reader.latestOffset(at) == row(0, "words>count")
    for batch, parallelism in enumerate((1, 3, 2, 5)):
        append(channel, f"{batch}", range(10 * batch, 10 * batch + 10))
        pipeline.turn(parallelism=parallelism, admission=7)
        for _ in range(2):
            end = reader.latestOffset(at)
            got += numbers(reader, at["row"], end["row"])
            reader.commit(end)
            channel.clean(end["row"])
            at = end
    assert at == row(40, "words>count")
    assert got == list(range(40))


def test_a_batch_that_was_planned_before_a_restart_is_read_without_asking_for_more(
    channel: Channel, pipeline: Pipeline
) -> None:
    append(channel, "a", range(10))
    append(channel, "b", range(10, 20))
    assert list(numbers(reader_of(channel, pipeline), 5, 15)) == list(range(5, 15))


def test_a_reader_that_starts_in_the_middle_needs_nothing_before_it(
    channel: Channel, pipeline: Pipeline
) -> None:
    append(channel, "a", range(10))
    append(channel, "b", range(10, 20))
    channel.clean(10)
    reader = reader_of(channel, pipeline, first=12)
    assert reader.latestOffset(reader.initialOffset()) == row(20, "words>count")
    assert list(numbers(reader, 12, 20)) == list(range(12, 20))
    with pytest.raises(LookupError):
        list(numbers(reader, 9, 20))


def test_spark_finds_the_sources_by_name(channel: Channel, pipeline: Pipeline) -> None:
    assert (GeneratorSource.name(), ChannelSource.name()) == (
        "penstock-generator",
        "penstock-channel",
    )
    generator(pipeline)
    file = pipeline.path.with_name("words.pickle")
    made = GeneratorSource(pipeline.options(generator=file))
    assert isinstance(made.streamReader(COLUMNS), GeneratorReader)
    found = ChannelSource(pipeline.options(channel=channel.store.root))
    assert isinstance(found.streamReader(COLUMNS), ChannelReader)


def test_a_mark_comes_behind_its_rows_and_alone_when_there_are_none(
    channel: Channel, pipeline: Pipeline
) -> None:
    options = pipeline.options(channel=channel.store.root, input="words>count")
    marking = ChannelReader(options, hidden(COLUMNS))
    of, start = "words>count", marking.initialOffset()
    append(channel, "a", range(3))
    channel.commit("b", (), mark=5000)
    first = marking.latestOffset(start)
    assert first == {"row": 3, "of": of, "mark": 5000}
    assert _values(marking, start, first) == [(0, None), (1, None), (2, None), (None, 5000)]
    assert marking.latestOffset(first) == first
    channel.commit("c", (), mark=7000)
    second = marking.latestOffset(first)
    assert second == {"row": 3, "of": of, "mark": 7000}
    assert _values(marking, first, second) == [(None, 7000)]
    plain = reader_of(channel, pipeline)  # passes the mark on in its offset, and brings no row
    assert plain.latestOffset(first) == second
    assert plain.partitions(first, second) == []


def test_a_mark_waits_for_the_rows_before_it(channel: Channel, pipeline: Pipeline) -> None:
    reader = reader_of(channel, pipeline)
    append(channel, "a", range(10))
    channel.commit("b", (), mark=5000)
    pipeline.turn(admission=6)
    start = reader.initialOffset()
    middle = reader.latestOffset(start)
    assert middle == row(6, "words>count")
    assert reader.latestOffset(middle) == {"row": 10, "of": "words>count", "mark": 5000}


def _values(reader: ChannelReader, start: Any, end: Any) -> list[tuple[int | None, int | None]]:
    found = []
    for split in reader.partitions(start, end):
        for batch in reader.read(split):
            marks = batch[MARK].cast(pa.int64()).to_pylist()
            found += [
                (n, None if mark is None else mark // 1000)
                for n, mark in zip(batch["n"].to_pylist(), marks, strict=True)
            ]
    return found
