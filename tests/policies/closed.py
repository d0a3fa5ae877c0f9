"""Closed loops on the in-memory engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.dataflow.graph import Graph
from penstock.metrics.snapshot import Snapshot
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Context, Policy
from penstock.testing import MemoryEngine

LINEAR = {"s": (), "a": ("s",), "b": ("a",), "c": ("b",)}
DIAMOND = {"s": (), "a": ("s",), "b": ("s",), "c": ("s",), "d": ("a", "b", "c")}
STAR = {"s": (), "t": (), "m": ("s", "t"), "x": ("m",), "y": ("m",)}


@dataclass
class Loop:
    """An engine that runs, and a policy that is asked after each window."""

    graph: Graph
    plan: Plan
    run_dir: Path
    costs: Mapping[str, float]
    rate: Any = 100.0
    selectivity: Mapping[str, float] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    window: float = 5.0

    def __post_init__(self) -> None:
        self.engine = MemoryEngine(self.costs, self.selectivity, self.rate)
        self.engine.start(self.graph, self.plan, self.run_dir)
        self.reasons: list[str] = []
        self.plans: list[Plan] = []
        self._memory: Any = None

    def measure(self) -> Context:
        self.engine.advance(self.window)
        shown = self.engine.observe()
        return Context(self.graph, self.engine.plan, (shown,), shown.at, self.limits)

    def apply(self, plan: Plan | None) -> None:
        if plan is not None:
            fusion.check(plan, self.graph)
            assert self.limits.exceeded(plan) is None
            self.engine.apply(plan)

    def run(self, policy: Policy, turns: int) -> Plan:
        for _ in range(turns):
            decision, self._memory = policy.decide(self.measure(), self._memory)
            assert decision.plan is None or {*decision.numbers} - {"undo"}, decision
            self.reasons.append(decision.reason)
            self.apply(decision.plan)
            self.plans.append(self.engine.plan)
        return self.engine.plan

    def throughput(self) -> float:
        """Rows per second delivered over a window; the one before it is for settling."""
        self.engine.advance(self.window)
        before: Snapshot = self.engine.observe()
        self.engine.advance(self.window)
        return (self.engine.observe().rows_delivered - before.rows_delivered) / self.window
