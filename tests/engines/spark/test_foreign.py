from __future__ import annotations

from typing import Any

import pytest

from penstock.dataflow.connectors import Files, Kafka, Spark
from penstock.engines.spark.measuring.batches import SourceQueue, left

HELD = Kafka(subscribe="orders", maxOffsetsPerTrigger=100)


def _kafka(latest: Any, end: Any) -> dict[str, Any]:
    return {"description": "KafkaV2[Subscribe[orders]]", "latestOffset": latest, "endOffset": end}


def test_kafka_tells_how_far_behind_a_batch_is() -> None:
    latest = {"orders": {"0": 700, "1": 50}, "returns": {"0": 10}}
    end = {"orders": {"0": 400, "1": 50}, "returns": {"0": 3}}
    assert left([_kafka(latest, end)], [HELD]) == 307
    text = '{"orders":{"0":700}}'
    assert left([_kafka(text, '{"orders":{"0":699}}')], [HELD]) == 1


@pytest.mark.parametrize(
    "source",
    [
        _kafka(None, {"orders": {"0": 1}}),
        {"description": "FileStreamSource[x]", "latestOffset": None, "endOffset": {"logOffset": 1}},
        {"description": "RateStreamV2[...]", "latestOffset": 17, "endOffset": 12},
    ],
)
def test_what_a_source_does_not_tell_is_not_known(source: dict[str, Any]) -> None:
    assert left([source], [HELD]) is None


@pytest.mark.parametrize(
    ("connector", "known"),
    [
        (Files("in", "n bigint"), 0),
        (Files("in", "n bigint", maxFilesPerTrigger=1), None),
        (Files("in", "n bigint", MAXBYTESPERTRIGGER="1g"), None),
        (Spark("rate", {"rowsPerSecond": 5}), 0),
        (Spark("delta"), None),
    ],
)
def test_a_source_that_may_take_everything_leaves_nothing(connector: Any, known: int) -> None:
    assert left([{"description": "FileStreamSource[x]"}], [connector]) == known


def test_rows_of_a_source_that_keeps_up_came_since_the_batch_before() -> None:
    queue = SourceQueue()
    assert [(s.start, s.end, s.rows) for s in queue.take(10.0, 50, 0)] == [(10.0, 10.0, 50)]
    assert [(s.start, s.end, s.rows) for s in queue.take(12.0, 100, 0)] == [(10.0, 12.0, 100)]
    assert queue.take(13.0, 0, 0) == []
    assert [(s.start, s.end, s.rows) for s in queue.take(15.0, 8, 0)] == [(13.0, 15.0, 8)]
    assert queue.rate(12.0) == pytest.approx(8 / 3)


def test_rows_that_were_left_came_when_they_were_first_there() -> None:
    queue = SourceQueue()
    queue.take(0.0, 100, 0)
    queue.take(10.0, 100, 900)  # a hundred a second, and only ten a second are taken
    spans = queue.take(20.0, 100, 1800)
    assert [(s.start, s.end, s.rows) for s in spans] == [(1.0, 2.0, 100)]
    assert queue.rate(0.0) == pytest.approx(100)
    assert queue.waiting == 1800
    rest = queue.take(30.0, 1800, 0)
    assert [(s.start, s.end, s.rows) for s in rest] == [(2.0, 10.0, 800), (10.0, 20.0, 1000)]
    assert queue.rate(25.0) == pytest.approx(0.0)


def test_a_source_that_falls_silent_has_a_rate_that_falls() -> None:
    queue = SourceQueue()
    queue.take(0.0, 100, 0)
    queue.take(10.0, 1000, 0)
    assert queue.rate(5.0) == pytest.approx(100)
    assert queue.rate(5.0, 20.0) == pytest.approx(50)  # since the batch before that time
    assert queue.rate(100.0, 110.0) == pytest.approx(0.0)
    assert queue.rate(100.0) == pytest.approx(100)  # a batch runs: what has come is not known


def test_rows_after_a_silence_came_at_its_end() -> None:
    queue = SourceQueue()
    queue.take(0.0, 100, 0)
    (span,) = queue.take(3600.0, 500, 0, idle=3599.9)
    assert (span.start, span.end, span.rows) == (3599.9, 3600.0, 500)


def test_a_batch_that_does_not_know_what_is_left_takes_nothing_back() -> None:
    queue = SourceQueue()
    queue.take(0.0, 100, 0)
    queue.take(10.0, 100, 800)
    spans = queue.take(20.0, 100, None)  # run again after a restart
    spans += queue.take(30.0, 1700, 0)
    assert sum(span.rows for span in spans) == 1800
    assert queue.rate(0.0) == pytest.approx(1900 / 30)


def test_without_two_batches_or_what_is_left_there_is_no_rate() -> None:
    queue = SourceQueue()
    assert queue.rate(0.0) is None
    queue.take(1.0, 5, 0)
    assert queue.rate(0.0) is None
    queue.take(2.0, 5, None)
    assert queue.rate(0.0) is None
