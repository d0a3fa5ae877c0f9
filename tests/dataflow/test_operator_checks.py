from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.dataflow import operators as op
from penstock.dataflow.connectors import ForeachBatch, Generator, Memory, Parquet
from penstock.dataflow.flow import Dataflow, Stream
from penstock.dataflow.operators import Bounds, Operator
from penstock.dataflow.schema import Schema
from tests.strategies import nothing

from .problems import SCHEMA, ended, messages, raw, sink, written

# --- properties --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "most", "message"),
    [
        (0, None, "min_parallelism is 0, it must be at least 1"),
        (3, 2, "min_parallelism 3 is above max_parallelism 2"),
    ],
)
def test_impossible_bounds_are_reported(least: int, most: int | None, message: str) -> None:
    found = ended(lambda s: s.filter("f", nothing, min_parallelism=least, max_parallelism=most))
    assert found == [f"f: {message}"]


@pytest.mark.parametrize(("least", "most"), [(1, 4), (2, 1), (2, None)])
def test_a_global_operator_runs_as_one_instance(least: int, most: int | None) -> None:
    bounds = {"min_parallelism": least, "max_parallelism": most}
    found = ended(lambda s: s.process_all("all", nothing, schema=SCHEMA, **bounds))
    assert len(found) == 1
    assert "it keeps one state for all records and runs as one instance" in found[0]


def test_a_missing_key_column_is_reported_with_the_columns_there_are() -> None:
    found = ended(lambda s: s.key_by("wrod").deduplicate("d"))
    assert found == [
        "d: key column 'wrod' is not in 'in', whose columns are word, n, at, tags; "
        "did you mean 'word'?"
    ]


def test_a_key_must_be_in_both_inputs_of_a_join() -> None:
    def write(stream: Stream) -> Stream:
        bare = stream.frame("bare", nothing, schema="n bigint")
        return stream.key_by("word").join("j", bare.key_by("word"))

    assert ended(write) == [
        "j: key column 'word' is not in 'bare', whose columns are n",
    ]


def test_a_key_is_looked_for_in_schemas_known_from_elsewhere() -> None:
    flow = Dataflow("flow")
    parsed = flow.source("in", Generator(nothing, SCHEMA)).frame("parse", nothing)
    parsed.filter("kept", nothing).key_by("word").deduplicate("d").sink("out", Memory())
    assert messages(flow) == []
    found = messages(flow, {"parse": Schema.of("text string")})
    assert found == ["d: key column 'word' is not in 'kept', whose columns are text"]


def test_a_key_that_spark_cannot_group_by_is_reported() -> None:
    assert ended(lambda s: s.key_by("tags").deduplicate("d")) == [
        "d: key column 'tags' has the type map<string,int>, which Spark cannot group by: "
        "use a column with a comparable type"
    ]


def test_a_key_is_the_name_of_a_column() -> None:
    found = ended(lambda s: s.key_by(7).deduplicate("d"))  # type: ignore[arg-type]
    assert found == ["d: key column 7 is no name: write the name as text"]


def test_repeated_columns_are_reported() -> None:
    found = ended(lambda s: s.map("m", nothing, schema="a int, b int, A string"))
    assert found == ["m: its schema has the column 'a' 2 times"]


@pytest.mark.parametrize(
    "body", [op.Arrow(nothing), op.Map(nothing), op.FlatMap(nothing), op.Process(nothing)]
)
def test_python_operators_need_a_schema(body: op.Body) -> None:
    found = raw(Operator("x", body, ("in",), bounds=Bounds(1, 1)), sink("end", "x"))
    assert len(found) == 1
    assert "operator needs schema=..., e.g. schema='word string, n bigint'" in found[0]


@pytest.mark.parametrize(
    "write",
    [
        lambda s: s.frame("x", "f"),
        lambda s: s.filter("x", "f"),
        lambda s: s.arrow("x", "f", schema=SCHEMA),
        lambda s: s.map("x", "f", schema=SCHEMA),
        lambda s: s.flat_map("x", "f", schema=SCHEMA),
    ],
)
def test_a_function_must_be_callable(write: Callable[[Stream], Stream]) -> None:
    assert ended(write) == ["x: its function is a value of type str, not a function"]


def test_processors_makers_and_batch_functions_must_be_callable() -> None:
    bad: Any = "f"
    assert ended(lambda s: s.key_by("word").process("x", bad, schema=SCHEMA)) == [
        "x: its processor is a value of type str, not a function"
    ]
    maker = Generator(bad, "n int")
    assert written(lambda flow, s: flow.source("x", maker).sink("y", Memory())) == [
        "x: its make is a value of type str, not a function"
    ]
    assert written(lambda flow, s: s.sink("x", ForeachBatch(bad))) == [
        "x: its function is a value of type str, not a function"
    ]


def test_a_path_is_no_sink_and_a_sink_is_no_source() -> None:
    path: Any = "out/"
    assert written(lambda flow, s: s.sink("x", path)) == [
        "x: a value of type str is not a sink: use e.g. Parquet, Console, Memory or Spark"
    ]
    sink: Any = Parquet("dir")
    assert written(lambda flow, s: flow.source("x", sink).sink("y", Memory())) == [
        "x: a value of type FileSink is not a source: use Generator, Files, Kafka or Spark"
    ]


# --- stateful forms ----------------------------------------------------------------------------


def aggregate(window: op.Window | None = None, emit: str = "update") -> list[str]:
    body = op.Aggregate(("count(*)",), window, emit)
    return raw(Operator("x", body, ("in",), ("word",)), sink("end", "x"))


def test_an_aggregation_of_nothing_is_reported() -> None:
    assert ended(lambda s: s.key_by("word").aggregate("x")) == [
        "x: it aggregates nothing: give at least one column, e.g. n='count(*)'"
    ]


def test_emit_is_update_or_final() -> None:
    assert aggregate(emit="always") == ["x: emit is 'always', it must be one of update, final"]


def test_only_a_window_is_ever_final() -> None:
    assert aggregate(emit="final") == [
        "x: emit='final' needs a window: without one a group is never final"
    ]
    assert aggregate(op.Window("at", "10s", watermark="1s"), "final") == []


def test_only_a_watermark_closes_a_window() -> None:
    assert aggregate(op.Window("at", "10s")) == []
    assert aggregate(op.Window("at", "10s"), "final") == [
        "x: emit='final' needs a watermark, without one no window is ever closed: "
        "write window(..., watermark='10s')"
    ]


def counted(then: Any, emit: str = "update") -> list[str]:
    """Problems of an operator behind an aggregation."""

    def both(stream: Any) -> Any:
        windows = stream.key_by("word").window("10s", on="at", watermark="1s")
        counts = windows.aggregate("counts", n="count(*)", emit=emit, schema="word string, n int")
        return then(counts.map("same", dict, schema="word string, n int"))

    return [message for message in ended(both) if message.startswith("x: ")]


@pytest.mark.parametrize(
    "then",
    [
        lambda s: s.key_by("word").aggregate("x", n="max(n)"),
        lambda s: s.key_by("word").deduplicate("x"),
        lambda s: s.key_by("word").process("x", dict, schema="word string"),
        lambda s: s.process_all("x", dict, schema="word string"),
    ],
)
def test_state_over_updates_is_refused_and_both_operators_are_named(then: Any) -> None:
    (message,) = counted(then)
    assert message.startswith("x: it would count every update of 'counts' (")
    assert "emit='final'" in message
    assert counted(then, "final") == []


def test_a_processor_may_say_that_it_takes_updates_and_nobody_else() -> None:
    assert (
        counted(lambda s: s.process_all("x", dict, schema="word string", takes_updates=True)) == []
    )
    (message,) = counted(lambda s: s.key_by("word").deduplicate("x", takes_updates=True))
    assert message.startswith("x: takes_updates=True is for processors")


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (op.Window("att", "10s"), "window column 'att' is not in 'in', whose columns are word, n"),
        (op.Window("at", "10 eons"), "cannot read the window size '10 eons': write it like"),
        (op.Window("at", "0s"), "window size 0s must be positive"),
        (op.Window("at", "10s", "soon"), "cannot read the window slide 'soon': write it like"),
        (op.Window("at", "10s", "-1s"), "window slide -1s must be positive"),
        (op.Window("at", "10s", "20s"), "window slide 20s is longer than the window of 10s"),
        (op.Window("at", "10s", None, "late"), "cannot read the watermark 'late': write it like"),
        (op.Window("at", "10s", None, "-1s"), "watermark -1s must not be negative"),
    ],
)
def test_a_window_that_cannot_be_is_reported(window: op.Window, message: str) -> None:
    found = aggregate(window)
    assert len(found) == 1
    assert found[0].startswith(f"x: {message}")


def test_a_deduplication_with_half_a_watermark_is_reported() -> None:
    assert ended(lambda s: s.key_by("word").deduplicate("x", on="at")) == [
        "x: 'on' and 'watermark' go together: give both or none"
    ]
    assert ended(lambda s: s.key_by("word").deduplicate("x", on="at", watermark="1s")) == []


def test_time_mode_is_one_of_sparks() -> None:
    found = ended(lambda s: s.key_by("word").process("x", nothing, schema=SCHEMA, time_mode="late"))
    assert found == ["x: time_mode is 'late', it must be one of none, processing_time, event_time"]


def join(**options: Any) -> list[str]:
    def write(stream: Stream) -> Stream:
        other = stream.filter("other", nothing).key_by("word")
        return stream.key_by("word").join("j", other, **options)

    return ended(write)


def test_a_join_is_of_a_known_kind() -> None:
    assert join(how="cross") == [
        "j: Spark has no cross join of two streams, only inner, left_outer, right_outer, "
        "full_outer, left_semi"
    ]


@pytest.mark.parametrize(
    ("how", "missing"),
    [
        ("left_outer", "right_watermark and a condition that bounds time"),
        ("right_outer", "left_watermark and a condition that bounds time"),
        ("full_outer", "left_watermark and right_watermark and a condition that bounds time"),
        ("left_semi", "right_watermark and a condition that bounds time"),
    ],
)
def test_a_join_that_waits_for_no_partner_needs_watermarks(how: str, missing: str) -> None:
    assert join(how=how) == [f"j: a {how} join also needs {missing}: Spark refuses it without"]
    full = {"left_watermark": ("at", "1s"), "right_watermark": ("at", "1s")}
    assert join(how=how, condition="l.at < r.at", **full) == []


def test_a_watermark_on_the_key_is_enough_for_an_outer_join() -> None:
    assert join(how="left_outer", left_watermark=("word", "1s")) == []


def test_the_watermarks_of_a_join_are_checked() -> None:
    found = join(left_watermark=("time", "soon"), right_watermark="at")
    assert found == [
        "j: left_watermark column 'time' is not in 'in', whose columns are word, n, at, tags",
        "j: cannot read the left_watermark 'soon': write it like 250ms, 2s, 5m or 1h",
        "j: right_watermark is written as (column, delay), found 'at'",
    ]


def test_a_union_needs_the_same_columns_on_all_sides() -> None:
    found = ended(lambda s: s.union("u", s.frame("bare", nothing, schema="n bigint")))
    assert found == [
        "u: its inputs have different columns: 'in' has word, n, at, tags and 'bare' has n"
    ]
