"""Trials: attempts under way, with what was before them, and whether they have paid."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.dataflow.graph import Graph
from penstock.models import failures
from penstock.models.attempts import Attempt, listed
from penstock.models.failures import Failure
from penstock.models.readings import Reading, Readings
from penstock.models.sections import Section, representatives
from penstock.plan.plan import Plan


@dataclass(frozen=True)
class Trial:
    """Attempts made together; `origin` is the plan before them and `base` its profile."""

    attempts: tuple[Attempt, ...]
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
    ) -> Iterator[Failure]:
        """What its attempts have replaced, where the load of now would make that too busy again.

        Rows that waited may have come long before: what worked them off was busy with more than
        comes now, and need not be too small for that.
        """
        for attempt in self.attempts:
            section = attempt.section
            busy = failures.load(section, self.origin, self.base, waiting).busy
            now = failures.load(section, plan, profile, waiting)
            done, _ = _entering(section, self.origin, self.base)
            again = bottleneck  # where nobody knows, better too careful
            if busy is not None and now.rate is not None and done:
                again = busy * now.rate / done
            if again >= bottleneck:
                yield failures.too_small(section, attempt.before, now)

    def failures(self, attempts: Iterable[Attempt], waiting: float) -> Iterator[Failure]:
        """Some of its attempts as failed under the load before the trial."""
        for attempt in attempts:
            before = failures.load(attempt.section, self.origin, self.base, waiting)
            yield Failure(attempt.section, attempt.configuration, before)


@dataclass(frozen=True)
class Verdict:
    """Which attempts have not paid, in words too; `unknown` names what was not measured."""

    lost: tuple[Attempt, ...]
    words: str
    numbers: Mapping[str, float]
    unknown: tuple[str, ...] = ()


def judged(
    trial: Trial,
    graph: Graph,
    plan: Plan,
    profile: Readings,
    improvement: float,
    waiting: float,
    *,
    headroom: bool = True,
) -> Verdict:
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
    share = {s: taken(s, plan, profile) for s in nearest}
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
    return Verdict(
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


def taken(section: Section, plan: Plan, found: Readings) -> float | None:
    """The share of the rows that come to a section that it takes; None where nobody knows."""
    done, came = _entering(section, plan, found)
    if done is None or came is None:
        return None
    return min(1.0, done / came) if came else 1.0


def _entering(section: Section, plan: Plan, found: Readings) -> tuple[float | None, float | None]:
    """Rows per second that the pipelines take by which a section is entered, and that come."""
    heads = {plan.pipeline_of(name).name for name in section.entries}
    readings = [found.pipelines.get(name, Reading()) for name in sorted(heads)]
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
