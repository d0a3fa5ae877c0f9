"""Organic adaptation gives back what is not needed, and keeps what is."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from penstock import Pipeline, Plan
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.policies.joker.policy import Organic
from tests.policies.joker.adapting import COSTS, region, snapshot, tree, turn, word_count
from tests.policies.plant import Plant


def day(at: float) -> float:
    return 400.0 if at < 1500 else 40.0


@pytest.mark.parametrize("start", [fusion.region_plan, lambda g: fusion.default_plan(g, 1)])
def test_instances_and_pipelines_are_given_back_when_the_load_falls(start: Any) -> None:
    graph = word_count()
    plant = Plant(graph, COSTS, start(graph), hop=0.0002, offered=day)
    plant.run(Organic(), 1500)
    assert plant.capacity(plant.plan) > 400
    most = plant.plan.slots
    assert most >= 8
    plant.run(Organic(), 3000)
    assert plant.plan.slots <= 3
    assert 40 < plant.capacity(plant.plan) < 200
    assert plant.backlog == pytest.approx(0)


def test_nothing_is_given_back_if_that_is_switched_off() -> None:
    graph = word_count()
    plant = Plant(graph, COSTS, fusion.region_plan(graph), offered=day)
    plant.run(Organic(scale_down=False), 1500)
    before = plant.plan
    plant.run(Organic(scale_down=False), 2000)
    assert plant.plan == before


@pytest.mark.large
@pytest.mark.parametrize("seed", range(6))
def test_a_steady_noisy_load_ends_in_rest(seed: int) -> None:
    rng = random.Random(seed)
    graph = word_count()
    plant = Plant(graph, COSTS, fusion.region_plan(graph), hop=0.0002)
    level = rng.uniform(50, 500)
    plant.offered = lambda at: level * rng.uniform(0.93, 1.07)
    plant.run(Organic(), 3000)
    slots = plant.plan.slots
    assert len(plant.run(Organic(), 6000)) <= 1  # a border that the noise crosses late
    assert plant.plan.slots <= slots
    assert plant.capacity(plant.plan) > level


def test_nothing_grows_while_it_is_not_known_how_busy_another_pipeline_is() -> None:
    graph, plan = tree(), fusion.region_plan(tree())
    policy = Organic(profile=30)

    def asked(right: float | None, rows: float) -> Any:
        busy = {"left": 1.0, "right": right}
        rate = {"numbers": 100.0, "left": 100.0, "right": rows}
        return turn(
            policy, graph, plan, snapshot(plan, 40.0, rate, busy, backlog_seconds=10.0), None
        )

    decision, memory = asked(None, 100.0)
    assert (decision.plan, decision.reason) == (
        None,
        "no change: not measured: utilisation of right",
    )
    assert memory.profile is None
    assert asked(0.3, 100.0)[0].plan is not None
    idle = snapshot(plan, 40.0, {"numbers": 9.0, "left": 9.0, "right": 0.0}, {"right": None})
    waiting = {**idle.pipelines, "left": replace(idle.pipelines["left"], busy=1.0)}
    waiting["left"] = replace(waiting["left"], backlog_seconds=10.0)
    found = turn(policy, graph, plan, replace(idle, pipelines=waiting), None)[0]
    assert found.plan is not None  # nothing comes to right, so there is nothing to know


def test_less_that_is_too_little_is_undone_and_stays_undone() -> None:
    """What is measured promises more than the instances hold: work grows when there are fewer."""
    graph = region(1)
    plan = Plan((Pipeline(("numbers",)), Pipeline(("o1", "out"), 4)))
    memory, at, sizes, undone = None, 0.0, [], []
    for _ in range(40):
        at += 30
        size = plan.pipeline_of("o1").parallelism
        sizes.append(size)
        behind = size < 4
        seen = snapshot(
            plan,
            at,
            100.0,
            {"o1": 1.0 if behind else 0.3},
            arrival_rate=100.0,
            backlog_rows=5000 if behind else 0,
            backlog_seconds=50.0 if behind else 0.0,
        )
        decision, memory = turn(Organic(), graph, plan, seen, memory)
        plan = decision.plan or plan
        undone += [decision] if "undone" in decision.reason else []
    assert sizes[-10:] == [4] * 10
    assert min(sizes) < 4
    assert undone[0].reason == (
        "undone: the flow did not keep up, longest backlog 50.0 s, limit 2 s, throughput of o1 "
        "changed by +0%; o1 as before"
    )
    assert undone[0].numbers == {"o1.gain": 0.0, "waiting": 50.0, "undo": 1.0}


@pytest.mark.parametrize("budget", [3, 4, 5])
def test_going_back_stays_within_a_budget_that_was_cut(budget: int) -> None:
    graph = region(1)
    plan = Plan((Pipeline(("numbers",)), Pipeline(("o1", "out"), 4)))
    memory, limits = None, Limits()
    for at in range(1, 40):
        size = plan.pipeline_of("o1").parallelism
        behind = size < 4
        limits = Limits(slots=max(budget, plan.slots)) if behind else limits
        busy = {"o1": 1.0 if behind else 0.3}
        rows = 5000 if behind else 0
        waits = {"backlog_rows": rows, "backlog_seconds": rows / 100, "arrival_rate": 100.0}
        seen = snapshot(plan, 30.0 * at, 100.0, busy, **waits)
        decision, memory = turn(Organic(), graph, plan, seen, memory, limits=limits)
        if behind:
            assert (decision.plan or plan).slots <= max(budget, plan.slots)
        plan = decision.plan or plan
    assert limits.slots is not None  # it has been too small, and was to go back
