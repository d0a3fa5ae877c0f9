"""DS2: the instances that the offered load needs, for all pipelines in one step.

The true rate of a pipeline is what one instance processes while it is at work. The offered load is
propagated from the sources by selectivities, as if there were no bottleneck, and every pipeline
gets the instances that its part of the load needs.
"""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from penstock.errors import InvalidInput
from penstock.metrics import derived, windows
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.policies.base import messages, options
from penstock.policies.base.policy import Context
from penstock.policies.shared import rates, scaling
from penstock.policies.shared.rates import NotMeasured
from penstock.policies.shared.topology import Topology

_ROUNDING = 1e-9
"""Fraction of an instance that is a floating-point error, not a need."""


@dataclass(frozen=True)
class Ds2Memory:
    """What the policy remembers between windows.

    plan: the plan that was in force; needs: the instances each pipeline needed in the last windows
    under it; measured_until: the end of the last window that counted.
    """

    plan: Plan | None = None
    needs: tuple[Mapping[str, float], ...] = ()
    measured_until: float = -math.inf
    version: Literal[1] = 1


@dataclass(frozen=True)
class Ds2:
    """Set the instances that the offered load needs, from true rates, for all pipelines at once.

    headroom: share by which capacity should exceed the offered load; slack: share of further
    capacity that must remain for instances to be removed (0, as in the paper, may add and remove an
    instance in turn at some loads); activation: number of windows a decision takes the median of;
    catch_up: seconds in which a backlog is to be worked off; most: most instances of a pipeline
    without other bounds.
    """

    name: ClassVar[str] = "ds2"
    memory_type: ClassVar[Any] = Ds2Memory
    headroom: float = 0.0
    slack: float = 0.0
    activation: int = 3
    catch_up: float = rates.CATCH_UP
    most: int = 1000

    def __post_init__(self) -> None:
        for name, share in (("headroom", self.headroom), ("slack", self.slack)):
            if not 0 <= share < math.inf:
                raise InvalidInput(f"ds2: {name} must be a share of 0 or more, not {share}")
        if self.activation < 1:
            raise InvalidInput(f"ds2: activation must be 1 window or more, not {self.activation}")
        options.check(self, above_zero=("catch_up",), one_or_more=("most",))

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        """Decide on the last windows; overlapping windows are not counted twice."""
        topology = Topology(context.graph, context.plan)
        try:
            if context.latest is None:
                raise NotMeasured("nothing measured yet")
            seen = remembered(context.snapshots)
            need = needed(topology, seen, self.headroom, self.catch_up)
        except NotMeasured as why:
            return Decision(None, f"no change: {why}"), memory
        before = memory or Ds2Memory()
        if before.plan != context.plan:
            before = Ds2Memory(context.plan)
        after, needs = before, before.needs
        if windows.begins_after(context.latest, before.measured_until):
            needs = (*needs, need)[-self.activation :]
            after = Ds2Memory(context.plan, needs, context.latest.at)
        if len(needs) < self.activation:
            said = f"no change: {len(needs)} of {self.activation} windows measured"
            return Decision(None, said, _numbers(need)), after
        median = {n: statistics.median(each[n] for each in needs) for n in need}
        return self._decided(context, topology, median), after

    def _decided(self, context: Context, topology: Topology, need: Mapping[str, float]) -> Decision:
        wanted = {n: self._wanted(topology, n, x) for n, x in need.items()}
        short = [
            f"{n} needs {need[n]:.2f} instances, {wanted[n]} allowed"
            for n in wanted
            if wanted[n] < need[n] - _ROUNDING
        ]
        said = [messages.listed(short)] if short else []
        budget = context.limits.slots
        if budget is not None and (total := sum(wanted.values())) > budget:
            least = {n: scaling.bounds_within_ceiling(topology, n).least for n in wanted}
            wanted = fitted(wanted, need, least, budget)
            said.append(f"budget of {budget} instances is below the {total} needed")
        pipelines = topology.pipelines
        moved = [n for n in wanted if wanted[n] != pipelines[n].parallelism]
        told = [
            f"{n} {pipelines[n].parallelism} -> {wanted[n]} instances: needs {need[n]:.2f}"
            for n in moved
        ]
        what = messages.listed(told, ", ") or "no change: every pipeline has the instances it needs"
        reason = "; ".join([what, *said])
        plan = scaling.with_instances(context.plan, wanted) if moved else None
        return Decision(plan, reason, _numbers(need))

    def _wanted(self, topology: Topology, name: str, need: float) -> int:
        """Instances within the bounds; none is removed unless slack remains."""
        limits, now = (
            scaling.bounds_within_ceiling(topology, name),
            topology.pipelines[name].parallelism,
        )
        spared = min(now, _whole(need * (1 + self.slack)))
        most = max(self.most, now) if limits.most is None else limits.most
        return max(1, limits.least, min(most, max(_whole(need), spared)))


def needed(
    topology: Topology,
    snapshot: Snapshot,
    headroom: float = 0.0,
    catch_up: float = rates.CATCH_UP,
) -> dict[str, float]:
    """Fractional instances each pipeline needs for its offered load and backlog.

    Raises `NotMeasured` if the plan changed during the window or a metric is missing.
    """
    if not snapshot.settled:
        raise NotMeasured("not measured: the plan changed during the window")
    target: dict[str, float] = {}
    found: dict[str, float] = {}
    lacking: list[str] = []
    for name in topology.pipelines:
        metrics = snapshot.pipelines.get(name)
        if metrics is None:
            raise NotMeasured(f"not measured: pipeline {name}")
        rate = math.fsum(times * target[up] for up, times in topology.feeds[name].items())
        if name in topology.sources:
            offered = _offered(topology, snapshot, name)
            if offered is None:
                lacking.append(f"load offered to {name}")
            rate += (offered or 0.0) * (1 + headroom)
        came, rate = rate, rates.required_rate(rate, metrics, catch_up)
        found[name], target[name] = 0.0, 0.0
        if rate == 0:
            if not _seen(metrics):
                lacking.append(f"input of {name}")
            continue
        if metrics.service is None:
            lacking.append(f"service time of {name}")
        found[name] = derived.rounded(rate * (metrics.service or 0.0))
        if topology.downstream[name]:
            if metrics.rate_in and metrics.rate_out is not None:
                target[name] = rate * metrics.rate_out / metrics.rate_in
            elif came:  # a backlog alone shows no selectivity
                lacking.append(f"selectivity of {name}")
    if lacking:
        raise NotMeasured(f"not measured: {messages.listed(lacking, ', ')}")
    return found


def remembered(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Return the last snapshot, with earlier metrics for pipelines without a batch.

    Batches of a bottleneck may take longer than a window, and its metrics matter most.
    """
    latest, before = snapshots[-1], windows.settled(snapshots)[:-1]
    found = {name: _remembered(m, before) for name, m in latest.pipelines.items()}
    return replace(latest, pipelines=found)


def _remembered(metrics: PipelineMetrics, before: Sequence[Snapshot]) -> PipelineMetrics:
    if metrics.service is not None:
        return metrics
    for snapshot in reversed(before):
        one = snapshot.pipelines.get(metrics.name)
        if one is None or one.parallelism != metrics.parallelism:
            break
        if one.service is not None:
            return replace(metrics, service=one.service, rate_in=one.rate_in, rate_out=one.rate_out)
    return metrics


def _seen(metrics: PipelineMetrics) -> bool:
    """True if any activity metric is known; then a pipeline without input is idle."""
    known = (metrics.arrival_rate, metrics.rate_in, metrics.busy)
    return any(value is not None for value in known)


def fitted(
    wanted: Mapping[str, int], need: Mapping[str, float], least: Mapping[str, int], budget: int
) -> dict[str, int]:
    """Reduce instances to a budget, in proportion to need.

    Instances are added one by one, each for the pipeline with the fewest relative to its need,
    because needs may be much larger than the budget.
    """
    found = {name: min(most, max(1, least[name])) for name, most in wanted.items()}
    last = sorted(found, reverse=True)  # of equals, the first names get none
    heap = [(_plenty(name, found[name], need), at) for at, name in enumerate(last)]
    heapq.heapify(heap)
    left = budget - sum(found.values())
    while left > 0 and heap:
        _, at = heapq.heappop(heap)
        name = last[at]
        if found[name] < wanted[name]:
            found[name] += 1
            left -= 1
            heapq.heappush(heap, (_plenty(name, found[name], need), at))
    return found


def _plenty(name: str, instances: int, need: Mapping[str, float]) -> float:
    return instances / need[name] if need[name] > 0 else math.inf


def _offered(topology: Topology, snapshot: Snapshot, name: str) -> float | None:
    """Rows per second from outside: arrivals less the output of upstream pipelines."""
    arrival = snapshot.pipelines[name].arrival_rate
    if arrival is None:
        return None
    sent = (n * (snapshot.pipelines[up].rate_out or 0.0) for up, n in topology.feeds[name].items())
    return max(0.0, arrival - math.fsum(sent))


def _whole(need: float) -> int:
    return math.ceil(need - _ROUNDING)


def _numbers(need: Mapping[str, float]) -> dict[str, float]:
    return {f"{name}.needed": round(x, 6) for name, x in need.items()}
