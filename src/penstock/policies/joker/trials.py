"""Changes on trial, whether they have paid off, and what is not tried again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import State
from penstock.dataflow.regions import regions
from penstock.metrics.snapshot import Snapshot
from penstock.plan.plan import Pipeline, Plan
from penstock.policies.base.messages import listed
from penstock.policies.joker.sections import Section, representatives
from penstock.policies.shared import bottlenecks
from penstock.policies.shared.bottlenecks import PipelineReading, Readings

Configuration = tuple[tuple[tuple[str, ...], int], ...]
"""Sorted operators and parallelism of each pipeline, for comparing plans."""


@dataclass(frozen=True)
class SectionChange:
    """A change of the pipelines of a section, with its reason in text and numbers.

    promise: the expected relative gain of throughput, None if that is not the reason.
    """

    section: Section
    before: tuple[Pipeline, ...]
    after: tuple[Pipeline, ...]
    why: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    promise: float | None = None

    @property
    def configuration(self) -> Configuration:
        return configuration(self.after)

    @property
    def slots(self) -> int:
        """Number of instances added; negative if removed."""
        return sum(p.parallelism for p in self.after) - sum(p.parallelism for p in self.before)

    @property
    def undo(self) -> SectionChange:
        return replace(
            self,
            before=self.after,
            after=self.before,
            why=f"{self.section.name} as before",
            promise=None,
        )


def configuration(pipelines: Iterable[Pipeline]) -> Configuration:
    """Return what is compared of some pipelines."""
    return tuple(sorted((p.operators, p.parallelism) for p in pipelines))


def with_changes(plan: Plan, attempts: Iterable[SectionChange]) -> Plan:
    """Return a plan with some sections changed."""
    wanted = {a.section: a.after for a in attempts}
    inside = {name for section in wanted for name in section.operators}
    kept = (p for p in plan.pipelines if p.operators[0] not in inside)
    return replace(plan, pipelines=(*kept, *(p for after in wanted.values() for p in after)))


@dataclass(frozen=True)
class SectionLoad:
    """Load of a section.

    rate: rows arriving per second or, if unknown, rows processed; busy: utilisation of its busiest
    pipeline; behind: whether the flow has a backlog anywhere.
    """

    rate: float | None = None
    busy: float | None = None
    behind: bool | None = None

    def changed(self, now: SectionLoad, threshold: float) -> bool:
        """True if the load differs by more than a share, or a new backlog exists."""
        if self.behind is False and now.behind is True:
            return True
        pairs = ((self.rate, now.rate), (self.busy, now.busy))
        return any(
            abs(new - old) > threshold * old
            for old, new in pairs
            if old is not None and new is not None
        )


@dataclass(frozen=True)
class FailedChange:
    """A configuration of a section, and the load under which it failed."""

    section: Section
    configuration: Configuration
    load: SectionLoad


def section_load(section: Section, plan: Plan, readings: Readings, waiting: float) -> SectionLoad:
    """Return the load of a section under a plan."""
    heads = {plan.pipeline_of(entry).name for entry in section.entries}
    entering = [readings.pipelines[name] for name in heads if name in readings.pipelines]
    rates = [r.rate if r.arrival is None else r.arrival for r in entering]
    known = [rate for rate in rates if rate is not None]
    inside = [readings.pipelines.get(p.name) for p in section.pipelines(plan)]
    busy = [r.busy for r in inside if r is not None and r.busy is not None]
    return SectionLoad(
        sum(known) if len(known) == len(heads) else None,
        max(busy, default=None),
        readings.behind(waiting),
    )


def still_failed(
    failures: Iterable[FailedChange],
    plan: Plan,
    readings: Readings,
    waiting: float,
    threshold: float,
) -> tuple[FailedChange, ...]:
    """Return the failures that still count, because the load is about the same."""
    return tuple(
        f
        for f in failures
        if not f.load.changed(section_load(f.section, plan, readings, waiting), threshold)
    )


def outgrown_configuration(
    section: Section, before: Iterable[Pipeline], now: SectionLoad
) -> FailedChange:
    """Mark the configuration before a change as too small for the present load."""
    return FailedChange(section, configuration(before), SectionLoad(now.rate))


@dataclass(frozen=True)
class ChangeTrial:
    """Changes on trial together; origin: the plan before; base: its measurements."""

    attempts: tuple[SectionChange, ...]
    growing: bool
    origin: Plan
    base: Readings

    @property
    def sections(self) -> tuple[Section, ...]:
        return tuple(attempt.section for attempt in self.attempts)

    def gains(self, plan: Plan, profile: Readings) -> Mapping[Section, float | None]:
        """Relative gain of throughput of each section; None if it is not measured.

        Rows that enter a section may pile up inside, so the gain is taken at its end, or at the
        changed pipelines inside, which may wait for others.
        """
        choose = max if self.growing else min
        before = set(self.origin.pipelines)
        changed = {p.operators[0] for p in plan.pipelines if p not in before}
        gains: dict[Section, float | None] = {}
        for section in self.sections:
            inside = [name for name in section.operators if name in changed]
            places = [(name,) for name in (section.operators[-1], *inside)]
            found = [self._gain_at(place, plan, profile) for place in places]
            entered = self._gain_at(section.entries, plan, profile)
            gains[section] = choose((g for g in found if g is not None), default=entered)
        return gains

    def _gain_at(self, place: Sequence[str], plan: Plan, profile: Readings) -> float | None:
        old = progress(place, self.origin, self.base)
        new = progress(place, plan, profile)
        return None if old is None or new is None else _gain(old, new)

    def outgrown(
        self, plan: Plan, profile: Readings, waiting: float, bottleneck: float
    ) -> Iterator[FailedChange]:
        """Yield replaced configurations that the present load would overload again.

        Utilisation before the trial may include an older backlog, so it is scaled to the present
        arrival rate.
        """
        for attempt in self.attempts:
            section = attempt.section
            busy = section_load(section, self.origin, self.base, waiting).busy
            now = section_load(section, plan, profile, waiting)
            done, _ = _entering(section, self.origin, self.base)
            again = bottleneck  # if unknown, assume it is too small
            if busy is not None and now.rate is not None and done:
                again = busy * now.rate / done
            if again >= bottleneck:
                yield outgrown_configuration(section, attempt.before, now)

    def failures(self, attempts: Iterable[SectionChange], waiting: float) -> Iterator[FailedChange]:
        """Yield some of its changes as failed under the load before the trial."""
        for attempt in attempts:
            before = section_load(attempt.section, self.origin, self.base, waiting)
            yield FailedChange(attempt.section, attempt.configuration, before)


@dataclass(frozen=True)
class TrialVerdict:
    """Changes that have not paid off, and why; `unknown` names sections not measured."""

    lost: tuple[SectionChange, ...]
    words: str
    numbers: Mapping[str, float]
    unknown: tuple[str, ...] = ()


def judge_growth(
    trial: ChangeTrial,
    graph: Graph,
    plan: Plan,
    profile: Readings,
    improvement: float,
    waiting: float,
    *,
    headroom: bool = True,
) -> TrialVerdict:
    """Judge whether growth has paid off, by the sections furthest upstream.

    It has if throughput rose by more than `improvement`, or if a backlog was worked off, because
    then there was no more to gain. Without a backlog before, all input was processed already: with
    `headroom`, growth has then paid off unless a smaller share of the input is processed now, or a
    backlog has built up. Less input is not a loss, unless the arrival rate is unknown.
    """
    gains = trial.gains(plan, profile)
    feeding = representatives(graph, trial.sections)
    nearest = [s for s in trial.sections if s in feeding[s]]
    caught_up = trial.base.behind(waiting) is True and profile.behind(waiting) is False
    early = trial.base.behind(waiting) is False and profile.behind(waiting) is False and headroom
    share = {s: share_taken(s, plan, profile) for s in nearest}
    lost = {s: (gains[s] or 0.0) if (one := share[s]) is None else one - 1 for s in nearest}
    held = {s for s in nearest if early and lost[s] >= -improvement}
    paid = {s for s in nearest if caught_up or s in held or (gains[s] or 0.0) > improvement}
    known = {s.name: gain for s in nearest if (gain := gains[s]) is not None}
    said = [
        _headroom_text(s, gain, share[s], improvement)
        if early
        else _gain_text(s, gain, improvement)
        for s in nearest
        if (gain := gains[s]) is not None
    ]
    if caught_up:
        said.append("the backlog was worked off")
    return TrialVerdict(
        tuple(a for a in trial.attempts if not feeding[a.section] <= paid),
        listed(said),
        {f"{name}.gain": gain for name, gain in known.items()},
        tuple(s.name for s in nearest if gains[s] is None),
    )


def _gain_text(section: Section, gain: float, improvement: float) -> str:
    return f"throughput of {section.name} changed by {gain:+.0%}, {improvement:+.0%} required"


def _headroom_text(section: Section, gain: float, share: float | None, improvement: float) -> str:
    said = "no backlog before or after"
    if share is not None:
        return f"{said}, {section.name} processes {share:.0%} of its input ({gain:+.0%} rows)"
    return (
        f"{said}, throughput of {section.name} changed by {gain:+.0%}, {-improvement:.0%} allowed"
    )


def share_taken(section: Section, plan: Plan, found: Readings) -> float | None:
    """Share of its arriving rows that a section processes; None if unknown."""
    done, came = _entering(section, plan, found)
    if done is None or came is None:
        return None
    return min(1.0, done / came) if came else 1.0


def _entering(section: Section, plan: Plan, found: Readings) -> tuple[float | None, float | None]:
    """Rows per second processed by, and arriving at, a section's first pipelines."""
    heads = {plan.pipeline_of(name).name for name in section.entries}
    readings = [found.pipelines.get(name, PipelineReading()) for name in sorted(heads)]
    rates = [r.rate for r in readings if r.rate is not None]
    came = [r.arrival for r in readings if r.arrival is not None]
    return (
        sum(rates) if len(rates) == len(heads) else None,
        sum(came) if len(came) == len(heads) else None,
    )


def progress(place: Sequence[str], plan: Plan, found: Readings) -> float | None:
    """Rows per second that enter some operators; None if not measured."""
    rates: Sequence[float | None] = [found.operators.get(name) for name in place]
    if None in rates:
        heads = {plan.pipeline_of(name).name for name in place}
        metrics = [found.pipelines.get(name) for name in heads]
        rates = [None if reading is None else reading.rate for reading in metrics]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known and len(known) == len(rates) else None


def _gain(old: float, new: float) -> float:
    if old > 0:
        return new / old - 1
    return math.inf if new > 0 else 0.0


@dataclass(frozen=True)
class FusionGroups:
    """Groups of operators that may run as one pipeline; the same for a whole run.

    A group is a region with the sinks that read it, or a pipeline of the plan the flow was started
    with.
    """

    groups: tuple[tuple[str, ...], ...]

    @cached_property
    def of_operator(self) -> Mapping[str, tuple[frozenset[str], ...]]:
        """Groups that contain each operator."""
        found: dict[str, tuple[frozenset[str], ...]] = {}
        for group in self.groups:
            members = frozenset(group)
            for name in group:
                found[name] = (*found.get(name, ()), members)
        return found


def fusion_groups(graph: Graph, plan: Plan) -> FusionGroups:
    """Return the groups of a flow that starts with a plan."""
    found = [(*r.operators, *_sinks_of(graph, r.operators[-1])) for r in regions(graph)]
    return FusionGroups(tuple(dict.fromkeys([*found, *(p.operators for p in plan.pipelines)])))


def _sinks_of(graph: Graph, name: str) -> tuple[str, ...]:
    return tuple(n for n in graph.successors[name] if graph[n].state is State.SINK)


@dataclass(frozen=True)
class OrganicMemory:
    """Memory of the organic policy.

    expected: the plan that should be in force; since: when it was decided; profile: measurements
    under it; trial: changes that have to pay off; failed: changes that did not; calm: consecutive
    profiles in which something could be given back; before: the memory to return to if the last
    decision is not carried out.
    """

    groups: FusionGroups
    expected: Configuration
    since: float = -math.inf
    profile: Readings | None = None
    trial: ChangeTrial | None = None
    failed: tuple[FailedChange, ...] = ()
    calm: int = 0
    before: OrganicMemory | None = None
    version: Literal[1] = 1


def initial_memory(graph: Graph, plan: Plan) -> OrganicMemory:
    """Memory at the start of a run."""
    return OrganicMemory(fusion_groups(graph, plan), configuration(plan.pipelines))


def reconciled(memory: OrganicMemory, plan: Plan, now: float) -> OrganicMemory:
    """Return the memory for the plan in force, which may differ from the decided one.

    If the last decision was not carried out, the memory before it applies again, with a new
    profile. If something else changed the plan, everything known about it is dropped.
    """
    found = configuration(plan.pipelines)
    if found == memory.expected:
        return replace(memory, before=None)
    if memory.before is not None and found == memory.before.expected:
        return replace(memory.before, profile=None, since=now)
    return OrganicMemory(memory.groups, found, now)


def with_snapshot(
    memory: OrganicMemory, snapshot: Snapshot, plan: Plan, share: float, whole: bool = False
) -> OrganicMemory:
    """Return the memory with one more snapshot; `whole`: see `bottlenecks.read`."""
    new = bottlenecks.read(snapshot, plan, whole)
    old = memory.profile
    if old is None:
        return replace(memory, profile=new)
    return (
        memory
        if new.at <= old.at
        else replace(memory, profile=bottlenecks.blended(old, new, share))
    )


def after_change(
    memory: OrganicMemory,
    plan: Plan,
    now: float,
    trial: ChangeTrial | None,
    failed: Iterable[FailedChange],
) -> OrganicMemory:
    """Return the memory after a decision for a plan."""
    return OrganicMemory(
        memory.groups,
        configuration(plan.pipelines),
        now,
        trial=trial,
        failed=tuple(failed),
        before=replace(memory, before=None),
    )
