"""Meters Python operators in the workers, and collects the measurements in the driver.

They travel in a Spark accumulator at the end of each task.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import AccumulatorParam

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext

SAMPLED = 16
"""Calls timed individually in each record batch, to measure how their times vary."""


@dataclass
class MeterReport:
    """Measurements of one operator in one task. seconds: without waiting for input.

    calls, total, squares: number, sum and sum of squares of the individually timed calls; cpu:
    their processor seconds, None if not measured; worker: processor seconds of the whole Python
    process, reported by one of the operators that share it; heard: when the driver received it.
    """

    operator: str
    epoch: int
    partition: int
    batch: int = 0
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    calls: int = 0
    total: float = 0.0
    squares: float = 0.0
    cpu: float | None = None
    worker: float = 0.0
    heard: float = 0.0


class _Mailbag(AccumulatorParam[list[MeterReport]]):
    def zero(self, value: list[MeterReport]) -> list[MeterReport]:
        return []

    def addInPlace(self, value1: list[MeterReport], value2: list[MeterReport]) -> list[MeterReport]:
        value1.extend(value2)
        return value1


class MeterReports:
    """The accumulator of reports: created in the driver, serialised with the operators."""

    def __init__(self, context: SparkContext) -> None:
        self._box: Any = context.accumulator([], _Mailbag())

    def send(self, report: MeterReport) -> None:
        """Send a report from a worker before its task ends."""
        self._box.add([report])

    def collect(self) -> list[MeterReport]:
        """The reports that arrived in the driver since the last call."""
        box = self._box.value
        came = len(box)
        reports = list(box[:came])
        del box[:came]
        return reports


@dataclass
class Meter:
    """Counts and times the rows of one operator in one task."""

    report: MeterReport
    _waited: float = field(default=0.0)
    _others: float = field(default=0.0)
    _first: float = field(default_factory=process_time)
    _began: float = field(default=0.0)
    _spent: float = field(default=0.0)
    _laps: list[float] = field(default_factory=list)
    _through: float | None = field(default=None)

    def inward(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The operator's input, counted; time spent here is not the operator's."""
        while True:
            began, used = perf_counter(), process_time()
            batch = next(batches, None)
            self._waited += perf_counter() - began
            self._others += process_time() - used
            if batch is None:
                return
            self.report.rows_in += batch.num_rows
            yield batch

    def outward(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The operator's output, counted and timed."""
        while True:
            began, waited = perf_counter(), self._waited
            used, others = process_time(), self._others
            batch = next(batches, None)
            self.report.seconds += perf_counter() - began - (self._waited - waited)
            spent = process_time() - used - (self._others - others)
            self.report.cpu = (self.report.cpu or 0.0) + spent
            if batch is None:
                return
            self.report.rows_out += batch.num_rows
            yield batch

    def whole(self) -> MeterReport:
        """The report, with the processor time of this process since the meter was created."""
        self.report.worker = process_time() - self._first
        return self.report

    def rows(self, results: Iterator[Any], rows_in: int) -> Iterator[Any]:
        """A stateful operator's output for one key; see `taken` and `exhausted`."""
        self._spent, self._laps, self._through = 0.0, [], None
        while True:
            self._began = perf_counter()
            result = next(results, None)
            self._spent += perf_counter() - self._began
            if result is None:
                break
            self.report.rows_out += 1
            yield result
        self.report.rows_in += rows_in
        self.report.seconds += self._spent
        self._note_rows(rows_in)

    def taken(self) -> None:
        """A stateful operator reads a row, so it has finished the previous one."""
        if len(self._laps) <= SAMPLED:
            self._laps.append(self._lap())

    def exhausted(self) -> None:
        """A stateful operator has read all rows of the key."""
        self._through = self._lap()

    def _lap(self) -> float:
        """Seconds spent on the key so far, without the consumer's time between two results."""
        return self._spent + perf_counter() - self._began

    def _note_rows(self, rows: int) -> None:
        """Record the first rows of a key individually, each with its share of the common time.

        An operator that begins to work after its last row does not show how rows differ.
        """
        end = self._spent if self._through is None else self._through
        after = self._spent - end
        if not self._laps or (rows > 1 and 2 * after > self._spent):
            return
        shared = (self._laps[0] + after) / rows
        laps = [*self._laps, end] if len(self._laps) <= SAMPLED else self._laps
        for begin, through in itertools.pairwise(laps):
            self.note(through - begin + shared)

    def timed(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The function with each call timed; a lazy result is evaluated at once."""

        def call(record: Any) -> Any:
            began = perf_counter()
            made = function(record)
            made = list(made) if hasattr(made, "__next__") else made
            self.note(perf_counter() - began)
            return made

        return call

    def note(self, seconds: float) -> None:
        """Record one individually timed call."""
        self.report.calls += 1
        self.report.total += seconds
        self.report.squares += seconds * seconds
