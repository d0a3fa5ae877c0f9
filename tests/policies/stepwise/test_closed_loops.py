"""Stepwise profiling of an engine, and of random dataflows."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Dataflow, Discard, Pipeline, Plan
from penstock.app import profile
from penstock.errors import InvalidInput
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.policies.stepwise.policy import Stepwise
from penstock.testing import MemoryEngine, fake_clock
from tests.engines.spark.flows import source
from tests.policies.stepwise.platforms import Table, linear
from tests.speed import seconds
from tests.strategies import dataflows, few


def test_the_same_policy_profiles_an_engine(tmp_path: Any) -> None:
    graph = linear()
    engine = MemoryEngine({"numbers": 0.0005, "a": 0.002, "b": 0.004, "c": 0.002}, rate=3000.0)
    policy, clock = Stepwise(observations=3, settle=0), fake_clock(engine)
    found = profile(graph, policy=policy, engine=engine, run_dir=tmp_path, clock=clock).profile
    assert found.instances == {"a": 1, "b": 2, "c": 1}
    assert found.rounds[0].throughput == pytest.approx(500, rel=0.01)  # not the source's 2000
    assert found.final.throughput >= 3000
    assert engine.plan == found.final.plan


@few
@given(st.data())
def test_it_ends_on_every_dataflow_with_valid_plans_within_the_budget(data: st.DataObject) -> None:
    graph = data.draw(dataflows())
    start = fusion.finest_plan(graph)
    budget = data.draw(st.integers(start.slots, start.slots + 12))
    cores = data.draw(st.integers(1, 8))
    bound = data.draw(st.integers(1, 40))
    platform = Table(
        graph,
        lambda plan: (100.0 * min(cores, plan.slots), plan.slots / bound),
        lambda plan, name: 0.001 * (1 + len(name)),
    )
    platform.limits = Limits(slots=budget)
    platform.run(Stepwise(observations=2, settle=0))
    rounds = platform.memory.profile.rounds
    assert all(r.plan.slots <= budget for r in rounds)
    assert len(rounds) <= 40
    best = max((r.throughput for r in rounds if r.met), default=0.0)
    assert platform.memory.profile.final.throughput >= 0.97 * best


@pytest.mark.large
def test_ten_thousand_operators_are_decided_on_at_once() -> None:
    flow = Dataflow("long")
    stream = source(flow)
    for at in range(9_998):
        stream = stream.filter(f"o{at}", lambda r: True)
    stream.sink("out", Discard())
    plan = Plan(tuple(Pipeline((name,)) for name in flow.graph.topological))
    platform = Table(flow.graph, lambda plan: (100.0, 1.5), plan=plan)
    policy = Stepwise(observations=2, settle=0)
    for _ in range(6):
        before = platform.at
        assert seconds(partial(platform.turn, policy)) < 2
        assert platform.at == before + 1
    assert len(platform.memory.rounds) >= 2


@pytest.mark.parametrize(
    "wrong", [{"slice": 0.0}, {"alpha": 1.5}, {"observations": 1}, {"k": 0.5}, {"latency": 0.0}]
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="stepwise"):
        Stepwise(**wrong)
