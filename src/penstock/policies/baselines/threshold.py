"""Utilisation thresholds: more instances above the upper, fewer below the lower."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from penstock.errors import InvalidInput
from penstock.metrics import derived
from penstock.metrics import windows as window
from penstock.metrics.snapshot import Snapshot
from penstock.plan.decision import Decision
from penstock.policies.base import messages
from penstock.policies.base.policy import Context
from penstock.policies.shared import scaling
from penstock.policies.shared.bottlenecks import busy_text
from penstock.policies.shared.topology import Topology


@dataclass(frozen=True)
class ThresholdMemory:
    """What the policy remembers between windows.

    calm_windows: for how many windows in a row each pipeline has been below the lower threshold;
    measured_until: the end of the last window that counted.
    """

    calm_windows: Mapping[str, int] = field(default_factory=dict)
    measured_until: float = -math.inf
    version: Literal[1] = 1


@dataclass(frozen=True)
class Threshold:
    """Add instances above a threshold of utilisation, and remove them below another.

    above, below: the thresholds; step: instances added or removed at a time; patience: consecutive
    windows for which a pipeline must be below before it loses any. It loses none if the rest would
    be above the upper threshold.
    """

    name: ClassVar[str] = "threshold"
    memory_type: ClassVar[Any] = ThresholdMemory
    above: float = 0.8
    below: float = 0.4
    step: int = 1
    patience: int = 3

    def __post_init__(self) -> None:
        if not 0 <= self.below < self.above <= 1:
            raise InvalidInput(
                f"threshold: 0 <= below < above <= 1 does not hold for below={self.below:g}, "
                f"above={self.above:g}"
            )
        if self.step < 1 or self.patience < 1:
            raise InvalidInput("threshold: step and patience are 1 or more")

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        """Decide on the last window; overlapping windows are not counted twice."""
        latest = context.latest
        if latest is None or not latest.settled:
            why = "nothing measured yet" if latest is None else "the plan has just changed"
            return Decision(None, f"no change: {why}"), None
        topology = Topology(context.graph, context.plan)
        busy, lacking = _busy(topology, latest)
        if lacking:
            return Decision(
                None, f"no change: not measured: {messages.listed(lacking, ', ')}"
            ), None
        before = memory or ThresholdMemory()
        new = window.begins_after(latest, before.measured_until)
        calm = _calm(busy, self.below, before.calm_windows, int(new))
        after = ThresholdMemory(calm, latest.at if new else before.measured_until)
        wanted = {**self._fewer(topology, busy, calm), **self._more(context, topology, busy)}
        if not wanted:
            return Decision(None, self._quiet(context, topology, busy), _numbers(busy)), after
        told = [
            f"{n} {topology.pipelines[n].parallelism} -> {p} instances: {self._beyond(n, busy[n])}"
            for n, p in wanted.items()
        ]
        plan = scaling.with_instances(context.plan, wanted)
        reason = messages.listed(told, ", ")
        return Decision(plan, reason, _numbers({n: busy[n] for n in wanted})), None

    def _more(
        self, context: Context, topology: Topology, busy: Mapping[str, float]
    ) -> dict[str, int]:
        """Pipelines to scale up, busiest first, within bounds and budget."""
        budget, found = context.limits.slots, {}
        left = None if budget is None else max(0, budget - context.plan.slots)
        for name in sorted(busy, key=lambda n: -busy[n]):
            now, most = (
                topology.pipelines[name].parallelism,
                scaling.bounds_within_ceiling(topology, name).most,
            )
            if busy[name] <= self.above:
                break
            step = self.step if most is None else min(self.step, most - now)
            step = step if left is None else min(step, left)
            if step > 0:
                found[name] = now + step
                left = None if left is None else left - step
        return found

    def _fewer(
        self, topology: Topology, busy: Mapping[str, float], calm: Mapping[str, int]
    ) -> dict[str, int]:
        found = {}
        for name, windows in calm.items():
            now = topology.pipelines[name].parallelism
            fewer = max(now - self.step, scaling.bounds_within_ceiling(topology, name).least)
            enough = fewer < now and derived.rounded(busy[name] * now / fewer) <= self.above
            if windows >= self.patience and enough:
                found[name] = fewer
        return found

    def _beyond(self, name: str, busy: float) -> str:
        said = busy_text(name, busy)
        if busy > self.above:
            return f"{said}, limit {self.above:.0%}"
        windows = f"{self.patience} window{'s' * (self.patience > 1)}"
        return f"{said}, below {self.below:.0%} for {windows}"

    def _quiet(self, context: Context, topology: Topology, busy: Mapping[str, float]) -> str:
        """Say why nothing changes."""
        over = [n for n in topology.pipelines if busy[n] > self.above]
        if over:
            found = messages.listed([self._beyond(n, busy[n]) for n in over], ", ")
            if context.limits.slots is not None and context.plan.slots >= context.limits.slots:
                budget = context.limits.slots
                return f"no change: {found}, but the budget of {budget} instances is used"
            most = [
                f"{n} can have {scaling.bounds_within_ceiling(topology, n).most} instances at most"
                for n in over
            ]
            return f"no change: {found}, but {messages.listed(most, ', ')}"
        top = max(busy, key=lambda n: busy[n])
        return f"no change: {busy_text(top, busy[top])}, limit {self.above:.0%}"


def _busy(topology: Topology, snapshot: Snapshot) -> tuple[dict[str, float], list[str]]:
    """Utilisation of every pipeline, and texts about those for which it is unknown."""
    known = snapshot.pipelines
    found = {n: derived.at_work(known[n]) if n in known else None for n in topology.pipelines}
    lacking = [f"utilisation of {name}" for name, busy in found.items() if busy is None]
    return {name: busy for name, busy in found.items() if busy is not None}, lacking


def _calm(
    busy: Mapping[str, float], below: float, before: Mapping[str, int], more: int
) -> dict[str, int]:
    return {name: before.get(name, 0) + more for name, share in busy.items() if share < below}


def _numbers(busy: Mapping[str, float]) -> dict[str, float]:
    return {f"{name}.busy": share for name, share in busy.items()}
