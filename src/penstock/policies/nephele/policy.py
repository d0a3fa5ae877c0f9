"""Nephele's reactive strategy: meets latency constraints with fewest instances.

For every constraint, a bottleneck gets at least twice its instances. Without a bottleneck, a
queueing model fitted to the measurements gives the fewest instances that keep the waits within a
fifth of the time left besides work. The other four fifths go to the cadence: gathering rows for
batches uses up latency that is available, and saves work. Constraints are handled one after the
other, where later ones only raise instances, and applied together. If the measured end-to-end
latency exceeds what the model explains, the rest counts as work. While a constraint is missed,
nothing on its path is scaled down.
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
    """Memory of the latency policy.

    at: when it looked last; still: until when it waits for the effect of added instances; plan: its
    last decision; too_few: instances by pipeline that were not enough, with the load at that time;
    overheads: measured overhead of batches by pipeline; rests: seconds of each constraint that work
    and waits do not explain, 0 if they do not count.
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

    adjust: seconds between two decisions; inactive: number of decisions skipped after instances
    were added; wait_share: share of the time left besides work that rows may wait in queues;
    cadence_share: share that they may be gathered for batches (0: cadences stay as they are);
    rho_max: utilisation from which a pipeline is a bottleneck; rho_target: highest utilisation
    planned for; tolerance: relative excess of waits, or saving of instances, that changes nothing;
    hysteresis: relative change of a cadence below which it stays; load_drop: relative drop of the
    load after which instances that were too few may be tried again; catch_up: seconds in which a
    backlog is to be worked off; most: most instances of a pipeline without other bounds.
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
                raise InvalidInput(
                    f"latency: {one.name} must be 0 or more, not {getattr(self, one.name)}"
                )
        if not self.wait_share > 0 or self.wait_share + self.cadence_share > 1 + 1e-9:
            raise InvalidInput(
                f"latency: wait_share must be above 0 and with cadence_share at most 1, not "
                f"{self.wait_share} and {self.cadence_share}"
            )
        if not 0 < self.rho_target <= self.rho_max <= 1:
            raise InvalidInput(
                f"latency: 0 < rho_target <= rho_max <= 1 does not hold for rho_target="
                f"{self.rho_target}, rho_max={self.rho_max}"
            )
        if not self.most >= 1 or self.catch_up == 0:
            raise InvalidInput("latency: most must be 1 or more, and catch_up above 0")

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        before = memory or LatencyMemory()
        constraints = context.graph.constraints
        if not constraints:
            return Decision(None, "no change: the dataflow has no latency constraint"), before
        why = self._still(context, before)
        if why is not None:
            return Decision(None, why), before
        snapshots = windows.settled_after(
            context.snapshots, max(before.at, context.now - self._span)
        )
        if not snapshots:
            return Decision(None, "no change: no settled measurement since the last look"), before
        topology = Topology(context.graph, context.plan)
        sequences = {c: topology.between(c.first, c.last) for c in constraints}
        concerned = dict.fromkeys(n for names in sequences.values() for n in names)
        measured = windows.pipeline_averages(windows.since(snapshots, context.now - self._span))
        lacking = {n: missing(measured.get(n)) for n in concerned}
        if any(lacking.values()):
            names = messages.listed([f"{', '.join(m)} of {n}" for n, m in lacking.items() if m])
            return Decision(None, f"no change: not measured: {names}"), before
        stations = {
            n: self._station(m, context)
            for n, m in _with_expected_arrivals(topology, measured).items()
            if n in concerned
        }
        seen = MeasuredConstraints(context, topology, sequences, snapshots)
        return _Adjustment(self, context, topology, stations, seen, before).result()

    @property
    def _span(self) -> float:
        return max(self.adjust, 1e-9)

    def _still(self, context: Context, memory: LatencyMemory) -> str | None:
        """Say why it is too early for a decision, or None."""
        if context.now < memory.still and context.plan == memory.plan:
            left = memory.still - context.now
            return f"no change: waiting another {left:.1f} s for the effect of added instances"
        if context.now - memory.at < self.adjust:
            return f"no change: next look in {memory.at + self.adjust - context.now:.1f} s"
        return None

    def _station(self, metrics: PipelineMetrics, context: Context) -> Station:
        cadence = context.plan.pipeline_of(metrics.name).cadence
        drained = windows.drained(context.snapshots, metrics.name)
        return fitted_station(metrics, cadence, patience=self.adjust, drained=drained)


class _Adjustment:
    """One decision, from stations and constraints."""

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
        """Update the overhead of batches, unless a backlog distorts it."""
        jammed = station.backlog or station.utilisation >= self.policy.rho_max
        return known if jammed else crowding.with_measured_overhead(known, station)

    def _rest(self, constraint: Constraint, before: float | None) -> float:
        """Seconds of a constraint that neither work nor waits explain, if they count.

        They always count if an operator declares read-to-write latency; otherwise from when the
        constraint is missed until they are gone.
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
        said = [*self._constraint_texts(outcomes), *self._overhead_texts(wanted), *capped]
        changes = messages.changes_text(self.context.plan, plan)
        changed = None if plan == self.context.plan else plan
        numbers = {**self._numbers(outcomes, plan), **self._gained(outcomes, wanted)}
        return Decision(changed, f"{changes}: {'; '.join(said)}", numbers), after

    def _gained(
        self, outcomes: Mapping[Constraint, ConstraintOutcome], wanted: Mapping[str, int]
    ) -> Mapping[str, float]:
        """Seconds of latency that added instances save, for the guard.

        Empty if unknown, because a backlog makes rows wait ever longer, or if some pipeline loses
        instances, which gains something else.
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
        """Most instances of a pipeline: its bounds, but no fewer than it has and can use."""
        pipeline, limits = self.topology.pipelines[name], self.context.limits
        bounds = (self.topology.bounds(name).most, pipeline.ceiling, limits.slots)
        most = min([b for b in bounds if b is not None], default=self._room)
        most = max(most, pipeline.parallelism)
        useful = self._useful(name)
        return most if useful is None else min(most, useful)

    def _useful(self, name: str) -> int | None:
        """Instances beyond which batch overhead exceeds the saving; None if unlimited."""
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
        """Fewest instances for the load at the target utilisation, within the bounds."""
        needed = round_up(self.stations[name].load / self.policy.rho_target)
        return max(self.topology.bounds(name).least, needed)

    @cached_property
    def _room(self) -> int:
        """Instances that the executors can run at a time, or `most` if unknown."""
        slots, limits = scaling.executor_slots(self.context), self.context.limits
        if slots is None:
            return self.policy.most
        return slots * (limits.executors or self.context.plan.executors)

    def _least(self, name: str) -> int:
        """Fewest instances of a pipeline by bounds, load, backlog and past failures."""
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
        """Reduce the instances to the budget, with the least sum of waits."""
        slots, plan = self.context.limits.slots, self.context.plan
        others = sum(p.parallelism for p in plan.pipelines if p.name not in wanted)
        if slots is None or others + sum(wanted.values()) <= slots:
            return wanted, []
        bounds = self.topology.bounds
        vertices = [self.stations[n].vertex(bounds(n).least, k) for n, k in wanted.items()]
        found = spread(vertices, slots - others)
        given = found.instances
        cut = messages.shortage_text(given, wanted)
        total = others + sum(wanted.values())
        too_small = "" if found.met else " and too small for the load"
        return given, [f"budget of {slots} instances is below the {total} needed{too_small}: {cut}"]

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

    # --- reasons ------------------------------------------------------------------------------

    def _overhead_texts(self, wanted: Mapping[str, int]) -> Iterator[str]:
        for name, s in self.stations.items():
            if wanted[name] < s.parallelism and wanted[name] == self._useful(name):
                seconds = crowding.overhead_per_instance(self.overheads[name])
                yield f"each instance of {name} adds {1000 * seconds:.0f} ms to every batch"

    def _constraint_texts(self, outcomes: Mapping[Constraint, ConstraintOutcome]) -> Iterator[str]:
        for constraint, outcome in outcomes.items():
            yield f"{constraint.name} {self._expectation(constraint, outcome)}"
            yield from self._measured_text(constraint)
            for text in outcome.trouble:
                yield f"{constraint.name} cannot be met: {text}"

    def _expectation(self, constraint: Constraint, outcome: ConstraintOutcome) -> str:
        sequence = self.paths[constraint]
        if outcome.wait is not None:
            return (
                f"waits {sequence.wait:.3g} s, expected {outcome.wait:.3g} s, with "
                f"{sequence.task:.3g} s of work and a bound of {duration.text(constraint.latency)}"
            )
        most = self.policy.rho_max
        shares = [
            f"{name} has {s.utilisation:.0%}"
            for name, s in sequence.stations.items()
            if s.utilisation >= most
        ]
        if not shares:
            return f"has a bound of {duration.text(constraint.latency)}"
        busy = messages.listed(shares, " and ")
        return f"has a bottleneck: {busy} of the work it can do, limit {most:.0%}"

    def _measured_text(self, constraint: Constraint) -> Iterator[str]:
        """Describe measured end-to-end latency if it is missed or partly unexplained."""
        end, rest = self.seen.ends[constraint], self.rests[constraint.name]
        if end is None:
            if rest:
                yield f"{constraint.name} counts {rest:.3g} s from read to write as work"
            return
        told = [f"the other {rest:.3g} s count as work"] if rest else []
        if end.missed:
            told.append("nothing on its path is scaled down")
        if told:
            yield (
                f"{constraint.name} measured {end.mean:.3g} s, bound {end.bound:.3g} s, of which "
                f"work and waits explain {min(end.mean, end.explained):.3g} s: {', '.join(told)}"
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


def _with_expected_arrivals(
    topology: Topology, measured: Mapping[str, PipelineMetrics]
) -> Mapping[str, PipelineMetrics]:
    """Replace arrival rates by those expected once upstream pipelines keep up."""
    if any(n not in measured or measured[n].arrival_rate is None for n in topology.pipelines):
        return measured
    flows = rates.predicted_inflow(
        topology, measured, catch_up=math.inf
    )  # stations handle backlogs themselves
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
