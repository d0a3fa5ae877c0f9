"""Stepwise profiling when it is done: the watch over the flow, and when it profiles again."""

from __future__ import annotations

import math
from dataclasses import replace

from penstock.plan.limits import Limits
from penstock.policies.stepwise.policy import Stepwise
from tests.policies.stepwise.platforms import Table, carried, linear, sizes


def done() -> tuple[Table, Stepwise]:
    platform = Table(linear(), lambda plan: (100.0, 0.5))
    policy = Stepwise(observations=2, settle=0, patience=10)
    platform.run(policy)
    return platform, policy


def test_a_finished_profile_is_left_alone_while_all_is_well() -> None:
    platform, policy = done()
    for _ in range(30):
        assert platform.turn(policy).plan is None
    assert platform.memory.phase == "done"


def test_instances_follow_the_load_when_the_profile_is_done() -> None:
    costs = {"numbers": 0.002, "a": 0.01, "b": 0.02, "c": 0.005}
    platform = Table(linear(), carried(12.0, costs), lambda plan, name: costs[name])
    platform.limits = Limits(slots=13)
    policy = Stepwise(observations=2, settle=0, calm=5.0)
    platform.run(policy)
    whole = platform.plan
    most = platform.memory.profile.final.throughput
    platform.offered = 0.25 * most
    for _ in range(5):
        assert platform.turn(policy).plan is None
    fewer = platform.turn(policy).plan
    assert fewer is not None
    assert sizes(fewer) == tuple(math.ceil(n * 0.25 / 0.9) for n in sizes(whole))
    assert fewer.slots < whole.slots
    assert platform.turn(policy).plan is None
    platform.offered = most
    again = platform.turn(policy)
    assert again.plan == whole
    assert again.numbers == {"slots": whole.slots}  # no round: the guard keeps it from going on so
    # late rows are no time to take instances away
    platform.offered, platform.answer = 0.25 * most, lambda plan: (most, 1.5)
    assert all(platform.turn(policy).plan is None for _ in range(9))


def test_rows_that_are_late_for_long_start_it_anew() -> None:
    platform, policy = done()
    platform.answer = lambda plan: (100.0, 1.2)
    for _ in range(10):
        platform.turn(policy)
    assert platform.memory.phase == "done"
    platform.answer = lambda plan: (100.0, 0.9)
    platform.turn(policy)
    platform.answer = lambda plan: (100.0, 1.2)
    for _ in range(11):
        platform.turn(policy)
    assert platform.memory.phase == "features"
    assert "profiling starts again: latency is 120% of its bound for 10 s" in platform.said


def test_another_platform_or_dataflow_starts_it_anew() -> None:
    platform, policy = done()
    platform.plan = replace(platform.plan, executors=4)
    platform.turn(policy)
    assert platform.said[-1] == "profiling starts again: the platform has changed, 1 -> 4 executors"
    platform, policy = done()
    platform.graph = replace(platform.graph, name="another")
    platform.turn(policy)
    assert platform.said[-1] == "profiling starts again: the dataflow has changed"


def under(platform: Table, load: float) -> None:
    """Let so many rows come, of which an instance of each pipeline takes 100 a second."""
    platform.offered = load
    platform.answer = lambda plan: (min(load, 100.0 * min(sizes(plan))), 0.5)


def test_it_pauses_while_less_comes_than_is_known_to_be_carried() -> None:
    """A round without stress tells nothing, and instances that nobody needs go meanwhile."""
    platform, policy = Table(linear(), lambda plan: (0.0, 0.0)), Stepwise(observations=4, settle=0)
    under(platform, 1000.0)
    for _ in range(35):
        platform.turn(policy)
    busy, rounds, kind = platform.plan, len(platform.memory.rounds), platform.memory.kind
    assert busy.slots > 8
    under(platform, 100.0)
    for _ in range(40):
        platform.turn(policy)
    assert any("profiling pauses at a load of 100/s, " in said for said in platform.said)
    assert platform.plan.slots < busy.slots / 2
    known = platform.memory.profile.final.throughput
    under(platform, 0.7 * known)
    for _ in range(3):
        platform.turn(policy)
    assert platform.memory.phase == "done"
    assert 100.0 * min(sizes(platform.plan)) >= 0.7 * known
    under(platform, 1000.0)
    assert "profiling continues at a load of 1000/s" in platform.turn(policy).reason
    assert platform.plan == busy
    assert (platform.memory.phase, platform.memory.kind) == ("platform", kind)
    assert len(platform.memory.rounds) == rounds


def test_a_source_that_does_not_tell_what_comes_is_no_reason_to_pause() -> None:
    platform, policy = Table(linear(), lambda plan: (0.0, 0.0)), Stepwise(observations=4, settle=0)
    under(platform, 1000.0)
    for _ in range(20):
        platform.turn(policy)
    under(platform, 100.0)
    platform.offered = None
    for _ in range(40):
        platform.turn(policy)
    assert not any("pauses" in said for said in platform.said)


def test_a_load_at_a_border_does_not_make_instances_come_and_go() -> None:
    platform, policy = done()
    platform.memory = replace(platform.memory, calm=None)
    final = platform.memory.profile.final
    whole = replace(
        final.plan, pipelines=tuple(replace(p, parallelism=8) for p in final.plan.pipelines)
    )
    known = replace(platform.memory.profile, final=replace(final, plan=whole))
    platform.memory, platform.plan = replace(platform.memory, profile=known), whole
    moved = 0
    for at in range(200):
        platform.offered = final.throughput * 0.9 / 8 * (2.0 + 0.1 * (-1) ** (at // 20))
        moved += platform.turn(policy).plan is not None
    assert moved == 1  # to three of each, which two would carry half of the time
    assert sizes(platform.plan) == (3, 3, 3, 3)
