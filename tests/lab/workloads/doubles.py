"""State without Spark, for the processors of the workloads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from pyspark.sql import Row


class Values:
    """A value state: one tuple for the key at hand."""

    def __init__(self, handle: Handle) -> None:
        self._handle, self._held = handle, {}  # type: ignore[var-annotated]

    def exists(self) -> bool:
        return self._handle.key in self._held

    def get(self) -> tuple[Any, ...]:
        return self._held[self._handle.key]  # type: ignore[no-any-return]

    def update(self, value: tuple[Any, ...]) -> None:
        assert isinstance(value, tuple)
        self._held[self._handle.key] = value


class Mapped:
    """A map state: tuples by tuples, for the key at hand."""

    def __init__(self, handle: Handle) -> None:
        self._handle, self._held = handle, {}  # type: ignore[var-annotated]

    def containsKey(self, key: tuple[Any, ...]) -> bool:
        return (self._handle.key, key) in self._held

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        return self._held[self._handle.key, key]  # type: ignore[no-any-return]

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        self._held[self._handle.key, key] = value


class Handle:
    """What Spark gives to a processor."""

    key: tuple[Any, ...] = ()

    def getValueState(self, name: str, schema: str) -> Values:
        return Values(self)

    def getMapState(self, name: str, keys: str, values: str) -> Mapped:
        return Mapped(self)


class Running:
    """A processor that is given batches of records, key by key, in order."""

    def __init__(self, make: Callable[[], Any], keys: tuple[str, ...]) -> None:
        self._handle, self._processor, self._keys = Handle(), make(), keys
        self._processor.init(self._handle)

    def take(self, batch: Iterable[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for record in batch:
            groups.setdefault(tuple(record[k] for k in self._keys), []).append(Row(**record))
        for key in sorted(groups):
            self._handle.key = key
            pending = deque(groups[key])
            while pending:  # as the engine does: a record at which it fails is put aside
                with suppress(ValueError):
                    yield from self._processor.handleInputRows(key, _taken(pending), None)


def _taken(pending: deque[Row]) -> Iterator[Row]:
    while pending:
        yield pending.popleft()


def mapped(
    function: Callable[[dict[str, Any]], Any], rows: Iterable[dict[str, Any]]
) -> Iterator[Any]:
    """What a function makes of records; those at which it fails are put aside."""
    for row in rows:
        with suppress(ValueError):
            yield function(row)


def flat_mapped(
    function: Callable[[dict[str, Any]], Iterable[Any]], rows: Iterable[dict[str, Any]]
) -> Iterator[Any]:
    """The same for a function that makes several of one."""
    for row in rows:
        with suppress(ValueError):
            yield from [*function(row)]


def processed(
    make: Callable[[], Any], keys: tuple[str, ...], batches: Iterable[list[dict[str, Any]]]
) -> Iterator[tuple[Any, ...]]:
    """What a processor makes of batches of records."""
    running = Running(make, keys)
    for batch in batches:
        yield from running.take(batch)
