"""Dead letters: records that could not be processed, kept with the operator and the error.

    dead/<operator>/<thousand batches>/<epoch>-<batch>-<partition>-<attempt>-<random>.jsonl

A task may process several partitions one after the other, each with letters of its own, and may be
retried: when its batch is finished, only the letters of the last attempt are kept.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from pyspark import TaskContext

from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.measuring.operator_meter import MeterReport

_TABLES = ("DataFrame", "Series", "RecordBatch", "Table", "ChunkedArray")
_LIBRARIES = ("pandas", "pyarrow", "polars", "pyspark")


class OperatorError(RuntimeError):
    """An operator cannot continue: it is set to fail, or its result has the wrong type."""


@dataclass(frozen=True)
class Desk:
    """Where the dead letters of one operator go, and what happens to a bad record."""

    operator: str
    written: str
    fails: bool
    store: FileStore
    epoch: int

    def report(self, letters: Letters) -> MeterReport:
        """A new measurement of the operator, for the same task as the letters."""
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
    """The name of a batch: unique in a run, and in chronological order for each sink."""
    return f"{epoch:06d}-{batch:09d}"


class Letters:
    """The dead letters of one task, written when it has processed all its records."""

    def __init__(self, desk: Desk, batch: int, ending: str, partition: int) -> None:
        self.batch = batch
        self.partition = partition
        self._desk = desk
        self._label = tag(desk.epoch, batch)
        self._ending = ending
        self._lines: list[str] = []

    def add(self, record: Any, error: BaseException) -> None:
        """Keep a record as a dead letter, or raise if the operator is set to fail."""
        text = f"{type(error).__name__}: {error}"
        if self._desk.fails:
            one_line = " ".join(text.split())
            raise OperatorError(
                f"[penstock] operator '{self._desk.operator}' ({self._desk.written}) "
                f"cannot process a record: {one_line}; the record: {_json(record)[:500]}"
            ) from error
        self._lines.append(line(self._desk.operator, text, record))

    def give_up(self, error: BaseException) -> NoReturn:
        """Raise an error that names the operator, where no single record is at fault."""
        raise OperatorError(
            f"operator '{self._desk.operator}' ({self._desk.written}) failed, and no record can be "
            f"blamed for it: {type(error).__name__}: {error}"
        ) from error

    def refuse(self, result: Any, wanted: str) -> None:
        """Raise if a result is a table of another library: then the operator is at fault.

        Otherwise every record would become a dead letter, and the flow would produce nothing.
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
    """A dead letter whose record is already JSON."""
    return f'{{"operator": {_json(operator)}, "error": {_json(error)}, "record": {record}}}'


def _box(store: FileStore, operator: str, label: str) -> FileStore:
    """The directory of a batch's letters, one for each thousand batches to keep them small."""
    return store.child(operator).child(label[:-3])


def write(store: FileStore, operator: str, label: str, ending: str, lines: Iterable[str]) -> None:
    """Write letters of a batch to an operator's directory."""
    box = _box(store, operator, label).make()
    data = ("\n".join(lines) + "\n").encode(errors="backslashreplace")
    box.write_bytes(f"{label}-{ending}.jsonl", data)


def total(store: FileStore, operator: str) -> int:
    """The number of an operator's letters."""
    boxes = store.child(operator)
    return sum(_lines(boxes.child(name), boxes.child(name).names()) for name in boxes.names())


def count(store: FileStore, operator: str, label: str) -> int:
    """The number of letters of one batch."""
    box = _box(store, operator, label)
    return _lines(box, box.names(f"{label}-"))


def settle(store: FileStore, operator: str, label: str) -> int:
    """After a batch: delete the letters of failed attempts and count the rest."""
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
    """Delete the letters of an earlier, unfinished attempt at a batch."""
    box = _box(store, operator, label)
    for name in box.names(f"{label}-"):
        box.remove(name)


def forget(store: FileStore, operators: Iterable[str], epoch: int) -> None:
    """Delete the letters of an epoch that was never in force, and of all later ones."""
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
    """Maps with text keys: JSON has no others."""
    if isinstance(value, dict):
        return {k if isinstance(k, str) else str(k): _keyed_by_text(v) for k, v in value.items()}
    return [_keyed_by_text(v) for v in value] if isinstance(value, list | tuple) else value
