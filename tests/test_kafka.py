"""Live changes of a flow from Kafka to Kafka, with a real broker."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Dataflow, Kafka, Pipeline, Plan, Spark
from penstock.engines.spark.engine import SparkEngine
from tests import kafka
from tests.engines.spark.flows import until

pytestmark = pytest.mark.kafka

ROWS, PORTIONS = 500, 40


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    try:
        with kafka.broker(tmp_path / "kafka", "in", "out", "native") as found:
            yield found
    except kafka.Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture
def spark(address: str) -> Iterator[Any]:
    from penstock.engines.spark.session.flow_session import session

    jars = ",".join(map(str, kafka.connector()))
    found = session("local[4]", {"spark.jars": jars})
    yield found
    found.stop()


def test_five_changes_double_nothing_in_a_topic_and_lose_nothing(
    spark: Any, address: str, tmp_path: Path
) -> None:
    def feed() -> None:
        for portion in range(PORTIONS):
            rows = spark.range(portion * ROWS, (portion + 1) * ROWS, numPartitions=2)
            texts = rows.selectExpr("cast(id as string) key", "cast(id as string) value")
            to = {"kafka.bootstrap.servers": address, "topic": "in"}
            texts.write.format("kafka").options(**to).save()

    def got(topic: str) -> Counter[int]:
        at = {"kafka.bootstrap.servers": address, "subscribe": topic}
        rows = spark.read.format("kafka").options(**at).load().selectExpr("cast(value as string) n")
        return Counter(int(row.n) for row in rows.collect())

    flow = Dataflow("topics")
    read = flow.source(
        "in",
        Kafka(
            bootstrap_servers=address,
            subscribe="in",
            startingOffsets="earliest",
            maxOffsetsPerTrigger=ROWS,
        ),
    )
    kept = read.frame("kept", lambda df: df.select("key", "value"))
    kept.sink("out", Kafka(bootstrap_servers=address, topic="out"))
    kept.sink("native", Spark("kafka", {"kafka.bootstrap.servers": address}, topic="native"))
    plan = Plan((Pipeline(("in", "kept", "out"), 1), Pipeline(("native",), 2)))
    feeding = threading.Thread(target=feed, daemon=True)
    engine = SparkEngine(spark=spark)
    feeding.start()
    engine.start(flow.graph, plan, tmp_path / "run")
    try:
        for parallelism in (2, 3, 2, 1, 2):
            before = engine.observe().rows_delivered
            until(lambda n=before: engine.observe().rows_delivered > n, "more rows", 180)
            engine.apply(engine.plan.with_pipeline("in", parallelism=parallelism))
        feeding.join()
        total = ROWS * PORTIONS
        until(lambda: engine.observe().rows_ingested >= total, "all rows", 240)
    finally:
        engine.stop()
    expected = Counter(range(total))
    assert got("out") == expected
    assert got("native") == expected
    seen = engine.observe()
    assert seen.rows_ingested == total
    assert seen.sinks == {"out": total, "native": total}
    assert seen.rows_repeated == 0
