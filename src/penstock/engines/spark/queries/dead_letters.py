"""Dead letters: records that could not be processed, kept with the operator and the error.

    dead/<operator>/<thousand batches>/<epoch>-<batch>-<partition>-<attempt>-<random>.jsonl

A task may serve several partitions one after the other, each with letters of its own, and may be
tried again: when its batch is through, the letters of the last attempt stay.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from pyspark import TaskContext

from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.measuring.meter import MeterReport

_TABLES = ("DataFrame", "Series", "RecordBatch", "Table", "ChunkedArray")
_LIBRARIES = ("pandas", "pyarrow", "polars", "pyspark")


class OperatorError(RuntimeError):
    """An operator cannot go on: it is set to fail, or what it makes is of the wrong kind."""


@dataclass(frozen=True)
class Desk:
    """Where the letters of one operator go, and what is done with a bad record."""

    operator: str
    written: str
    fails: bool
    store: FileStore
    epoch: int

    def report(self, letters: Letters) -> MeterReport:
        """A new report on the operator in the task that the letters are of."""
        return MeterReport(self.operator, self.epoch, letters.partition, letters.batch)

    def open(self) -> Letters:
        """The letters of this task; called inside a Python worker."""
        context = TaskContext.get()
        batch = context.getLocalProperty("streaming.sql.batchId") if context else None
        partition = context.partitionId() if context else 0
        attempt = context.taskAttemptId() if context else 0
        ending = f"{partition:05d}-{attempt:09d}-{secrets.token_hex(4)}"
        return Letters(self, int(batch or 0), ending, partition)


def tag(epoch: int, batch: int) -> str:
    """The name of a batch: unique in a run, and in order of time for any one sink."""
    return f"{epoch:06d}-{batch:09d}"


class Letters:
    """The letters of one task, written when it has gone through all its records."""

    def __init__(self, desk: Desk, batch: int, ending: str, partition: int) -> None:
        self.batch = batch
        self.partition = partition
        self._desk = desk
        self._label = tag(desk.epoch, batch)
        self._ending = ending
        self._lines: list[str] = []

    def add(self, record: Any, error: BaseException) -> None:
        """Put a record aside, or raise if the operator is set to fail."""
        text = f"{type(error).__name__}: {error}"
        if self._desk.fails:
            one_line = " ".join(text.split())
            raise OperatorError(
                f"[penstock] operator '{self._desk.operator}' ({self._desk.written}) "
                f"cannot process a record: {one_line}; the record: {_json(record)[:500]}"
            ) from error
        self._lines.append(line(self._desk.operator, text, record))

    def give_up(self, error: BaseException) -> NoReturn:
        """Say which operator failed where no record can be blamed."""
        raise OperatorError(
            f"operator '{self._desk.operator}' ({self._desk.written}) failed, and no record can be "
            f"blamed for it: {type(error).__name__}: {error}"
        ) from error

    def refuse(self, result: Any, wanted: str) -> None:
        """Raise if a result is a table of another library: then no record is to blame.

        Every record would become a dead letter, and the flow would go on without a result.
        """
        kind = type(result)
        if kind.__name__ in _TABLES and kind.__module__.partition(".")[0] in _LIBRARIES:
            library = kind.__module__.partition(".")[0]
            raise OperatorError(
                f"[penstock] operator '{self._desk.operator}' ({self._desk.written}) makes a "
                f"{library} {kind.__name__}: {wanted}"
            )

    def send(self) -> None:
        if self._lines:
            write(self._desk.store, self._desk.operator, self._label, self._ending, self._lines)
            self._lines = []


def line(operator: str, error: str, record: Any) -> str:
    return raw_line(operator, error, _json(record))


def raw_line(operator: str, error: str, record: str) -> str:
    """A letter whose record is JSON already."""
    return f'{{"operator": {_json(operator)}, "error": {_json(error)}, "record": {record}}}'


def _box(store: FileStore, operator: str, label: str) -> FileStore:
    """The folder of a batch's letters, shared with its thousand, so that none grows for ever."""
    return store.child(operator).child(label[:-3])


def write(store: FileStore, operator: str, label: str, ending: str, lines: Iterable[str]) -> None:
    """Put letters of a batch into an operator's directory."""
    box = _box(store, operator, label).make()
    data = ("\n".join(lines) + "\n").encode(errors="backslashreplace")
    box.write_bytes(f"{label}-{ending}.jsonl", data)


def total(store: FileStore, operator: str) -> int:
    """All letters of an operator."""
    boxes = store.child(operator)
    return sum(_lines(boxes.child(name), boxes.child(name).names()) for name in boxes.names())


def count(store: FileStore, operator: str, label: str) -> int:
    """The letters of one batch."""
    box = _box(store, operator, label)
    return _lines(box, box.names(f"{label}-"))


def settle(store: FileStore, operator: str, label: str) -> int:
    """When a batch is through: drop the letters of attempts that failed, and count the rest."""
    box = _box(store, operator, label)
    kept = set(box.names(f"{label}-"))
    tries: dict[str, dict[str, list[str]]] = {}
    for name in kept:
        partition, attempt = name.removeprefix(f"{label}-").split("-")[:2]
        if attempt.isdigit():
            tries.setdefault(partition, {}).setdefault(attempt, []).append(name)
    for attempts in tries.values():
        for attempt in sorted(attempts)[:-1]:
            for name in attempts[attempt]:
                box.remove(name)
                kept.discard(name)
    return _lines(box, kept)


def discard(store: FileStore, operator: str, label: str) -> None:
    """Remove what an earlier, unfinished attempt at a batch left."""
    box = _box(store, operator, label)
    for name in box.names(f"{label}-"):
        box.remove(name)


def forget(store: FileStore, operators: Iterable[str], epoch: int) -> None:
    """Remove the letters of an epoch that never came into force, and of all after it."""
    for operator in operators:
        boxes = store.child(operator)
        for name in boxes.names():
            if name[:6].isdigit() and int(name[:6]) >= epoch:
                for file in boxes.child(name).names():
                    boxes.child(name).remove(file)


def _lines(box: FileStore, names: Iterable[str]) -> int:
    found = 0
    for name in names:
        if name.endswith(".jsonl"):
            with box.filesystem.open_input_file(box.path(name)) as file:
                found += file.read().count(b"\n")
    return found


def _json(value: Any) -> str:
    return json.dumps(_keyed_by_text(value), default=str, ensure_ascii=False)


def _keyed_by_text(value: Any) -> Any:
    """A map may have keys that JSON does not know."""
    if isinstance(value, dict):
        return {k if isinstance(k, str) else str(k): _keyed_by_text(v) for k, v in value.items()}
    return [_keyed_by_text(v) for v in value] if isinstance(value, list | tuple) else value
