"""State without Spark, for the processors of the workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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


def processed(
    make: Callable[[], Any],
    keys: tuple[str, ...],
    batches: Iterable[list[dict[str, Any]]],
) -> Iterator[tuple[Any, ...]]:
    """What a processor makes of batches of records, each given to it key by key, in order."""
    handle, processor = Handle(), make()
    processor.init(handle)
    for batch in batches:
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for record in batch:
            groups.setdefault(tuple(record[k] for k in keys), []).append(Row(**record))
        for key in sorted(groups):
            handle.key = key
            yield from processor.handleInputRows(key, iter(groups[key]), None)
    processor.close()
