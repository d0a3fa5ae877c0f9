"""What profiles tell of dataflows and of resources."""

from __future__ import annotations

import pytest

from penstock import Pipeline, Plan
from penstock.policies.stepwise.capacity import (
    CapacityPoint,
    ResourceNeed,
    capacity_table,
    ranking,
    resources_for,
)
from penstock.policies.stepwise.profile import Profile, ProfilingRound, Ratios


def a_round(slots: int, mean: float, executors: int = 1, met: bool = True) -> ProfilingRound:
    plan = Plan((Pipeline(("a",), slots),), executors)
    return ProfilingRound(plan, "x", (mean * 0.99, mean, mean * 1.01), 0.5 if met else 2.0)


def profile(final: ProfilingRound, rounds: int) -> Profile:
    return Profile({}, Ratios({}, {}, 0.0), {}, (final,) * rounds, final)


def test_the_word_count_is_ranked_above_the_one_that_waits() -> None:
    """Printed: the synthetic one reaches 86.8 % of the throughput, after 9 rounds and not 5."""
    found = ranking(
        {"synthetic": profile(a_round(8, 868), 9), "plain": profile(a_round(8, 1000), 5)}
    )
    assert [rank.name for rank in found] == ["plain", "synthetic"]
    assert found[1].share == pytest.approx(0.868)
    assert found[1].against_best == "decreased"
    assert [rank.rounds for rank in found] == [5, 9]


def test_equals_are_ranked_by_what_an_instance_carries() -> None:
    found = ranking({"large": profile(a_round(16, 1001), 3), "small": profile(a_round(4, 1000), 7)})
    assert [rank.name for rank in found] == ["small", "large"]
    assert {rank.against_best for rank in found} == {"unchanged"}
    assert ranking({}) == ()


def test_the_table_has_only_what_was_sustained_and_what_carried_more() -> None:
    rounds = [a_round(4, 300), a_round(2, 200), a_round(6, 250), a_round(8, 900, met=False)]
    assert capacity_table(rounds) == (CapacityPoint(1, 2, 200), CapacityPoint(1, 4, 300))
    assert capacity_table(rounds, late=True)[-1] == CapacityPoint(1, 8, 900)


def test_resources_for_a_throughput() -> None:
    points = (CapacityPoint(1, 2, 200.0), CapacityPoint(2, 4, 300.0))
    assert resources_for(points, 150) == ResourceNeed(150, 1, 2, True)
    assert resources_for(points, 300) == ResourceNeed(300, 2, 4, True)
    assert resources_for(points, 600) == ResourceNeed(600, 4, 8, False)
    assert resources_for(points, 600, executor_slots=3) == ResourceNeed(600, 3, 8, False)
    assert resources_for((), 1) is None
