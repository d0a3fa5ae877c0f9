"""Stateful processors: rows in order, bad records put aside, ports paired one to one."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StructField, StructType

from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.queries.dead_letters import Desk, OperatorError
from penstock.engines.spark.queries.stateful_processors import (
    ORDER,
    BarrierProcessor,
    GuardedProcessor,
)
from tests.strategies import few

COLUMNS = ("word", "n")
Input = Row("word", "n", ORDER)


def shuffled(*numbers: int) -> Iterator[Row]:
    """Rows of one key as they come out of a shuffle."""
    rows = [Input("a", n, 10 * at) for at, n in enumerate(numbers)]
    random.Random(7).shuffle(rows)
    return iter(rows)


class Plain(StatefulProcessor):
    """Sends every row on; fails on 0 as soon as it reads it."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.seen: list[Row] = []
        self.calls = 0

    def handleInputRows(self, key: Any, rows: Iterator[Row], timer_values: Any) -> Iterator[Row]:
        self.calls += 1
        for row in rows:
            self.seen.append(row)
            yield Row(n=100 // row["n"])

    def handleExpiredTimer(self, key: Any, timer_values: Any, expired: Any) -> Iterator[Row]:
        yield Row(n=expired)
        if expired == 0:
            raise ValueError("a bad timer")

    def close(self) -> None:
        self.closed = True


class AtTheEnd(Plain):
    """Reads everything before it looks at anything."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timer_values: Any) -> Iterator[Row]:
        found = list(rows)
        yield Row(n=sum(100 // row["n"] for row in found))


class AtTheStart(Plain):
    """Fails before it reads."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timer_values: Any) -> Iterator[Row]:
        raise OSError("no model")


class TakesTwo(Plain):
    """Looks at two rows only."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timer_values: Any) -> Iterator[Row]:
        return iter([next(rows), next(rows)])


class Tuples(Plain):
    """Sends plain tuples on, or nothing at all."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timer_values: Any) -> Any:
        found = [(row["n"],) for row in rows]
        return found if len(found) > 1 else None


class Guarded:
    """A processor in its guard, and what it leaves."""

    def __init__(self, folder: Path, inner: StatefulProcessor, fails: bool = False) -> None:
        self.dead = FileStore(str(folder))
        self.inner: Any = inner
        desk = Desk("count", "flow.py:12", fails, self.dead, 1)
        self.guard = GuardedProcessor(inner, desk, COLUMNS, pa.schema([("n", pa.int64())]))
        self.guard.init("handle")  # type: ignore[arg-type]

    def send(self, *numbers: int) -> list[int]:
        rows = self.guard.handleInputRows(("a",), shuffled(*numbers), None)
        return [row["n"] for row in rows]

    def letters(self) -> list[dict[str, Any]]:
        self.guard.close()
        box = self.dead.child("count")
        files = sorted(Path(box.path()).rglob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]

    def put_aside(self) -> list[int]:
        return [letter["record"]["n"] for letter in self.letters()]


def test_rows_of_a_key_come_in_order_and_without_the_hidden_column(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, Plain())
    assert guarded.send(*range(1, 9)) == [100, 50, 33, 25, 20, 16, 14, 12]
    assert guarded.inner.seen == [Row(word="a", n=n) for n in range(1, 9)]
    assert guarded.inner.seen[0].asDict() == {"word": "a", "n": 1}
    assert guarded.letters() == []


def test_the_users_processor_gets_the_handle_and_is_closed(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, Plain())
    guarded.guard.close()
    assert guarded.inner.handle == "handle"
    assert guarded.inner.closed


def test_the_record_that_was_read_last_is_the_bad_one(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, Plain())
    assert guarded.send(1, 0, 2, 0, 4) == [100, 50, 25]
    assert guarded.inner.calls == 3
    letter = {
        "operator": "count",
        "error": "ZeroDivisionError: integer division or modulo by zero",
        "record": {"word": "a", "n": 0},
    }
    assert guarded.letters() == [letter, letter]


def test_a_bad_record_at_the_end_is_not_followed_by_an_empty_call(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, Plain())
    assert guarded.send(1, 0) == [100]
    assert guarded.inner.calls == 1
    assert guarded.put_aside() == [0]


def test_when_all_were_read_all_are_put_aside(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, AtTheEnd())
    assert guarded.send(1, 0, 2) == []
    assert guarded.put_aside() == [1, 0, 2]


def test_other_keys_go_on(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, AtTheEnd())
    assert guarded.send(1, 0) == []
    assert guarded.send(1, 2) == [150]
    assert guarded.put_aside() == [1, 0]


def test_when_none_was_read_all_are_put_aside(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, AtTheStart())
    assert guarded.send(3, 4) == []
    assert guarded.put_aside() == [3, 4]


def test_a_processor_need_not_read_everything(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, TakesTwo())
    assert guarded.send(3, 0, 5) == [3, 0]
    assert guarded.letters() == []


def test_plain_tuples_get_the_names_of_the_schema(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, Tuples())
    assert guarded.send(3, 4) == [3, 4]
    assert guarded.send(3) == []
    assert guarded.letters() == []


def test_a_processor_that_is_set_to_fail_does(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, Plain(), fails=True)
    with pytest.raises(OperatorError, match=r"operator 'count' \(flow.py:12\) cannot process"):
        guarded.send(1, 0, 2)


def test_timers_are_passed_on_and_guarded(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, Plain())
    fired = [
        row["n"]
        for timer in (5, 0, 6)
        for row in guarded.guard.handleExpiredTimer(("a",), None, timer)
    ]
    assert fired == [5, 0, 6]
    assert guarded.letters() == [
        {
            "operator": "count",
            "error": "ValueError: a bad timer",
            "record": {"timer of key": ["a"]},
        }
    ]


@few
@given(numbers=st.lists(st.integers(-3, 3), max_size=20))
def test_whatever_is_bad_output_and_letters_are_the_input(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int]
) -> None:
    guarded = Guarded(tmp_path_factory.mktemp("dead"), Plain())
    assert guarded.send(*numbers) == [100 // n for n in numbers if n]
    assert guarded.put_aside() == [n for n in numbers if not n]


# --- the barrier --------------------------------------------------------------------------------


class ListState:
    """A list in memory, as `getListState` would give one."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.puts = 0

    def get(self) -> Iterator[Row]:
        return iter([Row(*row) for row in self.rows])

    def put(self, rows: list[Any]) -> None:
        assert rows, "Spark refuses an empty list"
        self.rows = rows
        self.puts += 1

    def clear(self) -> None:
        self.rows = []


class Handle:
    """State of one key by name."""

    def __init__(self) -> None:
        self.states: dict[str, ListState] = {}

    def getListState(self, name: str, schema: StructType) -> ListState:
        return self.states.setdefault(name, ListState())


NUMBER = StructType([StructField("n", LongType())])


class Barrier:
    """A barrier over some ports, fed with (port, number) pairs."""

    def __init__(self, ports: int, keys: tuple[str, ...] = ("key",)) -> None:
        names = tuple(f"in{i}" for i in range(ports))
        self.handle = Handle()
        self.barrier = BarrierProcessor(keys, names, (NUMBER,) * ports)
        self.barrier.init(self.handle)  # type: ignore[arg-type]
        self.row = Row("key", "__port", *(f"__in{i}" for i in range(ports)), ORDER)
        self.ports = ports

    def send(self, *records: tuple[int, int]) -> list[Any]:
        rows = [
            self.row("k", port, *(form(n=n) if i == port else None for i in range(self.ports)), at)
            for at, (port, n) in enumerate(records)
            for form in ((dict, Row)[at % 2],)  # Spark gives a struct as either
        ]
        random.Random(3).shuffle(rows)
        found = self.barrier.handleInputRows(("k",), iter(rows), None)
        return [row.asDict() for row in found]

    def waiting(self) -> list[list[int]]:
        return [[row[0] for row in state.rows] for state in self.handle.states.values()]


def test_a_record_waits_for_one_of_every_other_port() -> None:
    barrier = Barrier(2)
    assert barrier.send((0, 1), (0, 2)) == []
    assert barrier.waiting() == [[1, 2], []]
    assert barrier.send((1, 7)) == [{"key": "k", "in0": {"n": 1}, "in1": {"n": 7}}]
    assert barrier.waiting() == [[2], []]
    assert barrier.send((1, 8), (1, 9)) == [{"key": "k", "in0": {"n": 2}, "in1": {"n": 8}}]
    assert barrier.waiting() == [[], [9]]


def test_a_barrier_without_keys_sends_the_ports_alone() -> None:
    assert Barrier(2, keys=()).send((0, 1), (1, 7)) == [{"in0": {"n": 1}, "in1": {"n": 7}}]


def test_state_that_stays_empty_is_not_touched() -> None:
    barrier = Barrier(3)
    barrier.send((0, 1), (1, 2), (2, 3))
    assert [state.puts for state in barrier.handle.states.values()] == [0, 0, 0]


@few
@given(
    ports=st.integers(1, 3),
    batches=st.lists(st.lists(st.integers(0, 2), max_size=8), max_size=5),
)
def test_the_nth_records_of_all_ports_meet_however_they_arrive(
    ports: int, batches: list[list[int]]
) -> None:
    barrier = Barrier(ports)
    sent: list[deque[int]] = [deque() for _ in range(ports)]
    got: list[tuple[int, ...]] = []
    number = 0
    for batch in batches:
        records = []
        for port in (p % ports for p in batch):
            records.append((port, number))
            sent[port].append(number)
            number += 1
        for together in barrier.send(*records):
            got.append(tuple(together[f"in{port}"]["n"] for port in range(ports)))
    full = [group for group in zip_longest(*sent) if None not in group]
    assert got == full
    assert barrier.waiting() == [list(queue)[len(full) :] for queue in sent]


class Odd(Plain):
    """Sends on what is no number."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timer_values: Any) -> Iterator[Row]:
        for row in rows:
            yield Row(n="no number" if row["n"] == 2 else row["n"])


def test_results_that_do_not_fit_the_schema_are_put_aside(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, Odd())
    assert guarded.send(1, 2, 3) == [1, 3]
    (letter,) = guarded.letters()
    assert letter["record"] == {"result": {"n": "no number"}}


class OfPandas(Plain):
    def handleInputRows(self, key: Any, rows: Iterator[Any], timer_values: Any) -> Iterator[Any]:
        yield pd.DataFrame({"n": [len(row) for row in rows]})


def test_a_processor_that_yields_pandas_fails_and_makes_no_letters(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, OfPandas())
    with pytest.raises(OperatorError) as failure:
        guarded.send(1, 2)
    assert "makes a pandas DataFrame" in str(failure.value)
    assert "yield Row(...)" in str(failure.value)
    assert guarded.letters() == []


class Dictionaries(Plain):
    def handleInputRows(self, key: Any, rows: Iterator[Row], timer_values: Any) -> Iterator[Any]:
        for row in rows:
            yield {"n": row["n"]} if row["n"] < 3 else {"m": row["n"]} if row["n"] < 4 else "x"


def test_dictionaries_are_results_by_name_and_texts_are_none(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, Dictionaries())
    assert guarded.send(1, 2, 3, 4) == [1, 2]
    assert [letter["error"].partition(":")[0] for letter in guarded.letters()] == [
        "KeyError",
        "TypeError",
    ]
