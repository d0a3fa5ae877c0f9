"""What a trial has gained."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.plan.plan import Pipeline, Plan
from penstock.policies.joker.sections import Section
from penstock.policies.joker.trials import ChangeTrial
from penstock.policies.shared.bottlenecks import PipelineReading, Readings

SECTION = Section(("a", "b", "c"), ("a",))
APART = Plan((Pipeline(("a",), 2), Pipeline(("b",), 4), Pipeline(("c",), 2)))


def gain(
    plan: Plan, before: dict[str, float], after: dict[str, float], growing: bool = True
) -> float | None:
    """Of an attempt for the section, by rows a second into its operators."""

    def seen(rates: dict[str, float]) -> Readings:
        return Readings(0.0, 1.0, {n: PipelineReading(rate=r) for n, r in rates.items()}, rates)

    attempt = cast(Any, SimpleNamespace(section=SECTION))
    trial = ChangeTrial((attempt,), growing, APART, seen(before))
    return trial.gains(plan, seen(after))[SECTION]


def test_rows_that_enter_and_wait_inside_are_no_throughput() -> None:
    fused = Plan((Pipeline(("a", "b", "c"), 8),))
    before = {"a": 320.0, "b": 250.0, "c": 200.0}  # more enters than comes out
    assert gain(fused, before, dict.fromkeys("abc", 250.0)) == pytest.approx(0.25)


def test_what_was_changed_may_have_to_wait_for_others() -> None:
    more = APART.with_pipeline("a", parallelism=3)
    before = {"a": 320.0, "b": 250.0, "c": 200.0}
    assert gain(more, before, {**before, "a": 480.0}) == pytest.approx(0.5)
    other = APART.with_pipeline("b", parallelism=5)  # that more enters is not of its doing
    assert gain(other, before, {**before, "a": 480.0}) == pytest.approx(0.0)


def test_what_was_taken_away_counts_where_it_hurts() -> None:
    less = APART.with_pipeline("b", parallelism=3)
    before = {"a": 200.0, "b": 200.0, "c": 200.0}
    assert gain(less, before, {**before, "b": 150.0}, growing=False) == pytest.approx(-0.25)


def test_the_entries_count_where_nothing_else_is_known() -> None:
    more = APART.with_pipeline("a", parallelism=3)
    assert gain(more, {"a": 100.0}, {"a": 150.0}) == pytest.approx(0.5)
    assert gain(more, {"b": 100.0}, {"b": 150.0}) is None
