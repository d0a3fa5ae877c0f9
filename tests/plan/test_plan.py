from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidPlan
from penstock.plan.plan import Pipeline, Plan
from tests.strategies import dataflows, few, plans

PLAN = Plan((Pipeline(("a", "b"), 2, admission=100, cadence=0.5), Pipeline(("c",), ceiling=8)), 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"operators": ()}, "a pipeline needs at least one operator"),
        ({"parallelism": 0}, "pipeline 'a': parallelism 0 is below 1"),
        ({"admission": -1}, "pipeline 'a': admission -1 is below 0 rows"),
        ({"cadence": -1.0}, "pipeline 'a': cadence -1.0 is not a time of 0 s or more"),
        ({"cadence": float("nan")}, "pipeline 'a': cadence nan is not a time of 0 s or more"),
        ({"parallelism": 5, "ceiling": 4}, "above its ceiling of 4 state partitions"),
    ],
)
def test_an_impossible_pipeline_cannot_be_built(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidPlan, match=message):
        Pipeline(**{"operators": ("a",), **arguments})


def test_a_plan_needs_an_executor() -> None:
    with pytest.raises(InvalidPlan, match="at least one executor, found 0"):
        Plan((Pipeline(("a",)),), 0)


def test_a_pipeline_is_named_after_its_first_operator_and_found_by_any() -> None:
    assert PLAN.pipeline_of("b").name == "a"
    assert PLAN.pipeline_of("c").ceiling == 8
    with pytest.raises(InvalidPlan, match="no pipeline holds 'x'; operators are a, b, c"):
        PLAN.pipeline_of("x")


def test_slots_are_the_instances_of_all_pipelines() -> None:
    assert PLAN.slots == 3


def test_turning_one_pipeline_leaves_the_others_and_the_plan_itself_alone() -> None:
    turned = PLAN.with_pipeline("b", parallelism=4)
    assert turned.pipeline_of("a") == Pipeline(("a", "b"), 4, admission=100, cadence=0.5)
    assert turned.pipeline_of("c") is PLAN.pipeline_of("c")
    assert PLAN.pipeline_of("a").parallelism == 2


def test_the_order_in_which_pipelines_are_listed_has_no_meaning() -> None:
    turned = Plan(PLAN.pipelines[::-1], 3)
    assert turned == PLAN
    assert hash(turned) == hash(PLAN)
    assert turned != PLAN.with_pipeline("c", parallelism=2)
    assert Plan(PLAN.pipelines, 2) != PLAN
    assert PLAN != "a plan"


def test_a_plan_is_written_as_json() -> None:
    assert PLAN.to_json() == {
        "pipelines": [
            {
                "operators": ["a", "b"],
                "parallelism": 2,
                "admission": 100,
                "cadence": 0.5,
                "ceiling": None,
            },
            {
                "operators": ["c"],
                "parallelism": 1,
                "admission": None,
                "cadence": 0.0,
                "ceiling": 8,
            },
        ],
        "executors": 3,
    }


def test_what_a_plan_file_leaves_out_has_a_default() -> None:
    assert Plan.from_json({"pipelines": [{"operators": ["a"]}]}) == Plan((Pipeline(("a",)),))


@few
@given(st.data())
def test_any_plan_survives_the_round_trip_through_text(data: st.DataObject) -> None:
    plan = data.draw(plans(data.draw(dataflows())))
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "a plan is written as"),
        ({}, "a plan is written as"),
        ({"pipelines": 3}, "a plan is written as"),
        ({"pipelines": [3]}, "a pipeline is written as"),
        ({"pipelines": [{"operators": ["a"], "speed": 3}]}, "a pipeline is written as"),
        ({"pipelines": [{"operators": "abc"}]}, "'operators' is a list of names, found 'abc'"),
        ({"pipelines": [{"operators": [1]}]}, "'operators' is a list of names"),
        (
            {"pipelines": [{"operators": ["a"], "parallelism": "2"}]},
            "'parallelism' is a whole number, found '2'",
        ),
        (
            {"pipelines": [{"operators": ["a"], "parallelism": None}]},
            "'parallelism' is a whole number, found None",
        ),
        ({"pipelines": [{"operators": ["a"], "cadence": "1s"}]}, "'cadence' is a number"),
        ({"pipelines": [], "executors": 1.5}, "'executors' is a whole number, found 1.5"),
    ],
)
def test_a_plan_that_cannot_be_read_says_what_is_wrong(data: Any, message: str) -> None:
    with pytest.raises(InvalidPlan, match=message):
        Plan.from_json(data)
