"""Latency guarantees with the fewest instances, after Nephele's reactive strategy.

For every constraint: a bottleneck gets at least twice its instances; without one, a queueing model
fitted to what was measured says which are the fewest instances that keep the waits within a fifth
of the time that is left beside the work. The other four fifths are spent on cadence: gathering
rows costs latency, which there is, and saves work. Constraints are met one after the other, later
ones only raise, and all that is carried out together. Where more was measured from end to end than
the model explains, the rest counts as work; while a constraint is missed, nothing on its way
becomes less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal

from penstock.dataflow import duration
from penstock.dataflow.graph import Constraint
from penstock.errors import InvalidInput
from penstock.metrics import windows
from penstock.metrics.snapshot import PipelineMetrics
from penstock.plan.decision import GAIN_SECONDS, Decision
from penstock.plan.plan import Plan
from penstock.policies.base import messages
from penstock.policies.base.policy import Context
from penstock.policies.nephele import queue_model as crowding
from penstock.policies.nephele.constraints import MeasuredConstraints
from penstock.policies.nephele.queue_model import Station, fitted_station, missing, round_up
from penstock.policies.nephele.sizing import (
    ConstrainedSequence,
    ConstraintOutcome,
    fewest_instances,
    resolve_bottlenecks,
)
from penstock.policies.shared import rates, scaling
from penstock.policies.shared.rebalance import spread
from penstock.policies.shared.topology import Topology


@dataclass(frozen=True)
class LatencyMemory:
    """When the policy has looked last, until when it keeps still, and what proved too little.

    plan: what was decided then; too_few: instances by pipeline that were not enough, with the
    load for which they were not; overheads: what batches took beside their rows; rests: seconds
    that each constraint was seen to take beside work and waits, 0 where that does not count.
    """

    at: float = -math.inf
    still: float = -math.inf
    plan: Plan | None = None
    too_few: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    overheads: Mapping[str, crowding.Overheads] = field(default_factory=dict)
    rests: Mapping[str, float] = field(default_factory=dict)
    version: Literal[1] = 1


@dataclass(frozen=True)
class LatencyPolicy:
    """Meet latency constraints with as few instances as possible.

    adjust: seconds between two looks; inactive: so many of them nothing is done after instances
    were added; wait_share: share of the time beside the work that may be waited, cadence_share:
    share that may be gathered (0 leaves cadences alone); rho_max: utilisation from which a
    pipeline is a bottleneck, rho_target: the highest that is planned for; tolerance: instances
    that would wait or save so little more than wanted stay; hysteresis: a cadence that would
    move by less stays; load_drop: instances that proved too few are not tried again
    until the load is lower by that share; catch_up: seconds in which a backlog is to be worked
    off; most: instances of a pipeline that nothing else bounds.
    """

    adjust: float = 5.0
    inactive: int = 2
    wait_share: float = 0.2
    cadence_share: float = 0.8
    rho_max: float = 0.95
    rho_target: float = 0.85
    tolerance: float = 0.1
    hysteresis: float = 0.2
    load_drop: float = 0.1
    catch_up: float = 30.0
    most: int = 1000

    name = "latency"
    memory_type = LatencyMemory

    def __post_init__(self) -> None:
        for one in fields(self):
            if not getattr(self, one.name) >= 0:
                raise InvalidInput(f"latency: {one.name} is {getattr(self, one.name)}, below 0")
        if not self.wait_share > 0 or self.wait_share + self.cadence_share > 1 + 1e-9:
            raise InvalidInput(
                f"latency: wait_share {self.wait_share} is above 0, and with cadence_share "
                f"{self.cadence_share} it is 1 at most"
            )
        if not 0 < self.rho_target <= self.rho_max <= 1:
            raise InvalidInput(
                f"latency: rho_target {self.rho_target} is above 0 and not above rho_max "
                f"{self.rho_max}, which is 1 at most"
            )
        if not self.most >= 1 or self.catch_up == 0:
            raise InvalidInput("latency: most is 1 or more, catch_up is above 0")

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        before = memory or LatencyMemory()
        constraints = context.graph.constraints
        if not constraints:
            return Decision(None, "the dataflow has no latency constraint to meet"), before
        why = self._still(context, before)
        if why is not None:
            return Decision(None, why), before
        snapshots = windows.settled_after(
            context.snapshots, max(before.at, context.now - self._span)
        )
        if not snapshots:
            return Decision(None, "no settled measurement since the last look"), before
        topology = Topology(context.graph, context.plan)
        sequences = {c: topology.between(c.first, c.last) for c in constraints}
        concerned = dict.fromkeys(n for names in sequences.values() for n in names)
        measured = windows.pipeline_averages(windows.since(snapshots, context.now - self._span))
        lacking = {n: missing(measured.get(n)) for n in concerned}
        if any(lacking.values()):
            told = messages.listed([f"{', '.join(m)} of {n}" for n, m in lacking.items() if m])
            return Decision(None, f"not measured: {told}"), before
        stations = {
            n: self._station(m, context)
            for n, m in _all_that_comes(topology, measured).items()
            if n in concerned
        }
        seen = MeasuredConstraints(context, topology, sequences, snapshots)
        return _Adjustment(self, context, topology, stations, seen, before).result()

    @property
    def _span(self) -> float:
        return max(self.adjust, 1e-9)

    def _still(self, context: Context, memory: LatencyMemory) -> str | None:
        """Why it is too early to look."""
        if context.now < memory.still and context.plan == memory.plan:
            left = memory.still - context.now
            return f"instances were added; their effect is awaited for another {left:.1f} s"
        if context.now - memory.at < self.adjust:
            return f"the next look is in {memory.at + self.adjust - context.now:.1f} s"
        return None

    def _station(self, metrics: PipelineMetrics, context: Context) -> Station:
        cadence = context.plan.pipeline_of(metrics.name).cadence
        drained = windows.drained(context.snapshots, metrics.name)
        return fitted_station(metrics, cadence, patience=self.adjust, drained=drained)


class _Adjustment:
    """One look: from stations and constraints to a decision and what to remember."""

    def __init__(
        self,
        policy: LatencyPolicy,
        context: Context,
        topology: Topology,
        stations: Mapping[str, Station],
        seen: MeasuredConstraints,
        memory: LatencyMemory,
    ) -> None:
        self.policy, self.context, self.topology = policy, context, topology
        self.stations, self.seen, self.sequences = stations, seen, seen.sequences
        self.rests = {c.name: self._rest(c, memory.rests.get(c.name)) for c in seen.sequences}
        self.too_few = {
            name: (instances, load)
            for name, (instances, load) in memory.too_few.items()
            if name in stations and stations[name].load >= (1 - policy.load_drop) * load
        }
        self.overheads = {
            name: self._noted(memory.overheads.get(name, {}), s) for name, s in stations.items()
        }
        self.paths: dict[Constraint, ConstrainedSequence] = {}
        self.most = {name: self._most(name) for name in stations}
        self.least = {name: self._least(name) for name in stations}

    def _noted(self, known: crowding.Overheads, station: Station) -> crowding.Overheads:
        """What batches took beside their rows; those of a jam are of rows from before."""
        jammed = station.backlog or station.utilisation >= self.policy.rho_max
        return known if jammed else crowding.with_measured_overhead(known, station)

    def _rest(self, constraint: Constraint, before: float | None) -> float:
        """Seconds of a constraint that count beside the work and the waits of its pipelines.

        An operator that is asked for the time from a read to the next write has them always, any
        other flow from when its constraint was missed until they are gone.
        """
        end = self.seen.ends[constraint]
        if end is None:
            return self.seen.declared(constraint) if before is None else before
        if not self.seen.steady(constraint, self.stations, self.policy.rho_max):
            return before or 0.0
        counts = end.missed or before or self.seen.read_write(constraint)
        return end.rest if counts else 0.0

    def result(self) -> tuple[Decision, LatencyMemory]:
        outcomes = self._outcomes()
        wanted, capped = self._within_budget(_largest(o.instances for o in outcomes.values()))
        plan = self._plan(wanted, _smallest(o.cadences for o in outcomes.values()))
        raised = [n for n, s in self.stations.items() if wanted[n] > s.parallelism]
        now, still = self.context.now, -math.inf
        if raised:
            still = now + self.policy.inactive * self.policy.adjust
        lesson = {n: (self.stations[n].parallelism, self.stations[n].load) for n in raised}
        after = LatencyMemory(
            now, still, plan, {**self.too_few, **lesson}, self.overheads, self.rests
        )
        said = [*self._words(outcomes, plan), *self._crowded(wanted), *capped]
        changed = None if plan == self.context.plan else plan
        numbers = {**self._numbers(outcomes, plan), **self._gained(outcomes, wanted)}
        return Decision(changed, "; ".join(said), numbers), after

    def _gained(
        self, outcomes: Mapping[Constraint, ConstraintOutcome], wanted: Mapping[str, int]
    ) -> Mapping[str, float]:
        """Seconds that instances which are added take from a row, for the guard.

        Nothing where that is not known: rows pile up before a bottleneck or from before, so that
        they wait ever longer without it; and fewer instances somewhere gain something else.
        """
        stations = self.stations.values()
        if any(s.backlog or wanted[s.name] < s.parallelism for s in stations):
            return {}
        if all(wanted[s.name] == s.parallelism for s in stations):
            return {}
        gains = [
            math.inf if o.wait is None else self.paths[c].wait - o.wait for c, o in outcomes.items()
        ]
        gain = max(gains, default=math.inf)
        return {GAIN_SECONDS: gain} if 0 < gain < math.inf else {}

    def _outcomes(self) -> Mapping[Constraint, ConstraintOutcome]:
        policy, found, least = self.policy, {}, self.least
        for constraint in self.sequences:
            sequence = self.paths[constraint] = self._sequence(constraint, least)
            outcome = resolve_bottlenecks(sequence, policy.rho_max, policy.wait_share)
            if outcome is None:
                shares = policy.wait_share, policy.cadence_share
                outcome = fewest_instances(sequence, *shares, policy.tolerance)
            found[constraint] = outcome
            least = {**least, **outcome.instances}
        return found

    def _sequence(self, constraint: Constraint, least: Mapping[str, int]) -> ConstrainedSequence:
        stations = {name: self.stations[name] for name in self.sequences[constraint]}
        bound, upstream = constraint.latency, self.topology.upstream
        rest = self.rests[constraint.name]
        usual = {
            name: known[s.parallelism]
            for name, s in stations.items()
            if s.parallelism in (known := self.overheads[name])
        }
        return ConstrainedSequence(
            constraint.name, bound, stations, upstream, least, self.most, rest, overheads=usual
        )

    def _most(self, name: str) -> int:
        """Instances that a pipeline may have, and never fewer than it has and has a use for."""
        pipeline, limits = self.topology.pipelines[name], self.context.limits
        bounds = (self.topology.bounds(name).most, pipeline.ceiling, limits.slots)
        most = min([b for b in bounds if b is not None], default=self._room)
        most = max(most, pipeline.parallelism)
        useful = self._useful(name)
        return most if useful is None else min(most, useful)

    def _useful(self, name: str) -> int | None:
        """More instances than these would make batches longer than they save; None: no limit."""
        s = self.stations[name]
        found = crowding.most_useful_instances(
            s, crowding.overhead_per_instance(self.overheads[name])
        )
        if found is None or s.utilisation >= self.policy.rho_max:
            return None
        found = max(found, self._stable(name))
        near = found < s.parallelism <= (1 + self.policy.hysteresis) * found
        return s.parallelism if near else found

    def _stable(self, name: str) -> int:
        """Instances that the load needs, and that the operators ask for."""
        needed = round_up(self.stations[name].load / self.policy.rho_target)
        return max(self.topology.bounds(name).least, needed)

    @cached_property
    def _room(self) -> int:
        """Instances that can run at a time, where that is known: more would only take turns."""
        slots, limits = scaling.executor_slots(self.context), self.context.limits
        if slots is None:
            return self.policy.most
        return slots * (limits.executors or self.context.plan.executors)

    def _least(self, name: str) -> int:
        """Instances below which it must not go: for its bounds, its load, its backlog, by trial."""
        s, policy = self.stations[name], self.policy
        stable = self._stable(name)
        if s.utilisation <= (policy.rho_target + policy.rho_max) / 2:
            stable = min(stable, max(self.topology.bounds(name).least, s.parallelism))
        least = stable
        if s.backlog:
            catching_up = round_up(s.load + s.backlog / policy.catch_up)
            least = max(least, s.parallelism, catching_up)
        if name in self.too_few:
            least = max(least, self.too_few[name][0] + 1)
        if name in self.seen.held:
            least = max(least, s.parallelism)
        return min(least, self.most[name])

    def _within_budget(self, wanted: Mapping[str, int]) -> tuple[Mapping[str, int], list[str]]:
        """The same within the budget of instances: the best use of those there are."""
        slots, plan = self.context.limits.slots, self.context.plan
        others = sum(p.parallelism for p in plan.pipelines if p.name not in wanted)
        if slots is None or others + sum(wanted.values()) <= slots:
            return wanted, []
        bounds = self.topology.bounds
        vertices = [self.stations[n].vertex(bounds(n).least, k) for n, k in wanted.items()]
        found = spread(vertices, slots - others)
        given = found.instances
        cut = messages.shortage_text(given, wanted)
        said = f"the budget of {slots} instances is less than the {others + sum(wanted.values())}"
        too_little = "" if found.met else ", too little for the load"
        return given, [f"{said} needed{too_little}: {cut}"]

    def _plan(self, instances: Mapping[str, int], cadences: Mapping[str, float]) -> Plan:
        plan = self.context.plan
        pipelines = tuple(
            replace(
                p,
                parallelism=instances.get(p.name, p.parallelism),
                cadence=self._cadence(p.name, p.cadence, cadences.get(p.name, p.cadence)),
            )
            for p in plan.pipelines
        )
        return scaling.with_enough_executors(replace(plan, pipelines=pipelines), self.context)

    def _cadence(self, name: str, old: float, new: float) -> float:
        if name in self.seen.held:
            return min(old, new)
        return new if abs(new - old) > self.policy.hysteresis * max(old, new) else old

    # --- words --------------------------------------------------------------------------------

    def _crowded(self, wanted: Mapping[str, int]) -> Iterator[str]:
        for name, s in self.stations.items():
            if wanted[name] < s.parallelism and wanted[name] == self._useful(name):
                seconds = crowding.overhead_per_instance(self.overheads[name])
                yield f"each instance of {name} makes a batch {1000 * seconds:.0f} ms longer"

    def _words(self, outcomes: Mapping[Constraint, ConstraintOutcome], plan: Plan) -> Iterator[str]:
        for constraint, outcome in outcomes.items():
            yield f"{constraint.name}: {self._state(constraint, outcome)}"
            yield from self._measured(constraint)
            for text in outcome.trouble:
                yield f"{constraint.name} cannot be met: {text}"
        yield messages.changes_text(self.context.plan, plan)

    def _state(self, constraint: Constraint, outcome: ConstraintOutcome) -> str:
        sequence = self.paths[constraint]
        if outcome.wait is not None:
            return (
                f"of {duration.text(constraint.latency)} {sequence.task:.3g} s are work, "
                f"the wait is {sequence.wait:.3g} s and will be {outcome.wait:.3g} s"
            )
        most = self.policy.rho_max
        shares = [
            f"{name} gets {s.utilisation:.2f}"
            for name, s in sequence.stations.items()
            if s.utilisation >= most
        ]
        if not shares:
            return f"asked for {duration.text(constraint.latency)}"
        return f"{messages.listed(shares, ' and ')} >= {most:g} of the work it can do"

    def _measured(self, constraint: Constraint) -> Iterator[str]:
        """What came out from end to end, where that is more than it should be or than is known."""
        end, rest = self.seen.ends[constraint], self.rests[constraint.name]
        if end is None:
            if rest:
                yield f"{constraint.name}: {rest:.3g} s from reads to writes count as work"
            return
        told = [f"{rest:.3g} s beside that count as work"] if rest else []
        if end.missed:
            told.append("no instance on its way goes and no cadence grows")
        if told:
            yield (
                f"{constraint.name}: measured {end.mean:.3g} s {'>' if end.missed else '<='} "
                f"{end.bound:.3g} s, of which work and waits explain "
                f"{min(end.mean, end.explained):.3g} s: {', '.join(told)}"
            )

    def _numbers(
        self, outcomes: Mapping[Constraint, ConstraintOutcome], plan: Plan
    ) -> Mapping[str, float]:
        found: dict[str, float] = {}
        for constraint, outcome in outcomes.items():
            found[f"{constraint.name} bound"] = constraint.latency
            if (end := self.seen.ends[constraint]) is not None:
                found[f"{constraint.name} measured"] = end.mean
            if rest := self.rests[constraint.name]:
                found[f"{constraint.name} rest"] = rest
            if outcome.wait is not None and math.isfinite(outcome.wait):
                found[f"{constraint.name} expected wait"] = outcome.wait
        for name, s in self.stations.items():
            found[f"{name} utilisation"] = s.utilisation
            found[f"{name} wait"] = s.wait
            found[f"{name} task"] = s.task
            found[f"{name} instances"] = plan.pipeline_of(name).parallelism
        return found


def _all_that_comes(
    topology: Topology, measured: Mapping[str, PipelineMetrics]
) -> Mapping[str, PipelineMetrics]:
    """The same with what will come to each pipeline when those before it keep up."""
    if any(n not in measured or measured[n].arrival_rate is None for n in topology.pipelines):
        return measured
    flows = rates.predicted_inflow(topology, measured, catch_up=math.inf)  # stations see what waits
    return {n: replace(m, arrival_rate=flows[n].rate) for n, m in measured.items()}


def _largest(all_of_them: Iterator[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in all_of_them:
        found |= {name: max(value, found.get(name, value)) for name, value in one.items()}
    return found


def _smallest(all_of_them: Iterator[Mapping[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in all_of_them:
        found |= {name: min(value, found.get(name, value)) for name, value in one.items()}
    return found
