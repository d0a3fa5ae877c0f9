"""Stela: on demand, scales by the effect of an instance on throughput.

What counts is the effective throughput percentage of a pipeline: the share of the throughput of all
sinks that depends on it (`etp.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from penstock.errors import InvalidInput
from penstock.metrics.snapshot import Snapshot
from penstock.plan.decision import Decision
from penstock.policies.base import messages
from penstock.policies.base.policy import Context
from penstock.policies.shared import scaling
from penstock.policies.shared.rates import CATCH_UP, CONGESTED, NotMeasured
from penstock.policies.shared.topology import Topology
from penstock.policies.stela import slots, strategies
from penstock.policies.stela.etp import EtpTable
from penstock.policies.stela.slots import Choice, SlotAllocation
from penstock.policies.stela.strategies import RANKINGS

By = Literal[
    "etp",
    "gain",
    "distance-from-source",
    "distance-to-sink",
    "descendants",
    "centrality",
    "least-link-load",
    "most-link-load",
    "round-robin",
]


@dataclass(frozen=True)
class Stela:
    """Add or remove executors on request, by effective throughput percentage (ETP).

    congested: rows arriving for each row processed, above which a pipeline is congested; automatic:
    also without a request, give congested pipelines instances one by one, and remove instances that
    were idle for `calm` seconds; by: which pipeline gets an instance, the one with the highest
    `etp`, the one with the highest expected `gain`, or in the order of a baseline strategy;
    catch_up: seconds in which the remaining instances must be able to work off a backlog.
    """

    name: ClassVar[str] = "stela"
    memory_type: ClassVar[Any] = strategies.RoundRobinMemory
    congested: float = CONGESTED
    automatic: bool = False
    by: By = "etp"
    calm: float = slots.CALM
    catch_up: float = CATCH_UP

    def __post_init__(self) -> None:
        slots.check(self.congested, self.calm, self.catch_up)

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        if not self.automatic:
            return Decision(None, "no change: stela waits for a request to scale out or in"), memory
        try:
            start = slots.measured(context, self.congested)
        except NotMeasured as why:
            return Decision(None, f"no change: {why}"), memory
        if (less := slots.fewer_instances(context, start, self.calm, self.catch_up)) is not None:
            return less, memory
        if self.by in RANKINGS:
            ranking = RANKINGS[self.by](start.topology, start.rates)
            return strategies.next_turn(context, start, ranking, memory)
        if (why_not := slots.why_nothing_to_give(context, start)) is not None:
            return Decision(None, why_not), memory
        name, _ = CHOICES[self.by](start, None)
        if name is None:
            return slots.all_at_bounds(start, start.congested), memory
        best = f"{name} has the highest {_WORDS[self.by]}"
        return slots.one_more_instance(context, start, name, best), memory

    def scale_out(self, context: Context, executors: int) -> Decision:
        """Add executors on request, with the settings of this policy."""
        return scale_out(context, executors, self.congested, self.by)

    def scale_in(self, context: Context, executors: int) -> Decision:
        """Remove executors on request, with the settings of this policy."""
        return scale_in(context, executors, self.congested)


def by_etp(allocation: SlotAllocation, memory: EtpTable | None) -> tuple[str | None, EtpTable]:
    """Choose the congested pipeline with the highest ETP; if none is, a source.

    Of equals, the most congested comes first; of sources, the one with the fewest instances. The
    state is the ETP table before the last slot was given.
    """
    ranked, etp_table = _ranked(allocation, memory, 1)
    return next(iter(ranked), None), etp_table


def by_gain(allocation: SlotAllocation, memory: EtpTable | None) -> tuple[str | None, EtpTable]:
    """Choose the pipeline that should raise throughput most with a further instance.

    A pipeline with a high ETP may hardly gain from one instance. Of equals, the highest ETP comes
    first. Only pipelines with high ETP are tried, while their upper bound exceeds the best gain.
    """
    able, etp_table = _ranked(allocation, memory, _TRIED)
    if len(able) < 2:
        return next(iter(able), None), etp_table
    hoped = dict(zip(able, allocation.hoped(able), strict=True))
    found: dict[str, float] = {}
    for name in sorted(able, key=lambda name: hoped[name], reverse=True):
        if found and _rounded(hoped[name] * (1 + _SLACK)) < max(found.values()):
            break
        found[name] = _rounded(allocation.give(name).table.throughput)
    return max((name for name in able if name in found), key=lambda name: found[name]), etp_table


CHOICES: Mapping[str, Choice] = {
    "etp": by_etp,
    "gain": by_gain,
    **{name: strategies.by(ranking) for name, ranking in RANKINGS.items()},
}

_WORDS = {"etp": "ETP", "gain": "expected gain"}

_TRIED = 32

_SLACK = 1e-10
"""Relative amount by which rounding may have lowered an upper bound."""


def _rounded(throughput: float) -> float:
    """Round away differences that are only rounding errors."""
    return float(f"{throughput:.9g}")


def _ranked(
    allocation: SlotAllocation, memory: EtpTable | None, count: int
) -> tuple[list[str], EtpTable]:
    """Congested pipelines below their bounds, or else sources, highest ETP first."""
    table = allocation.table
    etp_table = memory.after(table) if memory else EtpTable.of(table)
    if 1 in table.congested:
        found = etp_table.congested(allocation.open, count)
    else:
        found = etp_table.sources(allocation.open, allocation.many, count)
    return [table.numbered.names[at] for at in found], etp_table


def scale_out(
    context: Context,
    executors: int,
    congested: float = CONGESTED,
    by: By = "etp",
) -> Decision:
    """Add executors and allocate their slots by ETP; running instances stay in place."""
    return slots.scale_out(context, executors, CHOICES[by], congested)


def scale_in(context: Context, executors: int, congested: float = CONGESTED) -> Decision:
    """Remove the executors on whose instances the least throughput depends.

    Executors are removed one by one. The instances of each move to the others, highest ETP first,
    and count there when the next executor is chosen. An instance that finds no free slot is removed
    too, if its pipeline can do without it.
    """
    if executors < 1:
        raise InvalidInput(f"cannot remove {executors} executors; the least is 1")
    plan = context.plan
    if executors >= plan.executors:
        what = f"{executors} of {plan.executors} executors"
        return Decision(None, f"no scale-in: removing {what} would leave none to run on")
    try:
        start = slots.measured(context, congested)
    except NotMeasured as why:
        return Decision(None, f"no scale-in: {why}")
    assert context.latest is not None
    unknown = _unplaced(start.topology, context.latest)
    if unknown is not None:
        return Decision(None, f"no scale-in: {unknown}")
    shares = start.shares(start.topology.pipelines)
    placed = _Placement.of(context, shares)
    said, numbers = [], {f"{n}.etp_sum": placed.sum(n) for n in placed.instances}
    for _ in range(executors):
        leaving = placed.lowest()
        said.append(f"remove {leaving}: its ETP sum {placed.sum(leaving):.2f} is the lowest")
        placed = placed.without(leaving, start.topology)
        if placed.moved:
            where = messages.listed([*dict.fromkeys(placed.moved)], ", ")
            said.append(f"{len(placed.moved)} of its instances move to {where}")
    kept = {p.name: p.parallelism - placed.dropped.count(p.name) for p in plan.pipelines}
    for name in dict.fromkeys(placed.dropped):
        parallelism = plan.pipeline_of(name).parallelism
        said.append(f"{name} {parallelism} -> {kept[name]} instances: no slot left")
    left = replace(plan, executors=plan.executors - executors, leaving=placed.gone)
    return Decision(scaling.with_instances(left, kept), "; ".join(said), numbers)


@dataclass(frozen=True)
class _Placement:
    """Placement of instances while executors are removed.

    gone: executors removed so far; moved: where the instances of the last one went, in order;
    dropped: pipelines of instances that found no slot.
    """

    instances: Mapping[str, Mapping[str, int]]
    free: Mapping[str, int]
    shares: Mapping[str, float]
    gone: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @classmethod
    def of(cls, context: Context, shares: Mapping[str, float]) -> _Placement:
        assert context.latest is not None
        executors = context.latest.executors
        instances = {name: dict(e.instances) for name, e in executors.items()}
        slots_of = {n: context.limits.executor_slots or e.slots for n, e in executors.items()}
        free = {n: max(0, slots_of[n] - sum(instances[n].values())) for n in executors}
        return cls(instances, free, shares)

    def sum(self, executor: str) -> float:
        """Sum of the ETP of the instances on an executor."""
        return sum(self.shares.get(n, 0.0) * count for n, count in self.instances[executor].items())

    def lowest(self) -> str:
        return min(self.instances, key=self.sum)

    def without(self, leaving: str, topology: Topology) -> _Placement:
        """Return the placement after removing an executor."""
        rest = {n: Counter(found) for n, found in self.instances.items() if n != leaving}
        order = sorted(rest, key=self.sum)
        free = {n: self.free[n] for n in rest}
        moved, dropped = [], [*self.dropped]
        # highest ETP first
        homeless = sorted(
            Counter(self.instances[leaving]).elements(), key=lambda n: -self.shares.get(n, 0.0)
        )
        turn = 0
        for name in homeless:
            turns = [order[(turn + i) % len(order)] for i in range(len(order))]
            target = next((n for n in turns if free[n] > 0), None)
            if target is None and self._can_go(name, dropped, topology):
                dropped.append(name)
                continue
            target = target or turns[0]
            turn = order.index(target) + 1
            free[target] = max(0, free[target] - 1)
            rest[target][name] += 1
            moved.append(target)
        return replace(
            self,
            instances=rest,
            free=free,
            gone=(*self.gone, leaving),
            moved=tuple(moved),
            dropped=tuple(dropped),
        )

    def _can_go(self, name: str, dropped: list[str], topology: Topology) -> bool:
        left = topology.pipelines[name].parallelism - dropped.count(name)
        return left > max(1, topology.bounds(name).least)


def _unplaced(topology: Topology, snapshot: Snapshot) -> str | None:
    """Say what is unknown about the placement of instances; None if all is known."""
    if len(snapshot.executors) != topology.plan.executors:
        known = f"{len(snapshot.executors)} of {topology.plan.executors} executors"
        return f"only {known} are known" if snapshot.executors else "no executor was measured"
    seen = {n for e in snapshot.executors.values() for n, count in e.instances.items() if count}
    lost = [name for name in topology.pipelines if name not in seen]
    if lost:
        runs = "runs" if len(lost) == 1 else "run"
        return f"the executors on which {messages.listed(lost, ', ')} {runs} are unknown"
    odd = sorted(seen - set(topology.pipelines))
    if odd:
        return f"executors run {messages.listed(odd, ', ')}, which the plan does not contain"
    return None
