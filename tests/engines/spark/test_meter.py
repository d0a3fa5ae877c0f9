"""What of an operator's time is on a processor, told apart from that of the operator before it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from penstock.engines.spark.meter import SAMPLED, Meter, Report

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
    first, second = Meter(Report("waits", 1, 0)), Meter(Report("works", 1, 0))
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
    meter = Meter(Report("keeps", 1, 0))
    assert [*meter.rows(iter([1, 2]), 2)] == [1, 2]
    assert meter.report.cpu is None


def test_a_process_tells_what_it_has_used_in_all() -> None:
    meter = Meter(Report("works", 1, 0))
    assert [*meter.outward(working(meter.inward(iter([BATCH]))))] == [BATCH]
    assert meter.report.worker == 0.0  # until it is asked: another may be the last in its process
    assert meter.whole().worker >= 0.03


def of_a_key(meter: Meter, work: Callable[[Iterator[int]], Iterator[int]], rows: int) -> Report:
    """Rows of one key through a stateful operator, metered as its feed does it."""

    def feed() -> Iterator[int]:
        for row in range(rows):
            meter.taken()
            yield row
        meter.exhausted()

    for _ in meter.rows(work(feed()), rows):
        time.sleep(0.001)  # what is behind it takes its time, which is not the operator's
    return meter.report


def alternating(rows: Iterator[int]) -> Iterator[int]:
    for row in rows:
        time.sleep(0.004 * (row % 2))
        yield row


def at_the_end(rows: Iterator[int]) -> Iterator[int]:
    yield from alternating(iter([*rows]))


def variation(report: Report) -> float:
    mean = report.total / report.calls
    return math.sqrt(report.squares / report.calls - mean**2) / mean


def test_rows_of_a_key_are_timed_one_by_one() -> None:
    found = of_a_key(Meter(Report("keeps", 1, 0)), alternating, 10)
    assert (found.calls, found.rows_in, found.rows_out) == (10, 10, 10)
    assert found.total == pytest.approx(found.seconds)
    assert variation(found) == pytest.approx(1.0, abs=0.15)  # every other row takes nothing
    many = of_a_key(Meter(Report("keeps", 1, 0)), alternating, 40)
    assert many.calls == SAMPLED
    assert variation(many) == pytest.approx(1.0, abs=0.15)


def test_who_reads_all_rows_before_it_works_does_not_tell_how_they_differ() -> None:
    meter = Meter(Report("keeps", 1, 0))
    assert of_a_key(meter, at_the_end, 10).calls == 0
    assert meter.report.seconds >= 0.02
    assert of_a_key(meter, at_the_end, 1).calls == 1  # of a single row it does
