"""Stateful Python operators: the user's `StatefulProcessor` with dead letters, rows in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

from penstock.engines.spark.measuring.operator_meter import SAMPLED, Meter, MeterReports
from penstock.engines.spark.queries.dead_letters import Desk, OperatorError

ALL = "__penstock_all"
"""The constant key of a global operator."""

ORDER = "__penstock_order"
"""The column that carries a record's position in its batch through the shuffle."""


_ROWS = (
    "a processor gets Rows and yields Rows, not pandas as in transformWithStateInPandas; "
    "yield Row(...) for each row"
)


class _Feed:
    """An iterator over rows that remembers which were read."""

    def __init__(self, rows: deque[Row], meter: Meter) -> None:
        self._rows = rows
        self._meter = meter
        self.taken: list[Row] = []
        self.exhausted = False

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        if not self._rows:
            if not self.exhausted:
                self._meter.exhausted()
            self.exhausted = True
            raise StopIteration
        if len(self.taken) <= SAMPLED:
            self._meter.taken()
        self.taken.append(self._rows.popleft())
        return self.taken[-1]


class GuardedProcessor(StatefulProcessor):
    """Runs a user's processor: rows of a key in order, bad records as dead letters.

    If the processor fails while it reads, the record it read last is the bad one, and it is called
    again with the rest. If it had read them all, all become dead letters, since any of them may be
    the bad one. Changes that it made to the state before are kept.
    """

    def __init__(
        self,
        inner: StatefulProcessor,
        desk: Desk,
        columns: tuple[str, ...],
        output: pa.Schema,
        mail: MeterReports | None = None,
    ) -> None:
        self._inner = inner
        self._desk = desk
        self._columns = columns
        self._schema = output
        self._mail = mail

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._letters = self._desk.open()
        self._meter = Meter(self._desk.report(self._letters))
        self._row = Row(*self._columns)
        self._result = Row(*self._schema.names)
        # Strings take any value, and nested values are converted by Spark itself.
        self._checked = [
            field
            for field in self._schema
            if pa.types.is_primitive(field.type) or pa.types.is_decimal(field.type)
        ]
        self._inner.init(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        ordered = sorted(rows, key=lambda row: row[ORDER])
        pending = deque(self._row(*(row[name] for name in self._columns)) for row in ordered)
        yield from self._meter.rows(self._handled(key, pending, timerValues), len(pending))

    def _handled(self, key: Any, pending: deque[Row], timerValues: Any) -> Iterator[Row]:
        while pending:
            feed = _Feed(pending, self._meter)
            try:
                results = self._inner.handleInputRows(key, feed, timerValues)
                yield from self._fitting(results)
                return
            except OperatorError:
                raise
            except Exception as error:
                if feed.exhausted:
                    bad = feed.taken
                elif feed.taken:
                    bad = feed.taken[-1:]
                else:  # it failed before it read any
                    bad = list(pending)
                    pending.clear()
                for row in bad:
                    self._letters.add(row.asDict(recursive=True), error)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        try:
            results = self._inner.handleExpiredTimer(key, timerValues, expiredTimerInfo)
            yield from self._fitting(results)
        except OperatorError:
            raise
        except Exception as error:
            self._letters.add({"timer of key": list(key)}, error)

    def _fitting(self, results: Iterable[Any] | None) -> Iterator[Row]:
        """Results that have the declared types; the others become dead letters."""
        self._letters.refuse(results, _ROWS)
        for result in results or ():
            self._letters.refuse(result, _ROWS)
            row: Any = None
            try:
                row = self._named(result)
                for field in self._checked:
                    pa.scalar(row[field.name], field.type)
            except (pa.ArrowException, KeyError, TypeError, ValueError, OverflowError) as error:
                record = row.asDict(recursive=True) if isinstance(row, Row) else repr(result)
                self._letters.add({"result": record}, error)
                continue
            yield row

    def _named(self, result: Any) -> Row:
        """A result as a named row, which Spark requires; tuples are in the order of the schema."""
        names = self._schema.names
        if isinstance(result, Row) and hasattr(result, "__fields__"):
            return result
        if isinstance(result, dict):
            unknown = sorted(set(result) - set(names))
            if unknown:
                raise KeyError(f"column {unknown} is not in the operator's schema {names}")
            return self._result(*(result.get(name) for name in names))
        if isinstance(result, tuple | list) and len(result) == len(names):
            return self._result(*result)
        raise TypeError(f"expected a Row or a tuple of {len(names)}, got {result!r:.100}")

    def close(self) -> None:
        self._inner.close()
        self._letters.send()
        if self._mail is not None:
            self._mail.send(self._meter.whole())


class BarrierProcessor(StatefulProcessor):
    """Keeps a queue for each port, and emits one record of every port together.

    Input rows are (keys..., port number, one struct for each port, only its own set, position).
    """

    def __init__(
        self, keys: tuple[str, ...], ports: tuple[str, ...], schemas: tuple[StructType, ...]
    ) -> None:
        self._keys = keys
        self._ports = ports
        self._schemas = schemas

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._result = Row(*self._keys, *self._ports)
        self._queues = [
            handle.getListState(f"port{i}", schema) for i, schema in enumerate(self._schemas)
        ]

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        waiting = [deque(tuple(v) for v in q.get()) for q in self._queues]
        before = [len(queue) for queue in waiting]
        for row in sorted(rows, key=lambda r: r[ORDER]):
            waiting[row["__port"]].append(_values(row[f"__in{row['__port']}"]))
        heads = tuple(key) if self._keys else ()
        while all(waiting):
            together = (queue.popleft() for queue in waiting)
            records = (
                dict(zip(schema.names, values, strict=True))
                for schema, values in zip(self._schemas, together, strict=True)
            )
            yield self._result(*heads, *records)
        for state, queue, old in zip(self._queues, waiting, before, strict=True):
            if queue:
                state.put(list(queue))
            elif old:
                state.clear()

    def close(self) -> None:
        pass


def _values(struct: Any) -> tuple[Any, ...]:
    """The values of a struct, which is a dictionary or a row."""
    return tuple(struct.values()) if isinstance(struct, dict) else tuple(struct)
