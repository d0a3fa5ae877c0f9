"""DRS: the fewest instances for a bound, the best use of a budget."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidInput
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan import fusion
from penstock.plan.decision import Decision
from penstock.plan.limits import Limits
from penstock.policies.base.policy import Context
from penstock.policies.baselines.drs import Drs
from penstock.policies.shared import queueing
from tests import strategies
from tests.policies.queues import Flow, chain

SERVICE = {"numbers": 1e-6, "x": 0.05, "y": 0.02}


def context(
    rate: float,
    p: tuple[int, int] = (1, 1),
    latency: float | None = 0.2,
    limits: Limits | None = None,
    now: float = 100.0,
) -> Context:
    graph = chain("x", "y", latency=latency)
    plan = fusion.finest_plan(graph)
    plan = plan.with_pipeline("x", parallelism=p[0]).with_pipeline("y", parallelism=p[1])
    found = {
        n: PipelineMetrics(
            n, q.parallelism, rate_in=rate, rate_out=rate, arrival_rate=rate, service=SERVICE[n]
        )
        for n, q in ((q.name, q) for q in plan.pipelines)
    }
    snapshot = Snapshot(now, 5.0, 0, 0, 0, 0, pipelines=found)
    return Context(graph, plan, (snapshot,), now, limits or Limits())


def decided(seen: Context) -> Decision:
    return Drs().decide(seen, None)[0]


def sojourn(rate: float, *p: int) -> float:
    times = (SERVICE["x"], SERVICE["y"])
    return sum(queueing.mmk(rate, s, k).sojourn for s, k in zip(times, p, strict=True))


def counts(decision: Decision) -> tuple[int, int]:
    assert decision.plan is not None, decision.reason
    return decision.plan.pipeline_of("x").parallelism, decision.plan.pipeline_of("y").parallelism


def test_a_bound_is_met_with_the_fewest_instances() -> None:
    decision = decided(context(100.0, latency=0.08))
    found = counts(decision)
    every = itertools.product(range(1, 20), repeat=2)
    assert sum(found) == min(sum(p) for p in every if sojourn(100.0, *p) <= 0.08 - 1e-6)
    assert sojourn(100.0, *found) <= 0.08
    assert "takes ever longer, expected" in decision.reason


def test_too_many_are_given_back_only_with_something_to_spare() -> None:
    many = counts(decided(context(100.0, (30, 30), latency=0.1)))
    assert sojourn(100.0, *many) <= 0.08
    assert sum(many) < 15
    assert decided(context(100.0, many, latency=0.1)).plan is None


@pytest.mark.parametrize("latency", [4.0, 0.2])
def test_a_load_of_just_so_many_instances_has_none_come_and_go(latency: float) -> None:
    many, seen = (3, 2), set()
    for turn in range(20):  # x has work for 2.94 instances, and then for 3.06
        rate = 60.0 * (1.02 if turn % 2 else 0.98)
        plan = decided(context(rate, many, latency)).plan
        if plan is not None:
            many = (plan.pipeline_of("x").parallelism, plan.pipeline_of("y").parallelism)
        seen.add(many) if turn > 1 else None
    assert seen == {(4, 2)}
    assert counts(decided(context(47.0, (4, 2), latency)))[0] == 3  # 2.35 of 3 leave time


def test_a_bound_below_the_work_is_told() -> None:
    decision = decided(context(100.0, (8, 4), latency=0.05))
    assert "cannot be met: its operators alone take 0.07 s" in decision.reason
    assert decision.plan is None  # fewer would be worse
    jammed = decided(context(100.0, (2, 4), latency=0.05))
    assert counts(jammed) == (6, 4)  # what holds the load, at least


def test_a_budget_is_used_best() -> None:
    decision = decided(context(100.0, latency=None, limits=Limits(slots=12)))
    found = counts(decision)
    every = [p for p in itertools.product(range(1, 12), repeat=2) if sum(p) <= 11]
    assert sojourn(100.0, *found) == pytest.approx(min(sojourn(100.0, *p) for p in every))
    assert "with the best use of 12 instances" in decision.reason


def test_a_budget_counts_before_a_bound_where_that_is_asked_for() -> None:
    seen = context(100.0, latency=0.2, limits=Limits(slots=15))
    without = context(100.0, latency=None, limits=Limits(slots=15))
    assert counts(Drs(budget=True).decide(seen, None)[0]) == counts(decided(without))
    assert counts(decided(seen)) != counts(decided(without))


def test_without_budget_and_bound_queues_take_a_share_of_the_work() -> None:
    grown = decided(context(100.0, (1, 1), latency=None))
    work = sum(SERVICE[n] for n in ("x", "y"))
    assert sojourn(100.0, *counts(grown)) <= 1.05 * work
    assert "queueing may add 5% of that" in grown.reason
    assert decided(context(100.0, counts(grown), latency=None)).plan is None
    assert counts(decided(context(100.0, (30, 30), latency=None))) == counts(grown)
    assert counts(decided(context(0.0, (8, 8), latency=None))) == (1, 1)
    assert counts(decided(context(0.0, (8, 8), latency=None, limits=Limits(slots=20)))) == (1, 1)


def test_a_bound_that_cannot_be_met_has_one_of_two_reasons() -> None:
    slow = decided(context(100.0, (8, 4), latency=0.05)).reason
    assert "its operators alone take 0.07 s" in slow
    long = decided(context(100.0, latency=0.0705, limits=Limits(slots=7))).reason
    assert "cannot be met: its queues are too long with all instances allowed" in long
    few = decided(context(100.0, latency=0.075, limits=Limits(slots=4))).reason
    assert "cannot be met: too few instances for the load, x needs 6, 4 allowed" in few
    assert "the operators alone" not in long + few


def test_a_budget_that_is_too_small_is_shared_by_load() -> None:
    decision = decided(context(100.0, latency=None, limits=Limits(slots=5)))
    assert decision.plan is not None
    assert decision.plan.slots <= 5
    assert "5 instances are too few for a load of 7.00" in decision.reason


def test_a_budget_below_one_instance_each_is_told() -> None:
    reason = decided(context(100.0, latency=None, limits=Limits(slots=1))).reason
    assert "is below the 3 needed: no pipeline can have fewer" in reason


def test_a_bound_beyond_the_budget_is_cut_and_told() -> None:
    decision = decided(context(100.0, latency=0.075, limits=Limits(slots=10)))
    assert decision.plan is not None
    assert decision.plan.slots <= 10
    assert "budget of 10 instances" in decision.reason


def test_what_is_not_measured_is_named() -> None:
    seen = context(100.0)
    (one,) = seen.snapshots
    gap = replace(one.pipelines["y"], arrival_rate=None)
    decision = decided(
        replace(seen, snapshots=(replace(one, pipelines={**one.pipelines, "y": gap}),))
    )
    assert decision.plan is None
    assert decision.reason == "no change: not measured: arrival rate of y"


def test_without_load_the_least_is_enough() -> None:
    assert counts(decided(context(0.0, (5, 5)))) == (1, 1)


def test_it_looks_once_an_interval() -> None:
    _, memory = Drs().decide(context(100.0), None)
    assert "next look in 4.0 s" in Drs().decide(context(100.0, now=106.0), memory)[0].reason
    with pytest.raises(InvalidInput, match="drs"):
        Drs(slack=1.0)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_every_decision_is_a_valid_plan(data: st.DataObject) -> None:
    graph = data.draw(strategies.dataflows())
    plan = data.draw(strategies.plans(graph))
    found = {}
    for p in plan.pipelines:
        rate = data.draw(st.floats(0, 100))
        found[p.name] = PipelineMetrics(
            p.name, p.parallelism, rate_in=rate, rate_out=rate, arrival_rate=rate, service=0.05
        )
    slots = data.draw(st.one_of(st.none(), st.integers(plan.slots, 3 * plan.slots)))
    snapshot = Snapshot(5.0, 5.0, 0, 0, 0, 0, pipelines=found)
    seen = Context(graph, plan, (snapshot,), 5.0, Limits(slots=slots))
    decision = decided(seen)
    assert decision == decided(seen)
    assert all(math.isfinite(n) for n in decision.numbers.values())
    if decision.plan is not None:
        fusion.check(decision.plan, graph)
        assert seen.limits.exceeded(decision.plan) is None


@given(rate=st.floats(0.1, 200), more=st.floats(0, 100))
@settings(max_examples=60, deadline=None)
def test_more_load_never_needs_fewer(rate: float, more: float) -> None:
    few = decided(context(rate, latency=0.2)).plan
    many = decided(context(rate + more, latency=0.2)).plan
    assert (few.slots if few else 3) <= (many.slots if many else 3)


def test_bounds_that_keep_it_from_being_met_are_used_up() -> None:
    def instances(rate: float) -> int:
        graph = chain("x", latency=0.1005, x={"max_parallelism": 20})
        plan = fusion.finest_plan(graph)
        found = {
            p.name: PipelineMetrics(
                p.name, 1, rate_in=rate, rate_out=rate, arrival_rate=rate, service=service
            )
            for p, service in zip(plan.pipelines, (0.0, 0.1), strict=True)
        }
        snapshot = Snapshot(5.0, 5.0, 0, 0, 0, 0, pipelines=found)
        decision = decided(Context(graph, plan, (snapshot,), 5.0))
        assert decision.plan is not None
        return decision.plan.pipeline_of("x").parallelism

    found = [instances(rate) for rate in (80.0, 125.0, 130.0, 190.0, 250.0)]
    assert found[1:] == [20, 20, 20, 20]
    assert found[0] < 20


def test_instances_follow_the_load_and_come_to_rest() -> None:
    flow = Flow(
        chain("x", "y", latency=0.2),
        SERVICE,
        lambda at: 50.0 if at < 100 else 400.0 if at < 300 else 50.0,
        noise=0.03,
        slots=100,
    )
    flow.run(Drs(), 100)
    low = flow.instances("x")
    flow.run(Drs(), 100)
    last = len(flow.plans)
    assert flow.instances("x") > 20
    flow.run(Drs(), 100)
    assert len(flow.plans) == last
    assert flow.latency() < 0.2
    flow.run(Drs(), 100)
    assert low <= flow.instances("x") <= low + 1
