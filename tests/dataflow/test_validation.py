from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dataflow import operators as op
from penstock.dataflow.connectors import ForeachBatch, Generator, Memory, Parquet
from penstock.dataflow.flow import Dataflow, Stream
from penstock.dataflow.graph import Constraint, Expectation, Graph
from penstock.dataflow.operators import Bounds, Operator
from penstock.dataflow.schema import Schema
from penstock.dataflow.validation import check, known_schemas, problems
from penstock.errors import InvalidDataflow, Location, Problem
from tests.strategies import dataflows, few, nothing

SCHEMA = "word string, n bigint, at timestamp, tags map<string,int>"


def messages(flow: Dataflow | Graph, schemas: Any = None) -> list[str]:
    """What is wrong, without the places."""
    graph = flow.graph if isinstance(flow, Dataflow) else flow
    return [
        f"{p.operator}: {p.message}" if p.operator else p.message for p in problems(graph, schemas)
    ]


def written(write: Callable[[Dataflow, Stream], Any]) -> list[str]:
    """The problems of a flow whose source `in` ends in a sink, and what a test adds to it."""
    flow = Dataflow("flow")
    stream = flow.source("in", Generator(nothing, SCHEMA))
    stream.sink("out", Memory())
    write(flow, stream)
    return messages(flow)


def ended(write: Callable[[Stream], Stream]) -> list[str]:
    """The problems of a flow in which what a test adds ends in a sink."""
    return written(lambda flow, stream: write(stream).sink("end", Memory()))


def test_two_sinks_in_one_directory_are_refused() -> None:
    flow = Dataflow("flow")
    stream = flow.source("in", Generator(nothing, SCHEMA))
    stream.sink("one", Parquet("here/out"))
    stream.sink("two", Parquet("here/out/"))
    stream.sink("three", Parquet("here/other"))
    (message,) = messages(flow)
    assert message.startswith("two: it writes to the same directory as 'one'")


def raw(*operators: Operator, **more: Any) -> list[str]:
    """The problems of operators that the API would not write."""
    source = Operator("in", op.Read(Generator(nothing, SCHEMA)), schema=Schema.of(SCHEMA))
    out = Operator("out", op.Write(Memory()), ("in",))
    return messages(Graph("flow", (source, out, *operators), **more))


def test_a_sound_dataflow_has_no_problems() -> None:
    assert ended(lambda s: s.key_by("word").aggregate("count", n="count(*)")) == []


# --- the graph ---------------------------------------------------------------------------------


def test_a_cycle_is_named_in_order() -> None:
    found = raw(
        Operator("a", op.Union(), ("in", "c")),
        Operator("b", op.Frame(nothing), ("a",)),
        Operator("c", op.Frame(nothing), ("b",)),
        Operator("end", op.Write(Memory()), ("c",)),
    )
    assert len(found) == 1
    loop = re.search(r"part of the cycle (.*); a dataflow has none", found[0])
    assert loop is not None
    assert loop[1] in ("a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c")


def test_every_separate_cycle_is_reported() -> None:
    found = raw(
        Operator("a", op.Frame(nothing), ("a",)),
        Operator("b", op.Frame(nothing), ("c",)),
        Operator("c", op.Frame(nothing), ("b",)),
    )
    assert len([m for m in found if "part of the cycle" in m]) == 2


def test_a_duplicate_name_is_reported_with_both_lines() -> None:
    source = Operator("x", op.Read(Generator(nothing, SCHEMA)), written=Location("/f.py", 3))
    sink = Operator("x", op.Write(Memory()), ("x",), written=Location("/f.py", 7))
    out = Operator("out", op.Write(Memory()), ("x",))
    found = [str(p) for p in problems(Graph("flow", (source, sink, out)))]
    taken = "the name is taken by the operator at /f.py:3; choose another"
    assert found == [f"operator 'x' (/f.py:7): {taken}"]


def test_an_unknown_input_is_reported_with_the_nearest_name() -> None:
    found = raw(Operator("end", op.Write(Memory()), ("inn",)))
    assert found == ["end: reads 'inn', which is no operator of this dataflow; did you mean 'in'?"]


def test_a_stream_of_another_dataflow_is_an_unknown_operator() -> None:
    other = Dataflow("other").source("elsewhere", Generator(nothing, SCHEMA))
    found = ended(lambda s: s.union("both", other))
    assert found == ["both: reads 'elsewhere', which is no operator of this dataflow"]


@pytest.mark.parametrize("name", [".hidden", "-x", "a/b", "a b", "ä", "x" * 101])
def test_a_name_that_cannot_name_a_directory_is_reported(name: str) -> None:
    found = written(lambda flow, s: s.sink(name, Memory()))
    assert [m for m in found if f"name '{name}' cannot name a directory" in m] == found != []


@pytest.mark.parametrize("name", ["a", "0", "_a.b-c", "x" * 100])
def test_a_name_that_can_name_a_directory_is_fine(name: str) -> None:
    assert written(lambda flow, s: s.sink(name, Memory())) == []


def test_an_empty_name_is_reported() -> None:
    flow = Dataflow("flow")
    flow.source("in", Generator(nothing, SCHEMA)).sink("", Memory())
    assert [p.message for p in problems(flow.graph)] == ["name is empty: give it one"]


def test_the_dataflow_needs_a_usable_name_too() -> None:
    flow = Dataflow("a/b")
    flow.source("in", Generator(nothing, SCHEMA)).sink("out", Memory())
    assert [m[:45] for m in messages(flow)] == ["the dataflow's name 'a/b' cannot name a direc"]


def test_a_dataflow_without_a_source_is_reported() -> None:
    assert messages(Dataflow("empty")) == [
        "the dataflow has no source: begin with flow.source(name, ...)"
    ]


def test_a_sink_cannot_be_read() -> None:
    found = raw(Operator("end", op.Write(Memory()), ("out",)))
    assert found == ["out: it is a sink and cannot be read by 'end'"]


def test_a_source_cannot_have_an_input() -> None:
    extra = Operator("more", op.Read(Generator(nothing, SCHEMA)), ("in",))
    found = raw(extra, Operator("end", op.Write(Memory()), ("more",)))
    assert found == ["more: it is a source and cannot have an input"]


@pytest.mark.parametrize(
    ("body", "inputs", "message"),
    [
        (op.Frame(nothing), (), "it has no input"),
        (op.Join(), ("in",), "a join needs exactly 2 inputs, found 1"),
        (op.Union(), ("in",), "a union needs at least 2 inputs, found 1"),
        (op.Barrier(), ("in",), "a barrier needs at least 2 inputs, found 1"),
        (
            op.Frame(nothing),
            ("in", "two"),
            "a frame operator needs exactly 1 input, found 2; use a union first",
        ),
    ],
)
def test_a_wrong_number_of_inputs_is_reported(
    body: op.Body, inputs: tuple[str, ...], message: str
) -> None:
    two = Operator("two", op.Read(Generator(nothing, SCHEMA)))
    drain = Operator("two-out", op.Write(Memory()), ("two",))
    bounds = Bounds(1, 1)
    found = raw(two, drain, Operator("x", body, inputs, bounds=bounds), _sink("end", "x"))
    assert found == [f"x: {message}"]


def _sink(name: str, upstream: str) -> Operator:
    return Operator(name, op.Write(Memory()), (upstream,))


def test_one_input_cannot_be_joined_with_itself() -> None:
    found = ended(lambda s: s.key_by("word").join("self", s.key_by("word")))
    assert found == [
        "self: it reads 'in' twice: put an operator of its own in front of one of the ends"
    ]


def test_a_source_that_reaches_no_sink_is_reported() -> None:
    found = written(lambda flow, s: flow.source("lost", Generator(nothing, SCHEMA)))
    assert found == ["lost: its records reach no sink: end the stream with .sink(name, ...)"]


def test_a_dead_branch_is_reported_at_its_end() -> None:
    found = written(lambda flow, s: s.filter("a", nothing).filter("b", nothing))
    assert found == [
        "b: nothing reads its output and it is no sink: add .sink(name, ...) or remove it"
    ]


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
    assert found == ["d: key column 7 is no name: write the column's name as text"]


def test_repeated_columns_are_reported() -> None:
    found = ended(lambda s: s.map("m", nothing, schema="a int, b int, A string"))
    assert found == ["m: its schema has the column 'a' 2 times"]


@pytest.mark.parametrize(
    "body", [op.Arrow(nothing), op.Map(nothing), op.FlatMap(nothing), op.Process(nothing)]
)
def test_python_operators_need_a_schema(body: op.Body) -> None:
    found = raw(Operator("x", body, ("in",), bounds=Bounds(1, 1)), _sink("end", "x"))
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
    return raw(Operator("x", body, ("in",), ("word",)), _sink("end", "x"))


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
    assert message.startswith("x: it would take every update of 'counts' (")
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


# --- constraints and expectations --------------------------------------------------------------


def test_a_constraint_may_begin_at_a_source_and_end_at_a_sink() -> None:
    assert raw(constraints=(Constraint("in", "out", 1.0),)) == []


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (
            Constraint("in", "otu", 1.0),
            "constraint 'in->otu' names 'otu', which is no operator of this dataflow; "
            "did you mean 'out'?",
        ),
        (
            Constraint("out", "in", 1.0),
            "constraint 'out->in' spans operators that are not connected: "
            "no record goes from 'out' to 'in'",
        ),
        (
            Constraint("in", "out", 0.0),
            "constraint 'in->out' has a latency of 0.0 s: it must be positive",
        ),
        (
            Constraint("in", "out", 1.0, -2.0),
            "constraint 'in->out' has a window of -2.0 s: it must be positive",
        ),
        (
            Constraint("in", "out", math.nan),
            "constraint 'in->out' has a latency of nan s: it must be positive",
        ),
    ],
)
def test_an_impossible_constraint_is_reported(constraint: Constraint, message: str) -> None:
    assert raw(constraints=(constraint,)) == [message]


@pytest.mark.parametrize(
    ("expectation", "message"),
    [
        (
            Expectation("ot", nothing),
            "expectation of 'ot' names 'ot', which is no operator of this dataflow; "
            "did you mean 'out'?",
        ),
        (
            Expectation("in", nothing),
            "expectation of 'in' needs a sink, but 'in' is a read operator",
        ),
    ],
)
def test_an_impossible_expectation_is_reported(expectation: Expectation, message: str) -> None:
    assert raw(expectations=(expectation,)) == [message]


def test_the_keys_and_oracle_of_an_expectation_are_checked() -> None:
    flow = Dataflow("flow")
    flow.source("in", Generator(nothing, "n int")).sink("out", Memory())
    bad: Any = None
    flow.expect("out", bad, keys=["m"])
    assert messages(flow) == [
        "expectation of 'out' key column 'm' is not in 'out', whose columns are n",
        "expectation of 'out' its oracle is a value of type NoneType, not a function",
    ]


# --- all of it ---------------------------------------------------------------------------------


def test_a_problem_names_the_operator_and_the_line() -> None:
    place = Location("/flow.py", 12)
    assert str(Problem("it is wrong", "x", place)) == "operator 'x' (/flow.py:12): it is wrong"
    assert str(Problem("it is wrong", "x")) == "operator 'x': it is wrong"
    assert str(Problem("it is wrong", None, place)) == "/flow.py:12: it is wrong"
    assert str(Problem("it is wrong")) == "it is wrong"


def test_all_problems_are_reported_at_once() -> None:
    flow = Dataflow("bad")
    words = flow.source("in", Generator(nothing, SCHEMA))
    words.key_by("wrod").deduplicate("distinct", min_parallelism=0)
    words.map("m", "f", schema="n int").sink("out", Memory())  # type: ignore[arg-type]
    flow.constrain("out", "nowhere", latency=-1)
    with pytest.raises(InvalidDataflow) as raised:
        flow.validate()
    assert len(raised.value.problems) == 6
    text = str(raised.value)
    assert text.startswith("dataflow 'bad' has 6 problems:\n  - operator 'distinct' (")
    for word in ("wrod", "min_parallelism is 0", "nothing reads", "str", "'nowhere'", "-1.0 s"):
        assert word in text
    assert text.count("test_validation.py:") == 6
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(again), again.problems) == (text, raised.value.problems)


def test_schemas_are_passed_on_by_what_does_not_change_them() -> None:
    flow = Dataflow("known")
    first = flow.source("in", Generator(nothing, "word string"))
    kept = first.filter("kept", nothing)
    both = first.union("both", kept)
    both.key_by("word").deduplicate("distinct").sink("out", Memory())
    first.frame("native", nothing).sink("unknown", Memory())
    first.key_by("word").aggregate("count", n="count(*)").sink("counts", Memory())
    words = Schema.of("word string")
    assert known_schemas(flow.graph) == {
        "in": words,
        "kept": words,
        "both": words,
        "distinct": words,
        "out": words,
        "native": None,
        "unknown": None,
        "count": None,
        "counts": None,
    }


@few
@given(dataflows())
def test_random_valid_dataflows_have_no_problems(graph: Graph) -> None:
    check(graph)


NAMES = st.sampled_from(("a", "b", "c", "d", "", "..", "x/y", 5, None))
BODIES: tuple[Any, ...] = (
    op.Read(Generator(nothing, "a int, a int")),
    op.Read("nothing"),  # type: ignore[arg-type]
    op.Write(Memory()),
    op.Write(None),  # type: ignore[arg-type]
    op.Frame(nothing),
    op.Map(3),  # type: ignore[arg-type]
    op.Filter(nothing),
    op.Aggregate((), op.Window("q", "x", "-1s", "y"), "never"),
    op.Aggregate(("n",), op.Window(None, None, None, None)),  # type: ignore[arg-type]
    op.Process(None, "when"),  # type: ignore[arg-type]
    op.Deduplicate("a", None),
    op.Join("sideways", None, ("a",), ("b", "soon")),  # type: ignore[arg-type]
    op.Join(None, None, None, None),  # type: ignore[arg-type]
    op.Union(),
    op.Barrier(),
)


@st.composite
def garbage(draw: st.DrawFn) -> Graph:
    operators = st.builds(
        Operator,
        name=NAMES,
        body=st.sampled_from(BODIES),
        inputs=st.lists(NAMES, max_size=3).map(tuple),
        keys=st.lists(NAMES, max_size=2).map(tuple),
        schema=st.sampled_from((None, Schema.of("a int"), Schema.of("b map<int,int>"))),
        bounds=st.builds(Bounds, st.integers(-1, 3), st.sampled_from((None, -1, 1, 2))),
    )
    numbers = st.sampled_from((1.0, 0.0, -1.0, math.nan))
    constraints = st.builds(Constraint, NAMES, NAMES, numbers, numbers)
    expectations = st.builds(Expectation, NAMES, st.sampled_from((nothing, None)), st.tuples(NAMES))
    return Graph(
        draw(NAMES),
        tuple(draw(st.lists(operators, max_size=7))),
        tuple(draw(st.lists(constraints, max_size=2))),
        tuple(draw(st.lists(expectations, max_size=2))),
    )


@given(garbage())
def test_no_garbage_makes_validation_itself_fail(graph: Graph) -> None:
    for problem in problems(graph):
        assert str(problem)
