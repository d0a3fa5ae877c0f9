from __future__ import annotations

import math
import pickle
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dataflow import operators as op
from penstock.dataflow.connectors import Generator, Memory, Parquet
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Constraint, Expectation, Graph
from penstock.dataflow.operators import Bounds, Operator
from penstock.dataflow.schema import Schema
from penstock.dataflow.validation import check, known_schemas, problems
from penstock.errors import InvalidDataflow, Location, Problem
from tests.strategies import dataflows, few, nothing

from .problems import SCHEMA, ended, messages, raw, sink, written


def test_two_sinks_in_one_directory_are_refused() -> None:
    flow = Dataflow("flow")
    stream = flow.source("in", Generator(nothing, SCHEMA))
    stream.sink("one", Parquet("here/out"))
    stream.sink("two", Parquet("here/out/"))
    stream.sink("three", Parquet("here/other"))
    (message,) = messages(flow)
    assert message.startswith("two: it writes to the same directory as 'one'")


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
    found = raw(two, drain, Operator("x", body, inputs, bounds=bounds), sink("end", "x"))
    assert found == [f"x: {message}"]


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


# --- constraints and expectations --------------------------------------------------------------


def test_a_constraint_may_begin_at_a_source_and_end_at_asink() -> None:
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
