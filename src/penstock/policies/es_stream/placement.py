"""Finds executors with room for new instances, by Es-Stream's resource model.

Loads are shares between 0 and 1 by resource. A resource that is not measured bounds nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.metrics.snapshot import ExecutorMetrics

Shares = Mapping[str, float]
"""Share by resource: processor, memory, io."""


@dataclass(frozen=True)
class ExecutorLoad:
    """Load of an executor by resource, and its instances by pipeline."""

    name: str
    shares: Shares
    instances: Mapping[str, int]

    @property
    def load(self) -> float:
        """Share of the most used resource."""
        return max(self.shares.values())

    def of_each(self, work: Mapping[str, float]) -> Mapping[str, float]:
        """Part of the load that one instance of each pipeline on this executor causes.

        work: utilisation of an instance by pipeline. If one is unknown, or all are idle, every
        instance is assumed to cause the same load.
        """
        counts = {name: count for name, count in self.instances.items() if count}
        whole = math.fsum(count * work.get(name, 0.0) for name, count in counts.items())
        if counts.keys() <= work.keys() and whole > 0:
            return {name: work[name] / whole for name in counts}
        return dict.fromkeys(counts, 1 / sum(counts.values())) if counts else {}


def executor_load(
    executor: ExecutorMetrics, io_capacity: float | None = None
) -> ExecutorLoad | None:
    """Read the load of an executor from its metrics; None if nothing was measured.

    A busy slot counts as a busy processor. io_capacity: bytes per second that count as full load.
    """
    work = [share for share in (executor.cpu, executor.busy) if share is not None]
    shares = {"processor": max(work)} if work else {}
    if executor.memory is not None:
        shares["memory"] = executor.memory
    if executor.io_bytes is not None and io_capacity:
        shares["io"] = executor.io_bytes / io_capacity
    return ExecutorLoad(executor.name, shares, dict(executor.instances)) if shares else None


def skewness(loads: Sequence[float]) -> float:
    """Es-Stream's skewness SK of executor loads.

    Positive if most executors are below the mean, negative if most are above it. 0 if it is not
    defined: for fewer than three executors, and for equal loads.
    """
    count = len(loads)
    if count < 3:
        return 0.0
    mean, spread = statistics.fmean(loads), statistics.pstdev(loads)
    if spread <= 1e-9 * max(1.0, abs(mean)):
        return 0.0
    third = math.fsum(((load - mean) / spread) ** 3 for load in loads)
    return count * third / ((count - 1) * (count - 2))


def fits(shares: Shares, more: Shares, limits: Shares) -> bool:
    """True if an executor stays within its limits with one further instance."""
    return all(
        share + more.get(name, 0.0) <= limits.get(name, 1.0) for name, share in shares.items()
    )


def instance_need(
    nodes: Iterable[ExecutorLoad], pipeline: str, work: Mapping[str, float]
) -> Shares:
    """Resource shares that one further instance needs: the mean of present instances.

    work: utilisation of an instance by pipeline.
    """
    return instance_needs(nodes, work).get(pipeline, {})


def instance_needs(
    nodes: Iterable[ExecutorLoad], work: Mapping[str, float]
) -> Mapping[str, Shares]:
    """Return `instance_need` of every pipeline that has an instance somewhere."""
    totals: dict[str, dict[str, float]] = {}
    counts: dict[str, int] = {}
    for one in nodes:
        for pipeline, part in one.of_each(work).items():
            hosted = one.instances[pipeline]
            counts[pipeline] = counts.get(pipeline, 0) + hosted
            total = totals.setdefault(pipeline, {})
            for name, share in one.shares.items():
                total[name] = total.get(name, 0.0) + hosted * (part * share)
    return {
        pipeline: {name: share / counts[pipeline] for name, share in total.items()}
        for pipeline, total in totals.items()
    }


def count_unplaced(
    nodes: Sequence[ExecutorLoad], more: Iterable[tuple[Shares, int]], limits: Shares
) -> int:
    """Count new instances that fit on no executor.

    Each instance goes to the least loaded executor with room. more: the shares that a new instance
    needs, and how many of them there are.
    """
    table = _Loads(nodes, limits)
    left_over = 0
    for shares, count in more:
        taken = table.taken(shares)
        while count > 0:
            placed = table.give(taken, count)
            if not placed:
                left_over += count  # an executor never becomes emptier
                break
            if not taken.any():
                break  # and so do all others that take nothing
            count -= placed
    return left_over


class _Loads:
    """The loads of executors as an array, one row each, one column for each resource.

    A resource that is not measured of an executor bounds nothing there.
    """

    def __init__(self, nodes: Sequence[ExecutorLoad], limits: Shares) -> None:
        self.names = sorted({name for one in nodes for name in one.shares})
        size = len(nodes), len(self.names)
        found = [[one.shares.get(name, -math.inf) for name in self.names] for one in nodes]
        self.shares = np.array(found, dtype=np.float64).reshape(size)
        self.limits = np.array([limits.get(name, 1.0) for name in self.names], dtype=np.float64)
        self.load = self.shares.max(axis=1, initial=-math.inf)

    def taken(self, shares: Shares) -> npt.NDArray[np.float64]:
        return np.array([shares.get(name, 0.0) for name in self.names], dtype=np.float64)

    def give(self, taken: npt.NDArray[np.float64], count: int) -> int:
        """Place up to `count` instances on the least loaded executors; return how many.

        Executors whose loads differ by less than an instance adds get one each before any gets two.
        """
        room = (self.shares + taken <= self.limits).all(axis=1)
        if not room.any():
            return 0
        loads = np.where(room, self.load, math.inf)
        near = np.flatnonzero(loads < loads.min() + taken.min(initial=math.inf))
        at = near[np.argsort(loads[near], kind="stable")][:count]
        if not len(at):  # it needs nothing of some resource
            at = np.array([loads.argmin()])
        self.shares[at] += taken
        self.load[at] = self.shares[at].max(axis=1, initial=-math.inf)
        return len(at)
