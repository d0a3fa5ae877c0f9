"""Laws of the latency policy, and closed loops under it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dataflow.graph import Constraint
from penstock.metrics.snapshot import Snapshot
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Context
from penstock.policies.nephele.policy import LatencyPolicy
from tests import strategies
from tests.policies.nephele.looks import PLAIN, context, decided, metrics
from tests.policies.queues import Flow, chain

# --- laws -----------------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_every_decision_is_a_valid_plan_within_its_budget(data: st.DataObject) -> None:
    graph = data.draw(strategies.dataflows())
    plan = data.draw(strategies.plans(graph))
    ends = [o.name for o in graph.sinks]
    start = data.draw(st.sampled_from([o.name for o in graph.sources]))
    reached = [name for name in ends if name in graph.reachable(start)]
    bounds = st.floats(0.01, 10)
    made = tuple(Constraint(start, end, data.draw(bounds)) for end in reached)
    graph = replace(graph, constraints=made)
    found = {}
    for p in plan.pipelines:
        load = data.draw(st.floats(0, 3 * p.parallelism))
        m = metrics(p.name, p.parallelism, load, data.draw(st.floats(0, 5)))
        found[p.name] = replace(m, name=p.name, backlog_rows=data.draw(st.integers(0, 10_000)))
    slots = data.draw(st.one_of(st.none(), st.integers(plan.slots, 4 * plan.slots)))
    snapshot = Snapshot(10.0, 1.0, 0, 0, 0, 0, pipelines=found)
    seen = Context(graph, plan, (snapshot,), 10.0, Limits(slots=slots))
    decision, _ = LatencyPolicy().decide(seen, None)
    assert decision == LatencyPolicy().decide(seen, None)[0]
    assert decision.reason
    assert all(math.isfinite(value) for value in decision.numbers.values())
    if decision.plan is not None:
        fusion.check(decision.plan, graph)
        assert seen.limits.exceeded(decision.plan) is None


# In a jam what is measured of waits says nothing, and Kingman's grow with the time of a row.
@given(
    load=st.floats(0.1, 7.59), wait=st.floats(0, 3), faster=st.sampled_from([0.125, 0.5, 2.0, 64.0])
)
@settings(max_examples=50, deadline=None)
def test_faster_rows_that_take_less_work_change_nothing(
    load: float, wait: float, faster: float
) -> None:
    def with_rate(factor: float) -> Plan | None:
        m = metrics("x", 8, load, wait)
        assert m.arrival_rate is not None
        assert m.service is not None
        m = replace(m, arrival_rate=m.arrival_rate * factor, service=m.service / factor)
        return decided(context(chain("x"), {"x": m})).plan

    assert with_rate(faster) == with_rate(1.0)


# --- the loop -------------------------------------------------------------------------------------


def load(at: float) -> float:
    """100 rows a second, 1,000 from 100 s to 300 s, then 200."""
    return 100.0 if at < 100 else 1000.0 if at < 300 else 200.0


def queues(**options: Any) -> Flow:
    service = {"numbers": 1e-5, "x": 0.02, "y": 0.005}
    return Flow(chain("x", "y", latency=0.5), service, load, slots=200, **options)


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_instances_follow_the_load_up_and_down(noise: float) -> None:
    flow = queues(noise=noise)
    flow.run(PLAIN, 100)
    assert flow.instances("x") in (3, 4)
    flow.run(PLAIN, 200)
    assert 22 <= flow.instances("x") <= 32
    assert flow.latency() < 0.5
    flow.run(PLAIN, 200)
    assert 4 < flow.instances("x") <= 9
    assert flow.latency() < 0.5


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("overhead", [{}, {"numbers": 0.02, "x": 0.05, "y": 0.03}])
def test_a_constant_load_comes_to_rest(noise: float, overhead: Mapping[str, float]) -> None:
    flow = queues(noise=noise, overhead=overhead)
    flow.rate = lambda at: 700.0
    flow.run(LatencyPolicy(), 120)
    last = len(flow.plans)
    flow.run(LatencyPolicy(), 300)
    assert len(flow.plans) - last <= (2 if noise else 0)
    assert flow.latency() < 0.5


def test_instances_that_make_batches_longer_are_not_added() -> None:
    """The bound cannot be met: without knowing what an instance costs, all there are were used."""
    flow = queues(overhead={"numbers": 0.02, "x": 0.1, "y": 0.06}, crowding=0.01)
    flow.rate = lambda at: 200.0
    flow.run(LatencyPolicy(), 200)
    found = {name: flow.instances(name) for name in ("x", "y")}
    took = flow.latency()
    assert found["x"] < 20
    assert found["y"] < 12
    last = len(flow.plans)
    flow.run(LatencyPolicy(), 200)
    assert len(flow.plans) - last <= 1  # and it comes to rest
    for more in ({"x": 2 * found["x"]}, {"y": 2 * found["y"]}):
        other = queues(overhead={"numbers": 0.02, "x": 0.1, "y": 0.06}, crowding=0.01)
        other.rate = flow.rate
        other.plan = flow.plan
        for name, instances in more.items():
            other.plan = other.plan.with_pipeline(name, parallelism=instances)
        for _ in range(20):
            other.observe()
        assert other.latency() > 0.95 * took


def test_batches_are_scaled_by_the_same_policy() -> None:
    flow = queues(overhead={"numbers": 0.02, "x": 0.05, "y": 0.03})
    flow.run(LatencyPolicy(), 100)
    low = flow.instances("x")
    flow.run(LatencyPolicy(), 200)
    high = flow.instances("x")
    assert flow.latency() < 0.5
    flow.run(LatencyPolicy(), 200)
    assert low < flow.instances("x") < high
    assert high > 20
    assert all(flow.plan.pipeline_of(name).cadence > 0 for name in ("numbers", "x", "y"))
    assert flow.latency() < 0.5


def test_the_bound_is_kept_most_of_the_time() -> None:
    flow = queues()
    memory, kept, seen = None, 0, 0
    for _ in itertools.count():
        flow.observe()
        if flow.at > 500:
            break
        found = Context(flow.graph, flow.plan, tuple(flow.snapshots[-60:]), flow.at)
        decision, memory = PLAIN.decide(found, memory)
        if decision.plan is not None:
            flow.plan, flow.changed = decision.plan, True
        seen += 1
        kept += flow.latency() <= 0.5
    assert kept / seen > 0.85
