"""What holds for every policy of the registry, on random dataflows.

A policy sees the same flow for a few turns, until it wants another plan. That it decides the same
again, whatever the unit of time, holds for all. That more load never means fewer instances holds
for those whose instances follow the load; `EXCEPTED` says who does not, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import policies
from penstock.control.context import Context
from penstock.dataflow.graph import Constraint
from penstock.metrics.snapshot import PipelineMetrics
from penstock.models import queueing, rates
from penstock.models.topology import Topology
from penstock.plan import fusion
from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.policies import registry
from tests.models import dags
from tests.strategies import few

SETTINGS: Mapping[str, tuple[str, ...]] = {
    "drs": ("drs", "drs:budget=true"),
    "ds2": ("ds2:activation=1",),
    "least-link-load": ("least-link-load:calm=0",),
    "organic": ("organic:profile=0,settle=0,calm=1",),
    "round-robin": ("round-robin:calm=0",),
    "stela": ("stela:automatic=true,calm=0", "stela:automatic=true,calm=0,by=gain"),
    "stepwise": ("stepwise:settle=0,observations=2",),
    "threshold": ("threshold:patience=1",),
}
"""So that a policy decides at its first looks; the others are as usual."""

ALL = [text for name in sorted(registry._OURS) for text in SETTINGS.get(name, (name,))]

EXCEPTED = {
    "stepwise": "while it profiles, the load says nothing of the instances; afterwards they follow "
    "it, see test_stepwise.py",
}
GROWING = [text for text in ALL if text.partition(":")[0] not in EXCEPTED]

Flow = tuple[Topology, rates.Rates]


def context(flow: Flow, at: float, more: float = 1.0, faster: float = 1.0) -> Context:
    """A flow under `more` of its load; `faster`: everything takes so much less time."""
    found, now = flow
    offered = {name: more * faster * now[name].arrival for name in found.sources}
    selectivity = {name: rate.selectivity for name, rate in now.items()}
    capacity = {name: faster * rate.capacity for name, rate in now.items()}
    seen = dags.context(found, rates.through(found, offered, selectivity, capacity))
    (shot,) = seen.snapshots
    pipelines = {name: _waiting(metrics) for name, metrics in shot.pipelines.items()}
    work = sum(m.service or 0.0 for m in pipelines.values())
    first, last = next(iter(found.sources)), found.graph.sinks[0].name
    bound = Constraint(first, last, 3.0 * work)
    graph = replace(found.graph, constraints=(bound,) if found.between(first, last) else ())
    shots = (replace(shot, pipelines=pipelines, at=at),)
    return replace(seen, graph=graph, snapshots=shots, now=at)


def _waiting(metrics: PipelineMetrics) -> PipelineMetrics:
    """The same with the wait of a steady state, or of a second's work where there is none."""
    service, rate = metrics.service or 0.0, (metrics.arrival_rate or 0.0) / metrics.parallelism
    steady = rate * service < 1
    wait = queueing.kingman(rate, service, 1.0, 1.0) if steady else 9.0 * service
    return replace(metrics, wait=wait)


def decided(text: str, flow: Flow, **given: float) -> tuple[Decision, Plan]:
    """The first decision for a plan of a few turns, else the last; and the plan that follows."""
    policy, memory, decision = policies.get(text), None, Decision(None, "")
    for at in (10.0, 30.0, 50.0, 70.0):
        decision, memory = policy.decide(context(flow, at, **given), memory)
        if decision.plan is not None:
            break
    return decision, decision.plan or flow[0].plan


def instances(plan: Plan) -> dict[str, int]:
    return {p.name: p.parallelism for p in plan.pipelines}


@few
@given(dags.flows())
@pytest.mark.parametrize("text", ALL)
def test_a_decision_is_valid_and_always_the_same(text: str, flow: Flow) -> None:
    decision, plan = decided(text, flow)
    assert decided(text, flow) == (decision, plan)
    fusion.check(plan, flow[0].graph)
    assert decision.reason
    if decision.plan is not None:
        assert {*decision.numbers} - {"undo"}  # what it was decided by


@few
@given(dags.flows(), st.sampled_from((0.125, 8.0)))
@pytest.mark.parametrize("text", ALL)
def test_the_unit_of_time_does_not_matter(text: str, flow: Flow, faster: float) -> None:
    assert instances(decided(text, flow, faster=faster)[1]) == instances(decided(text, flow)[1])


@few
@given(dags.flows(), st.sampled_from((1.1, 2.0, 8.0)))
@pytest.mark.parametrize("text", GROWING)
def test_more_load_never_means_fewer_instances(text: str, flow: Flow, more: float) -> None:
    before, after = decided(text, flow)[1], decided(text, flow, more=more)[1]
    assert after.slots >= before.slots


def test_every_policy_is_held_to_the_laws() -> None:
    named: set[Any] = {text.partition(":")[0] for text in (*GROWING, *EXCEPTED)}
    assert named == set(registry._OURS)
