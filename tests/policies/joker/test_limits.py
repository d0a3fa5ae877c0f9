"""What organic adaptation cannot know or do: measurements, refusals, bounds, budgets."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from penstock import Dataflow, Discard
from penstock.errors import InvalidInput
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.policies.joker.policy import Organic
from penstock.policies.joker.trials import configuration
from tests.engines.spark.flows import source
from tests.policies.joker.adapting import COSTS, region, shape, snapshot, turn, word_count
from tests.policies.plant import Plant


def test_without_times_of_operators_it_only_adds_instances_and_says_so() -> None:
    graph = region(2)
    plan = fusion.region_plan(graph)
    decision, _ = turn(Organic(), graph, plan, snapshot(plan, 30, 100.0, {"o1": 1.0}), None)
    assert shape(decision.plan) == {"numbers": 1, "o1+o2+out": 2}
    assert "the costs of its operators are not measured" in decision.reason


def test_what_is_not_measured_is_named_and_not_acted_on() -> None:
    graph = region(2)
    plan = fusion.region_plan(graph)
    nothing = snapshot(plan, 30, 100.0, {"o1": None, "numbers": None})
    decision, _ = turn(Organic(), graph, plan, nothing, None)
    assert decision.plan is None
    assert decision.reason == "no change: not measured: utilisation of numbers, utilisation of o1"
    assert turn(Organic(), graph, plan, replace(nothing, pipelines={}), None)[0].plan is None


def test_it_waits_for_a_settled_snapshot_and_a_whole_profile() -> None:
    graph = region(2)
    plan = fusion.region_plan(graph)
    seen = snapshot(plan, 30, 100.0, {"o1": 1.0})
    assert turn(Organic(), graph, plan, replace(seen, settled=False), None)[0].plan is None
    decision, memory = turn(Organic(), graph, plan, replace(seen, window=10.0), None)
    assert decision.plan is None
    assert decision.reason == "no change: profiled 10 of 30 s"
    again, memory = turn(Organic(), graph, plan, replace(seen, at=49.0, window=10.0), memory)
    assert again.reason == "no change: profiled 29 of 30 s"
    last, _ = turn(Organic(), graph, plan, replace(seen, at=50.0, window=10.0), memory)
    assert last.plan is not None


def test_a_decision_that_is_refused_comes_again_later() -> None:
    graph = word_count()
    plant = Plant(graph, COSTS, fusion.region_plan(graph), refuse=lambda plan: True)
    assert plant.run(Organic(), 300) == []
    asked = [at for at, _, decision in plant.history if decision.plan is not None]
    assert len(asked) >= 5
    assert min(b - a for a, b in itertools.pairwise(asked)) >= 30
    plant.refuse = lambda plan: False
    assert plant.run(Organic(), 300)


def test_a_refusal_in_the_middle_of_a_trial_leaves_nothing_behind() -> None:
    graph = word_count()
    start = fusion.region_plan(graph)
    plant = Plant(graph, COSTS, start, cores=1.0)
    plant.refuse = lambda plan: plan.pipeline_of("parse").parallelism > 1
    plant.run(Organic(), 2000)
    plant.refuse = lambda plan: False
    plant.run(Organic(), 2000)
    assert shape(plant.plan) == shape(start)


def test_another_hand_on_the_plan_starts_it_anew() -> None:
    graph = region(2)
    plan = fusion.region_plan(graph)
    seen = snapshot(plan, 30, 100.0, {"o1": 1.0})
    decision, memory = turn(Organic(), graph, plan, seen, None)
    assert decision.plan is not None
    other = plan.with_pipeline("o1", parallelism=7)
    later = snapshot(other, 60, 100.0, {"o1": 1.0})
    decision, memory = turn(Organic(), graph, other, later, memory)
    assert decision.plan is None
    assert memory.trial is None
    assert memory.expected == configuration(other.pipelines)


def test_a_global_operator_gets_no_second_instance() -> None:
    flow = Dataflow("global")
    source(flow).process_all("all", dict, schema="n bigint").sink("out", Discard())
    plan = fusion.region_plan(flow.graph)
    seen = snapshot(plan, 30, 100.0, {"all": 1.0})
    decision, _ = turn(Organic(), flow.graph, plan, seen, None)
    assert decision.plan is None
    assert "it cannot have more instances" in decision.reason


def test_the_budget_is_kept() -> None:
    graph = region(2)
    plan = fusion.region_plan(graph).with_pipeline("o1", parallelism=4)
    seen = snapshot(plan, 30, 100.0, {"o1": 1.0})
    decision, _ = turn(Organic(), graph, plan, seen, None, limits=Limits(slots=7))
    assert shape(decision.plan) == {"numbers": 1, "o1+o2+out": 6}
    decision, _ = turn(Organic(), graph, plan, seen, None, limits=Limits(slots=5))
    assert decision.plan is None
    assert "exceed the budget" in decision.reason


@pytest.mark.parametrize(
    "wrong",
    [{"order": "fusions"}, {"step": "two"}, {"target": 0.9}, {"target": 0.0}, {"smoothing": 0.0}],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="organic"):
        Organic(**wrong)
