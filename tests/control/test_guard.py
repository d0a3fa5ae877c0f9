from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.control.blackout_periods import Quiet
from penstock.control.guard import Guard
from penstock.control.past_changes import (
    DEFAULT_COSTS,
    AppliedChange,
    PastChanges,
    RefusedPlan,
    kind_of,
)
from penstock.dataflow.connectors import Generator, Memory
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.errors import InvalidInput, InvalidPlan
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan import fusion
from penstock.plan.change import Change
from penstock.plan.decision import Decision
from penstock.plan.limits import Limits
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.transition import Transition
from penstock.policies.base.policy import Context
from penstock.store.turn import Review
from tests.strategies import WORDS, dataflows, few, nothing, plans


def words() -> Graph:
    """in -> parse -> count -> out; parse stands 4 at most, count needs 2."""
    flow = Dataflow("words")
    source = flow.source("in", Generator(nothing, WORDS))
    parsed = source.map("parse", nothing, schema=WORDS, max_parallelism=4)
    counted = parsed.key_by("word").aggregate("count", n="count(*)", min_parallelism=2)
    counted.sink("out", Memory())
    return flow.graph


PLAN = Plan((Pipeline(("in", "parse"), 2), Pipeline(("count", "out"), 2)), 2)
MORE = PLAN.with_pipeline("count", parallelism=4)
LESS = PLAN.with_pipeline("in", parallelism=1)
WHOLE = Plan((Pipeline(("in", "parse", "count", "out"), 2),), 2)


def snapshot(rate: float = 1000.0, **given: Any) -> Snapshot:
    measured = {
        name: PipelineMetrics(name, 2, batches=5, rate_in=rate, busy=0.5)
        for name in ("in", "count")
    }
    whole = Snapshot(99.0, 5.0, None, 1, 1, 0, measured, source_pipelines=frozenset({"in"}))
    return replace(whole, **given)


def context(plan: Plan = PLAN, now: float = 100.0, **given: Any) -> Context:
    return Context(words(), plan, given.pop("snapshots", (snapshot(at=now - 1.0),)), now, **given)


def made(at: float, before: Plan, after: Plan, **given: Any) -> AppliedChange:
    cost = {"duration": 1.0, "interruption": 0.5, "settled": True, **given}
    return AppliedChange(at, Change(before, after), Transition(at, ("x",), **cost))


def review(
    wanted: Plan | None, past: PastChanges | None = None, guard: Guard | None = None, **given: Any
) -> Review:
    numbers = given.pop("numbers", {})
    decision = Decision(wanted, "it is busy", numbers)
    return (guard or Guard()).review(decision, context(**given), past or PastChanges())


def vetoed(rule: str, reason: str, *arguments: Any, **given: Any) -> None:
    found = review(*arguments, **given)
    assert [v.rule for v in found.vetoes] == [rule]
    assert re.search(reason, found.vetoes[0].reason), found.vetoes[0].reason
    assert found.decision.plan is None
    assert found.decision.reason == found.wanted.reason == "it is busy"


# --- what passes --------------------------------------------------------------------------------


def test_what_nothing_stands_against_passes_unchanged() -> None:
    decision = Decision(MORE, "it is busy", {"busy": 0.9})
    assert Guard().review(decision, context(), PastChanges()) == Review(decision, decision)


def test_no_plan_and_the_plan_in_force_pass_whatever_the_past() -> None:
    past = PastChanges((made(99.0, WHOLE, PLAN),))
    for wanted in (None, PLAN):
        assert review(wanted, past, snapshots=()).vetoes == ()


# --- bounds and budget --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (PLAN.with_pipeline("in", parallelism=5), r"parallelism 5 is outside its bounds 1\.\.4"),
        (PLAN.with_pipeline("count", parallelism=1), r"parallelism 1 is outside its bounds 2\.\."),
        (Plan(PLAN.pipelines[:1]), "operator 'count' is in no pipeline; operator 'out' is in no"),
        (PLAN.with_pipeline("in", ceiling=9), "a ceiling of 9 needs a stateful operator"),
    ],
)
def test_a_plan_out_of_bounds_is_vetoed_in_one_line(plan: Plan, reason: str) -> None:
    vetoed("bounds", reason, plan)
    assert "\n" not in review(plan).vetoes[0].reason


def test_a_plan_above_the_budget_becomes_the_nearest_within_it() -> None:
    wanted = PLAN.with_pipeline("in", parallelism=4).with_pipeline("count", parallelism=7)
    found = review(wanted, limits=Limits(slots=8))
    assert found.vetoes == ()
    assert found.wanted.plan == wanted
    assert found.decision.plan is not None
    assert [p.parallelism for p in found.decision.plan.pipelines] == [4, 4]
    assert found.capped == found.decision.reason
    assert found.decision.reason == (
        "it is busy; cut to the budget (11 instances, the budget is 8): count: parallelism 7 -> 4"
    )


def test_executors_are_cut_to_the_budget_too() -> None:
    found = review(replace(MORE, executors=9), limits=Limits(executors=3))
    assert found.decision.plan == replace(MORE, executors=3)


def test_a_budget_that_is_used_up_vetoes() -> None:
    vetoed("budget", "6 instances, the budget is 4, which the plan in force uses up", MORE,
           limits=Limits(slots=4))  # fmt: skip
    vetoed("budget", "3 executors, the budget is 2", replace(PLAN, executors=3),
           limits=Limits(executors=2))  # fmt: skip


def test_a_budget_below_the_bounds_vetoes_what_cannot_be_cut() -> None:
    vetoed("budget", "6 instances, the budget is 2, and its pipelines can do with no fewer", MORE,
           limits=Limits(slots=2))  # fmt: skip


def test_a_plan_in_force_above_the_budget_is_cut_though_nothing_is_wanted() -> None:
    found = review(None, plan=MORE, limits=Limits(slots=5), snapshots=())
    assert found.decision.plan is not None
    assert found.decision.plan.slots == 5
    assert "cut to the budget (6 instances, the budget is 5)" in found.decision.reason


@pytest.mark.parametrize("wanted", [None, MORE, MORE.with_pipeline("count", parallelism=9), LESS])
def test_a_cut_to_the_budget_waits_for_quiet_to_end_and_for_nothing_else(
    wanted: Plan | None,
) -> None:
    # Nothing is measured, and the last change was a second ago: no wish of the policy passes.
    past = PastChanges((made(99.0, LESS, MORE),))
    given: dict[str, Any] = {"plan": MORE, "limits": Limits(slots=5), "snapshots": ()}
    found = review(wanted, past, **given)
    assert found.vetoes == ()
    assert found.decision.plan == MORE.with_pipeline("count", parallelism=3)
    assert found.wanted.plan == wanted
    quiet = review(wanted, past, Guard(quiet=(Quiet(0, 1000),)), **given)
    assert quiet.decision.plan is None
    assert "quiet" in {v.rule for v in quiet.vetoes}
    refused = replace(past, refused=RefusedPlan(99.0, found.decision.plan, "no room"))
    assert review(wanted, refused, **given).decision.plan is None


# --- measurements -------------------------------------------------------------------------------


def test_nothing_is_done_before_anything_was_measured() -> None:
    vetoed("metrics", "nothing has been measured yet", MORE, snapshots=())


def test_nothing_is_done_while_a_window_is_not_settled() -> None:
    shot = snapshot(settled=False)
    vetoed("metrics", "the window of 5s still holds a change", MORE, snapshots=(shot,))


@pytest.mark.parametrize(
    "count",
    [
        None,
        PipelineMetrics("count", 2),
        PipelineMetrics("count", 2, backlog_rows=7),
        PipelineMetrics("count", 2, backlog_rows=0),
        PipelineMetrics("count", 2, busy=0.5),
        PipelineMetrics("count", 2, arrival_rate=0.0, backlog_rows=7),
    ],
)
def test_nothing_is_done_without_a_measurement_of_every_pipeline(
    count: PipelineMetrics | None,
) -> None:
    measured = {"in": snapshot().pipelines["in"], **({"count": count} if count else {})}
    shot = snapshot(pipelines=measured)
    vetoed(
        "metrics", "what count does was not measured in the window of 5s", MORE, snapshots=(shot,)
    )


def test_a_pipeline_that_nothing_waits_for_is_idle_not_unknown() -> None:
    nothing = PipelineMetrics("count", 2, arrival_rate=0.0, backlog_rows=0)
    idle = {name: replace(nothing, name=name) for name in ("in", "count")}
    assert review(WHOLE, snapshots=(snapshot(pipelines=idle),)).vetoes == ()


def test_an_old_measurement_is_none() -> None:
    assert review(WHOLE, snapshots=(snapshot(at=90.0),)).vetoes == ()
    (veto,) = review(WHOLE, snapshots=(snapshot(at=89.9),)).vetoes
    assert str(veto) == "metrics: the last snapshot is 10.1 s old, more than 2 windows of 5s"


# --- time ---------------------------------------------------------------------------------------


def test_a_change_needs_its_time_after_the_one_before() -> None:
    past = PastChanges((made(95.8, WHOLE, PLAN),))
    vetoed("cool-down", r"4\.2 s since the last change < 10s", MORE, past)
    assert review(MORE, past, now=105.8).vetoes == ()


def test_a_change_waits_until_the_one_before_has_settled_but_not_for_ever() -> None:
    past = PastChanges((made(80.0, WHOLE, PLAN, settled=False),))
    vetoed("cool-down", r"the change 20\.0 s ago has not settled.*up to 30s", MORE, past)
    assert review(MORE, past, now=110.0).vetoes == ()
    assert review(MORE, PastChanges((made(80.0, WHOLE, PLAN),))).vetoes == ()


@pytest.mark.parametrize(("then", "now", "waits"), [(500, 900, False), (500, 400, True)])
def test_a_backlog_that_grows_is_not_waited_for(then: int, now: int, waits: bool) -> None:
    def shot(at: float, rows: int, **given: Any) -> Snapshot:
        counted = replace(snapshot().pipelines["count"], backlog_rows=rows)
        return snapshot(at=at, pipelines={**snapshot().pipelines, "count": counted}, **given)

    before, unsettled = shot(79.0, 9), shot(81.0, 9, settled=False)
    seen = (before, unsettled, shot(85.0, then), shot(99.0, now))
    past = PastChanges((made(80.0, WHOLE, PLAN, settled=False),))
    found = review(MORE, past, snapshots=seen)
    assert [v.rule for v in found.vetoes] == (["cool-down"] if waits else [])


def test_admission_and_cadence_neither_start_a_cool_down_nor_wait_for_one() -> None:
    turned = PLAN.with_pipeline("in", cadence=1.0, admission=50)
    assert review(turned, PastChanges((made(99.0, WHOLE, PLAN),))).vetoes == ()
    assert review(MORE, PastChanges((made(99.0, turned, PLAN),))).vetoes == ()
    vetoed("cool-down", "", turned.with_pipeline("count", parallelism=4),
           PastChanges((made(99.0, WHOLE, PLAN),)))  # fmt: skip


@pytest.mark.parametrize(
    ("before", "wanted", "told"),
    [
        (LESS, LESS, "in: parallelism 1 -> 2"),
        (WHOLE, WHOLE, r"split in\+parse\+count\+out into"),
        (replace(PLAN, executors=1), replace(PLAN, executors=1), "executors 1 -> 2"),
    ],
)
def test_what_was_changed_is_not_turned_back_soon(before: Plan, wanted: Plan, told: str) -> None:
    past = PastChanges((made(75.0, before, PLAN),))
    vetoed("undo", rf"turns back what was changed 25\.0 s < 30s ago: {told}", wanted, past)
    assert review(wanted, past, now=105.0).vetoes == ()


def test_what_was_taken_away_is_given_back_at_once() -> None:
    past = PastChanges((made(75.0, MORE, PLAN),))
    assert review(MORE, past).vetoes == ()
    assert review(PLAN.with_pipeline("count", parallelism=3), past).vetoes == ()
    past = PastChanges((made(75.0, replace(PLAN, executors=3), PLAN),))
    assert review(replace(PLAN, executors=3), past).vetoes == ()


def test_an_older_change_is_not_turned_back_either_if_others_came_between() -> None:
    turned = PLAN.with_pipeline("in", parallelism=1)
    past = PastChanges((made(75.0, PLAN, MORE), made(85.0, turned, MORE)))
    vetoed("undo", "parallelism 2 -> 4", PLAN, past, plan=MORE)


def test_going_on_in_the_same_direction_is_no_turning_back() -> None:
    past = PastChanges((made(75.0, PLAN, MORE),))
    assert review(MORE.with_pipeline("count", parallelism=5), past, plan=MORE).vetoes == ()


def test_a_policy_may_take_back_what_did_not_pay() -> None:
    past = PastChanges((made(75.0, PLAN, MORE),))
    assert review(PLAN, past, plan=MORE, numbers={"undo": 1}).vetoes == ()


def test_what_the_engine_has_refused_is_not_tried_again_soon() -> None:
    past = PastChanges(refused=RefusedPlan(90.0, MORE, "no\n  room"))
    vetoed("refused", r"the engine refused this plan 10\.0 s < 30s ago: no room", MORE, past)
    assert review(MORE, past, now=120.0).vetoes == ()
    assert review(WHOLE, past).vetoes == ()


def test_nothing_changes_in_quiet_periods() -> None:
    of_run = Guard(quiet=(Quiet(60, 120),))
    vetoed("quiet", r"it is 100s, and nothing may change in 1m\.\.2m", MORE, guard=of_run)
    assert review(MORE, guard=of_run, now=120.0).vetoes == ()
    daily = Guard(quiet=(Quiet.parse("22:00..06:00"),))
    night = PastChanges(time_of_day=3 * 3600 + 12 * 60)
    vetoed("quiet", r"it is 03:12, and nothing may change in 22:00\.\.06:00", MORE, night, daily)
    assert review(MORE, PastChanges(time_of_day=6 * 3600.0), daily).vetoes == ()


# --- all together -------------------------------------------------------------------------------


def test_everything_that_stands_against_a_change_is_told() -> None:
    past = PastChanges((made(99.0, LESS, PLAN, settled=False),))
    guard = Guard(quiet=(Quiet(0, 1000),))
    found = review(LESS, past, guard, numbers={"gain_rows": 0.0}, snapshots=(
        snapshot(settled=False),))  # fmt: skip
    assert [v.rule for v in found.vetoes] == ["metrics", "quiet", "cool-down", "undo", "cost"]
    assert str(found.vetoes[2]) == "cool-down: 1.0 s since the last change < 10s"


@pytest.mark.parametrize("name", ["cooldown", "settle", "undo", "horizon"])
def test_a_guard_has_no_negative_times(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"the guard's {name} is a time of 0 s or more, not -1"):
        Guard(**{name: -1})
    with pytest.raises(InvalidInput):
        Guard(**{name: float("nan")})


def test_a_person_is_held_to_bounds_and_budget_only() -> None:
    guard = Guard(quiet=(Quiet(0, 1000),))
    assert guard.permit(MORE, context(snapshots=())) is None
    assert guard.permit(MORE, context(limits=Limits(slots=5))) == "6 instances, the budget is 5"
    assert guard.permit(PLAN, context(MORE, limits=Limits(slots=3))) is None  # less than there is
    assert "outside its bounds" in str(
        guard.permit(PLAN.with_pipeline("in", parallelism=9), context())
    )


@few
@given(st.data())
def test_what_passes_fits_the_dataflow_and_the_budget(data: st.DataObject) -> None:
    graph = data.draw(dataflows())
    before, wanted = data.draw(plans(graph)), data.draw(plans(graph))
    limits = Limits(data.draw(st.integers(1, 20)), data.draw(st.integers(1, 3)))
    measured = {p.name: PipelineMetrics(p.name, 1, rate_in=1.0) for p in before.pipelines}
    shot = Snapshot(1.0, 1.0, None, 0, 0, 0, measured)
    seen = Context(graph, before, (shot,), 1.0, limits)
    found = Guard().review(Decision(wanted, "why not"), seen, PastChanges())
    assert found == Guard().review(Decision(wanted, "why not"), seen, PastChanges())
    if found.vetoes:
        assert found.decision.plan is None
        assert [v.rule for v in found.vetoes] == ["budget"]  # nothing else is in the way
        assert limits.exceeded(wanted) is not None
        return
    after = found.decision.plan
    assert after is not None
    fusion.check(after, graph)
    if after != before:
        assert limits.exceeded(after) is None
    if limits.exceeded(wanted) is None:
        assert after == wanted


@few
@given(st.data())
def test_what_does_not_fit_never_passes(data: st.DataObject) -> None:
    graph = data.draw(dataflows())
    before, wanted = data.draw(plans(graph)), data.draw(plans(graph))
    broken = data.draw(st.sampled_from(wanted.pipelines))
    wanted = wanted.with_pipeline(
        broken.name, parallelism=data.draw(st.integers(1, 9)), ceiling=None, admission=None
    )
    try:
        fusion.check(wanted, graph)
        fits = True
    except InvalidPlan:
        fits = False
    found = Guard().review(
        Decision(wanted, "why not"), Context(graph, before, (), 1.0), PastChanges()
    )
    assert fits or [v.rule for v in found.vetoes] == ["bounds"]


def test_every_kind_of_change_has_a_default_cost() -> None:
    finer = [PLAN.with_pipeline("in", **{k: v}) for k, v in (("admission", 1), ("cadence", 1.0))]
    after = [*finer, MORE, replace(PLAN, executors=3), PLAN.with_pipeline("count", ceiling=9)]
    kinds = {kind_of(Change(PLAN, plan)) for plan in (*after, WHOLE)}
    kinds |= {kind_of(Change(WHOLE, PLAN)), "regroup"}
    assert kinds == set(DEFAULT_COSTS)
