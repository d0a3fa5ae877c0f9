"""Ten thousand operators are no reason to wait."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.control.guard import Guard
from penstock.control.past_changes import AppliedChange, PastChanges
from penstock.dataflow.graph import Constraint
from penstock.metrics.snapshot import ExecutorMetrics, PipelineMetrics
from penstock.plan.change import Change
from penstock.plan.decision import Decision
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.plan.transition import Transition
from penstock.policies.base.policy import Context
from penstock.policies.baselines.drs import Drs
from penstock.policies.baselines.ds2 import Ds2
from penstock.policies.baselines.threshold import Threshold
from penstock.policies.es_stream.policy import EsStream
from penstock.policies.joker.policy import Organic
from penstock.policies.nephele.policy import LatencyPolicy
from penstock.policies.shared import rates
from penstock.policies.shared.topology import Topology
from penstock.policies.stela.policy import Stela, scale_in, scale_out
from penstock.policies.stela.strategies import LeastLinkLoad, RoundRobin
from tests.policies import dags
from tests.speed import within

MANY = 10_000

pytestmark = pytest.mark.large


@functools.cache
def many(chain: bool, executors: int = 1000) -> Context:
    """A chain, or each operator after one just before it and every other after another too."""
    rng = random.Random(1)
    inputs: dict[str, tuple[str, ...]] = {"o0": ()}
    for at in range(1, MANY):
        near, far = rng.randrange(max(0, at - 50), at), rng.randrange(at)
        two = (f"o{near}",) if at % 2 else (f"o{near}", f"o{far}")
        inputs[f"o{at}"] = (f"o{at - 1}",) if chain else two
    dag = dags.graph(inputs)
    found = Topology(dag, dags.plan(dag, executors=executors))
    capacity = {n: 50.0 if rng.random() < 0.3 else 1000.0 for n in found.pipelines}
    # about half goes on, or the branches would multiply beyond all numbers
    selectivity = dict.fromkeys(found.pipelines, 1.0 if chain else 0.55)
    offered = dict.fromkeys(found.sources, 100.0)
    through = rates.steady_state(found, offered, selectivity, capacity)
    names = [*found.pipelines]
    placed = {
        f"{at}": ExecutorMetrics(f"{at}", MANY, instances=dict.fromkeys(names[at::executors], 1))
        for at in range(executors)
    }
    return dags.context(found, through, executors=placed)


def constrained(context: Context) -> Context:
    """The same from its first operator to its last, with waits."""
    graph = replace(context.graph, constraints=(Constraint("o0", f"o{MANY - 1}", 100.0),))
    (snapshot,) = context.snapshots
    waits = {n: replace(m, wait=0.001) for n, m in snapshot.pipelines.items()}
    return replace(context, graph=graph, snapshots=(replace(snapshot, pipelines=waits),))


def with_loads(context: Context, parallelism: int, load: float, busy: float) -> Context:
    """The same with instances that each pipeline has, a load for each, and executors at work."""
    plan = replace(
        context.plan,
        pipelines=tuple(replace(p, parallelism=parallelism) for p in context.plan.pipelines),
    )
    (snapshot,) = context.snapshots
    pipelines = {
        name: replace(
            m,
            parallelism=parallelism,
            arrival_rate=100.0,
            rate_in=100.0,
            rate_out=100.0,
            service=(load + at / MANY) / 100,  # no two alike
            wait=0.01,
        )
        for at, (name, m) in enumerate(snapshot.pipelines.items())
    }
    executors = {
        n: replace(e, cpu=busy, busy=busy, instances=dict.fromkeys(e.instances, parallelism))
        for n, e in snapshot.executors.items()
    }
    shot = replace(snapshot, pipelines=pipelines, executors=executors)
    return replace(context, plan=plan, snapshots=(shot,))


@pytest.mark.parametrize(
    ("policy", "load", "executors"),
    [
        *((EsStream(), 2.5, executors) for executors in (1, 10, 1000)),
        (EsStream(), 500.0, 1000),
    ],
)
def test_executors_and_queues_with_loads(policy: Any, load: float, executors: int) -> None:
    seen = with_loads(many(chain=True, executors=executors), round(0.8 * load), load, 0.5)
    assert within(2, lambda: policy.decide(seen, None)[0])


def test_twenty_constraints() -> None:
    seen = with_loads(many(chain=False), 2, 0.5, 0.5)
    made = tuple(Constraint("o0", f"o{MANY - 1 - at}", 1e6 + at) for at in range(20))
    seen = replace(seen, graph=replace(seen.graph, constraints=made))
    assert within(2, lambda: LatencyPolicy().decide(seen, None)[0].plan)
    tight = tuple(replace(one, latency=120.0) for one in made)
    seen = replace(seen, graph=replace(seen.graph, constraints=tight))
    assert within(2, lambda: LatencyPolicy().decide(seen, None)[0])


@pytest.mark.parametrize(
    "policy", [EsStream(), Drs(), LatencyPolicy(), Organic(profile=0.0, settle=0.0)]
)
def test_a_budget_that_is_used_up(policy: Any) -> None:
    seen = constrained(with_loads(many(chain=True), 1, 0.9, 0.9))
    (snapshot,) = seen.snapshots
    falling = {
        name: replace(m, busy=1.0 - 0.9 * at / MANY, backlog_rows=1000, backlog_seconds=10.0)
        for at, (name, m) in enumerate(snapshot.pipelines.items())
    }
    shots = (replace(snapshot, pipelines=falling),)
    seen = replace(seen, snapshots=shots, limits=Limits(slots=seen.plan.slots))
    assert within(2, lambda: policy.decide(seen, None)[0])


@pytest.mark.parametrize("instances", [1, 3])
def test_the_guard_reviews_a_change_of_everything(instances: int) -> None:
    def plan(count: int) -> Plan:
        alike = (replace(p, parallelism=count) for p in seen.plan.pipelines)
        return replace(seen.plan, pipelines=tuple(alike))

    seen = replace(with_loads(many(chain=True), 2, 0.5, 0.5), now=20.0)
    made = AppliedChange(
        0.0, Change(plan(1), plan(2)), Transition(0.0, ("o0",), 0.1, 0.1, settled=True)
    )
    wanted = Decision(plan(instances), "all of them")
    assert within(2, lambda: Guard().review(wanted, seen, PastChanges((made,))))
    reviewed = Guard().review(wanted, seen, PastChanges((made,)))
    assert [v.rule for v in reviewed.vetoes] == (["undo"] if instances == 1 else [])
    assert sum(len(v.reason) for v in reviewed.vetoes) < 1000


@pytest.fixture(scope="module")
def large() -> Context:
    return many(chain=False)


DECIDE: dict[str, Callable[[Context], Any]] = {
    "stela": lambda c: Stela(automatic=True).decide(c, None),
    "threshold": lambda c: Threshold().decide(c, None),
    "ds2": lambda c: Ds2(activation=1).decide(c, None),
    "es-stream": lambda c: EsStream().decide(c, None),
    "drs": lambda c: Drs().decide(c, None),
    "latency": lambda c: LatencyPolicy().decide(constrained(c), None),
    "round-robin": lambda c: RoundRobin().decide(c, None),
    "least-link-load": lambda c: LeastLinkLoad().decide(c, None),
    "by-gain": lambda c: Stela(automatic=True, by="gain").decide(c, None),
    "scale-out": lambda c: scale_out(c, 10).plan,  # a hundred slots
    "scale-out-by-gain": lambda c: scale_out(c, 1, by="gain").plan,  # ten slots
    "scale-out-in-turn": lambda c: scale_out(c, 10, by="round-robin").plan,
    "scale-out-by-load": lambda c: scale_out(c, 10, by="least-link-load").plan,
    "scale-in": lambda c: scale_in(c, 2).plan,
}


POLICIES = sorted(name for name in DECIDE if not name.startswith("scale-"))


@pytest.mark.parametrize("name", sorted(DECIDE))
def test_a_decision_takes_less_than_two_seconds(large: Context, name: str) -> None:
    assert within(2, lambda: DECIDE[name](large))


@pytest.mark.parametrize(
    ("chain", "most"),
    [
        (True, 2),
        pytest.param(
            False, 10, marks=pytest.mark.extended
        ),  # nearly every slot changes what thousands get, one after the other
    ],
)
def test_a_thousand_slots_are_given_out(chain: bool, most: float) -> None:
    context = many(chain)
    assert within(most, lambda: scale_out(context, 100))
    decision = scale_out(context, 100)
    assert decision.plan is not None
    assert decision.plan.slots == context.plan.slots + 1000


def crowded(context: Context) -> Context:
    """All at work all the time, and more comes than they do."""
    seen = with_loads(context, 1, 1.3, 0.95)
    (snapshot,) = seen.snapshots
    jammed = {
        n: replace(m, rate_in=70.0, rate_out=70.0, busy=1.0) for n, m in snapshot.pipelines.items()
    }
    return replace(seen, snapshots=(replace(snapshot, pipelines=jammed),))


def unmeasured(context: Context) -> Context:
    """Nothing is known of any pipeline."""
    (snapshot,) = context.snapshots
    blank = {n: PipelineMetrics(n, m.parallelism) for n, m in snapshot.pipelines.items()}
    return replace(context, snapshots=(replace(snapshot, pipelines=blank),))


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seen", [crowded, unmeasured])
def test_a_person_can_read_the_reason(seen: Callable[[Context], Context], name: str) -> None:
    decision, _ = DECIDE[name](seen(many(chain=True)))
    assert 0 < len(decision.reason) < 3000


def test_a_person_can_read_why_executors_come_and_go() -> None:
    context = many(chain=False, executors=100)
    assert len(scale_out(context, 1).reason) < 2000
    assert len(scale_in(context, 2).reason) < 2000


def test_executors_with_a_thousand_instances_each_leave_as_quickly() -> None:
    context = many(chain=False, executors=10)
    assert within(2, lambda: scale_in(context, 2))
    decision = scale_in(context, 2)
    assert decision.plan is not None
    assert decision.plan.executors == 8


def test_a_long_chain_is_no_deeper_than_python_goes() -> None:
    assert scale_out(many(chain=True), 1).plan is not None
