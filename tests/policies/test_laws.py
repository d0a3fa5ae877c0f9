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
from penstock.dataflow.graph import Constraint
from penstock.metrics.snapshot import PipelineMetrics
from penstock.plan import fusion
from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.policies.base import registry
from penstock.policies.base.policy import Context
from penstock.policies.shared import queueing, rates
from penstock.policies.shared.topology import Topology
from tests.policies import dags
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

LOADS = ("drs", "ds2", "es-stream", "least-link-load", "round-robin", "stela")
DRAINING = [text for text in ALL if text.partition(":")[0] in LOADS and "budget" not in text]
"""Those that reckon with rows per second: what waits counts there as well."""

Flow = tuple[Topology, rates.Rates]


def context(
    flow: Flow, at: float, more: float = 1.0, faster: float = 1.0, backlog: float | None = None
) -> Context:
    """A flow under `more` of its load; `faster`: everything takes so much less time."""
    found, now = flow
    offered = {name: more * faster * now[name].arrival for name in found.sources}
    selectivity = {name: rate.selectivity for name, rate in now.items()}
    capacity = {name: faster * rate.capacity for name, rate in now.items()}
    seen = dags.context(found, rates.steady_state(found, offered, selectivity, capacity))
    (shot,) = seen.snapshots
    rows = None if backlog is None else round(backlog * faster)
    pipelines = {
        name: replace(_waiting(metrics), backlog_rows=rows)
        for name, metrics in shot.pipelines.items()
    }
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
@given(dags.flows(), st.sampled_from((0.125, 8.0, 3.0, 10.0, 1 / 3)))
@pytest.mark.parametrize("text", ALL)
def test_the_unit_of_time_does_not_matter(text: str, flow: Flow, faster: float) -> None:
    assert instances(decided(text, flow, faster=faster)[1]) == instances(decided(text, flow)[1])


@pytest.mark.parametrize("faster", [3.0, 0.1, 1 / 3, 1000.0])
@pytest.mark.parametrize(
    ("text", "rate", "service", "many"),
    [
        ("threshold:patience=1", 60.0, 0.02, 3),  # 0.4 is not below 0.4
        ("threshold:patience=1", 80.0, 0.01, 2),
        ("threshold:patience=1", 80.0, 0.01, 1),
        ("stela:automatic=true,calm=0", 60.0, 0.02, 1),  # 1.2 is not above 1.2
        ("round-robin:calm=0", 30.0, 0.02, 2),
        ("ds2:activation=1", 150.0, 0.02, 1),
        ("drs", 150.0, 0.02, 1),
        ("es-stream", 150.0, 0.02, 1),
    ],
)
def test_the_unit_of_time_does_not_matter_on_a_border(
    text: str, rate: float, service: float, many: int, faster: float
) -> None:
    dag = dags.graph({"s": (), "x": ("s",)})
    found = Topology(dag, dags.plan(dag, {"x": many}))
    capacity = {"s": 10000.0, "x": many / service}
    flow = found, rates.steady_state(found, {"s": rate}, {}, capacity)
    assert instances(decided(text, flow, faster=faster)[1]) == instances(decided(text, flow)[1])


@few
@given(dags.flows(), st.sampled_from((1.1, 2.0, 8.0)))
@pytest.mark.parametrize("text", GROWING)
def test_more_load_never_means_fewer_instances(text: str, flow: Flow, more: float) -> None:
    before, after = decided(text, flow)[1], decided(text, flow, more=more)[1]
    assert after.slots >= before.slots


@pytest.mark.parametrize("text", GROWING)
def test_more_load_never_means_fewer_instances_where_all_are_just_at_work(text: str) -> None:
    """85 rows a second for three instances that do 85: a product says a last digit less than 3."""
    dag = dags.graph({"s": ()})
    flow = Topology(dag, dags.plan(dag, {"s": 3})), {"s": rates.PipelineRate(85.0, 85.0, 85.0, 0.0)}
    found = [decided(text, flow, more=more)[1].slots for more in (1.0, 1.01, 1.1, 2.0)]
    assert found == sorted(found)


@few
@given(dags.flows(), st.integers(0, 20).map(lambda n: 2400.0 * n), st.sampled_from((1, 2, 20)))
@pytest.mark.parametrize("text", DRAINING)
def test_more_that_waits_never_means_fewer_instances(
    text: str, flow: Flow, backlog: float, times: int
) -> None:
    before = decided(text, flow, backlog=backlog)[1]
    assert decided(text, flow, backlog=backlog * times + 1)[1].slots >= before.slots
    assert decided(text, flow, backlog=backlog, more=2.0)[1].slots >= before.slots
    same = decided(text, flow, backlog=backlog, faster=8.0)[1]
    assert instances(same) == instances(before)


@pytest.mark.parametrize("text", DRAINING)
def test_what_works_off_a_backlog_keeps_its_instances(text: str) -> None:
    dag = dags.graph({"s": (), "x": ("s",)})
    found = Topology(dag, dags.plan(dag, {"x": 6}))
    flow = found, rates.steady_state(found, {"s": 1.0}, {}, {"s": 10000.0, "x": 600.0})
    assert instances(decided(text, flow)[1])["x"] < 6
    assert instances(decided(text, flow, backlog=0)[1])["x"] < 6
    assert instances(decided(text, flow, backlog=1_000_000)[1])["x"] >= 6


@pytest.mark.parametrize("many", [{"a": 2, "b": 4}, {"a": 4, "b": 10}])
@pytest.mark.parametrize("text", [t for t in GROWING if "calm=0" in t])
def test_one_branch_that_keeps_its_instances_takes_none_from_another(
    text: str, many: dict[str, int]
) -> None:
    # a could just do with one fewer, and a little more load makes it keep them; b is idle
    dag = dags.graph({"s": (), "a": ("s",), "b": ("s",)})
    found = Topology(dag, dags.plan(dag, many))
    need = {"a": 0.58 * (many["a"] - 1), "b": 0.05 * many["b"]}
    capacity = {"s": 10000.0, **{n: 100.0 * many[n] / need[n] for n in many}}
    flow = found, rates.steady_state(found, {"s": 100.0}, {"a": 0.1}, capacity)
    before, after = decided(text, flow)[1], decided(text, flow, more=1.1)[1]
    assert before.slots < found.plan.slots  # something is given back
    assert all(instances(after)[n] >= instances(before)[n] for n in many)


def test_every_policy_is_held_to_the_laws() -> None:
    named: set[Any] = {text.partition(":")[0] for text in (*GROWING, *EXCEPTED)}
    assert named == set(registry._OURS)
