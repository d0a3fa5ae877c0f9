"""Dead letters: which operator, which error, which record; once for every batch."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.queries import dead_letters
from penstock.engines.spark.queries.dead_letters import Desk, OperatorError


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(str(tmp_path))


def desk(store: FileStore, fails: bool = False) -> Desk:
    return Desk("parse", "flow.py:12", fails, store, epoch=3)


def found(store: FileStore, operator: str = "parse") -> list[dict[str, Any]]:
    box = Path(store.path(operator))
    lines = [
        line for file in sorted(box.rglob("*.jsonl")) for line in file.read_bytes().splitlines()
    ]
    return [json.loads(line) for line in lines]


def test_a_letter_says_operator_error_and_record(store: FileStore) -> None:
    opened = desk(store).open()
    opened.add({"text": "zwölf\nlines", "n": 1}, ValueError("not a number"))
    opened.send()
    assert found(store) == [
        {
            "operator": "parse",
            "error": "ValueError: not a number",
            "record": {"text": "zwölf\nlines", "n": 1},
        }
    ]


def test_letters_lie_in_a_file_of_their_batch_and_partition(store: FileStore) -> None:
    opened = desk(store).open()
    opened.add({"n": 1}, ValueError())
    opened.send()
    assert store.child("parse").names() == ["000003-000000"]
    (name,) = store.child("parse/000003-000000").names()
    assert name.startswith("000003-000000000-00000-000000000-")


def test_where_nothing_goes_wrong_nothing_is_written(store: FileStore) -> None:
    desk(store).open().send()
    assert store.names() == []


def test_nothing_is_written_before_all_records_are_through(store: FileStore) -> None:
    opened = desk(store).open()
    opened.add({"n": 1}, ValueError())
    assert store.names() == []


def test_partitions_that_share_a_task_keep_the_letters_of_each(store: FileStore) -> None:
    for n in (1, 2):
        opened = desk(store).open()
        opened.add({"n": n}, ValueError())
        opened.send()
        opened.send()
    assert sorted(letter["record"]["n"] for letter in found(store)) == [1, 2]


def test_of_a_task_that_was_tried_again_the_last_attempt_stays(store: FileStore) -> None:
    label = dead_letters.tag(3, 7)
    for name in (
        "00000-000000001-aa",
        "00000-000000002-bb",
        "00000-000000002-cc",
        "00001-000000001-dd",
    ):
        dead_letters.write(store, "parse", label, name, [name])
    assert dead_letters.settle(store, "parse", label) == 3
    names = store.child("parse/000003-000000").names()
    assert [n[17:].split(".")[0] for n in names] == [
        "00000-000000002-bb",
        "00000-000000002-cc",
        "00001-000000001-dd",
    ]


def test_values_that_json_does_not_know_are_written_as_text(store: FileStore) -> None:
    opened = desk(store).open()
    day = dt.date(2024, 2, 29)
    opened.add(
        {"day": day, "price": Decimal("1.50"), "raw": b"\xff", "by": {day: {1: day}}}, ValueError()
    )
    opened.send()
    assert found(store)[0]["record"] == {
        "day": "2024-02-29",
        "price": "1.50",
        "raw": "b'\\xff'",
        "by": {"2024-02-29": {"1": "2024-02-29"}},
    }


def test_a_text_that_cannot_be_encoded_does_not_stop_a_letter(store: FileStore) -> None:
    opened = desk(store).open()
    opened.add({"n": 1}, ValueError("half a character: \ud800"))
    opened.send()
    assert dead_letters.total(store, "parse") == 1
    (file,) = Path(store.path("parse")).rglob("*.jsonl")
    assert b"half a character: \\ud800" in file.read_bytes()


def test_an_operator_that_is_set_to_fail_names_itself_and_the_record(store: FileStore) -> None:
    with pytest.raises(OperatorError) as failure:
        desk(store, fails=True).open().add({"n": 1}, ValueError("no"))
    assert str(failure.value) == (
        "[penstock] operator 'parse' (flow.py:12) cannot process a record: ValueError: no; "
        'the record: {"n": 1}'
    )
    assert isinstance(failure.value.__cause__, ValueError)


def test_the_record_in_an_error_is_cut_short(store: FileStore) -> None:
    with pytest.raises(OperatorError) as failure:
        desk(store, fails=True).open().add({"n": "x" * 9999}, ValueError("no"))
    assert len(str(failure.value)) < 700


def test_an_error_that_no_record_is_to_blame_for_names_the_operator(store: FileStore) -> None:
    with pytest.raises(OperatorError) as failure:
        desk(store).open().give_up(OSError("no model"))
    assert str(failure.value) == (
        "operator 'parse' (flow.py:12) failed, and no record can be blamed for it: "
        "OSError: no model"
    )


def test_letters_are_counted_by_operator_and_batch(store: FileStore) -> None:
    for batch, lines in ((1, ["a", "b"]), (2, ["c"]), (1000, ["d"])):
        dead_letters.write(store, "parse", dead_letters.tag(3, batch), "00000-1-x", lines)
    dead_letters.write(store, "parse", dead_letters.tag(3, 1), "native-rejects", ["e"])
    assert dead_letters.total(store, "parse") == 5
    assert dead_letters.count(store, "parse", dead_letters.tag(3, 1)) == 3
    assert dead_letters.settle(store, "parse", dead_letters.tag(3, 1)) == 3
    assert dead_letters.count(store, "parse", dead_letters.tag(3, 1000)) == 1
    assert (
        dead_letters.total(store, "split")
        == dead_letters.settle(store, "split", dead_letters.tag(3, 1))
        == 0
    )


def test_letters_of_an_unfinished_batch_are_discarded_alone(store: FileStore) -> None:
    for batch in (1, 2, 10):
        dead_letters.write(store, "parse", dead_letters.tag(3, batch), "00000-1-x", ["a"])
    dead_letters.discard(store, "parse", dead_letters.tag(3, 1))
    dead_letters.discard(store, "split", dead_letters.tag(3, 1))
    assert store.child("parse/000003-000000").names() == [
        "000003-000000002-00000-1-x.jsonl",
        "000003-000000010-00000-1-x.jsonl",
    ]


def test_tags_sort_in_the_order_of_time() -> None:
    tags = [
        dead_letters.tag(1, 9),
        dead_letters.tag(1, 10),
        dead_letters.tag(2, 0),
        dead_letters.tag(10, 0),
    ]
    assert tags == sorted(tags)
    assert tags[1] == "000001-000000010"
