from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import policies
from penstock.dataflow.graph import Graph
from penstock.plan.limits import Limits
from penstock.policies.shared import rates
from penstock.policies.shared.topology import Topology
from penstock.policies.stela import slots, strategies
from penstock.policies.stela.policy import Stela
from penstock.policies.stela.strategies import LeastLinkLoad, RoundRobin
from tests.policies import dags
from tests.policies.closed import LINEAR, Loop

# s -> a -> b -> c (out), s -> d -> c, s -> e (out)
SHAPE = {"s": (), "a": ("s",), "b": ("a",), "d": ("s",), "c": ("b", "d"), "e": ("s",)}


def ranked(ranking: strategies.Ranking) -> str:
    found = dags.topology(SHAPE)
    now = rates.steady_state(found, {"s": 10.0}, {"a": 5.0, "d": 0.1}, {})
    return "".join(ranking(found, now))


def test_every_ranking_follows_its_measure() -> None:
    order = "".join(dags.topology(SHAPE).pipelines)
    assert order == "sadebc"
    assert ranked(strategies.distance_from_source) == "sadebc"
    assert ranked(strategies.round_robin) == order


def test_distance_to_the_nearest_sink() -> None:
    # e and c have one, s is next to e, d and b are next to c
    assert ranked(strategies.distance_to_sink) == "ecsdba"


def test_descendants_and_centrality() -> None:
    assert ranked(strategies.descendants) == "sadbec"  # 5, 2, 1, 1, 0, 0
    assert ranked(strategies.centrality) == "sadbce"  # 3, 2, 2, 2, 2, 1


def test_link_load_adds_what_comes_and_what_every_reader_gets() -> None:
    # s 10+30, a 10+50, d 10+1, e 10, b 50+50, c 51
    assert ranked(strategies.least_link_load) == "edscab"
    assert ranked(strategies.most_link_load) == "bacsde"


def test_slots_go_round_in_the_order_of_the_ranking_within_bounds() -> None:
    dag = dags.graph({"s": (), "a": ("s",), "b": ("a",)}, most={"s": 1})
    found = Topology(dag, dags.plan(dag))
    asked = dags.context(found, rates.steady_state(found, {"s": 10.0}, {}, {"b": 1.0}))
    decision = strategies.scale_out(asked, 1, strategies.round_robin)
    assert decision.plan is not None
    assert [p.parallelism for p in decision.plan.pipelines] == [1, 3, 2]
    assert decision.plan.executors == 2


@pytest.mark.parametrize("name", strategies.RANKINGS)
def test_stela_can_go_by_each_of_them(name: str) -> None:
    stela = policies.get(f"stela:automatic=true,by={name}")
    assert isinstance(stela, Stela)
    dag = dags.graph({"s": (), "a": ("s",), "d": ("s",), "b": ("a",)})
    found = Topology(dag, dags.plan(dag))
    capacity = {"s": 100.0, "a": 100.0, "b": 3.0, "d": 100.0}
    asked = dags.context(found, rates.steady_state(found, {"s": 10.0}, {"a": 2.0}, capacity))
    order = strategies.RANKINGS[name](found, slots.measured(asked).rates)
    expected = strategies.scale_out(asked, 1, strategies.RANKINGS[name])
    assert stela.scale_out(asked, 1) == expected
    assert expected.plan is not None
    plan, memory, turns = found.plan, None, []
    for _ in order:
        grew = Topology(dag, plan)
        now = rates.steady_state(grew, {"s": 10.0}, {"a": 2.0}, capacity)
        decision, memory = stela.decide(dags.context(grew, now), memory)
        assert decision.plan is not None
        assert decision.reason.endswith("; b is congested")
        grown = zip(plan.pipelines, decision.plan.pipelines, strict=True)
        turns += [new.name for old, new in grown if new.parallelism > old.parallelism]
        plan = decision.plan
    assert tuple(turns) == order


@pytest.mark.parametrize("policy", [RoundRobin(), LeastLinkLoad()])
def test_a_turn_that_was_not_carried_out_is_still_due(policy: Any, tmp_path: Path) -> None:
    dag = linear()
    loop = Loop(dag, dags.plan(dag), tmp_path, {"b": 0.03}, limits=Limits(slots=40))
    memory: Any = None
    for turn in range(40):  # as with a guard that lets every other change pass
        decision, memory = policy.decide(loop.measure(), memory)
        loop.apply(decision.plan if turn % 2 else None)
    assert loop.throughput() == pytest.approx(100)
    assert "no pipeline is congested" in decision.reason


def test_every_ranking_can_be_set() -> None:
    (option,) = (o for o in policies.describe("stela").options if o.name == "by")
    assert option.kind.split(" or ") == ["etp", "gain", *strategies.RANKINGS]


def linear() -> Graph:
    return dags.graph(LINEAR)


@pytest.mark.parametrize("policy", [RoundRobin(), LeastLinkLoad()])
def test_as_policies_they_go_round_until_nothing_is_congested(policy: Any, tmp_path: Path) -> None:
    dag, costs = linear(), {"b": 0.03}
    loop = Loop(dag, dags.plan(dag), tmp_path, costs, limits=Limits(slots=40))
    plan = loop.run(policy, 20)
    assert plan.pipeline_of("b").parallelism == 3
    assert plan.slots <= 12  # two whole rounds on top of one each
    assert "no pipeline is congested" in loop.reasons[-1]
    assert loop.throughput() == pytest.approx(100)
    first = "s" if policy.name == "round-robin" else "c"
    assert loop.reasons[0].startswith(f"{first} 1 -> 2 instances (")


def test_the_budget_holds_for_them_too(tmp_path: Path) -> None:
    dag = linear()
    loop = Loop(dag, dags.plan(dag), tmp_path, {"b": 0.03}, limits=Limits(slots=6))
    assert loop.run(RoundRobin(), 10).slots == 6
    assert loop.reasons[-1] == "no change: b is congested, but the budget of 6 instances is used"
