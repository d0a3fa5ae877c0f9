"""Options of sources and sinks: what Spark knows is passed on, anything else is refused."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Csv, Dataflow, Files, Json, Kafka, Memory, Parquet, Spark
from penstock.dataflow.connectors import FileSink, Sink, Source
from penstock.dataflow.validation import problems
from penstock.errors import InvalidInput

ROWS = "channel string, n bigint, tags array<string>"


def reading(source: Source) -> list[str]:
    flow = Dataflow("reading")
    flow.source("in", source).sink("out", Memory())
    return [p.message for p in problems(flow.graph)]


def writing(sink: Sink) -> list[str]:
    flow = Dataflow("writing")
    flow.source("in", Files("in", ROWS)).sink("out", sink)
    return [p.message for p in problems(flow.graph)]


@pytest.mark.parametrize(
    "sink",
    [
        Parquet("out", compression="gzip", maxRecordsPerFile=100),
        Parquet("out", **{"parquet.bloom.filter.enabled#n": True}),
        Json("out", ignoreNullFields=False, TIMEZONE="UTC"),
        Csv("out", header=True, sep=";", nullValue="-"),
        Kafka({"kafka.bootstrap.servers": "h:1", "kafka.linger.ms": 5}, topic="t"),
        Spark("whatever", anything="goes"),
    ],
)
def test_options_that_spark_knows_are_taken_by_sinks(sink: Sink) -> None:
    assert writing(sink) == []


@pytest.mark.parametrize(
    "source",
    [
        Files("in", ROWS, maxFilesPerTrigger=1, multiLine=True, pathGlobFilter="*.json"),
        Files("in", ROWS, "csv", header=True, delimiter=";", cleanSource="delete"),
        Files("in", "value string", "text", wholetext=True),
        Files("in", ROWS, "parquet", mergeschema=True),
        Files("in", ROWS, "orc", recursiveFileLookup=True),
        Files("in", ROWS, "avro", avroSchema="{}"),
        Kafka(bootstrap_servers="h:1", subscribe="t", startingOffsets="earliest"),
        Spark("whatever", anything="goes"),
    ],
)
def test_options_that_spark_knows_are_taken_by_sources(source: Source) -> None:
    assert reading(source) == []


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (
            Parquet("out", compresion="gzip"),
            "'compresion' is no option of a parquet sink, so Spark would ignore it; "
            "did you mean 'compression'?",
        ),
        (Json("out", bucketBy="n"), "'bucketBy' is no option of a json sink"),
        (Csv("out", multiLine=True), "'multiLine' is no option of a csv sink"),
        (Kafka(bootstrap_servers="h:1", topics="t"), "did you mean 'topic'?"),
        (Kafka(bootstrap_servers="h:1", subscribe="t"), "'subscribe' is no option of a kafka sink"),
    ],
)
def test_options_that_a_sink_would_ignore_are_refused(sink: Sink, said: str) -> None:
    (found,) = writing(sink)
    assert said in found


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            Files("in", ROWS, multiline=True, maxFilesPerTriger=1),
            "did you mean 'maxFilesPerTrigger",
        ),
        (Files("in", ROWS, "parquet", header=True), "'header' is no option of a parquet source"),
        (Kafka(bootstrap_servers="h:1", subscribes="t"), "did you mean 'subscribe'?"),
        (Kafka(subscribe="t", **{"linger.ms": 5}), "did you mean 'kafka.linger.ms'?"),
    ],
)
def test_options_that_a_source_would_ignore_are_refused(source: Source, said: str) -> None:
    (found,) = reading(source)
    assert said in found


@pytest.mark.parametrize(
    "sink",
    [
        Parquet("out", partitionBy="channel"),
        Parquet("out", partition_by=["channel"]),
        Parquet("out", partitionby=("channel",)),
    ],
)
def test_a_file_sink_is_partitioned_by_columns(sink: FileSink) -> None:
    assert (sink.partition_by, sink.options) == (("channel",), {})
    assert writing(sink) == []


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("chanel", "partitionBy column 'chanel' is not in 'in', whose columns are"),
        (["channel", "channel"], "partitionBy names the column 'channel' twice"),
        ("tags", "partitionBy column 'tags' has the type array<string>"),
    ],
)
def test_columns_that_cannot_be_partitioned_by_are_refused(columns: Any, said: str) -> None:
    (found,) = writing(Json("out", partitionBy=columns))
    assert said in found


def test_a_column_must_be_left_for_the_files() -> None:
    flow = Dataflow("all")
    flow.source("in", Files("in", "a int")).sink("out", Csv("out", partitionBy="a"))
    (found,) = problems(flow.graph)
    assert "leaves no column for the files" in found.message


@pytest.mark.parametrize("columns", [7, [7], [], {"partition_by": "a", "partitionBy": "b"}])
def test_what_is_no_list_of_columns_is_refused_where_it_is_written(columns: Any) -> None:
    given = columns if isinstance(columns, dict) else {"partitionBy": columns}
    with pytest.raises(InvalidInput, match="partitionBy"):
        Parquet("out", **given)


def test_kafka_has_the_headers_it_is_asked_for() -> None:
    assert "headers" not in Kafka(subscribe="t").schema.names
    schema = Kafka(subscribe="t", includeHeaders=True).schema
    assert schema.fields[-1].name == "headers"
    assert schema.fields[-1].type == "array<struct<key:string,value:binary>>"


def test_an_operator_cannot_both_reject_rows_and_fail_on_them() -> None:
    flow = Dataflow("both")
    flow.source("in", Files("in", ROWS)).frame(
        "clean", lambda df: df, reject="n < 0", on_error="fail"
    ).sink("out", Memory())
    (found,) = problems(flow.graph)
    assert "reject" in found.message
    assert "on_error" in found.message
