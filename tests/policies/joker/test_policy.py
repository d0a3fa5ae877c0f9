"""Organic adaptation turn by turn: what it tries, keeps and undoes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import InvalidInput
from penstock.plan import fusion
from penstock.policies.joker.policy import Organic
from tests.policies.joker.adapting import COSTS, region, shape, snapshot, tree, turn, word_count
from tests.policies.plant import Plant


def test_the_selectivity_experiment_goes_as_printed() -> None:
    """4 % undone, 67 % kept, 9 % undone, 46 % kept, 14 % kept: 80 becomes 230 thousand a second."""
    graph = region(4)
    policy = Organic(step="one", replicas="region", settle=0, sources=False, scale_down=False)
    plan = fusion.region_plan(graph)
    table = {(1, 1): 80.0, (2, 1): 83.2, (1, 2): 133.6, (2, 2): 145.6, (1, 3): 195.0, (2, 3): 223.0}
    memory, at, seen = None, 0.0, []
    for _ in range(7):
        at += 30
        inside = [p for p in plan.pipelines if p.name != "numbers"]
        rate = table.get((len(inside), inside[0].parallelism), 1.0) * 1000
        busy: dict[str, float | None] = {p.name: 1.0 for p in inside}
        if rate > 220_000:  # the source gives no more
            busy = {"numbers": 1.0}
        costs = {f"o{i}": 0.24 for i in range(1, 5)}
        seen.append((len(inside), inside[0].parallelism))
        look = snapshot(plan, at, rate, busy, costs)
        decision, memory = turn(policy, graph, plan, look, memory)
        plan = decision.plan or plan
    assert seen[:6] == [(1, 1), (2, 1), (1, 2), (2, 2), (1, 3), (2, 3)]
    assert seen[6] == (2, 3)
    assert decision.plan is None


@pytest.mark.parametrize(
    ("costs", "threshold", "split"),
    [
        ((0.75, 0.10), 0.2, False),
        ((0.75, 0.10), 0.1, True),
        ((0.45, 0.40), 0.2, True),
        ((0.45, 0.40), 0.9, False),
    ],
)
def test_the_printed_split_utilities(
    costs: tuple[float, float], threshold: float, split: bool
) -> None:
    graph = region(2)
    plan = fusion.region_plan(graph)
    seen = snapshot(plan, 30, 100.0, {"o1": 1.0}, {"o1": costs[0], "o2": costs[1]})
    decision, _ = turn(Organic(split_utility=threshold), graph, plan, seen, None)
    wanted = {"numbers": 1, "o1": 1, "o2+out": 1} if split else {"numbers": 1, "o1+o2+out": 2}
    assert shape(decision.plan) == wanted


def test_the_reason_says_it_with_numbers() -> None:
    graph = region(2)
    plan = fusion.region_plan(graph)
    seen = snapshot(plan, 30, 100.0, {"o1": 0.93}, {"o1": 0.93 * 0.75, "o2": 0.93 * 0.1})
    decision, _ = turn(Organic(), graph, plan, seen, None)
    assert decision.reason == (
        "o1 1 -> 2 instances: o1 is 93% busy, limit 80%; a split before o2 gains 11%, 20% required"
    )
    assert decision.numbers["o1.busy"] == pytest.approx(0.93)
    assert decision.numbers["o1.split_gain"] == pytest.approx(1 / 0.9 - 1)


def test_two_branches_are_resolved_together_though_a_split_of_both_is_in_vain() -> None:
    graph = tree()
    plan, memory, at = fusion.region_plan(graph), None, 0.0
    costs = {"left": 0.4, "left-2": 0.4, "right": 0.4, "right-2": 0.4}
    for _ in range(4):
        at += 40
        sizes = [plan.pipeline_of(side).parallelism for side in ("left", "right")]
        rate = 100.0 * min(sizes)  # the slower branch holds both back, and cuts gain nothing
        busy: dict[str, float | None] = {p.name: 1.0 for p in plan.pipelines}
        busy["numbers"] = 0.2
        decision, memory = turn(
            Organic(profile=30), graph, plan, snapshot(plan, at, rate, busy, costs), memory
        )
        plan = decision.plan or plan
        if min(sizes) > 1:
            break
    assert plan.pipeline_of("left").parallelism >= 2
    assert plan.pipeline_of("right").parallelism >= 2
    assert "changed by +100%, +10% required" in decision.reason


def test_what_did_not_pay_is_undone_and_not_tried_again() -> None:
    plant = Plant(word_count(), COSTS, fusion.region_plan(word_count()), cores=1.0)
    start = plant.plan
    done = plant.run(Organic(), 3000)
    assert shape(plant.plan) == shape(start)
    assert len(done) <= 3
    assert "undone" in done[-1].reason
    assert (
        plant.history[-1][2].reason.endswith("failed under this load or exceed the budget")
        or "profiled" in plant.history[-1][2].reason
    )


def test_another_load_makes_it_try_again() -> None:
    plant = Plant(word_count(), COSTS, fusion.region_plan(word_count()), cores=1.0)
    plant.run(Organic(), 600)
    before = plant.capacity(plant.plan)
    plant.cores = 8.0  # somebody else has left the machine
    plant.costs = {name: cost / 2 for name, cost in COSTS.items()}
    done = plant.run(Organic(), 600)
    assert done
    assert plant.capacity(plant.plan) > 4 * before


@pytest.mark.parametrize("over", [1.02, 1.05, 1.3])
def test_a_little_too_much_load_is_met_though_it_gains_less_than_the_threshold(over: float) -> None:
    graph = word_count()
    plant = Plant(graph, COSTS, fusion.region_plan(graph))
    limit = plant.capacity(plant.plan)
    plant.offered = lambda at: over * limit
    plant.run(Organic(), 1500)
    assert plant.capacity(plant.plan) > over * limit
    assert plant.backlog < limit


@pytest.mark.parametrize("rows", [None, 0, 10])
def test_a_busy_flow_grows_before_anything_waits(rows: int | None) -> None:
    graph = region(2)
    plan = fusion.region_plan(graph)
    waits = {"backlog_seconds": None if rows is None else rows / 100, "backlog_rows": rows}
    costs = {"o1": 0.75 * 0.93, "o2": 0.10 * 0.93}
    seen = snapshot(plan, 30, 100.0, {"o1": 0.93}, costs, **waits)
    decision, _ = turn(Organic(), graph, plan, seen, None)
    assert decision.reason == (
        "o1 1 -> 2 instances: o1 is 93% busy, limit 80%; a split before o2 gains 11%, 20% required"
    )
    still, _ = turn(Organic(anticipate=False), graph, plan, seen, None)
    assert (still.plan is None) == (rows is not None)


def test_batches_that_follow_one_another_are_no_reason_to_grow() -> None:
    graph = region(2)
    plan = fusion.region_plan(graph)
    waits = {"backlog_seconds": 0.1, "backlog_rows": 10, "batches": 30}
    seen = snapshot(plan, 30, 100.0, {"o1": 0.93}, **waits)
    decision, _ = turn(Organic(), graph, plan, seen, None)
    assert decision.plan is None
    assert "no backlog is longer than 2 s" in decision.reason
    known = {n: replace(m, service=0.0095) for n, m in seen.pipelines.items()}
    found, _ = turn(Organic(), graph, plan, replace(seen, pipelines=known), None)
    assert found.plan is not None  # by its rows it is at work for 0.95 of the time


@pytest.mark.parametrize(("rate", "kept"), [(100.0, True), (95.0, True), (80.0, False)])
def test_what_was_done_in_time_stays_unless_less_comes_through(rate: float, kept: bool) -> None:
    graph = region(1)
    plan = fusion.region_plan(graph)
    seen = snapshot(plan, 30, 100.0, {"o1": 0.93}, backlog_seconds=0.0, backlog_rows=0)
    decision, memory = turn(Organic(), graph, plan, seen, None)
    assert decision.plan is not None
    after = snapshot(decision.plan, 65, rate, {"o1": 0.47}, backlog_seconds=0.0, backlog_rows=0)
    verdict, _ = turn(Organic(), graph, decision.plan, after, memory)
    if kept:
        assert verdict.plan is None
        assert "kept: no backlog before or after" in verdict.reason
    else:
        assert verdict.plan == plan
        assert (
            "undone: no backlog before or after, throughput of o1 changed by -20%, -10% allowed"
            in verdict.reason
        )


def test_by_its_threads_a_pipeline_is_as_busy_as_they_are_with_whatever() -> None:
    graph = region(1)
    plan = fusion.region_plan(graph)
    seen = snapshot(plan, 30, 100.0, {"o1": 0.93}, backlog_seconds=0.0, backlog_rows=0)
    known = {n: replace(m, service=0.005) for n, m in seen.pipelines.items()}
    seen = replace(seen, pipelines=known)  # by its rows it is at work for half of the time
    assert turn(Organic(), graph, plan, seen, None)[0].plan is None
    assert turn(Organic(busy="threads"), graph, plan, seen, None)[0].plan is not None
    with pytest.raises(InvalidInput, match="busy must be one of rows, threads"):
        Organic(busy="cores")


def test_without_headroom_what_brings_nothing_goes_though_nothing_waited() -> None:
    graph, policy = region(1), Organic(headroom=False)
    plan = fusion.region_plan(graph)
    seen = snapshot(plan, 30, 100.0, {"o1": 0.93}, backlog_seconds=0.0, backlog_rows=0)
    decision, memory = turn(policy, graph, plan, seen, None)
    assert decision.plan is not None
    after = snapshot(decision.plan, 65, 100.0, {"o1": 0.47}, backlog_seconds=0.0, backlog_rows=0)
    verdict, _ = turn(policy, graph, decision.plan, after, memory)
    assert verdict.plan == plan
    assert verdict.reason.startswith("undone: throughput of o1 changed by +0%, +10% req")
