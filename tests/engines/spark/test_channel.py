"""The channel: rows in the order they were written, for any reader, exactly once."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engines.spark.channels import channel as channels
from penstock.engines.spark.channels.channel import Channel, Entry, FileRange, Log, read
from penstock.engines.spark.channels.python_sources import cut
from penstock.engines.spark.channels.remote_files import FileStore
from tests.strategies import few

SCHEMA = pa.schema([("n", pa.int64())])


def put(
    channel: Channel, tag: str, files: Sequence[Iterable[int]], group: int = 3
) -> tuple[tuple[str, int], ...]:
    """Write segments as Spark would, in row groups of a few rows."""
    folder = Path(channel.store.path(f"data/{tag}"))
    folder.mkdir(parents=True)
    written = []
    for number, values in enumerate(files):
        name = f"part-{number:05d}-x-c000.lz4raw.parquet"
        table = pa.table({"n": list(values)}, SCHEMA)
        pq.write_table(table, folder / name, row_group_size=group, use_dictionary=False)
        written.append((f"data/{tag}/{name}", table.num_rows))
    return tuple(f for f in written if f[1])


def append(channel: Channel, tag: str, *files: Iterable[int]) -> int:
    return channel.commit(tag, put(channel, tag, files))


def rows(log: Log, store: FileStore, first: int, stop: int) -> list[int]:
    batches = read(store, log.pieces(first, stop), SCHEMA)
    return [n for batch in batches for n in batch["n"].to_pylist()]


def followed(store: FileStore) -> Log:
    log = Log(store)
    log.follow()
    return log


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(str(tmp_path / "words"))


@pytest.fixture
def three(store: FileStore) -> Channel:
    """Rows 0 to 3, 4 to 5 and 6 to 11 in three batches."""
    channel = Channel(store)
    append(channel, "a", [0, 1, 2], [3])
    append(channel, "b", [4, 5])
    append(channel, "c", [6, 7, 8, 9, 10], [11])
    return channel


def test_a_new_channel_is_empty(store: FileStore) -> None:
    channel = Channel(store)
    assert channel.end == 0
    assert followed(store).end == 0
    assert followed(store).pieces(0, 0) == []


def test_a_commit_is_one_file_that_names_the_rows(store: FileStore, monkeypatch: Any) -> None:
    monkeypatch.setattr(channels.time, "time", lambda: 1794777812.25)
    channel = Channel(store)
    append(channel, "000001-000000000", [0, 1])
    assert append(channel, "000001-000000004", [2, 3, 4], [], [5]) == 4
    assert store.child("log").names() == [
        "00000000000000000000.json",
        "00000000000000000001.json",
    ]
    assert store.read("log/00000000000000000001.json") == {
        "first": 2,
        "rows": 4,
        "at": 1794777812.25,
        "tag": "000001-000000004",
        "files": [
            ["data/000001-000000004/part-00000-x-c000.lz4raw.parquet", 3],
            ["data/000001-000000004/part-00002-x-c000.lz4raw.parquet", 1],
        ],
    }


def test_a_range_is_read_from_the_parts_of_files_that_hold_it(three: Channel) -> None:
    a, b, c = (f"data/{tag}/part-00000-x-c000.lz4raw.parquet" for tag in "abc")
    assert three.log.pieces(2, 8) == [
        FileRange(a, 2, 3),
        FileRange(a.replace("00000", "00001"), 0, 1),
        FileRange(b, 0, 2),
        FileRange(c, 0, 2),
    ]
    assert rows(three.log, three.store, 2, 8) == [2, 3, 4, 5, 6, 7]


def test_only_the_row_groups_that_hold_a_range_are_decoded(
    three: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = []
    whole = pq.ParquetFile.read_row_group

    def counting(file: Any, group: int, **options: Any) -> Any:
        decoded.append(group)
        return whole(file, group, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counting)
    assert rows(three.log, three.store, 9, 11) == [9, 10]
    assert decoded == [1]


def test_what_was_written_is_read_in_the_types_of_the_schema(store: FileStore) -> None:
    channel = Channel(store)
    append(channel, "a", [1, 2])
    narrow = pa.schema([("n", pa.int32())])
    (batch,) = read(store, channel.log.pieces(0, 2), narrow)
    assert batch.schema == narrow


@few
@given(
    batches=st.lists(st.lists(st.integers(0, 8), max_size=3), min_size=1, max_size=5),
    cuts=st.lists(st.integers(0, 100), max_size=5),
    parallelism=st.integers(1, 9),
    group=st.integers(1, 5),
)
def test_any_cut_of_any_batches_reads_back_every_row_in_order(
    batches: list[list[int]], cuts: list[int], parallelism: int, group: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        channel, reader = Channel(FileStore(folder)), Log(FileStore(folder))
        end = 0
        for number, sizes in enumerate(batches):
            files = []
            for size in sizes:
                files.append(range(end, end + size))
                end += size
            channel.commit(f"{number}", put(channel, f"{number}", files, group))
            reader.follow()
            assert reader.end == channel.end == end
        borders = [0, *sorted(c % (end + 1) for c in cuts), end]
        found = []
        for first, stop in pairwise(borders):
            for a, b in cut(first, stop, parallelism):
                part = rows(reader, channel.store, a, b)
                assert len(part) == b - a
                found += part
        assert found == list(range(end))


def test_a_batch_without_rows_leaves_no_trace(store: FileStore) -> None:
    channel = Channel(store)
    append(channel, "a", [0])
    assert append(channel, "b", []) == 0
    append(channel, "c", [1])
    assert store.child("data").names() == ["a", "c"]
    assert [entry.tag for entry in channel.log.entries] == ["a", "c"]
    assert not channel.holds("b")


def test_a_batch_that_was_added_is_known_by_its_tag(three: Channel) -> None:
    assert [three.holds(tag) for tag in "abcd"] == [True, True, True, False]


def test_after_a_restart_the_last_batch_is_still_known(three: Channel) -> None:
    three.clean(12)
    again = Channel(three.store)
    assert again.holds("c")
    assert not again.holds("d")


def test_a_restart_goes_on_with_the_next_number(three: Channel) -> None:
    again = Channel(three.store)
    assert again.end == 12
    append(again, "d", [12])
    assert again.log.entries[-1] == Entry(
        3,
        12,
        1,
        again.log.entries[-1].at,
        "d",
        (("data/d/part-00000-x-c000.lz4raw.parquet", 1),),
    )
    assert rows(followed(three.store), three.store, 0, 13) == list(range(13))


def test_a_restart_after_cleaning_all_but_the_last_entry_goes_on_too(three: Channel) -> None:
    three.clean(12)
    assert three.store.child("log").names() == ["00000000000000000002.json"]
    again = Channel(three.store)
    assert again.end == 12
    append(again, "d", [12, 13])
    assert again.log.entries[-1].sequence == 3
    assert rows(followed(three.store), three.store, 6, 14) == list(range(6, 14))


def test_segments_whose_commit_is_missing_are_not_rows(three: Channel) -> None:
    put(three, "d", [[99]])
    assert Channel(three.store).end == 12
    assert followed(three.store).end == 12


def test_a_commit_that_was_not_written_to_its_end_is_not_one(three: Channel) -> None:
    three.store.write_bytes("log/.00000000000000000003.json.draft", b'{"first": 1')
    again = Channel(three.store)
    assert again.end == 12
    append(again, "d", [12])
    assert followed(three.store).end == 13


def test_cleaning_removes_what_is_passed_and_nothing_else(three: Channel) -> None:
    three.clean(5)
    assert three.store.child("data").names() == ["b", "c"]
    assert rows(three.log, three.store, 4, 12) == list(range(4, 12))
    three.clean(6)
    assert three.store.child("data").names() == ["c"]
    three.clean(12)
    assert three.store.child("data").names() == ["c"]
    assert three.end == 12


def test_a_cleaning_that_was_cut_off_is_completed(three: Channel) -> None:
    three.store.remove("data/a")
    again = Channel(three.store)
    again.clean(5)
    assert three.store.child("log").names() == [
        "00000000000000000001.json",
        "00000000000000000002.json",
    ]


@few
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(("write", "read", "read", "clean", "restart")), st.integers(0, 9))
    )
)
def test_whatever_is_cleaned_and_restarted_every_reader_gets_every_row(
    steps: list[tuple[str, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = FileStore(folder)
        channel, logs, positions, tags = Channel(store), [Log(store), Log(store)], [0, 0], 0
        for step, size in steps:
            reader = size % 2
            match step:
                case "write":
                    append(channel, f"{tags}", range(channel.end, channel.end + size))
                    tags += 1
                case "read":
                    log, at = logs[reader], positions[reader]
                    log.follow()
                    stop = min(log.end, at + size)
                    assert rows(log, store, at, stop) == list(range(at, stop))
                    log.forget(stop)
                    positions[reader] = stop
                case "clean":
                    channel.clean(min(positions))
                case "restart":
                    channel = Channel(store)
                    logs[reader] = Log(store)
        channel.clean(min(positions))
        for position in positions:
            assert rows(followed(store), store, position, channel.end) == list(
                range(position, channel.end)
            )


def test_rows_that_are_gone_or_not_there_yet_are_an_error(three: Channel) -> None:
    with pytest.raises(LookupError, match="rows 6 to 13 are not all in the channel"):
        three.log.pieces(6, 13)
    three.clean(6)
    with pytest.raises(LookupError, match="rows 3 to 8 are not all in the channel"):
        followed(three.store).pieces(3, 8)


def test_a_reader_follows_without_listing(three: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    log = followed(three.store)
    monkeypatch.setattr(FileStore, "names", None)
    append(three, "d", [12])
    log.follow()
    assert log.end == 13


def test_a_reader_that_starts_while_old_rows_are_cleaned_up_finds_the_rest(
    three: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = FileStore.names

    def slow(store: FileStore, prefix: str = "") -> list[str]:
        found = names(store, prefix)
        three.clean(6)
        return found

    log = Log(three.store)
    monkeypatch.setattr(FileStore, "names", slow)
    log.follow()
    assert log.end == 12
    assert rows(log, three.store, 6, 12) == [6, 7, 8, 9, 10, 11]


def test_what_is_forgotten_is_only_what_ends_before_a_row(three: Channel) -> None:
    log = followed(three.store)
    log.forget(5)
    assert [entry.tag for entry in log.entries] == ["b", "c"]
    log.forget(12)
    assert [entry.tag for entry in log.entries] == ["c"]
    assert log.end == 12


def test_lineage_still_knows_entries_whose_rows_are_deleted(three: Channel) -> None:
    three.clean(6)
    found = [(entry.tag, a, b) for entry, a, b in three.entries(3, 7)]
    assert found == [("a", 3, 4), ("b", 4, 6), ("c", 6, 7)]


def test_what_is_remembered_of_deleted_entries_is_bounded(store: FileStore) -> None:
    channel = Channel(store)
    entries = [Entry(i, i, 1, 0.0, f"{i}", ()) for i in range(2500)]
    channel.log.entries.extend(entries)
    channel._clean_through = 2499
    channel.clean(2500)
    assert [e.sequence for e in channel.log.entries] == list(range(1000, 2500))


class _Written:
    """As much of a DataFrame as `append` needs: it writes files, and options are noted."""

    sparkSession = None  # noqa: N815  # asked only where a channel has settings of its own

    def __init__(self, *files: Sequence[int]) -> None:
        self.files = files
        self.options: dict[str, str] = {}

    @property
    def write(self) -> _Written:
        return self

    def mode(self, name: str) -> _Written:
        self.options["mode"] = name
        return self

    def option(self, name: str, value: str) -> _Written:
        self.options[name] = value
        return self

    def parquet(self, uri: str) -> None:
        folder = Path(uri.removeprefix("file://"))
        folder.mkdir(parents=True)
        (folder / "_SUCCESS").touch()
        (folder / ".part-00000.parquet.crc").touch()
        for number, values in enumerate(self.files):
            pq.write_table(pa.table({"n": values}, SCHEMA), folder / f"part-{number:05d}.parquet")


def test_a_data_frame_is_appended_in_the_order_of_its_partitions(tmp_path: Path) -> None:
    channel = Channel(FileStore(str(tmp_path / "a run")))
    frame: Any = _Written([0, 1], [], [2])
    assert channel.append(frame, "a") == 3
    assert rows(channel.log, channel.store, 0, 3) == [0, 1, 2]
    assert frame.options["mode"] == "overwrite"
    assert channel.append(_Written([]), "b") == 0  # type: ignore[arg-type]
    assert channel.store.child("data").names() == ["a"]


def test_a_mark_stands_in_the_log_and_moves_on_without_rows(store: FileStore) -> None:
    channel = Channel(store)
    channel.commit("a", put(channel, "a", [range(3)]), mark=1000)
    channel.commit("b", put(channel, "b", [range(3, 5)]))
    assert channel.commit("c", (), mark=2000) == 0
    assert channel.commit("d", (), mark=2000) == 0  # nothing new: no entry
    assert channel.commit("e", (), mark=1500) == 0  # a mark never goes back
    log = followed(store)
    assert [(e.tag, e.rows, e.mark) for e in log.entries] == [
        ("a", 3, 1000),
        ("b", 2, None),
        ("c", 0, 2000),
    ]
    assert (log.end, channel.mark) == (5, 2000)
    assert [log.mark(row) for row in (2, 3, 4, 5)] == [None, 1000, 1000, 2000]
    assert rows(log, store, 0, 5) == [0, 1, 2, 3, 4]


def test_a_mark_is_still_known_after_cleaning_and_a_restart(store: FileStore) -> None:
    channel = Channel(store)
    channel.commit("a", put(channel, "a", [range(3)]), mark=1000)
    channel.commit("b", (), mark=2000)
    channel.clean(3)
    again = Channel(store)
    assert (again.end, again.mark) == (3, 2000)
    assert again.holds("b")
