"""What each sink promises."""

from __future__ import annotations

import pytest

from penstock import Console, Csv, Dataflow, Discard, ForeachBatch, Json, Kafka, Memory, Parquet
from penstock.dataflow.connectors import Generator, Sink, Spark
from penstock.dataflow.delivery import Delivery, deliveries, delivery, remembers_files
from tests.strategies import nothing

ONCE, LEAST = Delivery.EXACTLY_ONCE, Delivery.AT_LEAST_ONCE


@pytest.mark.parametrize(
    ("sink", "promised"),
    [
        (Parquet("out"), ONCE),
        (Json("out"), ONCE),
        (Csv("out"), ONCE),
        (Memory(), ONCE),
        (ForeachBatch(nothing), LEAST),
        (Kafka(topic="t"), LEAST),
        (Console(), LEAST),
        (Discard(), Delivery.NOTHING),
        (Spark("parquet", path="out"), ONCE),
        (Spark("JSON", path="out"), ONCE),
        (Spark("kafka", topic="t"), LEAST),
        (Spark("noop"), Delivery.NOTHING),
        (Spark("delta", path="out"), Delivery.BY_BATCH_ID),
    ],
)
def test_every_sink_promises_something(sink: Sink, promised: Delivery) -> None:
    assert delivery(sink) is promised
    assert promised.meaning


def test_a_dataflow_says_it_of_all_its_sinks() -> None:
    flow = Dataflow("two")
    rows = flow.source("s", Generator(nothing, "n bigint"))
    rows.sink("files", Parquet("out"))
    rows.sink("topic", Kafka(topic="t"))
    assert deliveries(flow.graph) == {"files": ONCE, "topic": LEAST}


def test_native_file_sinks_keep_a_log_in_their_directory() -> None:
    assert remembers_files(Spark("orc", path="out"))
    assert not remembers_files(Spark("delta", path="out"))
    assert not remembers_files(Parquet("out"))
