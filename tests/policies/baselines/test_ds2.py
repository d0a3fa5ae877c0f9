from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidInput
from penstock.metrics.snapshot import PipelineMetrics
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.plan.plan import Pipeline, Plan
from penstock.policies.base.policy import Context
from penstock.policies.baselines.ds2 import Ds2, fitted, needed
from penstock.policies.shared import rates
from penstock.policies.shared.topology import Topology
from tests.policies import dags
from tests.policies.closed import DIAMOND, LINEAR, Loop
from tests.policies.dags import parallelism
from tests.strategies import few

ONE = Ds2(activation=1)
"""As in the paper: the fewest instances, whatever there are, and from one window."""


def seen(capacity: dict[str, float], limits: Limits | None = None, **many: int) -> Context:
    dag = dags.graph({"s": (), "a": ("s",), "b": ("a",)}, most={"b": 8})
    found = Topology(dag, dags.plan(dag, many))
    now = rates.steady_state(found, {"s": 100.0}, {"a": 2.0}, capacity)
    return dags.context(found, now, limits)


def later(asked: Context, at: float) -> Context:
    """The same in a window of 5 seconds that ends then."""
    return replace(asked, snapshots=(replace(asked.snapshots[0], at=at),), now=at)


def test_all_pipelines_get_what_the_offered_load_needs_in_one_step() -> None:
    # b sees only 80 rows a second now, but 200 will come when a is no longer in the way
    asked = seen({"s": 500.0, "a": 40.0, "b": 60.0})
    decision, _ = ONE.decide(asked, None)
    assert parallelism(decision.plan) == {"s": 1, "a": 3, "b": 4}
    assert decision.reason == "a 1 -> 3 instances: needs 2.50, b 1 -> 4 instances: needs 3.33"
    assert decision.numbers == pytest.approx(
        {"s.needed": 0.2, "a.needed": 2.5, "b.needed": 10 / 3}, rel=1e-5
    )


def test_it_scales_down_as_well_and_rests_where_it_is() -> None:
    asked = seen({"s": 5000.0, "a": 400.0, "b": 800.0}, s=5, a=4, b=8)
    decision, _ = ONE.decide(asked, None)
    assert parallelism(decision.plan) == {"s": 1, "a": 1, "b": 2}
    rest, _ = ONE.decide(seen({"s": 500.0, "a": 100.0, "b": 200.0}), None)
    assert rest.plan is None  # exactly enough is enough
    assert rest.reason == "no change: every pipeline has the instances it needs"


def test_with_slack_an_instance_goes_only_if_the_rest_could_carry_a_little_more() -> None:
    policy = Ds2(activation=1, slack=0.1)
    for need, many in ((2.99, 4), (3.01, 4), (2.73, 4), (2.72, 3), (1.9, 3), (0.0, 1)):
        asked = seen({"s": 500.0, "a": 400.0 / max(need, 1e-9), "b": 9000.0}, a=4)
        plan = policy.decide(asked, None)[0].plan or asked.plan
        assert parallelism(plan)["a"] == many, need
    short = seen({"s": 500.0, "a": 300.0 / 2.99, "b": 9000.0}, a=3)
    assert policy.decide(short, None)[0].plan is None  # nor does one come for it


def test_with_slack_a_load_of_just_so_many_instances_changes_nothing(tmp_path: Path) -> None:
    dag = dags.graph(LINEAR)
    rate = lambda at: 100.0 * (1.03 if at // 20 % 2 else 0.97)  # noqa: E731
    loop = Loop(dag, dags.plan(dag, {"a": 3}), tmp_path, {"a": 0.03}, rate)
    loop.run(Ds2(slack=0.1), 60)
    assert {p.pipeline_of("a").parallelism for p in loop.plans[12:]} == {4}


def test_a_need_beyond_all_numbers_is_cut_and_told() -> None:
    asked = seen({"s": 500.0, "a": 1e-10, "b": 9000.0})
    decision, _ = ONE.decide(asked, None)
    assert parallelism(decision.plan)["a"] == 1000
    assert "a needs 1000000000000.00 instances, 1000 allowed" in decision.reason
    assert parallelism(Ds2(activation=1, most=7).decide(asked, None)[0].plan)["a"] == 7


def test_a_rounding_error_is_no_need() -> None:
    asked = seen({"s": 500.0, "a": 1 / 0.07, "b": 9000.0})
    assert 100.0 * (asked.snapshots[0].pipelines["a"].service or 0.0) > 7
    assert needed(Topology(asked.graph, asked.plan), asked.snapshots[0])["a"] == 7
    assert parallelism(ONE.decide(asked, None)[0].plan)["a"] == 7


def test_headroom_counts_on_top() -> None:
    asked = seen({"s": 500.0, "a": 100.0, "b": 200.0})
    decision, _ = Ds2(headroom=0.1, activation=1).decide(asked, None)
    assert parallelism(decision.plan) == {"s": 1, "a": 2, "b": 2}


def test_several_windows_decide_by_their_median_under_one_plan() -> None:
    policy, memory = Ds2(activation=3), None
    plans: list[Any] = []
    for at, rate in enumerate((40.0, 10.0, 30.0)):  # 2.5, 10 and 3.33 instances of a
        asked = later(seen({"s": 500.0, "a": rate, "b": 900.0}), 10.0 + 5.0 * at)
        decision, memory = policy.decide(asked, memory)
        plans.append(decision.plan)
    assert plans[:2] == [None, None]
    assert parallelism(plans[2]) == {"s": 1, "a": 4, "b": 1}
    after, _ = policy.decide(seen({"s": 500.0, "a": 40.0, "b": 900.0}, a=4), memory)
    assert (
        after.reason == "no change: 1 of 3 windows measured"
    )  # those of another plan do not count


def test_windows_that_overlap_count_once() -> None:
    policy, memory = Ds2(activation=3), None
    asked = seen({"s": 500.0, "a": 40.0, "b": 900.0})
    said = []
    for at in (10.0, 10.0, 12.0, 14.9, 15.0, 19.0, 20.0):
        decision, memory = policy.decide(later(asked, at), memory)
        said.append(decision.reason[11:12] if decision.plan is None else "plan")
    assert said == ["1", "1", "1", "1", "2", "2", "plan"]


def test_a_pipeline_of_which_nothing_is_known_keeps_its_instances() -> None:
    asked = seen({"s": 500.0, "a": 40.0, "b": 60.0}, b=6)
    (shot,) = asked.snapshots
    idle = {n: replace(shot.pipelines[n], arrival_rate=0.0) for n in ("s", "a")}
    for known in ({}, {"backlog_rows": 1000}):
        blind = PipelineMetrics("b", 6, **known)
        shown = replace(shot, pipelines={**idle, "b": blind})
        decision, _ = ONE.decide(replace(asked, snapshots=(shown,)), None)
        assert decision.plan is None
        assert decision.reason.startswith("no change: not measured")


def test_bounds_and_budget_are_kept_and_said() -> None:
    bound, _ = ONE.decide(seen({"s": 500.0, "a": 100.0, "b": 10.0}), None)
    assert parallelism(bound.plan)["b"] == 8
    assert "b needs 20.00 instances, 8 allowed" in bound.reason
    short, _ = ONE.decide(seen({"s": 500.0, "a": 40.0, "b": 60.0}, Limits(slots=6)), None)
    assert parallelism(short.plan) == {"s": 1, "a": 2, "b": 3}
    assert "budget of 6 instances is below the 8 needed" in short.reason


def test_zero_load_needs_one_of_each() -> None:
    dag = dags.graph({"s": (), "a": ("s",)})
    found = Topology(dag, dags.plan(dag, {"s": 3, "a": 2}))
    now = rates.steady_state(found, {}, {}, {"s": 10.0, "a": 10.0})
    decision, _ = ONE.decide(dags.context(found, now), None)
    assert parallelism(decision.plan) == {"s": 1, "a": 1}


@pytest.mark.parametrize(
    ("changed", "missing"),
    [
        ({"service": None}, "no change: not measured: service time of a"),
        ({"rate_out": None}, "no change: not measured: selectivity of a"),
    ],
)
def test_what_is_missing_is_said(changed: dict[str, Any], missing: str) -> None:
    asked = seen({"s": 500.0, "a": 40.0, "b": 60.0})
    shown = asked.snapshots[0]
    blind = replace(shown.pipelines["a"], **changed)
    window = replace(shown, pipelines={**shown.pipelines, "a": blind})
    decision, _ = ONE.decide(replace(asked, snapshots=(window,)), None)
    assert (decision.plan, decision.reason) == (None, missing)
    assert ONE.decide(replace(asked, snapshots=()), None)[0].plan is None


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidInput, match="headroom"):
        Ds2(headroom=-0.1)
    with pytest.raises(InvalidInput, match="slack must be a share of 0 or more, not inf"):
        Ds2(slack=math.inf)
    with pytest.raises(InvalidInput, match="most must be 1 or more, not 0"):
        Ds2(most=0)
    with pytest.raises(InvalidInput, match="1 window or more"):
        Ds2(activation=0)


@pytest.mark.parametrize("shape", [LINEAR, DIAMOND], ids=["linear", "diamond"])
def test_it_carries_the_load_after_one_step_and_gives_back(shape: Any, tmp_path: Path) -> None:
    dag = dags.graph(shape)
    rate = lambda at: 100.0 if at < 60 else 20.0  # noqa: E731
    loop = Loop(dag, dags.plan(dag), tmp_path, {"a": 0.02, "b": 0.05, "c": 0.03}, rate)
    paper = Ds2(activation=2, catch_up=math.inf)  # what waits is not to be worked off
    loop.run(paper, 5)
    assert parallelism(loop.engine.plan) == {**dict.fromkeys(shape, 1), "a": 2, "b": 5, "c": 3}
    assert len(set(loop.plans)) == 2
    assert loop.run(paper, 40).slots == len(shape)


def test_what_waited_is_worked_off_and_then_it_gives_back(tmp_path: Path) -> None:
    dag = dags.graph(LINEAR)
    loop = Loop(dag, dags.plan(dag), tmp_path, {"a": 0.02, "b": 0.05, "c": 0.03}, rate=100.0)
    loop.run(Ds2(activation=2), 40)
    needed = {"a": 2, "b": 5, "c": 3}
    assert all(parallelism(loop.engine.plan)[n] in (k, k + 1) for n, k in needed.items())
    assert max(p.pipeline_of("b").parallelism for p in loop.plans) > 5
    seen = loop.engine.observe().pipelines
    assert all((m.backlog_rows or 0) <= 2 * 100 for m in seen.values())


@few
@given(dags.flows(), st.sampled_from((0.0, 0.2)))
def test_its_plan_carries_the_load_with_as_few_as_possible(
    flow: tuple[Topology, rates.Rates], headroom: float
) -> None:
    found, now = flow
    policy = Ds2(headroom=headroom, activation=1, most=10**9)
    decision, _ = policy.decide(dags.context(found, now), None)
    if "not measured" in decision.reason:
        return
    plan = decision.plan or found.plan
    fusion.check(plan, found.graph)
    one = {n: now[n].capacity / p.parallelism for n, p in found.pipelines.items()}
    offered = {s: now[s].arrival * (1 + headroom) for s in found.sources}
    selectivity = {n: r.selectivity for n, r in now.items()}

    def congested(many: dict[str, int]) -> float:
        settled = rates.steady_state(
            found, offered, selectivity, {n: k * one[n] for n, k in many.items()}
        )
        return max(r.congestion for r in settled.values())

    many = parallelism(plan)
    assert congested(many) <= 1 + 1e-6
    for name, count in many.items():
        if count > 1:
            assert congested({**many, name: count - 1}) > 1


@few
@given(st.lists(st.tuples(st.floats(0.1, 5), st.integers(1, 2)), min_size=1, max_size=4), st.data())
def test_a_short_budget_keeps_the_worst_off_as_well_off_as_can_be(
    pairs: list[tuple[float, int]], data: st.DataObject
) -> None:
    need = {f"p{i}": x for i, (x, _) in enumerate(pairs)}
    least = {f"p{i}": k for i, (_, k) in enumerate(pairs)}
    wanted = {n: max(least[n], math.ceil(x)) for n, x in need.items()}
    budget = data.draw(st.integers(sum(least.values()), sum(wanted.values())))
    found = fitted(wanted, need, least, budget)
    assert sum(found.values()) == budget
    spans = [range(least[n], wanted[n] + 1) for n in wanted]
    every = (c for c in itertools.product(*spans) if sum(c) == budget)
    best = max(min(k / need[n] for k, n in zip(c, wanted, strict=True)) for c in every)
    assert min(found[n] / need[n] for n in wanted) == pytest.approx(best)


def test_batches_longer_than_a_window_are_remembered() -> None:
    dag = dags.graph({"s": (), "a": ("s",)})
    found = Topology(dag, dags.plan(dag))
    now = rates.steady_state(found, {"s": 100.0}, {}, {"a": 25.0})
    whole = dags.snapshot(found, now)
    during = replace(whole.pipelines["a"], service=None, rate_in=None, rate_out=None)
    gap = replace(whole, pipelines={**whole.pipelines, "a": during})
    shots = [replace(s, at=10.0 + n * s.window) for n, s in enumerate((whole, gap, gap))]
    memory: Any = None
    for n, one in enumerate(shots, 1):
        seen = Context(dag, found.plan, tuple(shots[:n]), one.at)
        decision, memory = Ds2().decide(seen, memory)
    assert parallelism(decision.plan) == {"s": 1, "a": 4}
    alone = Context(dag, found.plan, (gap,), gap.at)
    assert "service time of a" in Ds2().decide(alone, None)[0].reason


def test_a_window_that_shows_nothing_does_not_make_it_count_anew() -> None:
    dag = dags.graph({"s": (), "a": ("s",)})
    found = Topology(dag, dags.plan(dag))
    whole = dags.snapshot(found, rates.steady_state(found, {"s": 100.0}, {}, {"a": 25.0}))
    blank = replace(whole, pipelines={})
    memory: Any = None
    for n, one in enumerate((whole, blank, whole, blank, whole)):
        shot = replace(one, at=10.0 + n * one.window)
        decision, memory = Ds2().decide(Context(dag, found.plan, (shot,), shot.at), memory)
    assert parallelism(decision.plan) == {"s": 1, "a": 4}


def test_a_need_beyond_all_numbers_is_fitted_as_quickly() -> None:
    need = {"a": 3e12, "b": 1e12, "c": 0.5}
    wanted = {name: math.ceil(x) for name, x in need.items()}
    assert fitted(wanted, need, dict.fromkeys(need, 1), 41) == {"a": 30, "b": 10, "c": 1}


def test_what_a_source_is_offered_is_told_from_what_others_send_it() -> None:
    dag = dags.graph({"s": (), "t": (), "u": ("s", "t")})
    pair = Topology(dag, Plan((Pipeline(("s",)), Pipeline(("t", "u", "u-out")))))
    now = rates.steady_state(pair, {"s": 100.0, "t": 50.0}, {}, {"s": 10.0, "t": 100.0})
    assert needed(pair, dags.snapshot(pair, now)) == pytest.approx({"s": 10.0, "t": 1.5})


@few
@given(dags.flows(), st.sampled_from((1.5, 2.0, 4.0)))
def test_more_load_never_needs_fewer_and_the_unit_of_time_does_not_matter(
    flow: tuple[Topology, rates.Rates], c: float
) -> None:
    found, now = flow
    capacity = {n: r.capacity for n, r in now.items()}
    selectivity = {n: r.selectivity for n, r in now.items()}

    def wanted(offered: float, speed: float) -> dict[str, int] | None:
        load = {s: offered * now[s].arrival for s in found.sources}
        rate = rates.steady_state(
            found, load, selectivity, {n: speed * k for n, k in capacity.items()}
        )
        decision, _ = ONE.decide(dags.context(found, rate), None)
        return None if "not" in decision.reason else parallelism(decision.plan or found.plan)

    once, faster, more = wanted(1, 1), wanted(4, 4), wanted(c, 1)
    assert once == faster
    if once is not None and more is not None:
        assert all(more[n] >= k for n, k in once.items())


def test_a_window_in_which_the_plan_changed_is_no_measurement() -> None:
    asked = seen({"s": 500.0, "a": 40.0, "b": 60.0})
    changed = replace(asked, snapshots=(replace(asked.snapshots[0], settled=False),))
    decision, _ = ONE.decide(changed, None)
    assert decision.plan is None
    assert "not measured: the plan changed during the window" in decision.reason
