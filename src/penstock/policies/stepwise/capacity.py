"""What profiles tell: which of two dataflows is better, and which resources carry which load."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.policies.stepwise.profile import Profile, ProfilingRound
from penstock.policies.stepwise.significance import Difference, compare


@dataclass(frozen=True)
class DataflowRank:
    """A dataflow among logically equivalent ones; share: of the throughput of the best."""

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
    """Dataflows by the throughput of their final plans, the best first.

    Those that do not differ from the best come in the order of their throughput for an instance,
    and then of the rounds that it took to find their plans.
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
    """Resources, and the throughput that they carried."""

    executors: int
    slots: int
    throughput: float


@dataclass(frozen=True)
class ResourceNeed:
    """Resources for a throughput; `measured` is False where that is beyond what was profiled."""

    target: float
    executors: int
    slots: int
    measured: bool


def capacity_table(
    rounds: Iterable[ProfilingRound], late: bool = False
) -> tuple[CapacityPoint, ...]:
    """The best throughput for each number of instances, where more of them carried more.

    Rounds that missed their latency sustain nothing, unless that is no matter: `late`.
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
    """The least resources for a throughput; None without any.

    Beyond the largest point, instances are reckoned by what one of its instances carries, which
    promises no more than was seen. `executor_slots` is how many instances one executor runs.
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
