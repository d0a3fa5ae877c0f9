"""The guard compares what a change costs with what it gains."""

from __future__ import annotations

from dataclasses import replace

from penstock.control.guard import Guard
from penstock.control.past_changes import (
    PastChanges,
    kind_of,
)
from penstock.plan.change import Change
from tests.control.test_guard import (
    MORE,
    PLAN,
    WHOLE,
    made,
    review,
    snapshot,
    vetoed,
)


def test_a_change_that_costs_more_rows_than_it_gains_is_vetoed() -> None:
    # A ceiling is taken to cost 2 s: 2,000 rows at 1,000/s; 6 rows/s gain 1,800 in five minutes.
    higher = MORE.with_pipeline("count", ceiling=8)
    reason = r"\(ceiling\) holds output for 2\.00 s \(not measured yet, assumed\): 2,000 rows at "
    reason += r"1,000/s, more than the 1,800 that 6 rows/s gain in 5m"
    vetoed("cost", reason, higher, numbers={"gain_rows": 6.0})
    assert review(higher, numbers={"gain_rows": 7.0}).vetoes == ()
    vetoed("cost", "", higher, numbers={"gain_rows": 7.0}, guard=Guard(horizon=200))


def test_what_changes_have_cost_in_this_run_is_what_they_will_cost() -> None:
    splits = [
        made(10.0, WHOLE, PLAN, interruption=4.5, usual_gap=0.5),
        made(50.0, WHOLE, PLAN, interruption=8.0),
        made(60.0, PLAN, MORE, interruption=99.0),  # of another kind
    ]
    past = PastChanges(tuple(splits))
    assert past.expected_cost(Change(WHOLE, PLAN)) == (6.0, 2)
    measured = snapshot(pipelines={"in": snapshot().pipelines["in"]})
    for gain, rules in ((19.0, ["cost"]), (21.0, [])):
        found = review(PLAN, past, plan=WHOLE, snapshots=(measured,), numbers={"gain_rows": gain})
        assert [v.rule for v in found.vetoes] == rules
    assert "(mean of 2 in this run): 6,000 rows" in str(
        review(PLAN, past, plan=WHOLE, snapshots=(measured,), numbers={"gain_rows": 1}).vetoes
    )


def test_waiting_is_weighed_against_latency_saved() -> None:
    # Rows wait 2 s x 2 s for each row per second; 10 ms a row save 3 s in five minutes.
    reason = r"4 s of waiting .* more than the 3 s that 0\.01 s a row save in 5m"
    vetoed("cost", reason, WHOLE, numbers={"gain_seconds": 0.01})
    assert review(WHOLE, numbers={"gain_seconds": 0.02}).vetoes == ()


def test_a_gain_of_one_kind_is_enough() -> None:
    numbers = {"gain_rows": 0.0, "gain_seconds": 0.02}
    assert review(WHOLE, numbers=numbers).vetoes == ()
    vetoed("cost", "rows/s gain in 5m; .*a row save in 5m", WHOLE,
           numbers={"gain_rows": 0.0, "gain_seconds": 0.0})  # fmt: skip


def test_over_an_endless_horizon_nothing_costs_too_much() -> None:
    for numbers in ({"gain_rows": 0.0}, {"gain_seconds": 1e-9}):
        assert review(WHOLE, guard=Guard(horizon=float("inf")), numbers=numbers).vetoes == ()


def test_a_change_of_which_nobody_knows_the_gain_passes() -> None:
    assert review(WHOLE, numbers={"busy": 0.93}).vetoes == ()


def test_a_change_costs_what_its_dearest_part_costs() -> None:
    assert kind_of(Change(PLAN, replace(WHOLE, executors=3))) == "merge"
    assert kind_of(Change(PLAN, replace(MORE, executors=3))) == "executors"
    assert kind_of(Change(PLAN, PLAN.with_pipeline("in", cadence=1.0, parallelism=1))) == "rescale"
