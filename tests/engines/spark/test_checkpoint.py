"""Reading Spark's offset and commit logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engines.spark.queries.checkpoint import (
    committed,
    marks,
    progress,
    rows_of,
    source_name,
    watermark,
)

SETTINGS = (
    '{"batchWatermarkMs":0,"batchTimestampMs":1794777831827,"conf":{'
    '"spark.sql.streaming.stateStore.providerClass":'
    '"org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",'
    '"spark.sql.shuffle.partitions":"4"},"sourceMetadataInfo":{}}'
)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").mkdir()
    return tmp_path


def begin(checkpoint: Path, batch: int, *lines: str) -> None:
    (checkpoint / "offsets" / f"{batch}").write_text("\n".join(["v2", SETTINGS, *lines]))
    (checkpoint / "offsets" / f".{batch}.crc").write_bytes(b"crc\x00")


def end(checkpoint: Path, batch: int) -> None:
    (checkpoint / "commits" / f"{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')
    (checkpoint / "commits" / f".{batch}.crc").write_bytes(b"crc\x00")


def test_a_query_that_never_ran_has_done_nothing(tmp_path: Path) -> None:
    assert progress(tmp_path / "none", 1) == (-1, {}, True)
    assert committed(tmp_path / "none", 1) == {}


def test_the_rows_of_a_finished_batch_are_committed(checkpoint: Path) -> None:
    begin(checkpoint, 0, 'e5_0:{"row": 416040, "of": "split>count"}')
    end(checkpoint, 0)
    assert progress(checkpoint, 5) == (0, {"split>count": 416040}, True)
    assert committed(checkpoint, 5) == {"split>count": 416040}


def test_the_rows_of_a_batch_that_was_cut_off_are_not_committed(checkpoint: Path) -> None:
    for batch in range(11):
        begin(checkpoint, batch, f'e1_0:{{"row": {10 * batch}, "of": "tweets"}}')
        end(checkpoint, batch)
    begin(checkpoint, 11, 'e1_0:{"row": 170, "of": "tweets"}')
    assert progress(checkpoint, 1) == (11, {"tweets": 170}, False)
    assert committed(checkpoint, 1) == {"tweets": 100}


def test_a_first_batch_that_was_cut_off_has_committed_nothing(checkpoint: Path) -> None:
    begin(checkpoint, 0, 'e1_0:{"row": 5, "of": "tweets"}')
    assert progress(checkpoint, 1) == (0, {"tweets": 5}, False)
    assert committed(checkpoint, 1) == {}


def test_every_input_has_its_row(checkpoint: Path) -> None:
    begin(
        checkpoint,
        7,
        'e12_0:{"row": 3, "of": "left>join"}',
        'e12_1:{"row": 4, "of": "right>join"}',
        'e12_10:{"row": 5, "of": "more"}',
    )
    end(checkpoint, 7)
    assert committed(checkpoint, 12) == {"left>join": 3, "right>join": 4, "more": 5}


def test_what_an_earlier_wiring_read_is_not_taken_for_ours(checkpoint: Path) -> None:
    begin(checkpoint, 16, 'e4_0:{"row": 105894, "of": "tweets"}')
    end(checkpoint, 16)
    assert committed(checkpoint, 4) == {"tweets": 105894}
    for other in (1, 5, 40, 44):
        assert committed(checkpoint, other) == {}
        assert progress(checkpoint, other) == (16, {}, True)


def test_sources_of_sparks_own_are_passed_over(checkpoint: Path) -> None:
    begin(
        checkpoint,
        0,
        'source_files:{"logOffset":3}',
        'source_kafka:{"words":{"0":17,"1":4}}',
        "source_new:-",
        'e2_1:{"row": 9, "of": "words>join"}',
    )
    end(checkpoint, 0)
    assert committed(checkpoint, 2) == {"words>join": 9}


def test_lines_without_names_are_of_no_wiring_of_ours(checkpoint: Path) -> None:
    # The layout of queries whose sources have no names; Penstock names all of its sources.
    (checkpoint / "offsets" / "0").write_text(f'v1\n{SETTINGS}\n{{"offset":400000}}\n-')
    end(checkpoint, 0)
    assert progress(checkpoint, 1) == (0, {}, True)
    assert committed(checkpoint, 1) == {}


@pytest.mark.parametrize(
    ("offset", "pair"),
    [
        ({"row": 7, "of": "words"}, ("words", 7)),
        ('{"row": 7, "of": "words"}', ("words", 7)),
        ('"{\\"row\\": 7, \\"of\\": \\"words\\"}"', ("words", 7)),
        ({"logOffset": 7}, None),
        ('{"logOffset": 7}', None),
        ("-", None),
        ("", None),
        ("7", None),
        (None, None),
        ([], None),
    ],
)
def test_an_offset_of_ours_is_told_from_others(offset: object, pair: object) -> None:
    assert rows_of(offset) == pair


def test_a_source_is_named_by_its_wiring_and_its_place() -> None:
    assert source_name(5, 0) == "e5_0"


def test_marks_and_the_watermark_stand_with_the_offsets(checkpoint: Path) -> None:
    begin(checkpoint, 0, f'{source_name(1, 0)}:{{"row": 3, "of": "a>b"}}')
    end(checkpoint, 0)
    begin(checkpoint, 1, f'{source_name(1, 0)}:{{"row": 3, "of": "a>b", "mark": 7000}}')
    file = checkpoint / "offsets" / "1"
    file.write_text(file.read_text().replace('"batchWatermarkMs":0', '"batchWatermarkMs":5000'))
    assert marks(checkpoint, 1) == {}
    assert marks(checkpoint, 1, 1) == {"a>b": 7000}
    assert [watermark(checkpoint, batch) for batch in (-1, 0, 1)] == [0, 0, 5000]
    end(checkpoint, 1)
    assert marks(checkpoint, 1) == {"a>b": 7000}
    assert marks(checkpoint, 2) == {}  # of another wiring
