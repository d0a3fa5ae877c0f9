"""Latency constraints: measured end-to-end latency, and the share explained.

Waits and work of the pipelines may not add up to the end-to-end latency: an operator may hold rows
until its next write, or something takes time that is not measured. Instances do not shorten that
rest, so it counts as work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from penstock.dataflow import duration
from penstock.dataflow.graph import Constraint
from penstock.dataflow.operators import Aggregate, Latency, Operator
from penstock.metrics import windows
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.policies.base.policy import Context
from penstock.policies.nephele.queue_model import Station
from penstock.policies.shared.topology import Topology

_DIGITS = 1e-6


@dataclass(frozen=True)
class EndToEnd:
    """Bound, measured latency, and seconds that pipelines explain, of a constraint."""

    bound: float
    mean: float
    explained: float

    @property
    def missed(self) -> bool:
        return self.mean > self.bound

    @property
    def rest(self) -> float:
        """Seconds that the pipelines do not explain, ignoring rounding errors."""
        rest = self.mean - self.explained
        return rest if rest > _DIGITS * self.mean else 0.0


def seconds_in_pipeline(metrics: PipelineMetrics | None) -> float:
    """Measured seconds from arrival to output in a pipeline."""
    if metrics is None:
        return 0.0
    worked = metrics.service if metrics.batch_seconds is None else metrics.batch_seconds
    return (metrics.wait or 0.0) + (worked or 0.0)


def longest_path(
    names: Iterable[str],
    upstream: Mapping[str, tuple[str, ...]],
    seconds: Mapping[str, float],
) -> float:
    """Largest sum of seconds on a path through pipelines, which are upstream first."""
    longest: dict[str, float] = {}
    for name in names:
        before = (longest[up] for up in upstream[name] if up in longest)
        longest[name] = max(before, default=0.0) + seconds[name]
    return max(longest.values(), default=0.0)


def read_write(operators: Iterable[Operator]) -> bool:
    """True if one of the operators has read-to-write latency."""
    return any(one.latency is Latency.READ_WRITE for one in operators)


def declared_seconds(operators: Iterable[Operator]) -> float:
    """Seconds from read to write that follow from the dataflow: from its windows.

    A row waits on average for half a window, or half its slide, and then for the watermark. For
    other operators the time is unknown.
    """
    return math.fsum(_window(one.body) for one in operators if one.latency is Latency.READ_WRITE)


def _window(body: object) -> float:
    if not isinstance(body, Aggregate) or body.window is None or body.emit != "final":
        return 0.0
    step = body.window.slide or body.window.size
    return duration.seconds(step) / 2 + duration.seconds(body.window.watermark or 0)


class MeasuredConstraints:
    """All constraints with their pipelines and measured latencies.

    held: pipelines on the path of a constraint that is missed; they must not be scaled down.
    """

    def __init__(
        self,
        context: Context,
        topology: Topology,
        sequences: Mapping[Constraint, tuple[str, ...]],
        snapshots: Sequence[Snapshot],
    ) -> None:
        self.context, self.topology, self.sequences = context, topology, sequences
        self.times: dict[float, Mapping[str, float]] = {}
        self.ends = {c: self._end(c, snapshots) for c in sequences}
        self.held = frozenset(
            n
            for c, end in self.ends.items()
            if end is not None and end.missed
            for n in sequences[c]
        )

    def _end(self, constraint: Constraint, snapshots: Sequence[Snapshot]) -> EndToEnd | None:
        """Latest end-to-end latency of a constraint; None if not measured."""
        found = [s.latency[constraint.name] for s in snapshots if constraint.name in s.latency]
        if not found:
            return None
        names, upstream = self.sequences[constraint], self.topology.upstream
        parts = longest_path(names, upstream, self._times(constraint.window))
        return EndToEnd(constraint.latency, found[-1].mean, parts)

    def _times(self, window: float) -> Mapping[str, float]:
        """Seconds in each pipeline, averaged over the window of a constraint."""
        if window not in self.times:
            every = windows.settled_after(self.context.snapshots, -math.inf)
            measured = windows.pipeline_averages(windows.since(every, every[-1].at - window))
            self.times[window] = {
                n: seconds_in_pipeline(measured.get(n)) for n in self.topology.pipelines
            }
        return self.times[window]

    def steady(self, constraint: Constraint, stations: Mapping[str, Station], most: float) -> bool:
        """True if the measurement is of the plan in force, without older backlogs."""
        names, shots = self.sequences[constraint], self.context.snapshots
        recent = (s for s in shots if s.at > shots[-1].at - constraint.window)
        return all(s.settled for s in recent) and not any(
            stations[n].backlog or stations[n].utilisation >= most or windows.drained(shots, n)
            for n in names
        )

    def read_write(self, constraint: Constraint) -> bool:
        """True if an operator of the constraint has read-to-write latency."""
        return any(name in self._declared for name in self.sequences[constraint])

    def declared(self, constraint: Constraint) -> float:
        """Seconds from read to write that follow from the dataflow."""
        if not self.read_write(constraint):
            return 0.0
        names, upstream = self.sequences[constraint], self.topology.upstream
        times = {n: 0.0 if self._held(n) else self._declared.get(n, 0.0) for n in names}
        return longest_path(names, upstream, times)

    @cached_property
    def _declared(self) -> Mapping[str, float]:
        """Declared seconds by pipeline; only pipelines with a read-to-write operator."""
        graph, found = self.context.graph, {}
        for name, pipeline in self.topology.pipelines.items():
            operators = [graph[operator] for operator in pipeline.operators]
            if read_write(operators):
                found[name] = declared_seconds(operators)
        return found

    def _held(self, name: str) -> bool:
        """True if the measured time of a pipeline already includes its windows."""
        assert self.context.latest is not None
        metrics = self.context.latest.pipelines.get(name)
        return metrics is not None and metrics.batch_seconds is not None and not metrics.in_batches
