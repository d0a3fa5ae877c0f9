"""Stela without requests, and whether its predictions come true."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import InvalidInput
from penstock.plan.limits import Limits
from penstock.policies.stela.policy import Stela, scale_out
from tests.policies import dags
from tests.policies.closed import Loop
from tests.policies.dags import parallelism
from tests.policies.stela.flows import COSTS, chain


def test_by_itself_it_waits_to_be_asked() -> None:
    decision, memory = Stela().decide(chain({"b": 1.0}), None)
    assert (decision.plan, memory) == (None, None)
    assert decision.reason == "no change: stela waits for a request to scale out or in"


def test_automatic_gives_one_instance_at_a_time_to_the_highest_etp() -> None:
    decision, _ = Stela(automatic=True).decide(chain({"a": 40.0, "b": 20.0}), None)
    assert parallelism(decision.plan) == {"s": 1, "a": 1, "b": 2}
    assert decision.reason == (
        "b 1 -> 2 instances (congestion 2.00, limit 1.20, ETP 100%): b has the highest ETP; "
        "a, b are congested"
    )
    calm, _ = Stela(automatic=True).decide(chain({}), None)
    assert calm.plan is None
    assert "no pipeline is congested" in calm.reason
    with pytest.raises(InvalidInput):
        Stela(congested=0.5)


@pytest.mark.large
@pytest.mark.parametrize("shape", sorted(COSTS))
def test_automatic_brings_a_flow_to_its_load_within_the_budget(shape: str, tmp_path: Path) -> None:
    inputs, costs = COSTS[shape]
    dag = dags.graph(inputs)
    loop = Loop(dag, dags.plan(dag), tmp_path, costs, limits=Limits(slots=30))
    before = loop.throughput()
    loop.run(Stela(automatic=True), 30)
    best = {"linear": 100, "diamond": 300, "star": 400}[shape]
    after = loop.throughput()
    assert after > before
    assert after >= 0.83 * best  # congested begins at 1.2
    assert "no pipeline is congested" in loop.reasons[-1]
    small = Loop(dag, dags.plan(dag), tmp_path / "small", costs, limits=Limits(slots=7))
    assert small.run(Stela(automatic=True), 10).slots == 7
    assert "budget of 7 instances is used" in small.reasons[-1]


@pytest.mark.parametrize("shape", sorted(COSTS))
def test_scale_out_raises_throughput_as_projected(shape: str, tmp_path: Path) -> None:
    inputs, costs = COSTS[shape]
    dag = dags.graph(inputs)
    loop = Loop(dag, dags.plan(dag), tmp_path, costs)
    before = loop.throughput()
    decision = scale_out(loop.measure(), 1)
    loop.apply(decision.plan)
    assert loop.throughput() > 1.3 * before
    assert decision.numbers["throughput"] == pytest.approx(before, rel=0.05)
