"""The latency policy at one look: bottlenecks, rebalancing, bounds, and what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock import Dataflow, Discard, Generator
from penstock.errors import InvalidInput
from penstock.metrics.snapshot import PipelineMetrics
from penstock.plan.limits import Limits
from penstock.policies.nephele.policy import LatencyPolicy
from penstock.policies.shared import queueing
from tests.policies.nephele.looks import context, decided, instances, metrics
from tests.policies.queues import chain, nothing


def test_waits_are_brought_within_a_fifth_of_what_is_left() -> None:
    # 1 s less 0.2 s of work leaves 0.8 s, of which 0.16 s may be waited. a = 0.3 (4 - 2) = 0.6 and
    # b = 2, so one queue alone needs 2 + 0.6 / 0.16 = 5.75 instances.
    graph = chain("x", "y", latency=1.0)
    found = {"x": metrics("x", 4, 2.0, 0.3), "y": metrics("y", 1, 0.0, 0.0)}
    decision = decided(context(graph, found))
    assert instances(decision, "x", "y") == (6, 1)
    assert "x 4 -> 6 instances" in decision.reason
    assert decision.numbers["x utilisation"] == 0.5
    assert decision.numbers["numbers->out expected wait"] == pytest.approx(0.15)


def test_what_is_too_much_is_given_back() -> None:
    found = {"x": metrics("x", 40, 2.0, 0.001)}
    assert instances(decided(context(chain("x"), found)), "x") == (3,)


def test_a_plan_that_fits_is_kept() -> None:
    decision = decided(context(chain("x"), {"x": metrics("x", 3, 2.0, 0.1)}))
    assert decision.plan is None
    assert "no change" in decision.reason


def test_a_bottleneck_is_doubled_and_nothing_shrinks_meanwhile() -> None:
    graph = chain("x", "y")
    found = {"x": metrics("x", 4, 3.9, 0.5), "y": metrics("y", 9, 0.1, 0.0)}
    decision = decided(context(graph, found))
    assert instances(decision, "x", "y") == (8, 9)
    assert "x has 98% of the work it can do, limit 95%" in decision.reason
    worse = {"x": metrics("x", 4, 7.0, 9.0), "y": metrics("y", 9, 0.1, 0.0)}
    assert instances(decided(context(graph, worse)), "x", "y") == (14, 9)


def test_what_a_bottleneck_holds_back_is_reckoned_with_behind_it() -> None:
    flows = {"numbers": (100.0, 100.0), "x": (100.0, 25.0), "y": (25.0, 25.0)}
    found = {
        name: replace(metrics(name, 1, 4.0, 0.1), arrival_rate=come, rate_in=done, rate_out=done)
        for name, (come, done) in flows.items()
    }
    found["numbers"] = replace(found["numbers"], service=0.0001)
    decision = decided(context(chain("x", "y"), found))
    x, y = instances(decision, "x", "y")
    assert x == y > 4


def test_a_bottleneck_is_doubled_even_if_its_load_asks_for_less() -> None:
    decision = decided(context(chain("x"), {"x": metrics("x", 20, 19.2, 0.5)}))
    assert instances(decision, "x") == (40,)


@pytest.mark.parametrize(
    ("p", "service", "bound"),
    [(10, 0.01, 0.02), (4, 0.01, 0.05), (1, 0.1, 0.3), (20, 0.001, 0.003), (8, 0.02, 0.03)],
)
def test_where_a_bottleneck_begins_more_load_never_means_fewer(
    p: int, service: float, bound: float
) -> None:
    def wanted(rho: float) -> int:
        rate = rho * p / service
        wait = queueing.kingman(rate / p, service, 1.0, 1.0) if rho < 1 else 1.0
        shown = replace(
            metrics("x", p, rho * p, wait, task=service),
            arrival_rate=rate,
            rate_in=rate,
            service=service,
        )
        seen = context(chain("x", latency=bound), {"x": shown})
        return (decided(seen).plan or seen.plan).pipeline_of("x").parallelism

    found = [wanted(percent / 100) for percent in range(80, 130)]
    assert found == sorted(found)
    assert found[-1] >= 2 * 1.29 * p


def test_a_bottleneck_with_a_tight_bound_gets_what_kingman_asks_for() -> None:
    # a = S b = 0.01 * 9.6, and 0.002 s may be waited: 9.6 + 48; twice the instances are only 20
    tight = replace(metrics("x", 10, 9.6, 0.2, task=0.01), arrival_rate=960.0, service=0.01)
    assert instances(decided(context(chain("x", latency=0.02), {"x": tight})), "x") == (58,)


def test_a_bottleneck_that_cannot_grow_is_told() -> None:
    graph = chain("x", x={"max_parallelism": 4})
    decision = decided(context(graph, {"x": metrics("x", 4, 6.0, 9.0)}))
    assert decision.plan is None
    assert "cannot be met: x has 150% of the work it can do" in decision.reason
    assert "already all 4 instances allowed" in decision.reason


def test_a_bottleneck_that_cannot_grow_enough_is_told_while_it_grows() -> None:
    graph = chain("x", x={"max_parallelism": 5})
    decision = decided(context(graph, {"x": metrics("x", 4, 6.0, 9.0)}))
    assert instances(decision, "x") == (5,)
    assert "cannot be met: x has work for 6.00 instances, 5 allowed" in decision.reason
    at_rho_one = decided(context(chain("x"), {"x": metrics("x", 4, 4.0, 0.0)}))
    assert instances(at_rho_one, "x") == (8,)


def test_work_that_takes_longer_than_asked_for_is_told() -> None:
    graph = chain("x", "y", latency=2.0)
    found = {"x": metrics("x", 2, 0.5, 0.1, task=1.3), "y": metrics("y", 3, 0.5, 0.1, task=1.0)}
    decision = decided(context(graph, found))
    assert decision.plan is None
    said = "its operators take 2.3 s without any waiting, more than the bound of 2 s"
    assert said in decision.reason


def test_a_bound_that_needs_more_than_is_allowed_is_told() -> None:
    graph = chain("x", x={"max_parallelism": 8})
    decision = decided(context(graph, {"x": metrics("x", 4, 3.0, 2.0)}))
    # 0.18 s may be waited, a = 2 and b = 3: 3 + 2 / 0.18 = 14.1
    assert "cannot be met: x would need 15 instances, 8 allowed" in decision.reason
    assert instances(decision, "x") == (8,)


def test_a_ceiling_bounds_like_any_other() -> None:
    flow = Dataflow("keyed")
    rows = flow.source("numbers", Generator(nothing, "n bigint"))
    rows.key_by("n").aggregate("x", "count(*)", schema="n bigint").sink("out", Discard())
    flow.constrain("numbers", "out", latency=1.0)
    found = {"x": metrics("x", 4, 3.0, 2.0)}
    decision = decided(context(flow.graph, found, x={"ceiling": 6}))
    assert instances(decision, "x") == (6,)
    assert "x would need 15 instances, 6 allowed" in decision.reason
    assert instances(decided(context(flow.graph, found)), "x") == (15,)


def test_a_budget_caps_and_says_what() -> None:
    found = {"x": metrics("x", 4, 3.0, 2.0), "y": metrics("y", 2, 1.0, 0.5)}
    decision = decided(context(chain("x", "y"), found, Limits(slots=12)))
    assert decision.plan is not None
    assert decision.plan.slots <= 12
    assert "budget of 12 instances is below the" in decision.reason
    assert "x gets 8 of 12; y gets 3 of 8" in decision.reason


def test_a_budget_below_the_load_is_shared_by_load() -> None:
    found = {"x": metrics("x", 1, 6.0, 2.0), "y": metrics("y", 1, 3.0, 2.0)}
    decision = decided(context(chain("x", "y"), found, Limits(slots=7)))
    assert instances(decision, "x", "y") == (4, 2)
    assert "too small for the load" in decision.reason


@pytest.mark.parametrize(
    ("left_out", "word"),
    [("arrival_rate", "arrival rate"), ("service", "service time"), ("wait", "wait")],
)
def test_what_is_not_measured_is_named_and_not_acted_on(left_out: str, word: str) -> None:
    found = {"x": replace(metrics("x", 4, 3.9, 2.0), **{left_out: None})}
    decision = decided(context(chain("x"), found))
    assert decision.plan is None
    assert decision.reason == f"no change: not measured: {word} of x"


def test_without_constraints_there_is_nothing_to_do() -> None:
    decision = decided(context(chain("x", latency=None), {"x": metrics("x", 4, 3.9, 2.0)}))
    assert decision.plan is None
    assert "no latency constraint" in decision.reason


def test_without_load_the_least_is_enough() -> None:
    idle = PipelineMetrics("x", 7, arrival_rate=0.0, backlog_rows=0)
    assert instances(decided(context(chain("x"), {"x": idle})), "x") == (1,)
    still_busy = replace(idle, backlog_rows=50, service=1.0, wait=20.0)
    assert decided(context(chain("x"), {"x": still_busy})).plan is None


def test_a_backlog_is_worked_off_and_not_taken_for_a_queue() -> None:
    # 400 rows of 0.1 s wait, far more than 5 s of arrivals: in 30 s that takes 1.3 instances more
    late = replace(metrics("x", 8, 5.0, 9.0), arrival_rate=50.0, service=0.1, backlog_rows=400)
    assert decided(context(chain("x"), {"x": late})).plan is None
    worse = replace(late, backlog_rows=1200)
    assert instances(decided(context(chain("x"), {"x": worse})), "x") == (9,)


def test_executors_follow_only_where_there_is_a_budget_of_them() -> None:
    found = {"x": metrics("x", 4, 2.0, 0.3)}
    slots = Limits(executors=5, executor_slots=2)
    plan = decided(context(chain("x"), found, slots)).plan
    assert plan is not None
    assert plan.executors == 4  # 6 instances of x and the source
    free = decided(context(chain("x"), found, Limits(executor_slots=8))).plan
    assert free is not None
    assert free.executors == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"adjust": -1.0},
        {"wait_share": 0.0},
        {"wait_share": 0.3, "cadence_share": 0.8},
        {"rho_target": 0.99},
        {"most": 0},
        {"catch_up": 0.0},
    ],
)
def test_impossible_options_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="latency: "):
        LatencyPolicy(**bad)
