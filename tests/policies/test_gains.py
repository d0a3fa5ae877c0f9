"""What a policy expects to gain, and the guard that weighs it against what changes have cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.control.guard import Guard
from penstock.control.past_changes import AppliedChange, PastChanges
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan import fusion
from penstock.plan.change import Change
from penstock.plan.decision import Decision
from penstock.plan.limits import Limits
from penstock.plan.transition import Transition
from penstock.policies.base.policy import Context
from penstock.policies.baselines.drs import Drs
from penstock.policies.joker.policy import Organic
from penstock.policies.nephele.policy import LatencyPolicy
from penstock.policies.shared import rates
from penstock.policies.shared.topology import Topology
from penstock.policies.stela.policy import Stela
from penstock.policies.stela.strategies import LeastLinkLoad, RoundRobin, RoundRobinMemory
from penstock.store.turn import Review
from tests.policies import dags
from tests.policies.queues import chain


def congested() -> Context:
    """s -> a -> b, where b does half of the 100 rows a second that come, with 4 instances."""
    dag = dags.graph({"s": (), "a": ("s",), "b": ("a",)})
    found = Topology(dag, dags.plan(dag, {"b": 4}))
    return dags.context(found, rates.steady_state(found, {"s": 100.0}, {}, {"b": 50.0}))


def queueing(load: float = 2.0, wait: float = 0.3, limits: Limits | None = None) -> Context:
    """A source and x with 4 instances; 100 rows a second come."""
    graph = chain("x", latency=0.6)
    plan = fusion.finest_plan(graph).with_pipeline("x", parallelism=4)
    common: dict[str, Any] = {"rate_in": 100.0, "rate_out": 100.0, "arrival_rate": 100.0}
    found = {
        "numbers": PipelineMetrics("numbers", 1, service=0.0, wait=0.0, busy=0.1, **common),
        "x": PipelineMetrics("x", 4, service=load / 100, wait=wait, backlog_rows=0, **common),
    }
    sources = frozenset({"numbers"})
    shot = Snapshot(50.0, 5.0, 0, 0, 0, 0, pipelines=found, source_pipelines=sources)
    return Context(graph, plan, (shot,), 50.0, limits or Limits())


def busy() -> Context:
    """The same with x at work all the time, and rows that wait."""
    seen = queueing(4.0)
    (shot,) = seen.snapshots
    late = replace(shot.pipelines["x"], busy=1.0, service=None, backlog_seconds=9.0)
    return replace(seen, snapshots=(replace(shot, pipelines={**shot.pipelines, "x": late}),))


def few(context: Context) -> Context:
    """The same with another slot to give."""
    return replace(context, limits=Limits(slots=context.plan.slots + 1))


CASES: dict[str, tuple[Any, Callable[[], Context], Any, str]] = {
    "stela": (Stela(automatic=True), congested, None, "gain_rows"),
    "round-robin": (RoundRobin(), congested, RoundRobinMemory(frozenset({"s", "a"})), "gain_rows"),
    "least-link-load": (
        LeastLinkLoad(),
        congested,
        RoundRobinMemory(frozenset({"s", "a"})),
        "gain_rows",
    ),
    "organic": (Organic(profile=0, settle=0), busy, None, "gain_rows"),
    "latency": (LatencyPolicy(cadence_share=0.0), queueing, None, "gain_seconds"),
    "drs": (Drs(), lambda: queueing(3.95), None, "gain_seconds"),
    "drs, a budget": (Drs(budget=True), lambda: few(queueing(3.0)), None, "gain_seconds"),
}


def reviewed(context: Context, decision: Decision, held: float) -> Review:
    """What the guard makes of it where such a change has held output for so many seconds."""
    assert decision.plan is not None, decision.reason
    change = Change(context.plan, decision.plan)
    cost = Transition(-1e4, ("x",), held, held, settled=True)
    return Guard().review(decision, context, PastChanges((AppliedChange(-1e4, change, cost),)))


@pytest.mark.parametrize("name", CASES)
def test_a_change_that_was_dear_is_vetoed_for_its_cost(name: str) -> None:
    policy, context, memory, kind = CASES[name]
    seen = context()
    decision, _ = policy.decide(seen, memory)
    assert decision.numbers[kind] > 0
    assert reviewed(seen, decision, 0.1).vetoes == ()
    vetoes = reviewed(seen, decision, 3600.0).vetoes
    assert [v.rule for v in vetoes] == ["cost"]
    assert "holds output for 3600.00 s (mean of 1 in this run)" in vetoes[0].reason


def test_the_gain_is_what_more_comes_through() -> None:
    """A fifth instance of b does a quarter more, of 100 rows a second that are taken in."""
    decision, _ = Stela(automatic=True).decide(congested(), None)
    assert decision.numbers["gain_rows"] == pytest.approx(25.0)
    decision, _ = Organic(profile=0, settle=0).decide(busy(), None)
    assert decision.numbers["gain_rows"] == pytest.approx(100.0)  # twice the instances of x


def test_of_two_that_are_congested_the_first_gains_though_no_more_comes_out() -> None:
    dag = dags.graph({"s": (), "a": ("s",), "b": ("a",)})
    found = Topology(dag, dags.plan(dag))
    now = rates.steady_state(found, {"s": 100.0}, {}, {"a": 50.0, "b": 25.0})
    decision, _ = RoundRobin().decide(dags.context(found, now), RoundRobinMemory(frozenset({"s"})))
    assert decision.numbers["throughput.expected"] == decision.numbers["throughput"]
    assert decision.numbers["gain_rows"] == pytest.approx(100.0)  # half of them piled up before a


def test_seconds_are_those_of_the_model() -> None:
    """a = 0.3 (4 - 2) = 0.6; 0.12 s may be waited of 0.6 s, for which 8 instances wait 0.1 s."""
    decision, _ = LatencyPolicy(cadence_share=0.0).decide(queueing(), None)
    assert decision.plan is not None
    expected = 0.6 / (decision.plan.pipeline_of("x").parallelism - 2)
    assert decision.numbers["gain_seconds"] == pytest.approx(0.3 - expected)


@pytest.mark.parametrize(
    ("policy", "seen"),
    [
        (LatencyPolicy(cadence_share=0.0), queueing(3.99)),  # a bottleneck
        (LatencyPolicy(cadence_share=0.0), queueing(9.0)),
        (LatencyPolicy(cadence_share=0.0), queueing(0.5, wait=0.001)),  # fewer instances
        (Drs(), queueing(9.0)),
        (Drs(), queueing(0.5)),
        (RoundRobin(), congested()),  # its turn is at s, which is not congested
    ],
)
def test_what_rows_pile_up_without_and_what_gives_back_passes_at_any_cost(
    policy: Any, seen: Context
) -> None:
    decision, _ = policy.decide(seen, None)
    assert {"gain_rows", "gain_seconds"}.isdisjoint(decision.numbers)
    assert reviewed(seen, decision, 3600.0).vetoes == ()
