"""What of an operator's time is on a processor, told apart from that of the operator before it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from penstock.engines.spark.measuring import operator_meter
from penstock.engines.spark.measuring.operator_meter import SAMPLED, Meter, MeterReport

BATCH = pa.record_batch({"n": [1, 2, 3]})


def waiting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(0.03)
        yield batch


def working(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        end = time.process_time() + 0.03
        while time.process_time() < end:
            pass
        yield batch


def test_waiting_is_told_from_work_in_a_chain() -> None:
    first, second = Meter(MeterReport("waits", 1, 0)), Meter(MeterReport("works", 1, 0))
    stream = first.outward(waiting(first.inward(iter([BATCH]))))
    assert [*second.outward(working(second.inward(stream)))] == [BATCH]
    waits, works = first.report, second.report
    assert (waits.rows_in, works.rows_out) == (3, 3)
    assert waits.seconds >= 0.03
    assert waits.cpu is not None
    assert works.cpu is not None
    assert waits.cpu < 0.02
    assert 0.03 <= works.cpu <= works.seconds + 0.01


def test_an_operator_whose_keys_are_timed_says_nothing_of_processors() -> None:
    one = Meter(MeterReport("keeps", 1, 0))
    assert [*one.rows(iter([1, 2]), 2)] == [1, 2]
    assert one.report.cpu is None


def test_a_process_tells_what_it_has_used_in_all() -> None:
    one = Meter(MeterReport("works", 1, 0))
    assert [*one.outward(working(one.inward(iter([BATCH]))))] == [BATCH]
    assert one.report.worker == 0.0  # until it is asked: another may be the last in its process
    assert one.whole().worker >= 0.03


class Time:
    """A clock that goes on only when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(operator_meter, "perf_counter", lambda: self.now)

    def alternating(self, rows: Iterator[int]) -> Iterator[int]:
        """Every other row takes nothing."""
        for row in rows:
            self.now += 0.004 * (row % 2)
            yield row

    def at_the_end(self, rows: Iterator[int]) -> Iterator[int]:
        yield from self.alternating(iter([*rows]))

    def of_a_key(self, work: Callable[[Iterator[int]], Iterator[int]], rows: int) -> MeterReport:
        """Rows of one key through a stateful operator, metered as its feed does it."""
        one = Meter(MeterReport("keeps", 1, 0))

        def feed() -> Iterator[int]:
            for row in range(rows):
                one.taken()
                yield row
            one.exhausted()

        for _ in one.rows(work(feed()), rows):
            self.now += 1.0  # what is behind it takes its time, which is not the operator's
        return one.report


def variation(report: MeterReport) -> float:
    mean = report.total / report.calls
    return math.sqrt(report.squares / report.calls - mean**2) / mean


@pytest.mark.parametrize("rows", [10, SAMPLED, SAMPLED + 1, 100])
def test_rows_of_a_key_are_timed_one_by_one(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    time = Time(monkeypatch)
    found = time.of_a_key(time.alternating, rows)
    assert (found.calls, found.rows_in, found.rows_out) == (min(rows, SAMPLED), rows, rows)
    assert found.seconds == pytest.approx(0.004 * (rows // 2))
    assert variation(found) == pytest.approx(1.0)


def test_who_reads_all_rows_before_it_works_does_not_tell_how_they_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time = Time(monkeypatch)
    several = time.of_a_key(time.at_the_end, 10)
    assert (several.calls, several.seconds) == (0, pytest.approx(0.02))
    assert time.of_a_key(time.at_the_end, 1).calls == 1  # of a single row it does
