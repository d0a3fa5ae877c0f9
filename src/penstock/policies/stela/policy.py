"""Stela: on demand, more instances where they raise throughput most, fewer where they do least.

What counts is the share of the throughput of all sinks that depends on a pipeline, its effective
throughput percentage (`models/etp.py`).
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
    """More executors where they raise throughput most, fewer where they do least, when asked.

    congested: rows that come for each row processed above which a pipeline is congested;
    automatic: give congested pipelines one more instance after the other without being asked, and
    take those back that had nothing to do for `calm` seconds; by: who gets one, the pipeline with
    the highest ETP, the one with the highest expected gain, or one after the other in the order of
    a strategy to compare with; catch_up: seconds in which rows that wait are to be worked off by
    those that stay.
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
            return Decision(None, "stela waits to be asked for a scale-out or a scale-in"), memory
        try:
            start = slots.measured(context, self.congested)
        except NotMeasured as why:
            return Decision(None, str(why)), memory
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
        """More executors, as they were asked for, by the settings of this policy."""
        return scale_out(context, executors, self.congested, self.by)

    def scale_in(self, context: Context, executors: int) -> Decision:
        """Fewer executors, likewise."""
        return scale_in(context, executors, self.congested)


def by_etp(growth: SlotAllocation, memory: EtpTable | None) -> tuple[str | None, EtpTable]:
    """The congested pipeline with the highest ETP; where nothing is congested, a source.

    Of equals the most congested comes first, of sources the one with fewest instances. Memory:
    how the pipelines stood before the last slot.
    """
    ranked, standing = _ranked(growth, memory, 1)
    return next(iter(ranked), None), standing


def by_gain(growth: SlotAllocation, memory: EtpTable | None) -> tuple[str | None, EtpTable]:
    """As `by_etp`, but whose one more instance is expected to raise throughput most.

    A large share of the throughput may depend on a pipeline that one instance hardly makes
    faster. Of equals the highest ETP comes first, and only the highest are tried, as long as more
    can be hoped for.
    """
    able, standing = _ranked(growth, memory, _TRIED)
    if len(able) < 2:
        return next(iter(able), None), standing
    hoped = dict(zip(able, growth.hoped(able), strict=True))
    found: dict[str, float] = {}
    for name in sorted(able, key=lambda name: hoped[name], reverse=True):
        if found and _rounded(hoped[name] * (1 + _SLACK)) < max(found.values()):
            break
        found[name] = _rounded(growth.give(name).ledger.throughput)
    return max((name for name in able if name in found), key=lambda name: found[name]), standing


CHOICES: Mapping[str, Choice] = {
    "etp": by_etp,
    "gain": by_gain,
    **{name: strategies.by(ranking) for name, ranking in RANKINGS.items()},
}

_WORDS = {"etp": "ETP", "gain": "expected gain"}

_TRIED = 32

_SLACK = 1e-10
"""Share of a throughput by which rounding may have lowered what is hoped for."""


def _rounded(throughput: float) -> float:
    """What rounding adds is no gain."""
    return float(f"{throughput:.9g}")


def _ranked(
    growth: SlotAllocation, memory: EtpTable | None, count: int
) -> tuple[list[str], EtpTable]:
    """The congested pipelines that have room, or else the sources, those that count most first."""
    ledger = growth.ledger
    standing = memory.after(ledger) if memory else EtpTable.of(ledger)
    if 1 in ledger.congested:
        found = standing.congested(growth.open, count)
    else:
        found = standing.sources(growth.open, growth.many, count)
    return [ledger.wiring.names[at] for at in found], standing


def scale_out(
    context: Context,
    executors: int,
    congested: float = CONGESTED,
    by: By = "etp",
) -> Decision:
    """Add executors, and give their slots to whom they help most; what runs stays where it is."""
    return slots.scale_out(context, executors, CHOICES[by], congested)


def scale_in(context: Context, executors: int, congested: float = CONGESTED) -> Decision:
    """Remove the executors on whose instances the least throughput depends.

    One after the other: the instances of the one that goes move to the rest in turn, in order of
    what depends on them, and count there when the next is chosen. An instance that finds no free
    slot goes too, if its pipeline can do without it.
    """
    if executors < 1:
        raise InvalidInput(f"cannot remove {executors} executors; ask for at least 1")
    plan = context.plan
    if executors >= plan.executors:
        what = f"{executors} of {plan.executors} executors"
        return Decision(None, f"no scale-in: without {what} nothing is left to run on")
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
        said.append(f"{leaving} goes, ETP sum {placed.sum(leaving):.2f} is the lowest")
        placed = placed.without(leaving, start.topology)
        if placed.moved:
            where = messages.listed([*dict.fromkeys(placed.moved)], ", ")
            said.append(f"{len(placed.moved)} of its instances move to {where}")
    kept = {p.name: p.parallelism - placed.dropped.count(p.name) for p in plan.pipelines}
    for name in dict.fromkeys(placed.dropped):
        parallelism = plan.pipeline_of(name).parallelism
        said.append(f"no slot left: {name} {parallelism} -> {kept[name]}")
    left = replace(plan, executors=plan.executors - executors, leaving=placed.gone)
    return Decision(scaling.with_instances(left, kept), "; ".join(said), numbers)


@dataclass(frozen=True)
class _Placement:
    """Which instances are where while executors leave.

    gone: the executors that have left; moved: where instances of the last of these went, one
    after the other; dropped: the pipelines of instances that found no slot.
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
        """How much throughput depends on the instances of an executor, added up."""
        return sum(self.shares.get(n, 0.0) * count for n, count in self.instances[executor].items())

    def lowest(self) -> str:
        return min(self.instances, key=self.sum)

    def without(self, leaving: str, topology: Topology) -> _Placement:
        """The executors after one has left."""
        rest = {n: Counter(found) for n, found in self.instances.items() if n != leaving}
        order = sorted(rest, key=self.sum)
        free = {n: self.free[n] for n in rest}
        moved, dropped = [], [*self.dropped]
        # what most depends on finds a slot first
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
    """What is not known of where instances run; None if all is."""
    if len(snapshot.executors) != topology.plan.executors:
        known = f"{len(snapshot.executors)} of {topology.plan.executors} executors"
        return f"only {known} are known" if snapshot.executors else "no executor was measured"
    seen = {n for e in snapshot.executors.values() for n, count in e.instances.items() if count}
    lost = [name for name in topology.pipelines if name not in seen]
    if lost:
        runs = "runs" if len(lost) == 1 else "run"
        return f"it is not known on which executors {messages.listed(lost, ', ')} {runs}"
    odd = sorted(seen - set(topology.pipelines))
    if odd:
        return f"executors run {messages.listed(odd, ', ')}, which is no pipeline of the plan"
    return None
