"""The state of an adaptation: what is profiled, what is on trial, what has failed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from penstock.dataflow.graph import Graph
from penstock.dataflow.operator import State
from penstock.dataflow.regions import regions
from penstock.metrics.snapshot import Snapshot
from penstock.models import readings
from penstock.models.attempts import Configuration, configuration
from penstock.models.failures import Failure
from penstock.models.readings import Readings
from penstock.models.trials import Trial
from penstock.plan.plan import Plan


@dataclass(frozen=True)
class Ground:
    """What stays the same for a run: the groups of operators that belong together.

    homes: for each operator the groups it is in. A group is a region, with the sinks that read
    it, or a pipeline of the plan that the flow was started with.
    """

    groups: tuple[tuple[str, ...], ...]
    homes: Mapping[str, tuple[frozenset[str], ...]]


def ground(graph: Graph, plan: Plan) -> Ground:
    """The ground of a flow that starts with a plan."""
    found = [(*r.operators, *_sinks_of(graph, r.operators[-1])) for r in regions(graph)]
    groups = tuple(dict.fromkeys([*found, *(p.operators for p in plan.pipelines)]))
    homes: dict[str, tuple[frozenset[str], ...]] = {}
    for group in groups:
        home = frozenset(group)
        for name in group:
            homes[name] = (*homes.get(name, ()), home)
    return Ground(groups, homes)


def _sinks_of(graph: Graph, name: str) -> tuple[str, ...]:
    return tuple(n for n in graph.successors[name] if graph[n].state is State.SINK)


@dataclass(frozen=True)
class Memory:
    """What the organic policy knows from one turn to the next.

    expected: the plan that should be in force; since: when that was decided;
    profile: what was measured of it; trial: what has to prove itself; failed: what did not;
    calm: profiles in a row after which something could have been given back; before: what to go
    back to if the last decision is not carried out.
    """

    ground: Ground
    expected: Configuration
    since: float = -math.inf
    profile: Readings | None = None
    trial: Trial | None = None
    failed: tuple[Failure, ...] = ()
    calm: int = 0
    before: Memory | None = None


def begun(graph: Graph, plan: Plan) -> Memory:
    """Nothing known yet."""
    return Memory(ground(graph, plan), configuration(plan.pipelines))


def followed(memory: Memory, plan: Plan, now: float) -> Memory:
    """The memory under the plan in force, which may be another than was decided.

    A decision that was not carried out is taken back, and comes again after another profile.
    Whatever else changed the plan makes everything known about it worthless.
    """
    found = configuration(plan.pipelines)
    if found == memory.expected:
        return replace(memory, before=None)
    if memory.before is not None and found == memory.before.expected:
        return replace(memory.before, profile=None, since=now)
    return Memory(memory.ground, found, now)


def profiled(
    memory: Memory, snapshot: Snapshot, plan: Plan, share: float, whole: bool = False
) -> Memory:
    """The memory with one more snapshot in its profile, read as a `whole` or by its rows."""
    new = readings.read(snapshot, plan, whole)
    old = memory.profile
    if old is None:
        return replace(memory, profile=new)
    return memory if new.at <= old.at else replace(memory, profile=readings.blend(old, new, share))


def changed(
    memory: Memory, plan: Plan, now: float, trial: Trial | None, failed: Iterable[Failure]
) -> Memory:
    """The memory after a decision for a plan."""
    return Memory(
        memory.ground,
        configuration(plan.pipelines),
        now,
        trial=trial,
        failed=tuple(failed),
        before=replace(memory, before=None),
    )
