"""What of an operator's time is on a processor, told apart from that of the operator before it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from penstock.engines.spark.meter import Meter, Report

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
