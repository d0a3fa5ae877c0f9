"""The latency policy in time: cadences, when it looks, and what it remembers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.policies.nephele.policy import LatencyPolicy
from tests.policies.nephele.looks import PLAIN, batches, context, decided, instances, metrics
from tests.policies.queues import chain

# --- cadence --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "cadence"),
    [
        # 2.7 s beside 0.3 s that stay; source and x share them. Batches one after the other would
        # take 0.4 s, and rows wait half of that before.
        (0.1, 0.53),  # (0.135 + 0.4) / (0.5 + 0.5), in two digits
        (0.8, 0.6),  # at most three times the 0.2 s of a batch that are not for its rows
    ],
)
def test_time_that_is_left_is_gathered(share: float, cadence: float) -> None:
    seen = context(chain("x", latency=3.0), {"x": batches(4, 2.0, 0.2)})
    decision = decided(seen, LatencyPolicy(cadence_share=share))
    assert decision.plan is not None
    x = decision.plan.pipeline_of("x")
    assert x.parallelism == 4
    assert x.cadence == cadence
    assert "cadence" in decision.reason


def test_a_cadence_settles() -> None:
    """Gathering changes what is measured, but not what is decided from it."""
    cadence, p, moves = 0.0, 4, 0
    for _ in range(10):
        seen = context(chain("x", latency=3.0), {"x": batches(p, 2.0, 0.2, cadence)})
        seen = replace(seen, plan=seen.plan.with_pipeline("x", cadence=cadence))
        plan = decided(seen, LatencyPolicy()).plan
        if plan is not None:
            x = plan.pipeline_of("x")
            moves += (x.cadence, x.parallelism) != (cadence, p)
            cadence, p = x.cadence, x.parallelism
    assert moves <= 2
    rho = 2.0 / p
    assert cadence / 2 + 0.2 + rho * cadence < 3.0


def test_a_cadence_that_hardly_moves_stays() -> None:
    found = {"x": batches(4, 2.0, 0.2, 1.0)}
    graph = chain("x", latency=3.0)
    wanted = decided(context(graph, found, x={"cadence": 0.2}), LatencyPolicy()).plan
    assert wanted is not None
    near = wanted.pipeline_of("x").cadence * 1.15
    kept = decided(context(graph, found, x={"cadence": near}), LatencyPolicy()).plan
    assert kept is None or kept.pipeline_of("x").cadence == near


def test_a_cadence_does_not_remember_a_jam() -> None:
    """Batches of rows that are left from before say nothing of what one takes beside its rows."""
    graph, policy, memory = chain("x", latency=30.0), LatencyPolicy(inactive=0), None
    jam = replace(batches(4, 2.0, 0.2), batch_seconds=5.0, rows_in=10, backlog_rows=60_000)
    _, memory = policy.decide(context(graph, {"x": jam}, now=100.0), memory)
    calm = context(graph, {"x": batches(4, 2.0, 0.2)}, now=200.0)
    decision, memory = policy.decide(calm, memory)
    assert decision.plan is not None
    assert decision.plan.pipeline_of("x").cadence == 0.6


def test_without_time_left_nothing_is_gathered() -> None:
    graph = chain("x", latency=0.2)
    decision = decided(
        context(graph, {"x": batches(4, 2.0, 0.3)}, x={"cadence": 1.0}), LatencyPolicy()
    )
    assert decision.plan is not None
    assert decision.plan.pipeline_of("x").cadence == 0.0


# --- looks and memory -----------------------------------------------------------------------------


def test_it_looks_once_an_interval_and_keeps_still_after_adding() -> None:
    policy, graph = PLAIN, chain("x")
    busy = {"x": metrics("x", 4, 3.9, 0.5)}
    decision, memory = policy.decide(context(graph, busy, now=100.0), None)
    assert decision.plan is not None
    after = {"x": metrics("x", 8, 3.9, 0.001)}
    for now in (101.0, 105.0, 109.0):
        seen = replace(context(graph, after, now=now), plan=decision.plan)
        found, memory = policy.decide(seen, memory)
        assert found.plan is None
        assert "for the effect of added instances" in found.reason
    seen = replace(context(graph, after, now=110.0), plan=decision.plan)
    found, memory = policy.decide(seen, memory)
    assert found.plan is not None  # fewer again, and no waiting after that
    fewer = {"x": metrics("x", instances(found, "x")[0], 3.9, 9.0)}
    soon = replace(context(graph, fewer, now=113.0), plan=found.plan)
    assert "next look in 2.0 s" in policy.decide(soon, memory)[0].reason
    later = replace(context(graph, fewer, now=115.0), plan=found.plan)
    assert policy.decide(later, memory)[0].plan is not None


def test_a_change_that_was_not_made_is_not_waited_for() -> None:
    graph, busy = chain("x"), {"x": metrics("x", 4, 3.9, 0.5)}
    _, memory = PLAIN.decide(context(graph, busy, now=100.0), None)
    assert PLAIN.decide(context(graph, busy, now=105.0), memory)[0].plan is not None


def test_what_proved_too_few_is_not_tried_again_at_that_load() -> None:
    graph = chain("x")
    first, memory = PLAIN.decide(context(graph, {"x": metrics("x", 4, 2.0, 0.3)}), None)
    (enough,) = instances(first, "x")
    assert enough == 6

    def later(load: float) -> int:
        found = {"x": metrics("x", enough, load, 0.001)}
        seen = replace(context(graph, found, now=120.0), plan=first.plan or context(graph, {}).plan)
        return instances(PLAIN.decide(seen, memory)[0], "x")[0]

    assert later(2.0) == 5
    assert later(1.7) == 2


def test_only_settled_snapshots_of_the_interval_count() -> None:
    seen = context(chain("x"), {"x": metrics("x", 4, 3.9, 0.5)})
    (one,) = seen.snapshots
    unsettled = replace(seen, snapshots=(replace(one, settled=False),))
    assert "no settled measurement" in decided(unsettled).reason
    old = replace(seen, snapshots=(replace(one, at=90.0),))
    assert "no settled measurement" in decided(old).reason
    calm = replace(one, pipelines={**one.pipelines, "x": metrics("x", 4, 2.1, 0.1)}, at=99.0)
    calmer = replace(one, pipelines={**one.pipelines, "x": metrics("x", 4, 0.1, 0.1)}, at=98.0)
    mean = decided(replace(seen, snapshots=(calmer, calm, one)))
    assert mean.numbers["x utilisation"] == pytest.approx((3.9 + 2.1 + 0.1) / 12)
