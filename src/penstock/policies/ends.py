"""The latency constraints of a flow, as they were measured from end to end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

from penstock.control.context import Context
from penstock.dataflow.graph import Constraint
from penstock.metrics import averages
from penstock.metrics.snapshot import Snapshot
from penstock.models import endtoend
from penstock.models.endtoend import EndToEnd
from penstock.models.station import Station
from penstock.models.topology import Topology


class Ends:
    """The constraints with their pipelines.

    held: the pipelines on the way of a constraint that is missed.
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
        """The last that is known of a constraint; None where nothing was measured."""
        found = [s.latency[constraint.name] for s in snapshots if constraint.name in s.latency]
        if not found:
            return None
        names, upstream = self.sequences[constraint], self.topology.upstream
        parts = endtoend.explained(names, upstream, self._times(constraint.window))
        return EndToEnd(constraint.latency, found[-1].mean, parts)

    def _times(self, window: float) -> Mapping[str, float]:
        """Seconds in each pipeline, over the time for which a constraint looks back."""
        if window not in self.times:
            every = averages.settled(self.context.snapshots, -math.inf)
            measured = averages.pipelines(averages.since(every, every[-1].at - window))
            self.times[window] = {
                n: endtoend.passed(measured.get(n)) for n in self.topology.pipelines
            }
        return self.times[window]

    def steady(self, constraint: Constraint, stations: Mapping[str, Station], most: float) -> bool:
        """Whether what was measured is what the plan in force takes, and nothing from before."""
        names, shots = self.sequences[constraint], self.context.snapshots
        recent = (s for s in shots if s.at > shots[-1].at - constraint.window)
        return all(s.settled for s in recent) and not any(
            stations[n].backlog or stations[n].utilisation >= most or averages.drained(shots, n)
            for n in names
        )

    def read_write(self, constraint: Constraint) -> bool:
        """Whether one of its operators is asked for the time from a read to the next write."""
        return any(name in self._declared for name in self.sequences[constraint])

    def declared(self, constraint: Constraint) -> float:
        """Seconds from reads to writes, by the dataflow itself."""
        if not self.read_write(constraint):
            return 0.0
        names, upstream = self.sequences[constraint], self.topology.upstream
        times = {n: 0.0 if self._held(n) else self._declared.get(n, 0.0) for n in names}
        return endtoend.explained(names, upstream, times)

    @cached_property
    def _declared(self) -> Mapping[str, float]:
        """The same by pipeline, for those that have an operator which is asked for it."""
        graph, found = self.context.graph, {}
        for name, pipeline in self.topology.pipelines.items():
            operators = [graph[operator] for operator in pipeline.operators]
            if endtoend.read_write(operators):
                found[name] = endtoend.declared(operators)
        return found

    def _held(self, name: str) -> bool:
        """Whether what a pipeline measures is the time to its output, windows and all."""
        assert self.context.latest is not None
        metrics = self.context.latest.pipelines.get(name)
        return metrics is not None and metrics.batch_seconds is not None and not metrics.in_batches
