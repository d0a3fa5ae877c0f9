"""The search for what a platform can carry, step by step."""

from __future__ import annotations

import pytest

from penstock import Pipeline, Plan
from penstock.policies.stepwise.profile import Feature, ProfilingRound
from penstock.policies.stepwise.search import (
    SearchRules,
    SearchState,
    TuningState,
    after_tuning_round,
    all_fast_enough,
    busiest_vertex,
    next_step,
)

RULES = SearchRules()


def seen(mean: float, kind: str, met: bool = True, throttle: float = 0.0) -> ProfilingRound:
    values = tuple(mean * (1 + spread) for spread in (-0.01, -0.005, 0, 0.005, 0.01))
    return ProfilingRound(Plan((Pipeline(("a",)),)), kind, values, 0.5 if met else 1.5, throttle)


def walk(*rounds: ProfilingRound) -> list[str]:
    search, steps = SearchState(), []
    for found in rounds:
        search, step = next_step(search, found, RULES)
        steps.append(step)
    return steps


def test_a_gain_is_followed_by_what_is_short() -> None:
    assert walk(seen(100, "start", met=True)) == ["source"]
    assert walk(seen(100, "start", met=False)) == ["sinks"]
    assert walk(seen(100, "start"), seen(150, "source", met=False)) == ["source", "sinks"]


@pytest.mark.parametrize("mean", [100, 95], ids=["unchanged", "a little less"])
def test_without_a_gain_the_other_side_is_next(mean: float) -> None:
    assert walk(seen(100, "start"), seen(mean, "source")) == ["source", "sinks"]
    assert walk(seen(100, "start", met=False), seen(mean, "sinks")) == ["sinks", "source"]


def test_a_loss_returns_to_the_best_and_slows_the_sources() -> None:
    search, _ = next_step(SearchState(), seen(100, "start", met=False), RULES)
    search, step = next_step(search, seen(80, "sinks", met=False), RULES)
    assert step == "throttle"
    assert search.reference is search.best
    assert search.best is not None
    assert search.best.throughput == pytest.approx(100)
    assert search.strength == 0.1
    search, step = next_step(search, seen(99.5, "throttle", met=True), RULES)
    assert step == "finish"


def test_the_throttle_is_tightened_while_rows_are_late_and_eased_when_it_costs() -> None:
    search, _ = next_step(SearchState(), seen(100, "start", met=False), RULES)
    search, _ = next_step(search, seen(80, "sinks", met=False), RULES)
    search, step = next_step(search, seen(100, "throttle", met=False), RULES)
    assert (step, search.strength) == ("throttle", pytest.approx(0.2))
    search, step = next_step(search, seen(93, "throttle", met=True), RULES)
    assert (step, search.strength) == ("throttle", pytest.approx(0.15))
    search, step = next_step(search, seen(100, "throttle", met=True), RULES)
    assert step == "finish"


def test_a_throttle_never_goes_on_for_ever() -> None:
    for mean, met in ((100, False), (93, False), (80, True), (93, True)):
        search, _ = next_step(SearchState(), seen(100, "start", met=False), RULES)
        search, step = next_step(search, seen(80, "sinks", met=False), RULES)
        rounds = 0
        while step != "finish":
            search, step = next_step(search, seen(mean, "throttle", met), RULES)
            rounds += 1
            assert rounds < 15


def test_growth_that_never_gains_comes_to_an_end() -> None:
    search, step = next_step(SearchState(), seen(100, "start"), RULES)
    steps = []
    while step in ("source", "sinks"):
        steps.append(step)
        search, step = next_step(search, seen(100, step), RULES)
    assert steps == ["source", "sinks", "source", "sinks"]
    assert step == "throttle"


def test_to_get_back_what_was_lost_is_no_gain() -> None:
    """Each other round is significantly above the one before it, none is above the first."""
    search, step = next_step(SearchState(), seen(100, "start", met=False), RULES)
    for mean in (95, 99, 95):
        search, step = next_step(search, seen(mean, step, met=False), RULES)
        assert step in ("source", "sinks")
    search, step = next_step(search, seen(99, step, met=False), RULES)
    assert step == "throttle"
    assert search.best is not None
    assert search.best.throughput == pytest.approx(100)


def test_small_gains_in_a_row_are_a_gain() -> None:
    """None of them is significant beside the one before, all of them are beside the first."""
    search, step = next_step(SearchState(), seen(100, "start"), RULES)
    for mean in (100.6, 101.2, 101.8, 102.4, 103.0):
        search, step = next_step(search, seen(mean, step), RULES)
        assert step in ("source", "sinks")
    assert search.best is not None
    assert search.best.throughput > 101


# --- single instances ---------------------------------------------------------------------------


def tuned(mean: float, **capacities: float) -> ProfilingRound:
    values = tuple(mean * (1 + spread) for spread in (-0.01, -0.005, 0, 0.005, 0.01))
    return ProfilingRound(Plan((Pipeline(("a",)),)), "operator", values, capacities=capacities)


def test_a_gain_is_kept_and_a_loss_is_revoked() -> None:
    kept = tuned(100, a=0.9, b=0.7, c=0.2)
    first = TuningState(kept)
    assert busiest_vertex(first, "abc") == "a"
    gained = after_tuning_round(TuningState(kept, vertex="a"), tuned(120, a=0.8), 0.05, 0.0)
    assert gained.kept.throughput == pytest.approx(120)
    assert busiest_vertex(gained, "a") == "a"
    lost = after_tuning_round(TuningState(kept, vertex="a"), tuned(90), 0.05, 0.0)
    assert lost.kept is kept
    assert lost.revoked == 1
    assert busiest_vertex(lost, "abc") == "b"
    again = after_tuning_round(
        TuningState(kept, lost.tried, lost.revoked, "b"), tuned(90), 0.05, 0.0
    )
    assert again.revoked == 2
    even = after_tuning_round(
        TuningState(kept, lost.tried, 1, "b"), tuned(100, a=0.9, c=0.2), 0.05, 0.0
    )
    assert even.revoked == 0
    assert busiest_vertex(even, "abc") == "c"


def test_tuning_ends_when_every_pipeline_is_near_its_least_time() -> None:
    features = {"s": Feature(1.0, 0.0, source=True), "a": Feature(0.01, 0.5)}
    plan = Plan((Pipeline(("a",)),))
    assert all_fast_enough(ProfilingRound(plan, "x", (1.0,), services={"a": 0.02}), features, 2)
    assert not all_fast_enough(
        ProfilingRound(plan, "x", (1.0,), services={"a": 0.021}), features, 2
    )
    assert not all_fast_enough(ProfilingRound(plan, "x", (1.0,)), features, 2)
