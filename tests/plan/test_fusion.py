from __future__ import annotations

from typing import Any

import pytest

from penstock.dataflow.connectors import Generator, Memory, Spark
from penstock.dataflow.flow import Dataflow, Stream
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Bounds
from penstock.dataflow.schema import Schema
from penstock.errors import InvalidPlan
from penstock.plan import fusion
from penstock.plan.plan import Pipeline, Plan
from tests.strategies import WORDS, nothing


def source(flow: Dataflow, name: str = "in") -> Stream:
    return flow.source(name, Generator(nothing, WORDS))


def word_count(sink: Any = None) -> Graph:
    flow = Dataflow("wordcount")
    words = source(flow).frame("parse", nothing).frame("split", nothing, schema=WORDS)
    words.key_by("word").aggregate("count", n="count(*)").sink("out", sink or Memory())
    return flow.graph


def diamond() -> Graph:
    flow = Dataflow("diamond")
    start = source(flow).filter("start", nothing)
    left, right = start.filter("left", nothing), start.filter("right", nothing)
    left.union("both", right).sink("out", Memory())
    return flow.graph


def groups(plan: Plan) -> list[tuple[str, ...]]:
    return [pipeline.operators for pipeline in plan.pipelines]


def of(*pipelines: str, **settings: Any) -> Plan:
    """A plan written as "in parse", "split"."""
    return Plan(tuple(Pipeline(tuple(names.split()), **settings) for names in pipelines))


def reasons(plan: Plan, graph: Graph) -> list[str]:
    with pytest.raises(InvalidPlan) as raised:
        fusion.check(plan, graph)
    found = fusion.misfits(plan, graph)
    said = str(raised.value)
    assert said.startswith(f"the plan does not fit the dataflow '{graph.name}': {found[0]}")
    assert len(said.splitlines()) == 1
    return found


# --- what fits ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "plan",
    [
        of("in parse split count out"),
        of("in", "parse", "split", "count", "out"),
        of("in parse", "split count", "out"),
        of("in", "parse split", "count out"),
    ],
)
def test_a_chain_may_be_cut_anywhere(plan: Plan) -> None:
    fusion.check(plan, word_count())


def test_sinks_of_one_tail_may_be_fused_while_others_read_it_too() -> None:
    flow = Dataflow("outlets")
    kept = source(flow).filter("kept", nothing)
    kept.sink("one", Memory())
    kept.sink("two", Memory())
    kept.filter("more", nothing).sink("three", Memory())
    fusion.check(of("in kept one two", "more three"), flow.graph)
    fusion.check(of("in kept two", "one", "more", "three"), flow.graph)


def test_upstream_chains_may_be_fused_into_a_confluence() -> None:
    flow = Dataflow("tree")
    source(flow, "a").union("both", source(flow, "b")).sink("out", Memory())
    fusion.check(of("a b both out"), flow.graph)
    fusion.check(of("b a both out"), flow.graph)
    fusion.check(of("a both out", "b"), flow.graph)


# --- what does not -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (of("in parse split count"), ["operator 'out' is in no pipeline"]),
        (
            of("in parse split count out", "extra"),
            ["'extra' is no operator of the dataflow"],
        ),
        (
            of("in parse split count out", "out"),
            ["operator 'out' is in pipelines 2 times, it must be in exactly one"],
        ),
        (
            of("in split parse count out"),
            ["pipeline 'in': 'parse' must be listed before 'split', which reads it"],
        ),
        (
            of("in split", "parse", "count out"),
            ["pipeline 'in': 'in' is not connected to the rest: its reader 'parse' is outside"],
        ),
        (
            of("in parse out", "split count"),
            [
                "pipeline 'in': sink 'out' is not connected to the rest: its input is outside",
            ],
        ),
    ],
)
def test_operators_that_cannot_be_one_pipeline(plan: Plan, expected: list[str]) -> None:
    assert reasons(plan, word_count()) == expected


def test_nothing_but_sinks_follows_an_operator_with_several_readers() -> None:
    assert reasons(of("in start left", "right", "both out"), diamond()) == [
        "pipeline 'in': 'start' is read by 2 operators (left, right), "
        "so nothing can follow it in its pipeline but sinks"
    ]


def test_two_sinks_alone_are_no_pipeline() -> None:
    flow = Dataflow("sinks")
    words = source(flow)
    words.sink("one", Memory())
    words.sink("two", Memory())
    assert reasons(of("in", "one two"), flow.graph) == [
        "pipeline 'one': it holds only sinks (one, two); each has to be a pipeline of its own"
    ]


def test_a_sink_in_the_middle_is_not_connected_to_the_tail() -> None:
    flow = Dataflow("sinks")
    source(flow, "a").sink("one", Memory())
    source(flow, "b").sink("two", Memory())
    assert reasons(of("a b one two"), flow.graph) == [
        "pipeline 'a': 'a' is not connected to 'b': only the sink 'one' reads it"
    ]


def test_a_pipeline_holds_one_stateful_operator_at_most() -> None:
    flow = Dataflow("states")
    distinct = source(flow).key_by("word").deduplicate("distinct")
    distinct.process_all("rank", nothing, schema=WORDS).sink("out", Memory())
    assert reasons(of("in distinct rank out"), flow.graph) == [
        "pipeline 'in': it holds 2 stateful operators (distinct, rank), at most 1 fits"
    ]


def bounded() -> Graph:
    flow = Dataflow("bounded")
    wide = source(flow).filter("wide", nothing, min_parallelism=4, max_parallelism=8)
    wide.filter("narrow", nothing, max_parallelism=2).sink("out", Memory(), max_parallelism=1)
    return flow.graph


def test_bounds_are_those_that_all_operators_stand() -> None:
    graph = bounded()
    assert fusion.bounds(graph, ("in",)) == Bounds(1, None)
    assert fusion.bounds(graph, ("in", "wide")) == Bounds(4, 8)
    assert fusion.bounds(graph, ("narrow", "out")) == Bounds(1, 1)
    assert fusion.bounds(graph, ("wide", "narrow")) == Bounds(4, 2)


def test_parallelism_stays_within_the_bounds() -> None:
    plan = of("in", "wide", "narrow out", parallelism=3)
    assert reasons(plan, bounded()) == [
        "pipeline 'wide': parallelism 3 is outside its bounds 4..8",
        "pipeline 'narrow': parallelism 3 is outside its bounds 1..1",
    ]


def test_operators_whose_bounds_do_not_meet_cannot_be_fused() -> None:
    assert reasons(of("in wide narrow", "out"), bounded()) == [
        "pipeline 'in': its operators cannot be fused: one needs at least 4 "
        "instances and another allows at most 2"
    ]


OWN = (
    "must be a pipeline of its own: it recognises batches by their ids in its query, "
    "and would skip batches of another query as old ones"
)


def test_a_native_sink_is_a_pipeline_of_its_own() -> None:
    flow = Dataflow("native")
    words = source(flow)
    words.sink("native", Spark("noop"))
    words.sink("other", Memory())
    told = f"pipeline 'in': the native sink 'native' {OWN}"
    assert reasons(of("in native other"), flow.graph) == [told]
    assert reasons(of("in native", "other"), flow.graph) == [told]
    fusion.check(of("in other", "native"), flow.graph)
    assert groups(fusion.default_plan(flow.graph, 1)) == [("in", "other"), ("native",)]


def test_a_native_sink_shares_no_pipeline_with_state() -> None:
    graph = word_count(Spark("noop"))
    assert reasons(of("in parse split count out"), graph) == [
        f"pipeline 'in': the native sink 'out' {OWN}"
    ]
    fusion.check(of("in parse split count", "out"), graph)


def test_a_ceiling_needs_state() -> None:
    plan = of("in", "parse split", "count out").with_pipeline("count", ceiling=64)
    fusion.check(plan, word_count())
    assert reasons(plan.with_pipeline("parse", ceiling=8), word_count()) == [
        "pipeline 'parse': a ceiling of 8 needs a stateful operator, it has none"
    ]


def test_a_global_state_has_one_partition() -> None:
    flow = Dataflow("global")
    source(flow).process_all("rank", nothing, schema=WORDS).sink("out", Memory())
    plan = of("in", "rank out")
    fusion.check(plan.with_pipeline("rank", ceiling=1), flow.graph)
    assert reasons(plan.with_pipeline("rank", ceiling=4), flow.graph) == [
        "pipeline 'rank': a ceiling of 4 is impossible: its global state has 1 partition"
    ]


def test_all_reasons_are_given_at_once() -> None:
    plan = of("in split", "x", "count out", parallelism=2).with_pipeline("in", ceiling=4)
    assert len(reasons(plan, word_count())) == 4


# --- plans made by the rules -------------------------------------------------------------------


def test_the_default_plan_fuses_word_count_whole() -> None:
    plan = fusion.default_plan(word_count(), 4, executors=2)
    assert plan == Plan((Pipeline(("in", "parse", "split", "count", "out"), 4),), 2)


def test_the_default_plan_cuts_at_a_branch_and_absorbs_a_confluence() -> None:
    assert groups(fusion.default_plan(diamond(), 1)) == [
        ("in", "start"),
        ("left", "right", "both", "out"),
    ]


def test_the_default_plan_cuts_before_the_second_stateful_operator() -> None:
    flow = Dataflow("two")
    first = source(flow).key_by("word").deduplicate("first").filter("kept", nothing)
    first.key_by("n").deduplicate("second").sink("out", Memory())
    assert groups(fusion.default_plan(flow.graph, 1)) == [
        ("in", "first", "kept"),
        ("second", "out"),
    ]


def test_a_confluence_absorbs_the_inputs_that_it_can() -> None:
    flow = Dataflow("join")
    counted = source(flow, "a").key_by("word").deduplicate("distinct")
    plain = source(flow, "b").filter("plain", nothing)
    counted.key_by("word").join("join", plain.key_by("word")).sink("out", Memory())
    assert groups(fusion.default_plan(flow.graph, 1)) == [
        ("a", "distinct"),
        ("b", "plain", "join", "out"),
    ]


def test_parallelism_is_clipped_to_the_bounds() -> None:
    plan = fusion.default_plan(bounded(), 3)
    assert [(p.operators, p.parallelism) for p in plan.pipelines] == [
        (("in", "wide"), 4),
        (("narrow", "out"), 1),
    ]


def test_the_finest_plan_fuses_sinks_only() -> None:
    assert groups(fusion.finest_plan(word_count())) == [
        ("in",),
        ("parse",),
        ("split",),
        ("count", "out"),
    ]
    assert groups(fusion.finest_plan(word_count(Spark("noop"))))[-2:] == [("count",), ("out",)]


def test_the_region_plan_is_one_pipeline_a_region() -> None:
    plan = fusion.region_plan(word_count())
    assert groups(plan) == [("in",), ("parse", "split"), ("count", "out")]
    assert plan.slots == 3


def test_the_region_plan_uses_schemas_known_from_elsewhere() -> None:
    told = {"parse": Schema.of(WORDS)}
    assert groups(fusion.region_plan(word_count(), told)) == [
        ("in",),
        ("parse", "split", "count", "out"),
    ]


def test_a_region_with_two_keyed_operators_is_cut_in_two() -> None:
    flow = Dataflow("two")
    first = source(flow).key_by("word").deduplicate("first")
    first.key_by("word", "n").deduplicate("second").sink("out", Memory())
    assert groups(fusion.region_plan(flow.graph)) == [("in",), ("first",), ("second", "out")]


def test_normalising_lists_everything_in_topological_order() -> None:
    plan = fusion.normalise(of("count out", "split parse in"), word_count())
    assert groups(plan) == [("in", "parse", "split"), ("count", "out")]
