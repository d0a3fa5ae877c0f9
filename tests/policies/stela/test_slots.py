"""Instances that have nothing to do are taken back, and no others."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import InvalidInput
from penstock.policies.base.policy import Context, Policy
from penstock.policies.shared import scaling
from penstock.policies.stela.policy import Stela
from penstock.policies.stela.strategies import LeastLinkLoad, RoundRobin
from tests.policies import dags
from tests.policies.closed import LINEAR, Loop

COSTS = {"a": 0.02, "b": 0.05, "c": 0.03}
MANY = {"a": 6, "b": 8, "c": 6}
POLICIES = (Stela(automatic=True, calm=0), RoundRobin(calm=0), LeastLinkLoad(calm=0))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
def test_a_small_load_leaves_what_it_needs(policy: Policy, tmp_path: Path) -> None:
    dag = dags.graph(LINEAR)
    plan = scaling.with_instances(dags.plan(dag), MANY)
    loop = Loop(dag, plan, tmp_path, COSTS, rate=20.0)
    found = {p.name: p.parallelism for p in loop.run(policy, 30).pipelines}
    # 0.4, 1 and 0.6 instances are at work; fewer would be above 0.6 of the time
    assert found == {"s": 1, "a": 1, "b": 2, "c": 1}
    assert loop.throughput() == pytest.approx(20.0)
    assert "b 8 -> 2 instances: it had work for 1" in " ".join(loop.reasons)
    changes = [
        [a.name for a, b in zip(x.pipelines, y.pipelines, strict=True) if a != b]
        for x, y in itertools.pairwise([plan, *loop.plans])
    ]
    assert [c for c in changes if c] == [["a", "b", "c"]]  # all at once


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
def test_a_pipeline_in_need_comes_first(policy: Policy, tmp_path: Path) -> None:
    dag = dags.graph(LINEAR)
    plan = scaling.with_instances(dags.plan(dag), {"a": 6})
    loop = Loop(dag, plan, tmp_path, COSTS, rate=40.0)
    assert loop.run(policy, 1).slots > plan.slots


def test_a_load_that_was_higher_a_moment_ago_may_come_back(tmp_path: Path) -> None:
    dag = dags.graph(LINEAR)
    plan = scaling.with_instances(dags.plan(dag), {"b": 3})
    loop = Loop(dag, plan, tmp_path, COSTS, rate=8.0)
    seen = [loop.measure().snapshots[-1] for _ in range(4)]
    policy = Stela(automatic=True, calm=10.0)

    def decided(*windows: int) -> str:
        shown = tuple(seen[n] for n in windows)
        return policy.decide(Context(dag, plan, shown, shown[-1].at), None)[0].reason

    assert "b 3 -> 1 instances: it had work for" in decided(1, 2, 3)
    assert "had work for" not in decided(2, 3)  # for too short a time
    busy = replace(seen[2].pipelines["b"], arrival_rate=40.0)
    seen[2] = replace(seen[2], pipelines={**seen[2].pipelines, "b": busy})
    assert "had work for" not in decided(1, 2, 3)
    seen[2] = replace(seen[2], pipelines={})
    assert "had work for" not in decided(1, 2, 3)  # what is not known may be much


def test_what_makes_no_sense_is_said() -> None:
    with pytest.raises(InvalidInput, match="calm must be 0 s or more, not -1"):
        RoundRobin(calm=-1)
