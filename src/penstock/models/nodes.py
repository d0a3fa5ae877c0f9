"""Where instances go: how loaded executors are, how unevenly, and which of them has room.

After Es-Stream's model of resources. Loads are shares between 0 and 1 by resource; a resource
that is not measured is not there, and bounds nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.metrics.snapshot import ExecutorMetrics

Shares = Mapping[str, float]
"""By resource: processor, memory, input and output."""


@dataclass(frozen=True)
class Node:
    """An executor: its load by resource, and its instances by pipeline."""

    name: str
    shares: Shares
    instances: Mapping[str, int]

    @property
    def load(self) -> float:
        """That of the resource which is nearest to its limit."""
        return max(self.shares.values())

    def of_one(self, pipeline: str, work: Mapping[str, float]) -> Shares:
        """What one instance of a pipeline takes of it: by what each of its instances has to do.

        work: shares of the time that an instance is at work, by pipeline. If one is not known,
        or none has anything to do, all of its instances are taken to be alike.
        """
        counts = {name: count for name, count in self.instances.items() if count}
        whole = math.fsum(count * work.get(name, 0.0) for name, count in counts.items())
        if counts.keys() <= work.keys() and whole > 0:
            part = work[pipeline] / whole
        else:
            part = 1 / sum(counts.values())
        return {name: part * share for name, share in self.shares.items()}


def node(executor: ExecutorMetrics, io_capacity: float | None = None) -> Node | None:
    """None if nothing of its load was measured. A slot at work counts like a processor at work.

    Bytes per second become a share by the capacity, if that is given.
    """
    work = [share for share in (executor.cpu, executor.busy) if share is not None]
    shares = {"processor": max(work)} if work else {}
    if executor.memory is not None:
        shares["memory"] = executor.memory
    if executor.io_bytes is not None and io_capacity:
        shares["io"] = executor.io_bytes / io_capacity
    return Node(executor.name, shares, dict(executor.instances)) if shares else None


def skewness(loads: Sequence[float]) -> float:
    """Es-Stream's SK: above 0 most executors are below the mean, below 0 most are above it.

    0 where it is not defined: for fewer than three, and for equal loads.
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
    """Whether an executor stays within its limits with what one more instance takes."""
    return all(
        share + more.get(name, 0.0) <= limits.get(name, 1.0) for name, share in shares.items()
    )


def need(nodes: Iterable[Node], pipeline: str, work: Mapping[str, float]) -> Shares:
    """What one more instance of a pipeline takes: the mean of those it has, where they are.

    work: shares of the time that an instance is at work, by pipeline.
    """
    total: dict[str, float] = {}
    count = 0
    for one in nodes:
        hosted = one.instances.get(pipeline, 0)
        if not hosted:
            continue
        count += hosted
        for name, share in one.of_one(pipeline, work).items():
            total[name] = total.get(name, 0.0) + hosted * share
    return {name: share / count for name, share in total.items()} if count else {}


def place(nodes: Sequence[Node], more: Sequence[Shares], limits: Shares) -> int:
    """How many new instances find no executor: each goes to the least loaded that it fits on.

    `more` is what each of the new ones takes.
    """
    left_over, now = 0, list(nodes)
    for shares in more:
        room = [i for i, one in enumerate(now) if fits(one.shares, shares, limits)]
        if not room:
            left_over += 1
            continue
        at = min(room, key=lambda i: now[i].load)
        grown = {name: share + shares.get(name, 0.0) for name, share in now[at].shares.items()}
        now[at] = replace(now[at], shares=grown)
    return left_over
