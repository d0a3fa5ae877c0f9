from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from penstock.errors import InvalidInput
from penstock.metrics.snapshot import PipelineMetrics
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.policies.base.policy import Context
from penstock.policies.baselines.threshold import Threshold
from penstock.policies.shared import rates
from penstock.policies.shared.topology import Topology
from tests.policies import dags
from tests.policies.baselines.test_ds2 import later
from tests.policies.closed import LINEAR, Loop
from tests.policies.dags import parallelism
from tests.strategies import few


def seen(busy: dict[str, float], limits: Limits | None = None, **many: int) -> Context:
    dag = dags.graph({"s": (), "a": ("s",), "b": ("a",)}, most={"b": 4})
    found = Topology(dag, dags.plan(dag, many))
    now = {n: rates.PipelineRate(100.0, 100.0, 100.0 / share) for n, share in busy.items()}
    return dags.context(found, now, limits)


def test_above_the_threshold_there_is_one_more() -> None:
    decision, _ = Threshold().decide(seen({"s": 0.5, "a": 0.8, "b": 0.93}), None)
    assert parallelism(decision.plan) == {"s": 1, "a": 1, "b": 2}
    assert decision.reason == "b 1 -> 2 instances: b is 93% busy, limit 80%"
    assert decision.numbers == pytest.approx({"b.busy": 0.93})


def test_more_work_than_there_is_time_is_no_share_of_it() -> None:
    decision, _ = Threshold().decide(seen({"s": 0.5, "a": 0.5, "b": 2.18}), None)
    assert decision.reason == "b 1 -> 2 instances: b has 218% of the work it can do, limit 80%"
    full, _ = Threshold().decide(seen({"s": 0.5, "a": 0.5, "b": 1.0}), None)
    assert full.reason == "b 1 -> 2 instances: b is 100% busy, limit 80%"


def test_the_busiest_come_first_when_the_budget_is_short() -> None:
    busy = {"s": 0.5, "a": 0.85, "b": 0.93}
    decision, _ = Threshold(step=3).decide(seen(busy, Limits(slots=7)), None)
    assert parallelism(decision.plan) == {"s": 1, "a": 2, "b": 4}
    none, _ = Threshold().decide(seen(busy, Limits(slots=3)), None)
    assert none.plan is None
    assert "but the budget of 3 instances is used" in none.reason
    bound, _ = Threshold().decide(seen({"s": 0.5, "a": 0.5, "b": 0.9}, b=4), None)
    assert bound.reason == "no change: b is 90% busy, limit 80%, but b can have 4 instances at most"


def test_fewer_only_after_several_windows_in_a_row() -> None:
    policy, calm = Threshold(patience=3), seen({"s": 0.5, "a": 0.3, "b": 0.5}, a=3)
    memory: Any = None
    for at in (10.0, 11.0, 15.0, 19.9):  # those that overlap count once
        decision, memory = policy.decide(later(calm, at), memory)
        assert decision.plan is None
    busier = later(seen({"s": 0.5, "a": 0.5, "b": 0.5}, a=3), 20.0)
    _, again = policy.decide(busier, memory)
    assert policy.decide(later(calm, 25.0), again)[0].plan is None  # the count starts anew
    decision, memory = policy.decide(later(calm, 20.0), memory)
    assert parallelism(decision.plan)["a"] == 2
    assert decision.reason == "a 3 -> 2 instances: a is 30% busy, below 40% for 3 windows"
    assert memory is None
    at_once, _ = Threshold(patience=1).decide(calm, None)
    assert at_once.reason == "a 3 -> 2 instances: a is 30% busy, below 40% for 1 window"


def test_a_pipeline_to_which_nothing_comes_is_idle_not_unknown() -> None:
    asked = seen({"s": 0.5, "a": 0.9, "b": 0.9})
    (shot,) = asked.snapshots
    idle = PipelineMetrics("b", 1, arrival_rate=0.0, backlog_rows=0)
    shown = replace(shot, pipelines={**shot.pipelines, "b": idle})
    decision, _ = Threshold().decide(replace(asked, snapshots=(shown,)), None)
    assert parallelism(decision.plan) == {"s": 1, "a": 2, "b": 1}


def test_none_goes_if_the_rest_would_be_too_busy() -> None:
    policy = Threshold(above=0.5, below=0.4, patience=1)
    assert policy.decide(seen({"s": 0.45, "a": 0.39, "b": 0.45}, a=2), None)[0].plan is None
    assert policy.decide(seen({"s": 0.45, "a": 0.2, "b": 0.45}, a=2), None)[0].plan is not None


def test_what_is_missing_is_said() -> None:
    asked = seen({"s": 0.5, "a": 0.9, "b": 0.9})
    shown = asked.snapshots[0]
    blind = replace(shown.pipelines["a"], service=None, busy=None)
    window = replace(shown, pipelines={**shown.pipelines, "a": blind})
    decision, _ = Threshold().decide(replace(asked, snapshots=(window,)), None)
    assert (decision.plan, decision.reason) == (None, "no change: not measured: utilisation of a")
    assert Threshold().decide(replace(asked, snapshots=()), None)[0].plan is None
    unsettled = replace(asked, snapshots=(replace(shown, settled=False),))
    assert Threshold().decide(unsettled, None)[0].reason == "no change: the plan has just changed"


@pytest.mark.parametrize(
    "wrong", [{"above": 0.3}, {"below": -0.1}, {"above": 1.5}, {"step": 0}, {"patience": 0}]
)
def test_thresholds_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="threshold"):
        Threshold(**wrong)


def test_it_follows_a_load_up_and_down(tmp_path: Path) -> None:
    dag = dags.graph(LINEAR)
    rate = lambda at: 100.0 if at < 110 else 20.0  # noqa: E731
    loop = Loop(dag, dags.plan(dag), tmp_path, {"a": 0.02, "b": 0.05}, rate)
    up = loop.run(Threshold(), 20)
    # 3 and 7 are below 0.8; the backlog of the start keeps them busy, and it takes more
    assert up.pipeline_of("a").parallelism >= 3
    assert up.pipeline_of("b").parallelism >= 7
    assert loop.throughput() == pytest.approx(100)
    down = loop.run(Threshold(), 40)
    assert (down.pipeline_of("a").parallelism, down.pipeline_of("b").parallelism) == (1, 2)
    assert len({plan.slots for plan in loop.plans[-10:]}) == 1  # and it rests there


@few
@given(dags.flows())
def test_any_plan_is_valid(flow: tuple[Topology, rates.Rates]) -> None:
    found, now = flow
    asked, policy, memory = (
        dags.context(found, now, Limits(slots=found.plan.slots + 2)),
        Threshold(),
        None,
    )
    for _ in range(4):
        decision, memory = policy.decide(asked, memory)
        if decision.plan is not None:
            fusion.check(decision.plan, found.graph)
            assert asked.limits.exceeded(decision.plan) is None
