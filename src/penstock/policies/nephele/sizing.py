"""One latency constraint: how many instances and which cadences its pipelines need.

A row goes through the pipelines of a sequence. Of the time asked for, `task` seconds are spent at
work; of what is left a share may be waited in queues and the rest gathered for batches. Where a
sequence branches, every path is a sequence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from penstock.policies.nephele.queue_model import Station, cadence_for, round_up, rounded_cadence
from penstock.policies.shared.rebalance import Allotment, Vertex, p_w, rebalance

_PATHS = 32
"""So many paths of one sequence are balanced one by one; behind that, all get equal shares."""

_CLOSE = 1.1
"""Where a constraint cannot be met, so near to the least possible wait is near enough."""

_SPARED = 3.0
"""Batches so many times as far apart as their overhead is long spare up to two thirds of what it
takes where they follow one another. Longer ones spare little more, cost latency, and have more work
come at once, for which there are more instances in the end."""


@dataclass(frozen=True)
class ConstrainedSequence:
    """The pipelines between two operators, each after all that feed it, and the time asked for.

    least and most: the instances that each may have; rest: seconds that were measured beside the
    work and the waits of its pipelines, and that no instance takes away; jammed: pipelines whose
    measured wait says nothing, so that the formula's counts if it is longer; overheads: seconds
    that a batch takes beside its rows over more than the last window, where that is known.
    """

    name: str
    bound: float
    stations: Mapping[str, Station]
    upstream: Mapping[str, tuple[str, ...]]
    least: Mapping[str, int]
    most: Mapping[str, int]
    rest: float = 0.0
    jammed: frozenset[str] = frozenset()
    overheads: Mapping[str, float] = field(default_factory=dict)

    def vertex(self, name: str, least: int) -> Vertex:
        return self.stations[name].vertex(least, self.most[name], name in self.jammed)

    def waits(self, instances: Mapping[str, int]) -> list[float]:
        """The wait before each pipeline, in order, with so many instances."""
        found = []
        for (name, s), a in zip(self.stations.items(), self._curves, strict=True):
            spare = instances[name] - s.load
            found.append(a / spare if spare > 0 else math.inf)
        return found

    @cached_property
    def _curves(self) -> list[float]:
        """The a of W(p) = a / (p - load) of each."""
        stations = self.stations.items()
        return [max(s.a, s.formula) if name in self.jammed else s.a for name, s in stations]

    @cached_property
    def _inputs(self) -> list[tuple[int, ...]]:
        """Where those stand that feed each, as far as they are part of it."""
        place = {name: at for at, name in enumerate(self.stations)}
        return [tuple(place[up] for up in self.upstream[n] if up in place) for n in place]

    @cached_property
    def _chain(self) -> bool:
        """Whether there is no path but one."""
        return all(inputs == (at - 1,) for at, inputs in enumerate(self._inputs) if at)

    def heaviest(self, weights: Iterable[float]) -> list[int]:
        """The path with the largest sum of weights, as places in the order of the stations."""
        if self._chain:
            return list(range(len(self.stations)))  # weights are 0 or more
        totals: list[float] = []
        before: list[int] = []
        for weight, inputs in zip(weights, self._inputs, strict=True):
            if not inputs:
                before.append(-1)
                totals.append(weight)
                continue
            up = inputs[0] if len(inputs) == 1 else max(inputs, key=totals.__getitem__)
            before.append(up)
            totals.append(totals[up] + weight)
        at = totals.index(max(totals))
        path: list[int] = []
        while at >= 0:
            path.append(at)
            at = before[at]
        return path[::-1]

    def longest(self, weights: list[float]) -> float:
        """The largest sum of weights on a path."""
        return math.fsum(weights[at] for at in self.heaviest(weights))

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.stations)

    @cached_property
    def tasks(self) -> list[float]:
        """Seconds at work in each."""
        return [s.task for s in self.stations.values()]

    @cached_property
    def length(self) -> int:
        """Pipelines on the path that has most."""
        return len(self.heaviest([1.0] * len(self.stations)))

    @cached_property
    def task(self) -> float:
        """Seconds at work on the longest path."""
        return self.longest(self.tasks)

    @cached_property
    def wait(self) -> float:
        """Seconds of waiting on the path that waits longest, as measured."""
        return self.longest([s.wait for s in self.stations.values()])

    @property
    def within(self) -> float:
        """Seconds for the work and the waits of its pipelines."""
        return self.bound - self.rest

    @property
    def left(self) -> float:
        """Seconds that are left beside the work."""
        return self.within - self.task


@dataclass(frozen=True)
class ConstraintOutcome:
    """What a constraint needs, and what stands against it.

    wait: the seconds of waiting that the model expects on the path that waits longest; None
    where it was not asked, because of a bottleneck or of too little time.
    """

    instances: Mapping[str, int]
    cadences: Mapping[str, float] = field(default_factory=dict)
    trouble: tuple[str, ...] = ()
    wait: float | None = None


def resolve_bottlenecks(
    sequence: ConstrainedSequence, rho_max: float, wait_share: float
) -> ConstraintOutcome | None:
    """At least twice the instances for every bottleneck; None if there is none.

    While there is one, what is measured behind it is not what will come, so nothing shrinks. Nor
    is what a bottleneck waits; if the formula alone asks for more than twice its instances for a
    constraint, it gets those, as it would have got them just before it became one.
    """
    jammed = [s for s in sequence.stations.values() if s.utilisation >= rho_max]
    if not jammed:
        return None
    wanted = {
        s.name: max(s.parallelism, sequence.least[s.name]) for s in sequence.stations.values()
    }
    if sequence.left > 0:
        asked, _ = _instances(_by_formula(sequence, jammed), wait_share)
        wanted = {name: max(instances, asked[name]) for name, instances in wanted.items()}
    trouble = []
    for s in jammed:
        needed = max(2 * s.parallelism, round_up(2 * s.load), wanted[s.name])
        wanted[s.name] = max(s.parallelism, min(sequence.most[s.name], needed))
        if wanted[s.name] == s.parallelism:
            trouble.append(
                f"{s.name} gets {s.utilisation:.2f} of the work it can do and already has the "
                f"{s.parallelism} instances it may have"
            )
        elif sequence.most[s.name] <= s.load:
            trouble.append(
                f"{s.name} has work for {s.load:.2f} instances and may have {sequence.most[s.name]}"
            )
    return ConstraintOutcome(wanted, trouble=tuple(trouble))


def _by_formula(sequence: ConstrainedSequence, jammed: Iterable[Station]) -> ConstrainedSequence:
    """The sequence with the formula's waits where it is jammed.

    Where no number of instances that is allowed carries the load, the others are sized without it.
    """
    hopeless = {s.name: s for s in jammed if sequence.most[s.name] <= s.load}
    freed = {name: replace(s, load=0.0, wait=0.0, formula=0.0) for name, s in hopeless.items()}
    names = frozenset(s.name for s in jammed)
    return replace(sequence, stations={**sequence.stations, **freed}, jammed=names)


def fewest_instances(
    sequence: ConstrainedSequence, wait_share: float, cadence_share: float, tolerance: float = 0.0
) -> ConstraintOutcome:
    """The fewest instances that keep the waits within their share, and cadences for the rest.

    What there is stays if it waits longer than that by less than the tolerance, and if fewer
    instances would save less than that share of them.
    """
    stations = sequence.stations
    if sequence.left <= 0:
        beside = f", with {sequence.rest:.3g} s measured beside that" if sequence.rest else ""
        said = (
            f"even without any waiting the operators alone take {sequence.task:.3g} s{beside}, "
            f"more than the {sequence.bound:.3g} s asked for; no number of instances helps"
        )
        held = {
            n: min(max(s.parallelism, sequence.least[n]), sequence.most[n])
            for n, s in stations.items()
        }
        return ConstraintOutcome(
            held, dict.fromkeys(stations, 0.0) if cadence_share else {}, (said,)
        )
    wanted, trouble = _instances(sequence, wait_share)
    if not trouble and _will_do(sequence, wanted, wait_share, tolerance):
        wanted = {name: s.parallelism for name, s in stations.items()}
    waits = sequence.waits(wanted)
    cadences = _cadences(sequence, wanted, waits, cadence_share) if cadence_share else {}
    return ConstraintOutcome(wanted, cadences, trouble, sequence.longest(waits))


def _instances(
    sequence: ConstrainedSequence, share: float
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Balance the worst path, then the one that is worst now, until none is too long."""
    stations = sequence.stations
    wanted = {name: min(sequence.least[name], sequence.most[name]) for name in stations}

    for _ in range(_PATHS):
        waits = sequence.waits(wanted)
        path = sequence.heaviest(
            wait + share * task for wait, task in zip(waits, sequence.tasks, strict=True)
        )
        budget = share * (sequence.within - math.fsum(sequence.tasks[at] for at in path))
        if math.fsum(waits[at] for at in path) <= budget:
            return wanted, ()
        names = [sequence.names[at] for at in path]
        vertices = [sequence.vertex(name, wanted[name]) for name in names]
        found = rebalance(vertices, budget)
        if not found.met:
            wanted |= rebalance(vertices, _CLOSE * found.wait).instances
            return wanted, tuple(_why(vertices, found, budget))
        wanted |= found.instances
    return _evenly(sequence, wanted, share * sequence.left), ()


def _will_do(
    sequence: ConstrainedSequence, wanted: Mapping[str, int], share: float, tolerance: float
) -> bool:
    """Whether the instances there are come near enough to those that are wanted."""
    stations = sequence.stations
    held = {name: s.parallelism for name, s in stations.items()}
    if any(held[n] < sequence.least[n] for n in held):
        return False
    if sum(wanted.values()) < (1 - tolerance) * sum(held.values()):
        return False
    weights = [s.wait + share * (1 + tolerance) * s.task for s in stations.values()]
    return sequence.longest(weights) <= share * (1 + tolerance) * sequence.within


def _evenly(
    sequence: ConstrainedSequence, wanted: Mapping[str, int], budget: float
) -> dict[str, int]:
    """Each pipeline its part of the budget: too careful, but enough for any number of paths."""
    part = budget / sequence.length
    found = {}
    for name, instances in wanted.items():
        needed = p_w(sequence.vertex(name, 1), part) or sequence.most[name]
        found[name] = max(instances, min(sequence.most[name], needed))
    return found


def _why(vertices: list[Vertex], found: Allotment, budget: float) -> Iterator[str]:
    """Who stands in the way; with all at their most, each may be the only one."""
    named = False
    for vertex in vertices:
        others = math.fsum(v.wait(v.most) for v in vertices if v is not vertex)
        needed = p_w(vertex, budget - others) if others < budget else None
        if needed is not None and needed > vertex.most:
            named = True
            yield f"{vertex.name} would need {needed} instances, it may have {vertex.most}"
    if not named:
        yield (
            f"with all the instances they may have its pipelines still wait {found.wait:.3g} s, "
            f"more than the {budget:.3g} s left for it"
        )


def _cadences(
    sequence: ConstrainedSequence,
    instances: Mapping[str, int],
    waits: Iterable[float],
    share: float,
) -> Mapping[str, float]:
    """What is left for gathering, in equal parts for the pipelines of the longest path.

    A pipeline that works in batches may take that in addition to what batches cost anyway, but
    only as long as it spares something of that. What batches cost is by more than one window: a
    window cuts batches in two, and a cadence would follow where.
    """
    part = share * sequence.left / sequence.length
    found = {}
    for (name, s), wait in zip(sequence.stations.items(), waits, strict=True):
        overhead = sequence.overheads.get(name, s.overhead) if s.overhead else 0.0
        usual = overhead / 2 + wait
        rho = s.load / instances[name]
        found[name] = cadence_for(part + (usual if overhead else 0.0), rho)
        if overhead:
            found[name] = min(found[name], rounded_cadence(_SPARED * overhead))
    return found
