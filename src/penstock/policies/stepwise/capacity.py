"""What profiles say: which dataflow is best, and the resources that a load needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.policies.stepwise.profile import Profile, ProfilingRound
from penstock.policies.stepwise.significance import Difference, compare


@dataclass(frozen=True)
class DataflowRank:
    """Rank of a dataflow among equivalent ones; share: of the best throughput."""

    name: str
    throughput: float
    share: float
    slots: int
    rounds: int
    against_best: Difference

    @property
    def per_slot(self) -> float:
        return self.throughput / self.slots


def ranking(profiles: Mapping[str, Profile], level: float = 0.05) -> tuple[DataflowRank, ...]:
    """Rank dataflows by the throughput of their final plans, best first.

    Dataflows without a significant difference from the best are ordered by throughput per instance,
    then by the number of rounds of their profiles.
    """
    if not profiles:
        return ()
    finals = {name: found.final for name, found in profiles.items()}
    top = max(finals.values(), key=lambda final: final.throughput)
    ranks = [
        DataflowRank(
            name,
            final.throughput,
            final.throughput / top.throughput if top.throughput else 1.0,
            final.plan.slots,
            len(profiles[name].rounds),
            compare(top.throughputs, final.throughputs, level),
        )
        for name, final in finals.items()
    ]
    return tuple(sorted(ranks, key=_order))


def _order(rank: DataflowRank) -> tuple[bool, float, int]:
    behind = rank.against_best == "decreased"
    return behind, -rank.throughput if behind else -rank.per_slot, rank.rounds


@dataclass(frozen=True)
class CapacityPoint:
    """Resources, and the throughput that they sustained."""

    executors: int
    slots: int
    throughput: float


@dataclass(frozen=True)
class ResourceNeed:
    """Resources for a throughput; `measured` is False if that exceeds the profile."""

    target: float
    executors: int
    slots: int
    measured: bool


def capacity_table(
    rounds: Iterable[ProfilingRound], late: bool = False
) -> tuple[CapacityPoint, ...]:
    """Best throughput for each number of instances that raised it.

    late: also count rounds that missed their latency bound.
    """
    counted = [r for r in rounds if r.met or late]
    points: list[CapacityPoint] = []
    for r in sorted(counted, key=lambda r: (r.plan.slots, r.plan.executors, -r.throughput)):
        if not points or r.throughput > points[-1].throughput:
            points.append(CapacityPoint(r.plan.executors, r.plan.slots, r.throughput))
    return tuple(points)


def resources_for(
    points: Iterable[CapacityPoint], target: float, executor_slots: int | None = None
) -> ResourceNeed | None:
    """Return the least resources for a throughput; None without points.

    Beyond the largest point, the throughput per instance is assumed to stay the same.
    executor_slots: instances that one executor runs.
    """
    found = sorted(points, key=lambda point: point.slots)
    enough = next((p for p in found if p.throughput >= target), None)
    if enough is not None:
        return ResourceNeed(target, enough.executors, enough.slots, measured=True)
    if not found or found[-1].throughput <= 0:
        return None
    largest = found[-1]
    slots = math.ceil(target * largest.slots / largest.throughput - 1e-9)
    if executor_slots is None:
        executors = math.ceil(largest.executors * slots / largest.slots - 1e-9)
    else:
        executors = max(largest.executors, math.ceil(slots / executor_slots))
    return ResourceNeed(target, executors, slots, measured=False)
