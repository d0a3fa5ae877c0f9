"""Es-Stream: instances by marginal analysis, executors by load, in a closed loop."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidInput
from penstock.metrics.snapshot import ExecutorMetrics, PipelineMetrics, Snapshot
from penstock.plan import fusion
from penstock.plan.decision import Decision
from penstock.plan.limits import Limits
from penstock.policies.base.policy import Context
from penstock.policies.es_stream import marginal_analysis
from penstock.policies.es_stream.policy import EsStream, newest_executors
from tests import strategies
from tests.policies.queues import Flow, chain


def metrics(name: str, p: int, come: float, service: float = 0.1, **more: Any) -> PipelineMetrics:
    given = {"rate_in": come, "rate_out": come, "arrival_rate": come, "service": service}
    return PipelineMetrics(name, p, **{**given, **more})


def context(
    rate: float = 30.0,
    loads: tuple[float, ...] = (0.5, 0.5, 0.5),
    p: int = 4,
    now: float = 100.0,
    limits: Limits | None = None,
) -> Context:
    """x with 0.1 s a row and p instances, on executors with 4 slots each."""
    graph = chain("x")
    plan = replace(fusion.finest_plan(graph), executors=max(1, len(loads)))
    plan = plan.with_pipeline("x", parallelism=p)
    found = {"numbers": metrics("numbers", 1, rate, 1e-6), "x": metrics("x", p, rate)}
    executors = {
        f"{at}": ExecutorMetrics(f"{at}", 4, busy=load, cpu=0.0, instances={"x": 2, "numbers": 1})
        for at, load in enumerate(loads)
    }
    snapshot = Snapshot(now, 5.0, 0, 0, 0, 0, pipelines=found, executors=executors)
    return Context(graph, plan, (snapshot,), now, limits or Limits())


def decided(seen: Context, policy: EsStream | None = None) -> Decision:
    return (policy or EsStream()).decide(seen, None)[0]


# --- instances ------------------------------------------------------------------------------------


def test_instances_are_those_of_the_marginal_analysis() -> None:
    decision = decided(context(rate=50.0))
    assert decision.plan is not None
    assert decision.plan.pipeline_of("x").parallelism == marginal_analysis.best_instances(5.0, 0.1)
    assert "x receives 50 rows/s, load 5.00" in decision.reason
    assert decision.plan.pipeline_of("x").parallelism == 9
    assert "a further instance of x would save 0.065 rows and cost 0.11" in decision.reason
    assert decision.numbers["x load"] == 5.0
    assert decision.numbers["x spared"] == marginal_analysis.rows_spared(5.0, 9) < 0.1 / 0.9
    assert marginal_analysis.rows_spared(5.0, 8) > 0.1 / 0.9
    assert math.isinf(marginal_analysis.rows_spared(5.0, 5))


def test_a_source_that_takes_no_time_does_not_matter() -> None:
    seen = context(rate=50.0)
    latest = seen.snapshots[0]
    quick = {**latest.pipelines, "numbers": metrics("numbers", 1, 50.0, 0.0)}
    decision = decided(replace(seen, snapshots=(replace(latest, pipelines=quick),)))
    assert decision.plan is not None, decision.reason
    assert decision.plan.pipeline_of("numbers").parallelism == 1


def test_a_higher_price_buys_fewer() -> None:
    dear, cheap = (decided(context(50.0), EsStream(share=s)).plan for s in (0.5, 0.01))
    assert dear is not None
    assert cheap is not None
    assert dear.pipeline_of("x").parallelism < cheap.pipeline_of("x").parallelism


def test_pipelines_behind_follow_those_before() -> None:
    graph = chain("x", "y")
    plan = fusion.finest_plan(graph)
    found = {
        "numbers": metrics("numbers", 1, 40.0, 1e-6),
        "x": metrics("x", 1, 40.0, rate_in=10.0, rate_out=10.0),
        "y": metrics("y", 1, 10.0),
    }
    snapshot = Snapshot(5.0, 5.0, 0, 0, 0, 0, pipelines=found)
    decision = decided(Context(graph, plan, (snapshot,), 5.0))
    assert decision.plan is not None
    wanted = marginal_analysis.best_instances(4.0, 0.1)
    assert [decision.plan.pipeline_of(n).parallelism for n in "xy"] == [wanted, wanted]


def test_it_acts_only_when_rates_have_moved() -> None:
    policy = EsStream()
    first, memory = policy.decide(context(50.0), None)
    assert first.plan is not None
    p = first.plan.pipeline_of("x").parallelism
    little = replace(context(59.0, p=p, now=115.0), plan=first.plan)
    assert "next look in" in policy.decide(replace(little, now=105.0), memory)[0].reason
    second, memory = policy.decide(little, memory)
    assert second.plan is None
    assert "no rate changed by more than 20%" in second.reason
    third, memory = policy.decide(replace(context(61.0, p=p, now=130.0), plan=first.plan), memory)
    assert third.plan is not None
    assert "61 rows/s, was 50" in third.reason
    # while rates move it looks more often
    soon = replace(context(10.0, p=p, now=140.0), plan=third.plan)
    soon = replace(soon, snapshots=context(10.0, p=9, now=140.0).snapshots)
    assert policy.decide(soon, memory)[0].plan is not None


def test_a_change_that_was_not_made_is_wanted_again() -> None:
    policy, loads = EsStream(), (0.3, 0.3, 0.3)
    first, memory = policy.decide(context(50.0, loads), None)
    again, _ = policy.decide(context(50.0, loads, now=115.0), memory)
    assert again.plan == first.plan
    assert "the last change was not carried out" in again.reason


def test_a_bottleneck_needs_no_trigger() -> None:
    policy = EsStream()
    _, memory = policy.decide(context(39.0, p=8), None)
    memory = replace(memory, plan=context(39.0).plan)
    found, _ = policy.decide(context(40.0, p=4, now=115.0), memory)
    assert found.plan is not None
    assert "x has a load of 4.00 on 4 instances" in found.reason


def test_a_budget_caps_and_says_what() -> None:
    decision = decided(context(50.0, limits=Limits(slots=8)))
    assert decision.plan is not None
    assert decision.plan.slots == 8
    assert "budget of 8 instances is below the 10 needed" in decision.reason
    low = decided(context(50.0, limits=Limits(slots=4)))
    assert low.plan is None or low.plan.slots <= 4


def test_instances_that_are_too_few_even_so_are_said_to_be() -> None:
    decision = decided(context(50.0, limits=Limits(slots=6)))
    assert "x cannot keep up" in decision.reason
    assert "inf" not in decision.reason
    assert all(math.isfinite(number) for number in decision.numbers.values())


def test_what_is_not_measured_is_named() -> None:
    seen = context()
    (one,) = seen.snapshots
    gap = replace(one.pipelines["x"], service=None)
    snapshots = (replace(one, pipelines={**one.pipelines, "x": gap}),)
    decision = decided(replace(seen, snapshots=snapshots))
    assert decision.plan is None
    assert decision.reason == "no change: not measured: service time of x"
    unsettled = replace(seen, snapshots=(replace(one, settled=False),))
    assert decided(unsettled).plan is None


def test_without_load_one_instance_is_left() -> None:
    plan = decided(context(0.0)).plan
    assert plan is not None
    assert plan.pipeline_of("x").parallelism == 1


# --- executors ------------------------------------------------------------------------------------


def test_instances_go_where_there_is_room() -> None:
    decision = decided(context(50.0, loads=(0.5, 0.3, 0.4)))
    assert decision.plan is not None
    assert decision.plan.executors == 3


def test_busy_executors_get_company() -> None:
    decision = decided(context(50.0, loads=(0.8, 0.8, 0.8)))
    assert decision.plan is not None
    assert decision.plan.executors == 5  # 5 new instances, 4 slots each
    assert "mean load of 80%, skewness 0.00: 2 more for new instances" in decision.reason


def test_one_hot_executor_is_no_reason_for_new_ones() -> None:
    # an instance of x takes 0.36 on average: one more has room on each of the eight others
    seen = context(50.0, loads=(0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 1.6))
    decision = decided(seen, EsStream(alpha=1.0))
    assert decision.plan is not None
    assert decision.numbers["executors mean load"] > 0.7
    assert decision.numbers["executors skewness"] > 0.5
    assert decision.plan.executors == 9


def test_at_eta_itself_the_load_decides() -> None:
    policy = EsStream(eta=0.0)  # two executors have a skewness of 0 by definition
    high = decided(context(50.0, loads=(0.75, 0.75)), policy).plan
    low = decided(context(50.0, loads=(0.1, 0.1)), policy).plan
    assert high is not None
    assert low is not None
    assert (high.executors, low.executors) == (4, 2)


def test_where_nothing_fits_new_ones_come_although_most_are_idle() -> None:
    # right-skewed: above eta. The idle ones take some, then 0.9 is reached everywhere.
    decision = decided(context(50.0, loads=(0.85, 0.85, 0.85, 0.3)), EsStream(eta=-4.0))
    assert decision.plan is not None
    assert decision.plan.executors > 4


def test_a_budget_of_executors_is_kept_and_told() -> None:
    decision = decided(context(50.0, loads=(0.8, 0.8, 0.8), limits=Limits(executors=4)))
    assert decision.plan is not None
    assert decision.plan.executors == 4
    assert "2 more needed, but the budget is 4" in decision.reason


def test_idle_executors_go_those_added_last_first() -> None:
    decision = decided(context(5.0, loads=(0.1, 0.1, 0.1)))
    assert decision.plan is not None
    assert decision.plan.executors == 1
    assert decision.plan.leaving == ("2", "1")
    assert "remove 2, 1" in decision.reason


def test_one_idle_executor_among_busier_ones_goes() -> None:
    decision = decided(context(5.0, loads=(0.4, 0.4, 0.0)))
    assert decision.plan is not None
    assert decision.plan.executors == 2
    assert decision.plan.leaving == ("2",)
    kept = decided(context(5.0, loads=(0.4, 0.4, 0.0)), EsStream(chi=0.0)).plan
    assert kept is not None
    assert kept.executors == 3  # most are above the mean


def test_executors_come_when_there_is_no_room_for_instances_although_they_are_idle() -> None:
    seen = context(50.0, loads=(0.5, 0.3, 0.4))  # nine of x and a source
    free, tight = decided(seen).plan, decided(seen, EsStream(room=2)).plan
    assert free is not None
    assert tight is not None
    assert (free.executors, tight.executors) == (3, 5)


def test_a_new_executor_takes_as_many_as_it_has_room_for() -> None:
    seen = context(50.0, loads=(0.8, 0.8, 0.8))  # five new instances
    plan = decided(seen, EsStream(room=5)).plan
    assert plan is not None
    assert plan.executors == 4


def test_no_executor_goes_whose_instances_have_no_room_elsewhere() -> None:
    seen = context(20.0, loads=(0.1, 0.1, 0.1), p=6)
    free, tight = decided(seen).plan, decided(seen, EsStream(room=3)).plan
    assert free is not None
    assert tight is not None
    assert sum(p.parallelism for p in tight.pipelines) == 6
    assert (free.executors, tight.executors) == (2, 2)
    tighter = decided(seen, EsStream(room=2)).plan
    assert tighter is not None
    assert tighter.executors == 3


def test_age_is_told_by_first_sight_then_by_number() -> None:
    def seen(*names: str) -> Snapshot:
        return Snapshot(0.0, 1.0, 0, 0, 0, 0, executors={n: ExecutorMetrics(n, 1) for n in names})

    assert newest_executors([seen("10", "9"), seen("9", "10", "3"), seen("3", "10", "9")]) == [
        "3",
        "10",
        "9",
    ]
    assert newest_executors([seen("a"), seen("b")]) == ["b"]
    assert newest_executors([]) == []


def test_executors_that_were_refused_are_not_asked_for_at_once() -> None:
    policy = EsStream()
    first, memory = policy.decide(context(50.0, loads=(0.8, 0.8, 0.8)), None)
    assert first.plan is not None
    assert first.plan.executors == 5
    second, _ = policy.decide(context(50.0, loads=(0.8, 0.8, 0.8), now=115.0), memory)
    assert second.plan is not None
    assert second.plan.executors == 3
    assert second.plan.pipeline_of("x") == first.plan.pipeline_of("x")


def test_executors_without_measurements_stay() -> None:
    seen = context(5.0, loads=(0.1, 0.1, 0.1))
    (one,) = seen.snapshots
    blind = {n: ExecutorMetrics(n, 4) for n in one.executors}
    found = decided(replace(seen, snapshots=(replace(one, executors=blind),))).plan
    assert found is not None
    assert found.executors == 3


def test_the_backup_interval_follows_the_load() -> None:
    policy = EsStream(backup_least=0.2, backup_most=5.0)
    seen = context(5.0)
    decision, memory = policy.decide(seen, None)
    assert decision.plan is not None  # instances come first
    assert policy.decide(replace(seen, now=101.0), memory)[0].plan is None


@pytest.mark.parametrize(
    "bad", [{"share": 0.0}, {"share": 1.0}, {"zeta": 0.8}, {"backup_least": -1}]
)
def test_impossible_options_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="es-stream"):
        EsStream(**bad)  # type: ignore[arg-type]


# --- laws and the loop ----------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_every_decision_is_a_valid_plan_and_always_the_same(data: st.DataObject) -> None:
    graph = data.draw(strategies.dataflows())
    plan = data.draw(strategies.plans(graph))
    rates = st.floats(0, 100)
    found = {
        p.name: metrics(p.name, p.parallelism, data.draw(rates), rate_in=data.draw(rates))
        for p in plan.pipelines
    }
    slots = data.draw(st.one_of(st.none(), st.integers(plan.slots, 3 * plan.slots)))
    seen = Context(
        graph, plan, (Snapshot(5.0, 5.0, 0, 0, 0, 0, pipelines=found),), 5.0, Limits(slots=slots)
    )
    decision, _ = EsStream().decide(seen, None)
    assert decision == EsStream().decide(seen, None)[0]
    assert all(math.isfinite(n) for n in decision.numbers.values())
    if decision.plan is not None:
        fusion.check(decision.plan, graph)
        assert seen.limits.exceeded(decision.plan) is None


@given(rate=st.floats(0.1, 100), more=st.floats(0, 100))
@settings(max_examples=60, deadline=None)
def test_more_load_never_means_fewer_instances(rate: float, more: float) -> None:
    def count(come: float) -> int:
        seen = context(come)
        return (decided(seen).plan or seen.plan).pipeline_of("x").parallelism

    assert count(rate) <= count(rate + more)


@given(rate=st.floats(0.1, 100), faster=st.sampled_from([0.25, 2.0, 64.0]))
@settings(max_examples=40, deadline=None)
def test_time_has_no_scale(rate: float, faster: float) -> None:
    def plan(factor: float) -> Any:
        seen = context(rate)
        (one,) = seen.snapshots
        x = metrics("x", 4, rate * factor, 0.1 / factor)
        numbers = metrics("numbers", 1, rate * factor, 1e-6 / factor)
        found = replace(one, pipelines={"numbers": numbers, "x": x})
        return decided(replace(seen, snapshots=(found,))).plan

    assert plan(1.0) == plan(faster)


def test_instances_and_executors_follow_the_load_and_come_to_rest() -> None:
    service = {"numbers": 1e-5, "x": 0.02, "y": 0.005}
    flow = Flow(
        chain("x", "y"),
        service,
        lambda at: 100.0 if at < 100 else 1000.0 if at < 300 else 100.0,
        noise=0.05,
    )
    flow.run(EsStream(), 100)
    low = flow.instances("x")
    assert low == marginal_analysis.best_instances(2.0, 0.1)
    before = len(flow.plans)
    flow.run(EsStream(), 200)
    assert flow.instances("x") >= 22
    assert flow.instances("y") >= 6
    assert flow.plan.executors >= 6
    assert flow.backlog["x"] == 0
    changes = [at for at, _ in flow.plans[before:]]
    assert max(changes) < 200  # and nothing in the last 100 s
    flow.run(EsStream(), 200)
    assert flow.instances("x") == low
    assert flow.plan.executors <= 3
