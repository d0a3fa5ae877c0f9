"""Stepwise profiling: the rounds of the paper."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from penstock import Dataflow, Discard, Plan
from penstock.plan.limits import Limits
from penstock.policies.base.policy import Context
from penstock.policies.stepwise.policy import Stepwise
from penstock.policies.stepwise.rounds import BEAT
from tests.engines.spark.flows import source
from tests.policies.stepwise.platforms import Table, carried, linear, sizes


def test_the_linear_run_takes_four_rounds() -> None:
    """(1,1,1,1), (1,2,2,2), (1,3,3,3), which is worse, and (1,2,2,2) again with slower sources."""
    graph = linear()
    table = {(1, 1, 1, 1): 958.6, (1, 2, 2, 2): 1876.0, (1, 3, 3, 3): 1500.0}

    def answer(plan: Plan) -> tuple[float, float]:
        slowed = plan.pipeline_of("numbers").admission is not None
        return table[sizes(plan)], 0.8 if slowed else 1.3

    platform = Table(graph, answer)
    platform.run(Stepwise(settle=0))
    found = platform.memory.profile
    assert [sizes(r.plan) for r in found.rounds] == [
        (1, 1, 1, 1),
        (1, 2, 2, 2),
        (1, 3, 3, 3),
        (1, 2, 2, 2),
    ]
    assert [r.kind for r in found.rounds] == ["start", "sinks", "sinks", "throttle"]
    slowed = found.rounds[-1].plan.pipeline_of("numbers")
    assert slowed.cadence == BEAT
    assert slowed.admission == pytest.approx(0.9 * 1876.0 * BEAT, rel=0.01)
    assert found.rounds[-2].plan.pipeline_of("numbers").cadence == 0
    assert sizes(found.final.plan) == (1, 2, 2, 2)
    assert found.final.throughput == pytest.approx(1876, rel=0.01)
    assert platform.plan == found.final.plan
    assert "no pipeline takes more than 2 times its least service time" in platform.said[-1]
    assert found.to_json()["instances"] == {"a": 1, "b": 1, "c": 1}


def test_the_word_count_starts_with_2_2_3() -> None:
    graph = linear()
    times = {"numbers": 0.0001, "a": 0.006, "b": 0.007, "c": 0.01}
    platform = Table(graph, lambda plan: (100.0, 0.5), lambda plan, name: times[name])
    policy = Stepwise(slice=0.4, settle=0)
    while platform.turn(policy).plan is None:
        pass
    assert sizes(platform.plan) == (1, 2, 2, 3)
    assert "a 2, b 2, c 3" in platform.said[-1]


def test_single_pipelines_are_tuned_and_a_loss_is_revoked() -> None:
    """The ratios are blind to b, which slows down under load; only its instances help."""
    graph = linear()

    def answer(plan: Plan) -> tuple[float, float]:
        p = dict(zip(("numbers", "a", "b", "c"), sizes(plan), strict=True))
        if p["numbers"] > 1 or p["a"] > 1 or p["c"] > 1:
            return 70.0, 1.5
        return 100.0 * min(p["b"], 3), 0.9 if p["b"] >= 1 else 2.0

    def service(plan: Plan, name: str) -> float:
        busy = platform.memory is not None and platform.memory.phase != "features"
        return 0.05 / plan.pipeline_of("b").parallelism if name == "b" and busy else 0.001

    platform = Table(graph, answer, service)
    platform.run(Stepwise(settle=0))
    found = platform.memory.profile
    assert sizes(found.final.plan) == (1, 1, 3, 1)
    kinds = [r.kind for r in found.rounds]
    assert kinds.count("operator b") >= 3
    assert found.final.throughput == pytest.approx(300, rel=0.01)
    assert platform.plan == found.final.plan


@pytest.mark.parametrize("cores", [6.0, 12.0, 24.0])
def test_it_finds_nearly_all_that_the_platform_carries(cores: float) -> None:
    costs = {"numbers": 0.002, "a": 0.01, "b": 0.02, "c": 0.005}
    answer = carried(cores, costs)
    platform = Table(linear(), answer, lambda plan, name: costs[name])
    platform.run(Stepwise(settle=0))
    plans = (
        replace(
            platform.plan,
            pipelines=tuple(
                replace(p, parallelism=n, admission=None)
                for p, n in zip(platform.plan.pipelines, each, strict=True)
            ),
        )
        for each in itertools.product(range(1, 3), range(1, 13), range(1, 21), range(1, 9))
    )
    best = max(answer(plan)[0] for plan in plans)
    assert platform.memory.profile.final.throughput > 0.9 * best
    assert len(platform.memory.profile.rounds) <= 15


def test_the_budget_and_the_bounds_end_growth() -> None:
    flow = Dataflow("bounded")
    rows = source(flow).frame("a", lambda df: df, max_parallelism=2)
    rows.process_all("one", dict, schema="n bigint").sink("out", Discard())
    platform = Table(flow.graph, lambda plan: (100.0 * plan.slots, 1.5))
    platform.limits = Limits(slots=5)
    platform.run(Stepwise(settle=0))
    found = platform.memory.profile
    assert max(r.plan.slots for r in found.rounds) == 5
    assert found.ratios.fixed == {"one": 1}
    assert all(r.plan.pipeline_of("a").parallelism <= 2 for r in found.rounds)


def test_a_budget_too_small_for_the_ratios_is_dealt_out_by_them() -> None:
    costs = {"numbers": 0.0001, "a": 0.006, "b": 0.015, "c": 0.0095}
    platform = Table(linear(), carried(100.0, costs), lambda plan, name: costs[name])
    platform.limits = Limits(slots=9)  # the ratios are 2 to 4 to 3
    platform.run(Stepwise(observations=2, settle=0))
    assert "ratios of instances are a 2, b 4, c 3" in " ".join(platform.said)
    assert sizes(platform.memory.profile.final.plan) == (1, 2, 4, 2)


def test_observations_do_not_overlap_and_wait_for_the_flow_to_settle() -> None:
    platform = Table(linear(), lambda plan: (100.0, 0.5))
    policy = Stepwise(observations=3, settle=0)
    seen = platform.snapshot()

    def turn(at: float, **changes: Any) -> int:
        look = replace(seen, at=at, window=2.0, **changes)
        context = Context(platform.graph, platform.plan, (look,), at)
        _, platform.memory = policy.decide(context, platform.memory)
        return len(platform.memory.seen)

    assert [turn(10.0), turn(11.0), turn(12.0), turn(13.0)] == [1, 1, 2, 2]
    assert turn(20.0, settled=False) == 2


def test_a_time_that_is_not_measured_is_named() -> None:
    platform = Table(linear(), lambda plan: (0.0, 0.5), lambda plan, name: None)  # type: ignore
    policy = Stepwise(observations=2, settle=0)
    for _ in range(4):
        assert platform.turn(policy).plan is None
    assert "service time of numbers, a, b, c not measured" in " ".join(platform.said)


def test_a_plan_that_is_refused_is_asked_for_again_and_then_given_up() -> None:
    platform = Table(linear(), lambda plan: (100.0, 1.5))
    policy = Stepwise(observations=2, settle=0, patience=10)
    while platform.memory is None or not platform.memory.rounds:
        platform.turn(policy)
    platform.refuse = True
    platform.run(policy, 50)
    assert (
        platform.said.count("plan of the round (source) requested again: it was not carried out")
        == 10
    )
    assert platform.memory.profile.final.kind == "start"
