"""Runs per-record and Arrow functions over record batches, with dead letters and metering.

Each operator compiles to a step, a function from record batches to record batches. Adjacent steps
run in one Python worker, without a round trip through the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.dataflow.operators import Arrow, Filter, FlatMap, Map
from penstock.engines.spark.measuring.operator_meter import SAMPLED, Meter, MeterReports
from penstock.engines.spark.queries.dead_letters import Desk, Letters, OperatorError
from penstock.engines.spark.session.pickling import settled
from penstock.engines.spark.session.time_zones import in_zone

Batches = Iterator[pa.RecordBatch]

_RECORDS = "a record is a dictionary or a tuple; use an arrow operator for whole batches"
_BATCHES = "an Arrow function yields pyarrow.RecordBatch; Table.to_batches() makes them"


@dataclass(frozen=True)
class RecordStep:
    """One Python operator, ready to be serialised. Without `mail` it is not metered."""

    body: Arrow | Map | FlatMap | Filter
    schema: pa.Schema
    desk: Desk
    mail: MeterReports | None = None

    def __call__(self, batches: Batches, last: bool = True) -> Batches:
        """last: the last step in its Python process, which reports the use of the whole process."""
        letters = self.desk.open()
        meter = Meter(self.desk.report(letters))
        try:
            yield from meter.outward(self._run(meter.inward(batches), letters, meter))
        finally:  # also when the next step stops reading
            letters.send()
            if self.mail is not None:
                self.mail.send(meter.whole() if last else meter.report)

    def _run(self, batches: Batches, letters: Letters, meter: Meter) -> Batches:
        match self.body:
            case Arrow(function):
                return _arrow(function, batches, letters, self.schema)
            case Filter(function):
                return (_filter(function, b, letters, meter) for b in batches)
            case Map(function):
                return _records(lambda r: (function(r),), batches, letters, self.schema, meter)
            case FlatMap(function):
                return _records(function, batches, letters, self.schema, meter)


@dataclass(frozen=True)
class RecordSteps:
    """Consecutive steps as one function for `mapInArrow`."""

    stages: tuple[RecordStep, ...]

    def __call__(self, batches: Batches) -> Batches:
        for number, stage in enumerate(self.stages, 1):
            batches = stage(batches, last=number == len(self.stages))
        return settled(batches)


def _filter(
    function: Callable[[dict[str, Any]], Any],
    batch: pa.RecordBatch,
    letters: Letters,
    meter: Meter,
) -> pa.RecordBatch:
    keep = []
    timed = meter.timed(function)
    for at, record in enumerate(batch.to_pylist()):
        try:
            keep.append(bool((timed if at < SAMPLED else function)(record)))
        except Exception as error:
            letters.add(_record(batch, at), error)
            keep.append(False)
    return batch.filter(pa.array(keep, pa.bool_()))


def _records(
    function: Callable[[dict[str, Any]], Any],
    batches: Batches,
    letters: Letters,
    schema: pa.Schema,
    meter: Meter,
) -> Batches:
    names = schema.names
    timed = meter.timed(function)
    known = frozenset(names)

    def shaped(result: Any) -> dict[str, Any]:
        letters.refuse(result, _RECORDS)
        if isinstance(result, dict):
            if not known.issuperset(result):
                unknown = sorted(set(result) - known)
                raise KeyError(f"column {unknown} is not in the operator's schema {names}")
            return result
        if isinstance(result, tuple | list) and len(result) == len(names):
            return dict(zip(names, result, strict=True))
        raise TypeError(f"expected a dictionary or a tuple of {len(names)}, got {result!r:.100}")

    for batch in batches:
        pairs: list[tuple[int, list[dict[str, Any]]]] = []
        for at, record in enumerate(batch.to_pylist()):
            try:
                results = (timed if at < SAMPLED else function)(record)
                letters.refuse(results, _RECORDS)
                pairs.append((at, [shaped(result) for result in results]))
            except OperatorError:
                raise
            except Exception as error:
                letters.add(_record(batch, at), error)
        yield from _converted(pairs, batch, letters, schema)


def _record(batch: pa.RecordBatch, at: int) -> dict[str, Any]:
    """A record as it arrived, even if a function has modified its dictionary."""
    record: dict[str, Any] = batch.slice(at, 1).to_pylist()[0]
    return record


def _converted(
    pairs: list[tuple[int, list[dict[str, Any]]]],
    batch: pa.RecordBatch,
    letters: Letters,
    schema: pa.Schema,
) -> Batches:
    """Results as Arrow. A record whose value does not fit the schema becomes a dead letter."""
    if not pairs:
        return
    try:
        results = in_zone((row for _, rows in pairs for row in rows), schema)
        made = pa.RecordBatch.from_pylist([*results], schema=schema)
    except Exception as error:
        if len(pairs) == 1:
            letters.add(_record(batch, pairs[0][0]), error)
            return
        middle = len(pairs) // 2
        yield from _converted(pairs[:middle], batch, letters, schema)
        yield from _converted(pairs[middle:], batch, letters, schema)
    else:
        yield made


def _arrow(
    function: Callable[[Batches], Batches], batches: Batches, letters: Letters, schema: pa.Schema
) -> Batches:
    """Run an Arrow function over all batches; when it fails, bisect the failed batch.

    Output between two reads belongs to the input just read, so it is kept back until the next
    read and discarded if the function fails instead.
    """
    broken: list[Exception] = []  # errors of upstream steps, not of this function
    while True:
        given: list[pa.RecordBatch] = []
        held: list[pa.RecordBatch] = []
        finished: list[pa.RecordBatch] = []

        def feed(
            given: list[pa.RecordBatch] = given,
            held: list[pa.RecordBatch] = held,
            finished: list[pa.RecordBatch] = finished,
        ) -> Batches:
            while True:
                try:
                    batch = next(batches, None)
                except Exception as error:
                    broken.append(error)
                    raise
                if batch is None:
                    break
                finished.extend(held)
                held.clear()
                given[:] = [batch]
                yield batch
            finished.extend(held)
            held.clear()
            given.clear()

        try:
            for result in function(feed()):
                held.append(_fitted(result, schema, letters))
                yield from finished
                finished.clear()
        except OperatorError:
            raise
        except Exception as error:
            if broken:
                raise broken[0] from None
            yield from finished
            if not given:
                letters.give_up(error)
            yield from _halved(function, given[0], error, letters, schema)
        else:
            if broken:
                raise broken[0]
            yield from finished + held
            return


def _halved(
    function: Callable[[Batches], Batches],
    batch: pa.RecordBatch,
    error: Exception,
    letters: Letters,
    schema: pa.Schema,
) -> Batches:
    if batch.num_rows <= 1:
        letters.add(batch.to_pylist()[0] if batch.num_rows else None, error)
        return
    middle = batch.num_rows // 2
    for half in (batch.slice(0, middle), batch.slice(middle)):
        try:
            results = [_fitted(result, schema, letters) for result in function(iter([half]))]
        except OperatorError:
            raise
        except Exception as cause:
            yield from _halved(function, half, cause, letters, schema)
        else:
            yield from results


def _fitted(batch: Any, schema: pa.Schema, letters: Letters) -> pa.RecordBatch:
    if not isinstance(batch, pa.RecordBatch):
        letters.refuse(batch, _BATCHES)
        raise TypeError(f"an Arrow function yields record batches, got {type(batch).__name__}")
    return batch if batch.schema.equals(schema) else batch.select(schema.names).cast(schema)
