from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dataflow.connectors import Generator, Memory
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.errors import InvalidInput, InvalidPlan, Refused
from penstock.plan import fusion
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.request import (
    Fuse,
    Mode,
    Pause,
    Request,
    RequestList,
    Resume,
    Scale,
    ScaleIn,
    ScaleOut,
    SetAdmission,
    SetCadence,
    SetCeiling,
    SetExecutors,
    SetPolicyMode,
    Split,
    check,
    parse,
)
from tests.strategies import WORDS, dataflows, few, nothing, plans


def words() -> Graph:
    """in -> parse -> count -> counts, and errors beside counts; parse allows at most 4."""
    flow = Dataflow("words")
    parsed = flow.source("in", Generator(nothing, "value string")).map(
        "parse", nothing, schema=WORDS, max_parallelism=4
    )
    counted = parsed.key_by("word").aggregate("count", n="count(*)", schema=WORDS)
    counted.sink("counts", Memory())
    counted.sink("errors", Memory())
    return flow.graph


def two() -> Graph:
    """left -> cleaned and right meet in both -> out."""
    flow = Dataflow("two")
    left = flow.source("left", Generator(nothing, WORDS)).filter("cleaned", nothing)
    right = flow.source("right", Generator(nothing, WORDS))
    left.union("both", right).sink("out", Memory())
    return flow.graph


WHOLE = Plan((Pipeline(("in", "parse", "count", "counts", "errors"), 3, 100, 0.5, 8),), 2)
CUT = Plan((Pipeline(("in", "parse"), 2), Pipeline(("count", "counts", "errors"), 2)))


def groups(plan: Plan) -> set[frozenset[str]]:
    return {frozenset(p.operators) for p in plan.pipelines}


# --- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "after"),
    [
        (Scale("errors", 4), CUT.with_pipeline("count", parallelism=4)),
        (SetCadence("parse", 0.5), CUT.with_pipeline("in", cadence=0.5)),
        (SetAdmission("parse", 10), CUT.with_pipeline("in", admission=10)),
        (SetCeiling("count", 8), CUT.with_pipeline("count", ceiling=8)),
        (SetExecutors(3), Plan(CUT.pipelines, 3)),
        (
            RequestList((Scale("in", 4), SetExecutors(2))),
            Plan(CUT.pipelines, 2).with_pipeline("in", parallelism=4),
        ),
    ],
)
def test_a_setting_is_changed_in_the_pipeline_that_holds_the_operator(
    request_: Request, after: Plan
) -> None:
    assert request_.apply(CUT, words()) == after


def test_scaling_beyond_the_bounds_is_refused_and_names_them() -> None:
    with pytest.raises(
        Refused, match=r"'in' cannot run with parallelism 5.*\(in\+parse\) allows 1 to 4"
    ):
        Scale("in", 5).apply(CUT, words())
    with pytest.raises(Refused, match="allows 1 or more"):
        Scale("count", 0).apply(CUT, words())


def test_scaling_beyond_the_ceiling_says_how_to_lift_it() -> None:
    low = CUT.with_pipeline("count", ceiling=4)
    with pytest.raises(Refused, match=r"has 4 state partitions; .* count.ceiling=8"):
        Scale("count", 8).apply(low, words())
    lifted = parse("count.ceiling=8, count=8").apply(low, words())
    assert (lifted.pipeline_of("count").parallelism, lifted.pipeline_of("count").ceiling) == (8, 8)


def test_an_unknown_operator_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(Refused, match="'cuont' is no operator of 'words'; did you mean 'count'"):
        Scale("cuont", 2).apply(CUT, words())
    with pytest.raises(Refused, match="'x' is no operator of 'words'; there are in, parse, count"):
        check(parse("count=3, split x"), words())
    check(parse("count=3, pause, fuse in count, executors=9"), words())


def test_what_no_plan_can_have_is_an_invalid_plan() -> None:
    with pytest.raises(InvalidPlan, match="at least one executor"):
        SetExecutors(0).apply(CUT, words())
    with pytest.raises(InvalidPlan, match="a ceiling of 8 needs a stateful operator"):
        SetCeiling("in", 8).apply(CUT, words())
    with pytest.raises(InvalidPlan, match="is not a time"):
        SetCadence("in", -1.0).apply(CUT, words())


# --- grouping -----------------------------------------------------------------------------------


def test_a_split_cuts_in_front_of_the_operator_and_the_state_keeps_its_ceiling() -> None:
    after = Split("count").apply(WHOLE, words())
    assert after == Plan(
        (
            Pipeline(("in", "parse"), 3, 100, 0.5),
            Pipeline(("count", "counts", "errors"), 3, 100, 0.5, 8),
        ),
        2,
    )


def test_a_sink_is_split_off_alone() -> None:
    after = Split("counts").apply(CUT, words())
    assert groups(after) == {
        frozenset({"in", "parse"}),
        frozenset({"count", "errors"}),
        frozenset({"counts"}),
    }


def test_each_input_that_is_cut_off_becomes_a_pipeline() -> None:
    whole = fusion.default_plan(two(), 1)
    assert groups(Split("both").apply(whole, two())) == {
        frozenset({"left", "cleaned"}),
        frozenset({"right"}),
        frozenset({"both", "out"}),
    }
    assert groups(Split("cleaned").apply(whole, two())) == {
        frozenset({"left"}),
        frozenset({"cleaned", "right", "both", "out"}),
    }


def test_there_is_nothing_to_split_where_a_pipeline_begins() -> None:
    with pytest.raises(Refused, match="'count' is already the first operator of its pipeline"):
        Split("count").apply(CUT, words())


def test_parts_keep_as_much_parallelism_as_they_can_stand() -> None:
    wide = CUT.with_pipeline("count", parallelism=9)
    fused = Fuse("count", "parse").apply(wide, words())
    (pipeline,) = fused.pipelines
    assert pipeline == Pipeline(("in", "parse", "count", "counts", "errors"), 4)


def test_a_fused_pipeline_has_the_tighter_settings_and_the_ceiling() -> None:
    plan = CUT.with_pipeline("in", admission=500, cadence=2.0, parallelism=4)
    plan = plan.with_pipeline("count", admission=100, cadence=1.0, ceiling=3)
    (pipeline,) = Fuse("in", "errors").apply(plan, words()).pipelines
    assert pipeline == Pipeline(("in", "parse", "count", "counts", "errors"), 3, 100, 2.0, 3)


def test_only_neighbours_can_be_fused() -> None:
    plan = fusion.finest_plan(words())
    with pytest.raises(Refused, match=r"\(in and count\+counts\+errors\) are not adjacent"):
        Fuse("in", "count").apply(plan, words())
    assert Fuse("in", "parse").apply(WHOLE, words()) is WHOLE


def test_what_the_rules_of_fusion_forbid_is_an_invalid_plan() -> None:
    flow = Dataflow("twice")
    source = flow.source("in", Generator(nothing, WORDS))
    once = source.key_by("word").deduplicate("once")
    once.key_by("word").aggregate("count", n="count(*)").sink("out", Memory())
    plan = fusion.default_plan(flow.graph, 1)
    with pytest.raises(InvalidPlan, match="it holds 2 stateful operators"):
        Fuse("once", "count").apply(plan, flow.graph)


# --- pausing ------------------------------------------------------------------------------------


def test_a_pause_closes_the_sources_and_a_resume_opens_them() -> None:
    paused = Pause().apply(CUT, words())
    assert [p.admission for p in paused.pipelines] == [0, None]
    assert Pause().apply(paused, words()) == paused
    assert Resume().apply(paused, words()) == CUT
    assert Resume().apply(WHOLE, words()) == WHOLE


def test_a_flow_that_is_split_while_it_is_paused_can_be_resumed() -> None:
    paused = Split("count").apply(Pause().apply(WHOLE, words()), words())
    assert [p.admission for p in paused.pipelines] == [0, 0]
    assert [p.admission for p in Resume().apply(paused, words()).pipelines] == [None, None]


# --- what leaves the plan alone or needs more than a plan ----------------------------------------


def test_switching_the_policy_leaves_the_plan_as_it_is() -> None:
    assert SetPolicyMode(Mode.OFF).apply(CUT, words()) is CUT


@pytest.mark.parametrize("request_", [ScaleOut(2), ScaleIn(1)])
def test_scaling_on_demand_needs_measurements(request_: Request) -> None:
    with pytest.raises(Refused, match=f"'{request_}' is decided from measurements"):
        request_.apply(CUT, words())
    check(request_, words())


# --- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("count=4", Scale("count", 4)),
        ("my.count=4", Scale("my.count", 4)),
        ("executors=2", SetExecutors(2)),
        ("fuse parse count", Fuse("parse", "count")),
        ("split count", Split("count")),
        ("pause", Pause()),
        ("resume", Resume()),
        ("count.cadence=500ms", SetCadence("count", 0.5)),
        ("count.admission=1000", SetAdmission("count", 1000)),
        ("count.admission=unlimited", SetAdmission("count", None)),
        ("count.ceiling=16", SetCeiling("count", 16)),
        ("count.ceiling=automatic", SetCeiling("count", None)),
        ("scale-out 2", ScaleOut(2)),
        ("scale-in 1", ScaleIn(1)),
        ("policy advise", SetPolicyMode(Mode.ADVISE)),
        ("count=4, executors=2", RequestList((Scale("count", 4), SetExecutors(2)))),
    ],
)
def test_a_request_is_read_and_written(text: str, request_: Request) -> None:
    assert parse(text) == request_
    assert str(request_) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("faster", "cannot read the request 'faster': write count=4, "),
        ("", "cannot read the request ''"),
        ("fuse parse", "cannot read the request 'fuse parse'"),
        ("count=4,", "cannot read the request 'count=4,'"),
        ("=4", "cannot read the request '=4'"),
        ("two words=4", "cannot read the request"),
        ("count=four", "'four' is no whole number"),
        ("count=-1", "'-1' is no whole number"),
        ("executors=1.5", "'1.5' is no whole number"),
        ("scale-out", "cannot read the request 'scale-out'"),
        ("scale-out 0", "'scale-out 0': write 1 or more executors"),
        ("scale-out 999999999", "'scale-out 999999999': write at most 10000 executors"),
        ("scale-in few", "'few' is no whole number"),
        (f"scale-out {'9' * 5000}", "'scale-out 9{30}...': the number is too large"),
        ("policy maybe", r"cannot read the request 'policy maybe'.*policy on \(or advise, off\)"),
        ("count.cadence=often", "cannot read the duration 'often'"),
    ],
)
def test_what_cannot_be_read_says_what_is_possible(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse(text)


# --- laws ---------------------------------------------------------------------------------------


@st.composite
def requests(draw: st.DrawFn, graph: Graph) -> Request:
    operator = st.sampled_from([*graph.by_name, "nobody"])
    number = st.integers(0, 5)
    return draw(
        st.one_of(
            st.builds(Scale, operator, number),
            st.builds(SetCadence, operator, st.sampled_from((-1.0, 0.0, 0.5))),
            st.builds(SetAdmission, operator, st.none() | st.integers(-1, 3)),
            st.builds(SetCeiling, operator, st.none() | number),
            st.builds(SetExecutors, number),
            st.builds(Fuse, operator, operator),
            st.builds(Split, operator),
            st.builds(Pause),
            st.builds(Resume),
        )
    )


@few
@given(st.data())
def test_any_request_gives_a_valid_plan_or_a_reason(data: st.DataObject) -> None:
    graph = data.draw(dataflows())
    plan = data.draw(plans(graph))
    for request in data.draw(st.lists(requests(graph), max_size=6)):
        with suppress(Refused, InvalidPlan):
            plan = request.apply(plan, graph)
        fusion.check(plan, graph)


@few
@given(st.data())
def test_fusing_again_what_was_split_gives_the_grouping_back(data: st.DataObject) -> None:
    graph = data.draw(dataflows())
    plan = data.draw(plans(graph))
    operator = data.draw(st.sampled_from(list(graph.by_name)))
    inside = [i for i in graph[operator].inputs if i in plan.pipeline_of(operator).operators]
    if not inside:
        with pytest.raises(Refused):
            Split(operator).apply(plan, graph)
        return
    cut = Split(operator).apply(plan, graph)
    assert len(cut.pipelines) == len(plan.pipelines) + len(inside)
    again = RequestList(tuple(Fuse(i, operator) for i in inside)).apply(cut, graph)
    assert groups(again) == groups(plan)
