from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.dataflow import operators as op
from penstock.dataflow.connectors import Files, Generator, Kafka, Memory, Parquet, Spark
from penstock.dataflow.flow import Dataflow, Stream
from penstock.dataflow.operators import Bounds, Latency, OnError, Selectivity, State
from penstock.dataflow.schema import Schema
from penstock.errors import InvalidInput, Location


def fail(*_: Any) -> Any:
    raise AssertionError("building a dataflow must not run it")


def source(flow: Dataflow, name: str = "in", schema: str = "word string, n bigint") -> Stream:
    return flow.source(name, Generator(fail, schema))


def here() -> int:
    """The line it is called from."""
    return sys._getframe(1).f_lineno


def test_every_form_is_written_and_nothing_runs() -> None:
    flow = Dataflow("all")
    words = source(flow)
    words.frame("frame", fail, reject="n < 0")
    words.arrow("arrow", fail, schema="n int")
    words.map("map", fail, schema="n int")
    words.flat_map("flat", fail, schema="n int")
    words.filter("filter", fail)
    words.union("union", words)
    words.barrier("barrier", words)
    words.process_all("all", fail, schema="n int")
    keyed = words.key_by("word")
    keyed.aggregate("count", n="count(*)")
    keyed.process("process", fail, schema="n int", time_mode="event_time")
    keyed.deduplicate("distinct")
    keyed.join("join", keyed)
    keyed.barrier("pairs", keyed)
    words.sink("out", Memory())
    written = {o.name: (o.form, o.state.value) for o in flow.graph.operators}
    assert written == {
        "in": ("read", "source"),
        "frame": ("frame", "stateless"),
        "arrow": ("arrow", "stateless"),
        "map": ("map", "stateless"),
        "flat": ("flat-map", "stateless"),
        "filter": ("filter", "stateless"),
        "union": ("union", "stateless"),
        "barrier": ("barrier", "global"),
        "all": ("process", "global"),
        "count": ("aggregate", "keyed"),
        "process": ("process", "keyed"),
        "distinct": ("deduplicate", "keyed"),
        "join": ("join", "keyed"),
        "pairs": ("barrier", "keyed"),
        "out": ("write", "sink"),
    }


def test_an_operator_knows_the_line_it_was_written_on() -> None:
    flow = Dataflow("lines")
    words, first = source(flow), here()
    words.key_by("word").aggregate("count", n="count(*)").sink("out", Memory())
    chained = here() - 1
    flow.constrain("in", "out", latency="2s")
    constrained = here() - 1
    assert flow.graph["count"].written == Location(__file__, chained)
    assert flow.graph["out"].written == Location(__file__, chained)
    assert flow.graph.constraints[0].written == Location(__file__, constrained)
    assert flow.graph["in"].written.line < first  # inside the helper above


def test_a_location_is_shown_relative_to_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(Location(str(tmp_path / "flow.py"), 12)) == "flow.py:12"
    assert str(Location("/elsewhere/flow.py", 3)) == "/elsewhere/flow.py:3"


def test_sources_bring_their_schema() -> None:
    flow = Dataflow("schemas")
    flow.source("files", Files("dir", "n int"))
    flow.source("kafka", Kafka(bootstrap_servers="host:1", subscribe="t"))
    flow.source("rate", Spark("rate"))
    assert flow.graph["files"].schema == Schema.of("n int")
    assert "value" in (flow.graph["kafka"].schema or Schema(())).names
    assert flow.graph["rate"].schema is None


def test_properties_are_kept_and_have_sensible_defaults() -> None:
    flow = Dataflow("properties")
    words = source(flow)
    words.map(
        "map",
        fail,
        schema="n int",
        min_parallelism=2,
        max_parallelism=8,
        latency="read-write",
        selectivity="logic-dependent",
        on_error="fail",
    )
    words.filter("filter", fail)
    words.process_all("all", fail, schema="n int")
    keyed = words.key_by("word").window("10s", on="at", watermark="1s")
    keyed.aggregate("count", n="count(*)", max_parallelism=4)
    graph = flow.graph
    assert graph["map"].bounds == Bounds(2, 8)
    assert graph["map"].latency is Latency.READ_WRITE
    assert graph["map"].selectivity is Selectivity.LOGIC
    assert graph["map"].on_error is OnError.FAIL
    assert graph["filter"].bounds == Bounds(1, None)
    assert graph["filter"].latency is Latency.READ_READY
    assert graph["filter"].selectivity is Selectivity.WORKLOAD
    assert graph["filter"].on_error is OnError.DEAD_LETTER
    assert graph["all"].bounds == Bounds(1, 1)
    assert graph["count"].bounds == Bounds(1, 4)
    assert graph["count"].latency is Latency.READ_WRITE
    assert graph["count"].body == op.Aggregate(
        ("count(*) AS `n`",), op.Window("at", "10s", None, "1s"), "update"
    )


def test_a_constraint_is_read_in_seconds() -> None:
    flow = Dataflow("constraint")
    flow.constrain("a", "b", latency="250ms", window="1m")
    constraint = flow.graph.constraints[0]
    assert (constraint.name, constraint.latency, constraint.window) == ("a->b", 0.25, 60.0)


def test_the_graph_is_a_value_that_later_writing_does_not_change() -> None:
    flow = Dataflow("value")
    words = source(flow)
    before = flow.graph
    words.sink("out", Parquet("dir"))
    assert [o.name for o in before.operators] == ["in"]
    assert [o.name for o in flow.graph.operators] == ["in", "out"]


def test_the_fingerprint_follows_the_structure_and_not_the_load() -> None:
    def written(load: str, name: str = "out") -> Dataflow:
        flow = Dataflow("flow")
        flow.source("in", Generator(fail, "n int", load=load)).sink(name, Memory())
        return flow

    one = written("10/s").graph
    assert one.fingerprint == written("99/s").graph.fingerprint
    assert one.fingerprint == one.with_load("5/s").fingerprint
    assert one.fingerprint != written("10/s", "other").graph.fingerprint


def test_what_a_run_goes_on_with_and_what_makes_it_another_dataflow() -> None:
    def written(
        name: str = "m",
        schema: str = "n int",
        sql: str = "count(*)",
        latency: str = "1s",
        most: int = 9,
    ) -> str:
        flow = Dataflow("flow")
        numbers = flow.source("in", Generator(fail, "n int"))
        mapped = numbers.map(name, lambda r: (name, sql), schema=schema, max_parallelism=most)
        mapped.key_by("n").aggregate("c", z=sql).sink("out", Memory())
        flow.constrain("in", "c", latency=latency)
        return flow.graph.fingerprint

    for goes_on in (written(), written(latency="9s"), written(most=3)):
        assert goes_on == written()
    for other in (written(name="other"), written(schema="n bigint"), written(sql="sum(n)")):
        assert other != written()


def test_another_load_replaces_that_of_every_generator() -> None:
    flow = Dataflow("load")
    source(flow).sink("out", Memory())
    body = flow.graph.with_load("7/s")["in"].body
    assert isinstance(body, op.Read)
    assert isinstance(body.source, Generator)
    assert body.source.load == "7/s"


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda s: s.key_by(), "at least one column"),
        (lambda s: s.filter("f", fail, on_error="ignore"), "'ignore' is not one of"),
        (lambda s: s.filter("f", fail, latency="none"), "'none' is not one of"),
        (lambda s: s.map("m", fail, schema="word"), "cannot read the column 'word'"),
        (lambda s: s.key_by("word").window("soon", on="at"), "cannot read the duration 'soon'"),
        (lambda s: s.key_by("word").join("j", s.key_by("n")), "keyed by the same columns"),
        (lambda s: s.key_by("word").barrier("b", s.key_by("n")), "keyed by the same columns"),
    ],
)
def test_what_cannot_be_read_is_refused_where_it_is_written(write: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        write(source(Dataflow("bad")))


def test_state_follows_from_the_form_and_the_key() -> None:
    assert op.Operator("a", op.Deduplicate(), keys=("k",)).state is State.KEYED
    assert op.Operator("a", op.Deduplicate()).state is State.GLOBAL
    assert not op.Operator("a", op.Union()).stateful


def test_a_column_of_an_aggregation_is_text_a_column_or_a_function() -> None:
    class Column:
        name = ""

        def alias(self, name: str) -> Column:
            self.name = name
            return self

    flow = Dataflow("named")
    keyed = source(flow).key_by("n")
    keyed.aggregate("count", a="count(*)", b=Column(), c=lambda: Column())
    body = flow.graph["count"].body
    assert isinstance(body, op.Aggregate)
    text, column, function = body.columns
    assert text == "count(*) AS `a`"
    assert column.name == "b"
    assert function().name == "c"
    with pytest.raises(InvalidInput, match="'d' of an aggregation is 7"):
        keyed.aggregate("other", d=7)
