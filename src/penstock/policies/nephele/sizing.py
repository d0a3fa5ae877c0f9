"""Instances and cadences that the pipelines of one latency constraint need.

A row passes the pipelines of a sequence. Of the latency bound, `task` seconds are work; a share of
the rest may be spent waiting in queues, and another share gathering rows for batches. If a sequence
branches, every path must meet the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from penstock.policies.nephele.queue_model import Station, cadence_for, round_up, rounded_cadence
from penstock.policies.shared.rebalance import Allotment, Vertex, p_w, rebalance

_PATHS = 32
"""Maximum number of paths balanced one by one; all others get equal shares."""

_CLOSE = 1.1
"""Acceptable wait if a constraint cannot be met, relative to the least possible."""

_SPARED = 3.0
"""Longest useful cadence, in multiples of the overhead of a batch.

It saves up to two thirds of the overhead of batches without a pause. Longer ones save little more,
cost latency, and cause bursts of work that need more instances in the end.
"""


@dataclass(frozen=True)
class ConstrainedSequence:
    """Pipelines between two operators, upstream first, with the latency bound.

    least, most: bounds on the instances of each; rest: measured seconds that neither work nor waits
    explain, and that no instance saves; jammed: pipelines whose measured wait is distorted by a
    backlog, so that the formula's wait counts if it is longer; overheads: overhead of a batch in
    seconds over several windows, where known.
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
        """Wait before each pipeline, in order, with so many instances."""
        found = []
        for (name, s), a in zip(self.stations.items(), self._curves, strict=True):
            spare = instances[name] - s.load
            found.append(a / spare if spare > 0 else math.inf)
        return found

    @cached_property
    def _curves(self) -> list[float]:
        """Parameter a of W(p) = a / (p - load) for each pipeline."""
        stations = self.stations.items()
        return [max(s.a, s.formula) if name in self.jammed else s.a for name, s in stations]

    @cached_property
    def _inputs(self) -> list[tuple[int, ...]]:
        """For each pipeline, the indices of its upstream pipelines in the sequence."""
        place = {name: at for at, name in enumerate(self.stations)}
        return [tuple(place[up] for up in self.upstream[n] if up in place) for n in place]

    @cached_property
    def _chain(self) -> bool:
        """True if there is only one path."""
        return all(inputs == (at - 1,) for at, inputs in enumerate(self._inputs) if at)

    def heaviest(self, weights: Iterable[float]) -> list[int]:
        """Indices of the stations on the path with the largest sum of weights."""
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
        """Largest sum of weights on a path."""
        return math.fsum(weights[at] for at in self.heaviest(weights))

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.stations)

    @cached_property
    def tasks(self) -> list[float]:
        """Seconds of work in each pipeline."""
        return [s.task for s in self.stations.values()]

    @cached_property
    def length(self) -> int:
        """Number of pipelines on the path with most of them."""
        return len(self.heaviest([1.0] * len(self.stations)))

    @cached_property
    def task(self) -> float:
        """Seconds of work on the path with most of it."""
        return self.longest(self.tasks)

    @cached_property
    def wait(self) -> float:
        """Measured seconds of waiting on the path with the longest waits."""
        return self.longest([s.wait for s in self.stations.values()])

    @property
    def within(self) -> float:
        """Seconds available for work and waits."""
        return self.bound - self.rest

    @property
    def left(self) -> float:
        """Seconds left besides work."""
        return self.within - self.task


@dataclass(frozen=True)
class ConstraintOutcome:
    """Instances and cadences that a constraint needs, and why it cannot be met.

    wait: expected seconds of waiting on the path with the longest waits; None with a bottleneck, or
    if work alone exceeds the bound.
    """

    instances: Mapping[str, int]
    cadences: Mapping[str, float] = field(default_factory=dict)
    trouble: tuple[str, ...] = ()
    wait: float | None = None


def resolve_bottlenecks(
    sequence: ConstrainedSequence, rho_max: float, wait_share: float
) -> ConstraintOutcome | None:
    """Give every bottleneck at least twice its instances; None without a bottleneck.

    Nothing is scaled down meanwhile, because measurements downstream of a bottleneck are too low. A
    bottleneck's own measured wait is of no use either; if Kingman's formula asks for more than
    twice the instances to meet the constraint, it gets those.
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
                f"{s.name} has {s.utilisation:.0%} of the work it can do and already all "
                f"{s.parallelism} instances allowed"
            )
        elif sequence.most[s.name] <= s.load:
            trouble.append(
                f"{s.name} has work for {s.load:.2f} instances, {sequence.most[s.name]} allowed"
            )
    return ConstraintOutcome(wanted, trouble=tuple(trouble))


def _by_formula(sequence: ConstrainedSequence, jammed: Iterable[Station]) -> ConstrainedSequence:
    """Return the sequence with waits by the formula for its bottlenecks.

    A bottleneck that no allowed number of instances resolves is left out when sizing the others.
    """
    hopeless = {s.name: s for s in jammed if sequence.most[s.name] <= s.load}
    freed = {name: replace(s, load=0.0, wait=0.0, formula=0.0) for name, s in hopeless.items()}
    names = frozenset(s.name for s in jammed)
    return replace(sequence, stations={**sequence.stations, **freed}, jammed=names)


def fewest_instances(
    sequence: ConstrainedSequence, wait_share: float, cadence_share: float, tolerance: float = 0.0
) -> ConstraintOutcome:
    """Return the fewest instances that keep waits within their share, and cadences.

    The present instances stay if their waits exceed that by less than the tolerance, and if the
    fewest would save less than that share of them.
    """
    stations = sequence.stations
    if sequence.left <= 0:
        rest = f" and {sequence.rest:.3g} s besides" if sequence.rest else ""
        said = (
            f"its operators take {sequence.task:.3g} s{rest} without any waiting, more than the "
            f"bound of {sequence.bound:.3g} s; no number of instances helps"
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
    """Size the worst path, then the next worst one, until every path meets the bound."""
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
    """True if the present instances are close enough to those wanted."""
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
    """Give each pipeline an equal part of the budget: pessimistic, but always valid."""
    part = budget / sequence.length
    found = {}
    for name, instances in wanted.items():
        needed = p_w(sequence.vertex(name, 1), part) or sequence.most[name]
        found[name] = max(instances, min(sequence.most[name], needed))
    return found


def _why(vertices: list[Vertex], found: Allotment, budget: float) -> Iterator[str]:
    """Yield which pipelines would need more instances than allowed."""
    named = False
    for vertex in vertices:
        others = math.fsum(v.wait(v.most) for v in vertices if v is not vertex)
        needed = p_w(vertex, budget - others) if others < budget else None
        if needed is not None and needed > vertex.most:
            named = True
            yield f"{vertex.name} would need {needed} instances, {vertex.most} allowed"
    if not named:
        yield (
            f"with all instances allowed its rows still wait {found.wait:.3g} s, more than the "
            f"{budget:.3g} s left for waiting"
        )


def _cadences(
    sequence: ConstrainedSequence,
    instances: Mapping[str, int],
    waits: Iterable[float],
    share: float,
) -> Mapping[str, float]:
    """Split the time left for gathering evenly along the longest path.

    A pipeline that works in batches adds the delay that batches cause anyway, but only up to the
    cadence that still saves overhead. The overhead is an average over several windows, because
    window borders cut batches.
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
