"""Dead letters: records that could not be processed, kept with the operator and the error.

    dead/<operator>/<epoch>-<batch>-<partition>-<attempt>-<random>.jsonl   one line a record

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

from penstock.engines.spark.store import Store


class OperatorError(RuntimeError):
    """A record stopped its operator, and the operator is set to fail."""


@dataclass(frozen=True)
class Desk:
    """Where the letters of one operator go, and what is done with a bad record."""

    operator: str
    written: str
    fails: bool
    store: Store
    epoch: int

    def open(self) -> Letters:
        """The letters of this task; called inside a Python worker."""
        context = TaskContext.get()
        batch = context.getLocalProperty("streaming.sql.batchId") if context else None
        partition = context.partitionId() if context else 0
        attempt = context.taskAttemptId() if context else 0
        label = tag(self.epoch, int(batch or 0))
        name = f"{label}-{partition:05d}-{attempt:09d}-{secrets.token_hex(4)}.jsonl"
        return Letters(self, name)


def tag(epoch: int, batch: int) -> str:
    """The name of a batch: unique in a run, and in order of time for any one sink."""
    return f"{epoch:06d}-{batch:09d}"


class Letters:
    """The letters of one task, written when it has gone through all its records."""

    def __init__(self, desk: Desk, name: str) -> None:
        self._desk = desk
        self._name = name
        self._lines: list[str] = []

    def add(self, record: Any, error: BaseException) -> None:
        """Put a record aside, or raise if the operator is set to fail."""
        text = f"{type(error).__name__}: {error}"
        if self._desk.fails:
            raise OperatorError(
                f"[penstock] operator '{self._desk.operator}' ({self._desk.written}) "
                f"cannot process a record: {text}; the record: {_json(record)[:500]}"
            ) from error
        self._lines.append(line(self._desk.operator, text, record))

    def give_up(self, error: BaseException) -> NoReturn:
        """Say which operator failed where no record can be blamed."""
        raise OperatorError(
            f"operator '{self._desk.operator}' ({self._desk.written}) failed, and no record can be "
            f"blamed for it: {type(error).__name__}: {error}"
        ) from error

    def send(self) -> None:
        if self._lines:
            write(self._desk.store, self._desk.operator, self._name, self._lines)
            self._lines = []


def line(operator: str, error: str, record: Any) -> str:
    return _json({"operator": operator, "error": error, "record": record})


def write(store: Store, operator: str, name: str, lines: Iterable[str]) -> None:
    """Put letters into an operator's directory under a name of their batch."""
    box = store.child(operator)
    box.make()
    box.write_bytes(name, ("\n".join(lines) + "\n").encode(errors="backslashreplace"))


def count(store: Store, operator: str, prefix: str = "") -> int:
    """Letters of an operator, of one batch if its tag is given."""
    box = store.child(operator)
    found = 0
    for name in box.names(prefix):
        if name.endswith(".jsonl"):
            with box.filesystem.open_input_file(box.path(name)) as file:
                found += file.read().count(b"\n")
    return found


def settle(store: Store, operator: str, label: str) -> int:
    """When a batch is through: drop the letters of attempts that failed, and count the rest."""
    box = store.child(operator)
    attempts: dict[str, dict[str, list[str]]] = {}
    for name in box.names(f"{label}-"):
        partition, attempt = name.removeprefix(f"{label}-").split("-")[:2]
        if name.endswith(".jsonl") and attempt.isdigit():
            attempts.setdefault(partition, {}).setdefault(attempt, []).append(name)
    for tries in attempts.values():
        for attempt in sorted(tries)[:-1]:
            for name in tries[attempt]:
                box.remove(name)
    return count(store, operator, f"{label}-") if box.names(f"{label}-") else 0


def discard(store: Store, operator: str, prefix: str) -> None:
    """Remove what an earlier, unfinished attempt at a batch left."""
    box = store.child(operator)
    for name in box.names(prefix):
        box.remove(name)


def _json(value: Any) -> str:
    return json.dumps(_keyed_by_text(value), default=str, ensure_ascii=False)


def _keyed_by_text(value: Any) -> Any:
    """A map may have keys that JSON does not know."""
    if isinstance(value, dict):
        return {k if isinstance(k, str) else str(k): _keyed_by_text(v) for k, v in value.items()}
    return [_keyed_by_text(v) for v in value] if isinstance(value, list | tuple) else value
