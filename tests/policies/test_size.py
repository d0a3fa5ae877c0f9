"""Ten thousand operators are no reason to wait."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.control.context import Context
from penstock.dataflow.graph import Constraint
from penstock.metrics.snapshot import ExecutorMetrics
from penstock.models import rates
from penstock.models.topology import Topology
from penstock.policies.drs import Drs
from penstock.policies.ds2 import Ds2
from penstock.policies.es_stream import EsStream
from penstock.policies.latency import Latency
from penstock.policies.stela import Stela, scale_in, scale_out
from penstock.policies.strategies import LeastLinkLoad, RoundRobin
from penstock.policies.threshold import Threshold
from tests.models import dags

MANY = 10_000

pytestmark = pytest.mark.large


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
    through = rates.through(found, offered, selectivity, capacity)
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


@pytest.fixture(scope="module")
def large() -> Context:
    return many(chain=False)


DECIDE: dict[str, Callable[[Context], Any]] = {
    "stela": lambda c: Stela(automatic=True).decide(c, None),
    "threshold": lambda c: Threshold().decide(c, None),
    "ds2": lambda c: Ds2(activation=1).decide(c, None),
    "es-stream": lambda c: EsStream().decide(c, None),
    "drs": lambda c: Drs().decide(c, None),
    "latency": lambda c: Latency().decide(constrained(c), None),
    "round-robin": lambda c: RoundRobin().decide(c, None),
    "least-link-load": lambda c: LeastLinkLoad().decide(c, None),
    "by-gain": lambda c: Stela(automatic=True, by="gain").decide(c, None),
    "scale-out": lambda c: scale_out(c, 1).plan,  # ten slots, each some ten milliseconds
    "scale-in": lambda c: scale_in(c, 2).plan,
}


@pytest.mark.parametrize("name", sorted(DECIDE))
def test_a_decision_takes_less_than_two_seconds(large: Context, name: str) -> None:
    start = time.process_time()
    assert DECIDE[name](large) is not None
    assert time.process_time() - start < 2


def test_executors_with_a_thousand_instances_each_leave_as_quickly() -> None:
    context = many(chain=False, executors=10)
    start = time.process_time()
    decision = scale_in(context, 2)
    assert decision.plan is not None
    assert decision.plan.executors == 8
    assert time.process_time() - start < 2


def test_a_long_chain_is_no_deeper_than_python_goes() -> None:
    assert scale_out(many(chain=True), 1).plan is not None
