"""Trials: changes under way, whether they have paid, and what is not tried again."""

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
"""Operators of each pipeline with its parallelism, sorted; two plans are compared by it."""


@dataclass(frozen=True)
class SectionChange:
    """Other pipelines for a section, with the reason in words and numbers.

    promise: the share by which its throughput should rise, None if that is no reason for it.
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
        """Instances more than before."""
        return sum(p.parallelism for p in self.after) - sum(p.parallelism for p in self.before)

    @property
    def undo(self) -> SectionChange:
        return replace(
            self,
            before=self.after,
            after=self.before,
            why=f"{self.section.name} back",
            promise=None,
        )


def configuration(pipelines: Iterable[Pipeline]) -> Configuration:
    """What counts of some pipelines when two plans are compared."""
    return tuple(sorted((p.operators, p.parallelism) for p in pipelines))


def with_changes(plan: Plan, attempts: Iterable[SectionChange]) -> Plan:
    """A plan with the sections of some attempts as these want them, whatever they were."""
    wanted = {a.section: a.after for a in attempts}
    inside = {name for section in wanted for name in section.operators}
    kept = (p for p in plan.pipelines if p.operators[0] not in inside)
    return replace(plan, pipelines=(*kept, *(p for after in wanted.values() for p in after)))


@dataclass(frozen=True)
class SectionLoad:
    """What a section has to do.

    rate: rows per second that come to it, or that it takes where the former is not known; busy: of
    its busiest pipeline; behind: whether rows wait anywhere in the flow.
    """

    rate: float | None = None
    busy: float | None = None
    behind: bool | None = None

    def changed(self, now: SectionLoad, threshold: float) -> bool:
        """Whether it is another load by more than a share of it, or rows wait where none did."""
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
    """The load of a section under a plan."""
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
    """The failures that still count under the load of now."""
    return tuple(
        f
        for f in failures
        if not f.load.changed(section_load(f.section, plan, readings, waiting), threshold)
    )


def outgrown_configuration(
    section: Section, before: Iterable[Pipeline], now: SectionLoad
) -> FailedChange:
    """A configuration that was outgrown: it would not do for this load, however busy it is now."""
    return FailedChange(section, configuration(before), SectionLoad(now.rate))


@dataclass(frozen=True)
class ChangeTrial:
    """Attempts made together; `origin` is the plan before them and `base` its profile."""

    attempts: tuple[SectionChange, ...]
    growing: bool
    origin: Plan
    base: Readings

    @property
    def sections(self) -> tuple[Section, ...]:
        return tuple(attempt.section for attempt in self.attempts)

    def gains(self, plan: Plan, profile: Readings) -> Mapping[Section, float | None]:
        """By which share more rows get through each section than before; None if not measured.

        Where rows can wait inside a section, those that enter it need not get through. So it is by
        what comes to its end, or by what was changed inside, which may have to wait for others.
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
        """What its attempts have replaced, where the load of now would make that too busy again.

        Rows that waited may have come long before: what worked them off was busy with more than
        comes now, and need not be too small for that.
        """
        for attempt in self.attempts:
            section = attempt.section
            busy = section_load(section, self.origin, self.base, waiting).busy
            now = section_load(section, plan, profile, waiting)
            done, _ = _entering(section, self.origin, self.base)
            again = bottleneck  # where nobody knows, better too careful
            if busy is not None and now.rate is not None and done:
                again = busy * now.rate / done
            if again >= bottleneck:
                yield outgrown_configuration(section, attempt.before, now)

    def failures(self, attempts: Iterable[SectionChange], waiting: float) -> Iterator[FailedChange]:
        """Some of its attempts as failed under the load before the trial."""
        for attempt in attempts:
            before = section_load(attempt.section, self.origin, self.base, waiting)
            yield FailedChange(attempt.section, attempt.configuration, before)


@dataclass(frozen=True)
class TrialVerdict:
    """Which attempts have not paid, in words too; `unknown` names what was not measured."""

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
    """Whether growth has paid: by the sections nearest to the sources, for all that they feed.

    It has if more rows enter by more than the share `improvement`, or if rows waited before the
    trial and none do now: then there was no more to gain. Where none waited before either, all
    that came went through already, and with `headroom` it has paid unless less of what comes does
    now, or rows wait. Less that comes is no loss, nor is it that a backlog is worked off; where
    nobody knows what comes, less that goes through is.
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
        _told_early(s, gain, share[s], improvement) if early else _told(s, gain, improvement)
        for s in nearest
        if (gain := gains[s]) is not None
    ]
    if caught_up:
        said.append("rows waited and no longer do")
    return TrialVerdict(
        tuple(a for a in trial.attempts if not feeding[a.section] <= paid),
        listed(said),
        {f"{name}.gain": gain for name, gain in known.items()},
        tuple(s.name for s in nearest if gains[s] is None),
    )


def _told(section: Section, gain: float, improvement: float) -> str:
    sign = ">" if gain > improvement else "<="
    return f"throughput of {section.name} rose {gain:.0%} {sign} {improvement:.0%}"


def _told_early(section: Section, gain: float, share: float | None, improvement: float) -> str:
    said = "nothing waited and nothing does"
    if share is not None:
        return f"{said}, {section.name} takes {share:.0%} of what comes ({gain:+.0%} rows)"
    held = f"fell by no more than {improvement:.0%}" if gain >= -improvement else "fell"
    return f"{said}, throughput of {section.name} {held} ({gain:+.0%})"


def share_taken(section: Section, plan: Plan, found: Readings) -> float | None:
    """The share of the rows that come to a section that it takes; None where nobody knows."""
    done, came = _entering(section, plan, found)
    if done is None or came is None:
        return None
    return min(1.0, done / came) if came else 1.0


def _entering(section: Section, plan: Plan, found: Readings) -> tuple[float | None, float | None]:
    """Rows per second that the pipelines take by which a section is entered, and that come."""
    heads = {plan.pipeline_of(name).name for name in section.entries}
    readings = [found.pipelines.get(name, PipelineReading()) for name in sorted(heads)]
    rates = [r.rate for r in readings if r.rate is not None]
    came = [r.arrival for r in readings if r.arrival is not None]
    return (
        sum(rates) if len(rates) == len(heads) else None,
        sum(came) if len(came) == len(heads) else None,
    )


def progress(place: Sequence[str], plan: Plan, found: Readings) -> float | None:
    """Rows per second that enter some operators; None where that is not measured."""
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
        """The groups that each operator is in."""
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
    """What the organic policy knows from one turn to the next.

    expected: the plan that should be in force; since: when that was decided;
    profile: what was measured of it; trial: what has to prove itself; failed: what did not;
    calm: profiles in a row after which something could have been given back; before: what to go
    back to if the last decision is not carried out.
    """

    ground: FusionGroups
    expected: Configuration
    since: float = -math.inf
    profile: Readings | None = None
    trial: ChangeTrial | None = None
    failed: tuple[FailedChange, ...] = ()
    calm: int = 0
    before: OrganicMemory | None = None
    version: Literal[1] = 1


def initial_memory(graph: Graph, plan: Plan) -> OrganicMemory:
    """Nothing known yet."""
    return OrganicMemory(fusion_groups(graph, plan), configuration(plan.pipelines))


def reconciled(memory: OrganicMemory, plan: Plan, now: float) -> OrganicMemory:
    """The memory under the plan in force, which may be another than was decided.

    A decision that was not carried out is taken back, and comes again after another profile.
    Whatever else changed the plan makes everything known about it worthless.
    """
    found = configuration(plan.pipelines)
    if found == memory.expected:
        return replace(memory, before=None)
    if memory.before is not None and found == memory.before.expected:
        return replace(memory.before, profile=None, since=now)
    return OrganicMemory(memory.ground, found, now)


def with_snapshot(
    memory: OrganicMemory, snapshot: Snapshot, plan: Plan, share: float, whole: bool = False
) -> OrganicMemory:
    """The memory with one more snapshot in its profile, read as a `whole` or by its rows."""
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
    """The memory after a decision for a plan."""
    return OrganicMemory(
        memory.ground,
        configuration(plan.pipelines),
        now,
        trial=trial,
        failed=tuple(failed),
        before=replace(memory, before=None),
    )
