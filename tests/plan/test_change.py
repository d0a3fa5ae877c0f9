from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidPlan
from penstock.plan.change import (
    Action,
    AdmissionChange,
    CadenceChange,
    CeilingChange,
    Change,
    ExecutorsChange,
    ParallelismChange,
    Regrouping,
)
from penstock.plan.plan import Pipeline, Plan
from tests.strategies import dataflows, few, plans

WHOLE = Plan((Pipeline(("parse", "split", "count")),))
CUT = Plan((Pipeline(("parse", "split")), Pipeline(("count",))))


def actions(before: Plan, after: Plan) -> tuple[Action, ...]:
    return Change(before, after).actions


def texts(before: Plan, after: Plan) -> list[str]:
    return [str(action) for action in actions(before, after)]


@pytest.mark.parametrize(
    ("settings", "action", "text"),
    [
        ({"parallelism": 4}, ParallelismChange("count", 1, 4), "count: parallelism 1 -> 4"),
        (
            {"admission": 100},
            AdmissionChange("count", None, 100),
            "count: admission unlimited -> 100",
        ),
        ({"cadence": 2.0}, CadenceChange("count", 0.0, 2.0), "count: cadence 0ms -> 2s"),
        ({"ceiling": 64}, CeilingChange("count", None, 64), "count: ceiling automatic -> 64"),
    ],
)
def test_a_turned_setting_is_one_action(
    settings: dict[str, Any], action: Action, text: str
) -> None:
    after = CUT.with_pipeline("count", **settings)
    assert actions(CUT, after) == (action,)
    assert texts(CUT, after) == [text]


def test_more_or_fewer_executors_are_one_action() -> None:
    assert actions(CUT, Plan(CUT.pipelines, 2)) == (ExecutorsChange(1, 2),)
    assert texts(CUT, Plan(CUT.pipelines, 2)) == ["executors 1 -> 2"]


def test_a_split_and_its_undo_a_merge() -> None:
    split = Change(WHOLE, CUT)
    assert split.actions == (
        Regrouping((("parse", "split", "count"),), (("parse", "split"), ("count",))),
    )
    assert str(split) == "split parse+split+count into parse+split | count"
    assert str(split.undo) == "merge parse+split | count into parse+split+count"


def test_other_groupings_are_a_regroup() -> None:
    moved = Plan((Pipeline(("parse",)), Pipeline(("split", "count"))))
    assert texts(CUT, moved) == ["regroup parse+split | count into parse | split+count"]


def test_only_connected_groups_are_regrouped_together() -> None:
    before = Plan((Pipeline(("a", "b")), Pipeline(("c",)), Pipeline(("d",)), Pipeline(("e",))))
    after = Plan((Pipeline(("a",)), Pipeline(("b",)), Pipeline(("c", "d")), Pipeline(("e",))))
    assert texts(before, after) == ["split a+b into a | b", "merge c | d into c+d"]


def test_settings_that_change_with_a_regrouping_are_named_too() -> None:
    after = CUT.with_pipeline("count", parallelism=4, ceiling=64)
    assert texts(WHOLE, after) == [
        "split parse+split+count into parse+split | count",
        "count: parallelism 1 -> 4",
    ]


def test_several_actions_come_in_the_order_of_the_pipelines() -> None:
    after = CUT.with_pipeline("count", parallelism=2).with_pipeline("parse", admission=5)
    assert str(Change(CUT, Plan(after.pipelines, 3))) == (
        "parse: admission unlimited -> 5; count: parallelism 1 -> 2; executors 1 -> 3"
    )


def test_a_change_to_the_same_plan_is_no_change() -> None:
    same = Change(CUT, Plan(CUT.pipelines[::-1]))
    assert not same
    assert same.actions == ()
    assert str(same) == "no change"
    assert Change(CUT, WHOLE)


def test_a_change_applies_to_the_plan_it_was_made_for_only() -> None:
    change = Change(WHOLE, CUT)
    assert change.apply(WHOLE) == CUT
    assert change.undo.apply(CUT) == WHOLE
    with pytest.raises(InvalidPlan, match="was made for another plan"):
        change.apply(CUT)


def test_plans_of_different_operators_can_be_compared() -> None:
    other = Plan((Pipeline(("x",)),))
    assert texts(WHOLE, other) == [
        "regroup parse+split+count into nothing",
        "regroup nothing into x",
    ]


@pytest.mark.parametrize("data", [None, [], {}, {"before": {}}])
def test_a_change_that_cannot_be_read_says_how_it_is_written(data: Any) -> None:
    with pytest.raises(InvalidPlan, match="a change is written as"):
        Change.from_json(data)


def test_a_change_is_written_with_its_actions_for_the_reader() -> None:
    data = Change(WHOLE, CUT).to_json()
    assert data["before"] == WHOLE.to_json()
    assert data["after"] == CUT.to_json()
    assert data["actions"] == ["split parse+split+count into parse+split | count"]


@st.composite
def changes(draw: st.DrawFn) -> Change:
    graph = draw(dataflows())
    before = draw(plans(graph))
    after = draw(st.one_of(st.just(before), plans(graph), st.just(Plan(before.pipelines, 2))))
    return Change(before, after)


@few
@given(changes())
def test_the_undo_of_the_undo_is_the_change(change: Change) -> None:
    assert change.undo.undo == change
    assert change.undo.apply(change.apply(change.before)) == change.before


@few
@given(changes())
def test_there_are_no_actions_exactly_when_the_plans_are_equal(change: Change) -> None:
    assert (change.actions == ()) == (change.before == change.after)
    assert bool(change) == bool(change.undo)


@few
@given(changes())
def test_a_pipeline_that_no_action_names_is_the_same_in_both_plans(change: Change) -> None:
    named: set[str] = set()
    for action in change.actions:
        match action:
            case Regrouping(before, after):
                named.update(name for group in (*before, *after) for name in group)
            case ExecutorsChange():
                pass
            case _:
                named.update(change.after.pipeline_of(action.pipeline).operators)
    for plan, other in ((change.before, change.after), (change.after, change.before)):
        for pipeline in plan.pipelines:
            if not named & set(pipeline.operators):
                assert pipeline in other.pipelines


@few
@given(changes())
def test_a_regrouping_is_of_the_same_operators(change: Change) -> None:
    for action in change.actions:
        if isinstance(action, Regrouping):
            before, after = (
                sorted(name for group in side for name in group)
                for side in (action.before, action.after)
            )
            assert before == after


@few
@given(changes())
def test_any_change_survives_the_round_trip_through_text(change: Change) -> None:
    assert Change.from_json(json.loads(json.dumps(change.to_json()))) == change
