"""Small flows for the tests of Stela, and what they look like on executors."""

from __future__ import annotations

from penstock.metrics.snapshot import ExecutorMetrics
from penstock.policies.base.policy import Context
from penstock.policies.shared import rates
from penstock.policies.shared.topology import Topology
from tests.policies import dags
from tests.policies.closed import DIAMOND, LINEAR, STAR


def chain(capacity: dict[str, float], offered: float = 100.0, executors: int = 2) -> Context:
    dag = dags.graph({"s": (), "a": ("s",), "b": ("a",)})
    found = Topology(dag, dags.plan(dag, executors=executors))
    return dags.context(found, rates.steady_state(found, {"s": offered}, {}, capacity))


def placed(
    found: Topology, where: dict[str, dict[str, int]], slots: int = 4
) -> dict[str, ExecutorMetrics]:
    return {n: ExecutorMetrics(n, slots, instances=i) for n, i in where.items()}


COSTS = {
    "linear": (LINEAR, {"a": 0.02, "b": 0.05, "c": 0.03}),
    "diamond": (DIAMOND, {"a": 0.02, "b": 0.04, "c": 0.03, "d": 0.01}),
    "star": (STAR, {"m": 0.01, "x": 0.02, "y": 0.015}),
}
