"""Organic adaptation while a backlog is worked off, and after that."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Plan
from penstock.metrics.snapshot import Snapshot
from penstock.plan import fusion
from penstock.policies.joker.policy import Organic
from tests.policies.joker.adapting import region, shape, snapshot, turn


def draining(plan: Plan, at: float, came: float, done: float, **more: Any) -> Snapshot:
    """Nothing but o1 is busy, at 5 ms a row."""
    busy = min(1.0, done * 0.005 / plan.pipeline_of("o1").parallelism)
    return snapshot(plan, at, done, {"o1": busy}, arrival_rate=came, **more)


def test_what_has_worked_off_a_backlog_is_not_too_small_for_less() -> None:
    """It was at its limit with twice the rows that come, and can have them again."""
    graph, policy = region(1), Organic()
    plan = fusion.region_plan(graph)
    late = draining(plan, 30, 100.0, 200.0, backlog_rows=9000, backlog_seconds=45.0)
    decision, memory = turn(policy, graph, plan, late, None)
    assert shape(decision.plan) == {"numbers": 1, "o1+out": 2}
    for at in (65, 95):
        calm = draining(decision.plan, at, 100.0, 100.0, backlog_rows=0, backlog_seconds=0.0)
        later, memory = turn(policy, graph, decision.plan, calm, memory)
    assert later.plan == plan
    assert later.reason == "o1 2 -> 1 instances: work for 0.50, expected 50% busy"


def test_what_was_too_small_for_what_comes_is_not_gone_back_to() -> None:
    graph, policy = region(1), Organic()
    plan = fusion.region_plan(graph)
    late = draining(plan, 30, 300.0, 200.0, backlog_rows=9000, backlog_seconds=45.0)
    decision, memory = turn(policy, graph, plan, late, None)
    kept, memory = turn(
        policy,
        graph,
        decision.plan,
        draining(decision.plan, 65, 300.0, 300.0, backlog_rows=0, backlog_seconds=0.0),
        memory,
    )
    assert kept.plan is None
    assert [failure.load.rate for failure in memory.failed] == [300.0]


def test_rows_from_before_make_nothing_busy_when_they_are_done() -> None:
    graph = region(1)
    plan = fusion.region_plan(graph)
    done = draining(plan, 30, 100.0, 190.0, backlog_rows=0, backlog_seconds=0.0)
    decision, _ = turn(Organic(), graph, plan, done, None)
    assert decision.plan is None
    assert decision.reason == "no change: o1 is 50% busy, limit 80%"


@pytest.mark.parametrize("came", [180.0, 90.0, 0.0])
def test_less_that_comes_is_no_loss_of_what_was_done_in_time(came: float) -> None:
    graph, policy = region(1), Organic()
    plan = fusion.region_plan(graph)
    busy = draining(plan, 30, 180.0, 180.0, backlog_rows=0, backlog_seconds=0.0)
    decision, memory = turn(policy, graph, plan, busy, None)
    after = draining(decision.plan, 65, came, came, backlog_rows=0, backlog_seconds=0.0)
    verdict, memory = turn(policy, graph, decision.plan, after, memory)
    assert verdict.plan is None
    assert "kept: no backlog before or after, o1 processes 100% of its input" in verdict.reason


def test_less_of_what_comes_is_a_loss() -> None:
    graph, policy = region(1), Organic()
    plan = fusion.region_plan(graph)
    busy = draining(plan, 30, 180.0, 180.0, backlog_rows=0, backlog_seconds=0.0)
    decision, memory = turn(policy, graph, plan, busy, None)
    after = draining(decision.plan, 65, 180.0, 150.0, backlog_rows=100, backlog_seconds=0.7)
    verdict, _ = turn(policy, graph, decision.plan, after, memory)
    assert verdict.plan == plan
    assert "undone: no backlog before or after, o1 processes 83% of its input" in verdict.reason
