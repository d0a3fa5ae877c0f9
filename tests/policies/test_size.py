"""Ten thousand operators are no reason to wait."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from penstock.control.context import Context
from penstock.models import rates
from penstock.models.topology import Topology
from penstock.policies import strategies
from penstock.policies.ds2 import Ds2
from penstock.policies.stela import Stela, scale_out
from penstock.policies.strategies import LeastLinkLoad, RoundRobin
from penstock.policies.threshold import Threshold
from tests.models import dags

MANY = 10_000


@pytest.fixture(scope="module", params=["chain", "random"])
def large(request: pytest.FixtureRequest) -> Context:
    inputs: dict[str, tuple[str, ...]] = {"o0": ()}
    rng = random.Random(1)
    for at in range(1, MANY):
        match request.param:
            case "chain":
                inputs[f"o{at}"] = (f"o{at - 1}",)
            case _:
                first, second = rng.randrange(max(0, at - 50), at), rng.randrange(at)
                inputs[f"o{at}"] = (f"o{first}",) if at % 2 else (f"o{first}", f"o{second}")
    dag = dags.graph(inputs)
    # a small share of the rows goes on, or there would be more of them than numbers
    found = Topology(dag, dags.plan(dag, executors=1000))
    capacity = {n: 50.0 if rng.random() < 0.3 else 1000.0 for n in found.pipelines}
    offered = dict.fromkeys(found.sources, 100.0)
    selectivity = dict.fromkeys(found.pipelines, 1.0 if request.param != "random" else 0.55)
    return dags.context(found, rates.through(found, offered, selectivity, capacity))


DECIDE: dict[str, Callable[[Context], Any]] = {
    "stela": lambda c: Stela(automatic=True).decide(c, None),
    "threshold": lambda c: Threshold().decide(c, None),
    "ds2": lambda c: Ds2(activation=1).decide(c, None),
    "least-link-load": lambda c: LeastLinkLoad().decide(c, None),
    "round-robin": lambda c: RoundRobin().decide(c, None),
    "scale-out": lambda c: scale_out(c, 1),
    "centrality": lambda c: strategies.scale_out(c, 1, strategies.centrality),
}


@pytest.mark.parametrize("name", sorted(DECIDE))
def test_a_decision_takes_less_than_two_seconds(large: Context, name: str) -> None:
    start = time.process_time()
    assert DECIDE[name](large) is not None
    assert time.process_time() - start < 2
