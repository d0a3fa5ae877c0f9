"""Scale-out by effective throughput."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidInput
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.policies.base.policy import Context
from penstock.policies.shared import rates
from penstock.policies.shared.rates import PipelineRate
from penstock.policies.shared.topology import Topology
from penstock.policies.stela.policy import Stela, scale_in, scale_out
from penstock.policies.stela.strategies import RoundRobin
from tests.policies import dags
from tests.policies.dags import parallelism
from tests.policies.stela.flows import chain
from tests.policies.stela.test_etp import figure
from tests.strategies import few


def test_slots_are_the_average_rounded_for_each_new_executor() -> None:
    for executors, each in ((1, 3), (2, 2), (3, 1), (9, 1)):
        decision = scale_out(chain({"b": 1.0}, executors=executors), 2)
        assert decision.plan is not None
        assert decision.plan.slots == 3 + 2 * each
        assert decision.plan.executors == executors + 2


def test_each_slot_goes_to_the_congested_one_with_the_highest_etp() -> None:
    # b comes first because everything behind a waits for it; then a has the higher share
    decision = scale_out(chain({"s": 200.0, "a": 40.0, "b": 20.0}, executors=1), 1)
    assert parallelism(decision.plan) == {"s": 1, "a": 2, "b": 3}
    assert decision.reason == (
        "add 1 executor with 3 slots: b 1 -> 3 instances (congestion 2.00, limit 1.20, ETP 100%), "
        "a 1 -> 2 instances (congestion 2.50, limit 1.20, ETP 0%)"
    )
    assert decision.numbers["throughput"] == 20
    assert decision.numbers["throughput.expected"] == 60


def test_the_printed_example_gives_slots_in_its_order() -> None:
    found, speeds = figure()
    first = scale_out(_asking(found, speeds, executors=10), 1, congested=1.0)
    assert first.plan is not None
    assert parallelism(first.plan)["3"] == 2
    assert first.numbers["3.etp"] == pytest.approx(4 / 9)


def _asking(found: Topology, speeds: rates.Rates, executors: int) -> Context:
    wide = Topology(found.graph, replace(found.plan, executors=executors))
    return dags.context(wide, speeds)


def test_where_nothing_is_congested_sources_grow_and_then_what_they_would_congest() -> None:
    decision = scale_out(chain({"s": 100.0, "a": 130.0, "b": 900.0}, executors=1), 1)
    # s with 2 brings in 200, which congests a; a with 2 can take 260, so s is next again
    assert parallelism(decision.plan) == {"s": 3, "a": 2, "b": 1}
    assert "no pipeline is congested" in decision.reason


def test_by_gain_prefers_what_one_instance_speeds_up_most() -> None:
    # 60 % depends on x, but its 13th instance adds 5 rows a second and the second of y adds 40
    dag = dags.graph({"s": (), "x": ("s",), "y": ("s",)})
    found = Topology(dag, dags.plan(dag, {"x": 12}, executors=14))
    now = rates.steady_state(found, {"s": 200.0}, {}, {"x": 60.0, "y": 40.0})
    assert parallelism(scale_out(dags.context(found, now), 1).plan)["x"] == 13
    assert parallelism(scale_out(dags.context(found, now), 1, by="gain").plan)["y"] == 2
    decision, _ = Stela(automatic=True, by="gain").decide(dags.context(found, now), None)
    assert "y has the highest expected gain" in decision.reason


def test_bounds_are_kept_and_said() -> None:
    dag = dags.graph({"s": (), "a": ("s",)}, most={"a": 2})
    found = Topology(dag, dags.plan(dag))
    decision = scale_out(
        dags.context(found, rates.steady_state(found, {"s": 100.0}, {}, {"a": 1.0})), 2
    )
    assert parallelism(decision.plan) == {"s": 1, "a": 2}
    assert (
        "3 slots stay empty, because every pipeline that could use them is at its bound"
        in decision.reason
    )


def test_a_ceiling_of_state_partitions_is_a_bound() -> None:
    flow = dags.graph({"s": (), "a": ("s",)})
    plan = dags.plan(flow)
    found = Topology(flow, plan.with_pipeline("a", ceiling=1))
    decision = scale_out(
        dags.context(found, rates.steady_state(found, {"s": 100.0}, {}, {"a": 1.0})), 1
    )
    assert parallelism(decision.plan) == {"s": 1, "a": 1}


def test_the_budget_is_kept_and_said() -> None:
    asked = chain({"b": 1.0}, executors=1)
    cut = scale_out(replace(asked, limits=Limits(slots=4, executors=2)), 3)
    assert cut.plan is not None
    assert (cut.plan.slots, cut.plan.executors) == (4, 2)
    assert "the budget of 2 executors allows 1 more" in cut.reason
    assert "the budget of 4 instances allows 1 more" in cut.reason
    none = scale_out(replace(asked, limits=Limits(executors=1)), 1)
    assert none.plan is None
    assert none.reason == "no scale-out by 1: the budget of 1 executors allows 0 more"
    assert scale_out(replace(asked, limits=Limits(slots=3)), 1).plan is None


def test_what_is_missing_is_said() -> None:
    asked = chain({})
    assert scale_out(replace(asked, snapshots=()), 1).reason == (
        "no scale-out: nothing measured yet"
    )
    shown = asked.snapshots[0]
    blind = replace(
        shown, pipelines={**shown.pipelines, "a": replace(shown.pipelines["a"], arrival_rate=None)}
    )
    assert scale_out(replace(asked, snapshots=(blind,)), 1).reason == (
        "no scale-out: not measured: arrival rate of a"
    )
    assert scale_in(replace(asked, snapshots=(blind,)), 1).plan is None
    with pytest.raises(InvalidInput, match="the least is 1"):
        scale_out(asked, 0)
    with pytest.raises(InvalidInput, match="the least is 1"):
        scale_in(asked, -1)


def test_no_load_at_all_is_no_trouble() -> None:
    decision = scale_out(chain({"a": 10.0}, offered=0.0, executors=1), 1)
    assert parallelism(decision.plan) == {"s": 4, "a": 1, "b": 1}


@few
@given(dags.flows(), st.integers(1, 3), st.integers(1, 4))
def test_any_scale_out_is_valid_repeatable_free_of_units_and_never_slower(
    flow: tuple[Topology, rates.Rates], more: int, executors: int
) -> None:
    found, now = flow
    asked = _asking(found, now, executors)
    decision = scale_out(asked, more)
    assert decision.plan is not None
    fusion.check(decision.plan, found.graph)
    assert decision == scale_out(asked, more)
    assert decision.numbers["throughput.expected"] >= decision.numbers["throughput"] - 1e-6
    faster = {
        n: PipelineRate(r.arrival * 8, r.processed * 8, r.capacity * 8, r.selectivity)
        for n, r in now.items()
    }
    assert scale_out(_asking(found, faster, executors), more).plan == decision.plan


def test_who_is_at_its_bounds_is_told_with_them() -> None:
    dag = dags.graph({"s": (), "a": ("s",), "b": ("a",)}, most={"s": 1, "a": 4, "b": 1})
    found = Topology(dag, dags.plan(dag, {"a": 4}))
    seen = dags.context(found, rates.steady_state(found, {"s": 100.0}, {}, {"a": 50.0}))
    decision, _ = Stela(automatic=True).decide(seen, None)
    assert decision.plan is None
    assert decision.reason == "no change, at their bounds: a (congestion 2.00) has 4 of 4 instances"
    assert decision.numbers == {"a.congestion": 2.0}
    decision, _ = RoundRobin().decide(seen, None)
    assert decision.plan is None
    assert "at their bounds: s (congestion 1.00) has 1 of 1 instances, a (cong" in decision.reason
