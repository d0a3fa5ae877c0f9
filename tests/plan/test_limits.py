from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from penstock.plan import fusion
from penstock.plan.limits import Limits, levelled, within
from penstock.plan.plan import Plan
from tests.strategies import dataflows, few, plans


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(0, 60))
def test_levelling_takes_one_by_one_from_the_largest(amounts: list[int], total: int) -> None:
    expected = list(amounts)
    while sum(expected) > total:
        last = max(range(len(expected)), key=lambda at: (expected[at], at))
        expected[last] -= 1
    assert levelled(amounts, total) == expected


def test_levelling_is_quick_where_there_is_much_to_take() -> None:
    left = levelled([10_000] * 1000 + [3], 5_000_003)
    assert sum(left) == 5_000_003
    assert (max(left), min(left)) == (5000, 3)


@few
@given(st.data())
def test_the_nearest_plan_is_within_the_budget_and_the_bounds(data: st.DataObject) -> None:
    graph = data.draw(dataflows())
    before, plan = data.draw(plans(graph)), data.draw(plans(graph))
    limits = Limits(data.draw(st.integers(1, 25)), data.draw(st.integers(1, 3)))
    found = within(limits, plan, before, graph)
    least = sum(fusion.bounds(graph, p.operators).least for p in plan.pipelines)
    if found is None:
        assert limits.slots is not None
        assert least > limits.slots
        return
    fusion.check(found, graph)
    assert limits.exceeded(found) is None
    assert found.executors == min(plan.executors, limits.executors or 9)
    assert found.slots == min(plan.slots, limits.slots or 99)  # no instance more than need be
    for now, then in zip(found.pipelines, plan.pipelines, strict=True):
        assert now.operators == then.operators
        assert now.parallelism <= then.parallelism
    kept = {p.operators: p.parallelism for p in before.pipelines}
    grown = [p for p in found.pipelines if p.parallelism > kept.get(p.operators, 0)]
    if any(now.parallelism < min(then.parallelism, kept.get(now.operators, 0))
           for now, then in zip(found.pipelines, plan.pipelines, strict=True)):  # fmt: skip
        # a pipeline lost what it had, so no other one may have got more than it needs
        for p in grown:
            assert p.parallelism == fusion.bounds(graph, p.operators).least


@few
@given(st.data())
def test_no_plan_within_the_budget_is_nearer(data: st.DataObject) -> None:
    graph = data.draw(dataflows(steps=2))
    before, plan = data.draw(plans(graph)), data.draw(plans(graph))
    slots = data.draw(st.integers(1, plan.slots))
    found = within(Limits(slots=slots), plan, before, graph)
    ranges = []
    for p in plan.pipelines:
        bounds = fusion.bounds(graph, p.operators)
        ranges.append(range(bounds.least, p.parallelism + 1))
    if len(plan.pipelines) > 5:
        return
    possible = [n for n in product(*ranges) if sum(n) <= slots]
    if found is None:
        assert possible == []
        return
    wanted = [p.parallelism for p in plan.pipelines]
    nearest = min(sum(w - n for w, n in zip(wanted, some, strict=True)) for some in possible)
    got = [p.parallelism for p in found.pipelines]
    assert sum(w - n for w, n in zip(wanted, got, strict=True)) == nearest


def test_what_is_new_is_cut_before_what_there_was() -> None:
    from tests.control.test_guard import PLAN, words

    plan = PLAN.with_pipeline("in", parallelism=4).with_pipeline("count", parallelism=9)
    for slots, expected in ((12, [4, 8]), (8, [4, 4]), (7, [4, 3]), (5, [3, 2]), (4, [2, 2])):
        found = within(Limits(slots=slots), plan, PLAN, words())
        assert found is not None
        assert [p.parallelism for p in found.pipelines] == expected
    assert within(Limits(slots=3), plan, PLAN, words()) == Plan(
        (PLAN.with_pipeline("in", parallelism=1).pipelines), 2
    )
    assert within(Limits(slots=2), plan, PLAN, words()) is None
