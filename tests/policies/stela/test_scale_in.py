"""Scale-in: the executors on which least depends leave."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.plan import fusion
from penstock.policies.base.policy import Context
from penstock.policies.shared import rates
from penstock.policies.shared.topology import Topology
from penstock.policies.stela.policy import scale_in
from tests.policies import dags
from tests.policies.dags import parallelism
from tests.policies.stela.flows import placed
from tests.strategies import few


def star_on(where: dict[str, dict[str, int]], slots: int = 4, **many: int) -> Context:
    """s feeds a slow x and a fast y; the share of y is 0.8, that of x 0.2, that of s 0.8."""
    dag = dags.graph({"s": (), "x": ("s",), "y": ("s",)})
    found = Topology(dag, dags.plan(dag, many, executors=len(where)))
    now = rates.steady_state(found, {"s": 80.0}, {}, {"x": 20.0, "y": 90.0})
    return dags.context(found, now, executors=placed(found, where, slots))


def test_the_executor_that_least_depends_on_goes() -> None:
    where = {"e1": {"s": 1}, "e2": {"x": 2}, "e3": {"y": 1}}
    decision = scale_in(star_on(where, x=2), 1)
    assert decision.plan is not None
    assert decision.plan.leaving == ("e2",)
    assert decision.plan.executors == 2
    assert parallelism(decision.plan) == {"s": 1, "x": 2, "y": 1}
    assert decision.numbers == pytest.approx(
        {"e1.etp_sum": 0.8, "e2.etp_sum": 0.4, "e3.etp_sum": 0.8}
    )
    assert decision.reason == (
        "remove e2: its ETP sum 0.40 is the lowest; 2 of its instances move to e1, e3"
    )


def test_what_moved_counts_where_it_went() -> None:
    # e4 has 0.2 and what it had goes to e2, which has 0.6 then, so e3 with 0.4 is the next
    where = {"e1": {"s": 1}, "e2": {"x": 2}, "e3": {"x": 2}, "e4": {"x": 1}, "e5": {"y": 1}}
    decision = scale_in(star_on(where, x=5), 2)
    assert decision.plan is not None
    assert decision.plan.leaving == ("e4", "e3")
    assert decision.plan.executors == 3


def test_instances_without_a_slot_go_too_those_that_matter_least_first() -> None:
    where = {"e1": {"s": 1, "x": 1}, "e2": {"x": 1, "y": 1}, "e3": {"x": 2}}
    decision = scale_in(star_on(where, slots=2, x=4), 1)
    assert parallelism(decision.plan) == {"s": 1, "x": 2, "y": 1}
    assert "x 4 -> 2 instances: no slot left" in decision.reason
    where = {"e1": {"s": 1, "y": 1}, "e2": {"s": 1, "x": 1, "y": 1}, "e3": {"x": 1, "y": 1}}
    one_slot = scale_in(star_on(where, slots=3, s=2, x=2, y=3), 1)
    assert parallelism(one_slot.plan) == {"s": 2, "x": 1, "y": 3}


def test_as_long_as_there_are_slots_all_instances_stay() -> None:
    where = {"e1": {"s": 1, "x": 1}, "e2": {"x": 1, "y": 1}, "e3": {"x": 2}}
    roomy = scale_in(star_on(where, slots=3, x=4), 1)
    assert parallelism(roomy.plan) == {"s": 1, "x": 4, "y": 1}


def test_the_last_instance_of_a_pipeline_stays_even_without_a_slot() -> None:
    where = {"e1": {"s": 1}, "e2": {"x": 1}, "e3": {"y": 1}}
    decision = scale_in(star_on(where, slots=1), 2)
    assert parallelism(decision.plan) == {"s": 1, "x": 1, "y": 1}


def test_an_idle_executor_goes_first() -> None:
    decision = scale_in(star_on({"e1": {"s": 1, "x": 1, "y": 1}, "e2": {}}), 1)
    assert decision.plan is not None
    assert decision.plan.leaving == ("e2",)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ({"e1": {"s": 1, "x": 1}, "e2": {}}, "the executors on which y runs are unknown"),
        (
            {"e1": {"s": 1, "x": 1, "y": 1}, "e2": {"q": 1}},
            "executors run q, which the plan does not contain",
        ),
    ],
)
def test_an_unknown_placement_is_refused(where: dict[str, dict[str, int]], reason: str) -> None:
    decision = scale_in(star_on(where), 1)
    assert decision.plan is None
    assert reason in decision.reason


def test_unknown_executors_and_too_many_are_refused() -> None:
    asked = star_on({"e1": {"s": 1, "x": 1, "y": 1}, "e2": {}})
    blind = replace(asked, snapshots=(replace(asked.snapshots[0], executors={}),))
    assert scale_in(blind, 1).reason == "no scale-in: no executor was measured"
    assert scale_in(asked, 2).plan is None
    assert "2 of 2 executors" in scale_in(asked, 2).reason


@few
@given(dags.flows(), st.data())
def test_any_scale_in_is_valid_and_names_who_leaves(
    flow: tuple[Topology, rates.Rates], data: st.DataObject
) -> None:
    found, now = flow
    names = [f"e{i}" for i in range(data.draw(st.integers(2, 4)))]
    where: dict[str, dict[str, int]] = {n: {} for n in names}
    for name, p in found.pipelines.items():
        for _ in range(p.parallelism):
            spot = where[data.draw(st.sampled_from(names))]
            spot[name] = spot.get(name, 0) + 1
    wide = Topology(found.graph, replace(found.plan, executors=len(names)))
    shown = placed(wide, where, data.draw(st.integers(1, 8)))
    asked = dags.context(wide, now, executors=shown)
    fewer = data.draw(st.integers(1, len(names) - 1))
    decision = scale_in(asked, fewer)
    assert decision.plan is not None
    fusion.check(decision.plan, found.graph)
    assert len(set(decision.plan.leaving)) == fewer
    assert decision.plan.executors == len(names) - fewer
    assert all(p <= found.pipelines[n].parallelism for n, p in parallelism(decision.plan).items())
    assert decision.numbers[f"{decision.plan.leaving[0]}.etp_sum"] == min(decision.numbers.values())
