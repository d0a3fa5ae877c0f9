"""Joker's organic adaptation: finds bottlenecks and keeps changes that pay off.

The policy profiles the flow, finds all regions with a bottleneck and changes them together: a
pipeline is split in two if that promises enough, otherwise it gets more instances. After the next
profile a change stays if throughput rose, or if a backlog was worked off. A change that did not pay
off is undone and remembered, and the next best one is tried; if none is left, the section returns
to where it was. A different load makes the policy forget its failures. A flow that has kept up for
some time with instances to spare gives back instances, then merges pipelines, and every such step
is on trial, too.

Only pipelines that are too busy get instances, not their whole region: a channel can be read with
any parallelism, so nothing ties them together (`replicas="region"` scales them together).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace

from penstock.errors import InvalidInput
from penstock.plan import limits
from penstock.plan.decision import GAIN_ROWS, UNDO, Decision
from penstock.plan.plan import Plan
from penstock.policies.base import options as ranges
from penstock.policies.base.messages import listed
from penstock.policies.base.policy import Context
from penstock.policies.joker import trials
from penstock.policies.joker.bottleneck_actions import GrowthRules
from penstock.policies.joker.redistribution import redistributed
from penstock.policies.joker.sections import Section, sections
from penstock.policies.joker.shrinking import ShrinkRules
from penstock.policies.joker.trials import (
    ChangeTrial,
    FailedChange,
    OrganicMemory,
    SectionChange,
    TrialVerdict,
    after_change,
    judge_growth,
    with_changes,
)
from penstock.policies.shared.bottlenecks import Readings, busy_text, is_usable

Outcome = tuple[Decision, OrganicMemory]

_CHOICES = {
    "order": ("fusion-first", "fission-first", "fusion", "fission"),
    "step": ("one", "double"),
    "replicas": ("pipeline", "region"),
    "busy": ("rows", "threads"),
}


_BACK = {UNDO: 1.0}
"""Tells the guard that a change is undone on purpose."""


@dataclass(frozen=True)
class Organic:
    """Split or scale pipelines that are too busy, keep what pays off, and scale down.

    Joker's organic adaptation, extended by larger steps and by scaling down.

    bottleneck: utilisation above which a pipeline is too busy; improvement: relative gain of
    throughput that a change must bring; split_utility: relative gain that a split must promise;
    load_change: relative difference that makes a load a different one; profile: seconds of
    measuring before a decision; settle: seconds after a change that are not measured; smoothing:
    weight of the newest snapshot in a profile.

    order: what is tried first, or the only thing tried; step: instances added at a time, `one` or
    `double`; replicas: whether a `pipeline` or its whole `region` gets them; stateless: whether
    pipelines without a key are scaled; sources: whether pipelines of sources only are scaled; busy:
    whether utilisation counts time on `rows` only, or all time of `threads`, as in the paper.

    scale_down: whether resources are given back; target: utilisation that may cause; calm:
    consecutive profiles that must allow it; waiting: seconds of backlog that count as none;
    anticipate: whether to act on a bottleneck before a backlog exists, if its utilisation is known
    from rows; headroom: whether a change made then stays unless throughput falls; otherwise it must
    bring the same improvement as any other change, as in the paper.
    """

    bottleneck: float = 0.8
    improvement: float = 0.1
    split_utility: float = 0.2
    load_change: float = 0.2
    profile: float = 30.0
    settle: float = 5.0
    smoothing: float = 0.3
    order: str = "fusion-first"
    step: str = "double"
    replicas: str = "pipeline"
    busy: str = "rows"
    stateless: bool = True
    sources: bool = True
    scale_down: bool = True
    target: float = 0.6
    calm: int = 2
    waiting: float = 2.0
    anticipate: bool = True
    headroom: bool = True

    name = "organic"
    memory_type = OrganicMemory

    def __post_init__(self) -> None:
        for field, words in _CHOICES.items():
            if getattr(self, field) not in words:
                found = getattr(self, field)
                raise InvalidInput(
                    f"organic: {field} must be one of {', '.join(words)}, not '{found}'"
                )
        ranges.check(
            self,
            zero_or_more=(
                *("improvement", "split_utility", "load_change"),
                *("profile", "settle", "waiting"),
            ),
            one_or_more=("calm",),
            shares=("bottleneck", "smoothing"),
        )
        if not 0 < self.target < self.bottleneck:
            raise InvalidInput(
                f"organic: target must be above 0 and below bottleneck ({self.bottleneck:g}), not "
                f"{self.target:g}; otherwise scaling down and up would alternate"
            )

    def decide(
        self, context: Context, memory: OrganicMemory | None
    ) -> tuple[Decision, OrganicMemory]:
        state = trials.initial_memory(context.graph, context.plan) if memory is None else memory
        state = trials.reconciled(state, context.plan, context.now)
        latest = context.latest
        if latest is None or not is_usable(latest, state.since, self.settle):
            return Decision(None, "no change: waiting for the flow to settle"), state
        whole = self.busy == "threads"
        state = trials.with_snapshot(state, latest, context.plan, self.smoothing, whole)
        profile = state.profile
        assert profile is not None
        seconds = profile.at - profile.since
        if seconds < self.profile:
            return Decision(None, f"no change: profiled {seconds:.0f} of {self.profile:g} s"), state
        if state.trial is None:
            return self._adapt(context, state, profile)
        if state.trial.growing:
            return self._judge_growth(context, state, profile, state.trial)
        return self._judge_shrinking(context, state, profile, state.trial)

    # --- without a trial ------------------------------------------------------------------------

    def _adapt(self, context: Context, state: OrganicMemory, profile: Readings) -> Outcome:
        """Resolve bottlenecks, or else scale down."""
        failed = trials.still_failed(
            state.failed, context.plan, profile, self.waiting, self.load_change
        )
        state = replace(state, failed=failed)
        found = sections(context.graph, context.plan, state.groups.groups)
        behind = profile.behind(self.waiting)
        profile = profile.without_backlog if behind is False else profile
        if behind is not False or self._anticipates(profile):
            plan = context.plan
            if unknown := profile.unmeasured(plan):
                words = listed([f"utilisation of {name}" for name in unknown], ", ")
                why = f"no change: not measured: {words}"
                return Decision(None, why), replace(state, profile=None)
            grown = self._open(context, failed, self._growths(context, found, profile, plan), plan)
            grown = grown or self._redealt(context, state, found, profile)
            if grown:
                return self._try(context, state, ChangeTrial(grown, True, plan, profile))
        if self.scale_down and behind is not True:
            shrinking = ShrinkRules(
                self.target, state.groups.of_operator, self.improvement, self.replicas
            )
            options = (shrinking.attempts(s, context.plan, context.graph, profile) for s in found)
            fewer = self._open(context, failed, options, context.plan)
            if fewer and state.calm + 1 >= self.calm:
                return self._try(context, state, ChangeTrial(fewer, False, context.plan, profile))
            if fewer:
                why = (
                    f"no change yet, {state.calm + 1} of {self.calm} calm profiles: {_words(fewer)}"
                )
                later = replace(state, profile=None, calm=state.calm + 1)
                return Decision(None, why, _numbers(fewer)), later
        return self._idle(context, found, profile), replace(state, profile=None, calm=0)

    def _anticipates(self, profile: Readings) -> bool:
        """True if utilisation of all bottlenecks is known from rows, not only batches."""
        busy = (r for r in profile.pipelines.values() if (r.busy or 0.0) > self.bottleneck)
        return self.anticipate and all(reading.by_rows for reading in busy)

    def _growths(
        self, context: Context, found: Iterable[Section], profile: Readings, origin: Plan
    ) -> Iterator[Iterator[SectionChange]]:
        """Yield the possible changes of each section."""
        return (self._growth.attempts(s, origin, context.graph, profile) for s in found)

    def _open(
        self,
        context: Context,
        failed: Iterable[FailedChange],
        options: Iterable[Iterable[SectionChange]],
        plan: Plan,
    ) -> tuple[SectionChange, ...]:
        """Return each section's first change that has not failed and fits the budget."""
        tried = {failure.configuration for failure in failed}
        slots = context.limits.slots
        left = math.inf if slots is None else slots - plan.slots
        chosen = []
        for attempts in options:
            for attempt in attempts:
                # fewer instances are always affordable, also if the budget has been cut
                if attempt.slots <= max(left, 0) and attempt.configuration not in tried:
                    chosen.append(attempt)
                    left -= attempt.slots
                    break
        return tuple(chosen)

    def _redealt(
        self, context: Context, state: OrganicMemory, found: tuple[Section, ...], profile: Readings
    ) -> tuple[SectionChange, ...]:
        """Redistribute the budget if it is what keeps a busy section from growing."""
        slots = context.limits.slots
        if slots is None or not any(self._still_busy(context, profile, found)):
            return ()
        homes = {} if self.order == "fission" else state.groups.of_operator
        attempts, gain = redistributed(found, context.plan, context.graph, profile, slots, homes)
        tried = {failure.configuration for failure in state.failed}
        if gain <= self.improvement or any(a.configuration in tried for a in attempts):
            return ()
        return tuple(replace(attempt, promise=gain) for attempt in attempts)

    def _try(self, context: Context, state: OrganicMemory, trial: ChangeTrial) -> Outcome:
        plan = with_changes(context.plan, trial.attempts)
        later = after_change(state, plan, context.now, trial, state.failed)
        numbers = {**_numbers(trial.attempts), **_gained(context, trial)}
        return Decision(plan, _words(trial.attempts), numbers), later

    def _idle(self, context: Context, found: Iterable[Section], profile: Readings) -> Decision:
        """Say why nothing changes."""
        known = {n: r.busy for n, r in profile.pipelines.items() if r.busy is not None}
        missing = [p.name for p in context.plan.pipelines if p.name not in known]
        said = f"; utilisation of {listed(missing, ', ')} not measured" if missing else ""
        if not known:
            return Decision(None, f"no change: nothing measured{said}")
        top = max(known, key=lambda name: known[name])
        numbers = {f"{top}.busy": known[top]}
        words = f"no change: {busy_text(top, known[top])}, limit {self.bottleneck:.0%}"
        if known[top] <= self.bottleneck:
            return Decision(None, f"{words}{said}", numbers)
        if profile.behind(self.waiting) is False and not self._anticipates(profile):
            why = f"but no backlog is longer than {self.waiting:g} s"
        elif any(map(any, self._growths(context, found, profile, context.plan))):
            why = "but all possible changes failed under this load or exceed the budget"
        else:
            why = "but no split gains enough and it cannot have more instances"
        return Decision(None, f"{words}, {why}{said}", numbers)

    @property
    def _growth(self) -> GrowthRules:
        return GrowthRules(**{f.name: getattr(self, f.name) for f in fields(GrowthRules)})

    # --- during a trial -------------------------------------------------------------------------

    def _judge_growth(
        self, context: Context, state: OrganicMemory, profile: Readings, trial: ChangeTrial
    ) -> Outcome:
        """Keep growth that paid off; otherwise undo it and try the next change."""
        plan, graph = context.plan, context.graph
        verdict = judge_growth(
            trial, graph, plan, profile, self.improvement, self.waiting, headroom=self.headroom
        )
        if verdict.unknown:
            names = listed(verdict.unknown, ", ")
            return Decision(None, f"no change: throughput of {names} not measured"), state
        if verdict.lost:
            return self._lost(context, state, profile, trial, verdict)
        outgrown = trial.outgrown(plan, profile, self.waiting, self.bottleneck)
        rest = replace(state, trial=None, failed=tuple(outgrown))
        decision, later = self._adapt(context, rest, profile)  # with the same profile
        numbers = {**verdict.numbers, **decision.numbers}
        reason = f"kept: {verdict.words}; {decision.reason}"
        return Decision(decision.plan, reason, numbers), later

    def _lost(
        self,
        context: Context,
        state: OrganicMemory,
        profile: Readings,
        trial: ChangeTrial,
        verdict: TrialVerdict,
    ) -> Outcome:
        """Undo failed changes of sections that are still too busy, and try the next ones."""
        blamed = self._blamed(context, profile, verdict.lost)
        failed = (*state.failed, *trial.failures(blamed, self.waiting))
        undone = with_changes(context.plan, [a.undo for a in blamed])
        options = self._growths(context, [a.section for a in blamed], trial.base, trial.origin)
        following = self._open(context, failed, options, undone)
        if following and _affordable(context, undone) == undone:
            plan = with_changes(undone, following)
            others = tuple(a for a in trial.attempts if a not in blamed)
            rest = replace(trial, attempts=(*others, *following))
            reason = f"undone: {verdict.words}; {_words(following)}"
            numbers = {**verdict.numbers, **_numbers(following), **_BACK}
            return Decision(plan, reason, numbers), after_change(
                state, plan, context.now, rest, failed
            )
        failed = (*state.failed, *trial.failures(verdict.lost, self.waiting))
        plan = _affordable(context, with_changes(context.plan, [a.undo for a in verdict.lost]))
        reason = f"undone: {verdict.words}; nothing is left to try"
        numbers = {**verdict.numbers, **_BACK}
        return Decision(plan, reason, numbers), after_change(state, plan, context.now, None, failed)

    def _judge_shrinking(
        self, context: Context, state: OrganicMemory, profile: Readings, trial: ChangeTrial
    ) -> Outcome:
        """Keep fewer instances if the flow keeps up; otherwise undo."""
        behind = profile.behind(self.waiting)
        found = trial.gains(context.plan, profile)
        gains = {section.name: gain for section, gain in found.items() if gain is not None}
        fallen = any(gain < -self.improvement for gain in gains.values())
        words, numbers = self._kept_up(profile, gains)
        if behind is False or (behind is None and not fallen):
            decision, later = self._adapt(context, replace(state, trial=None), profile)
            reason = f"kept: {words}; {decision.reason}"
            return Decision(decision.plan, reason, {**numbers, **decision.numbers}), later
        blamed = self._blamed(context, profile, trial.attempts)
        plan = _affordable(context, with_changes(context.plan, [a.undo for a in blamed]))
        failed = (*state.failed, *trial.failures(blamed, self.waiting))
        names = listed((a.section.name for a in blamed), ", ")
        reason = f"undone: the flow did not keep up, {words}; {names} as before"
        numbers = {**numbers, **_BACK}
        return Decision(plan, reason, numbers), after_change(state, plan, context.now, None, failed)

    def _kept_up(
        self, profile: Readings, gains: Mapping[str, float]
    ) -> tuple[str, dict[str, float]]:
        """Backlog and throughput after scaling down, as a text and as numbers."""
        said, numbers = [], {f"{name}.gain": gain for name, gain in gains.items()}
        if profile.longest is not None:
            said.append(f"longest backlog {profile.longest:.1f} s, limit {self.waiting:g} s")
            numbers["waiting"] = profile.longest
        said += [f"throughput of {name} changed by {gain:+.0%}" for name, gain in gains.items()]
        return listed(said, ", ") or "backlog not measured", numbers

    def _still_busy(
        self, context: Context, profile: Readings, found: Iterable[Section]
    ) -> set[Section]:
        plan, graph = context.plan, context.graph
        busy = self._growth.bottlenecks
        return {section for section in found if busy(section, plan, graph, profile)}

    def _blamed(
        self, context: Context, profile: Readings, attempts: tuple[SectionChange, ...]
    ) -> tuple[SectionChange, ...]:
        """Changes of sections that are still too busy; all of them if none is."""
        busy = self._still_busy(context, profile, [a.section for a in attempts])
        return tuple(a for a in attempts if a.section in busy) or attempts


def _affordable(context: Context, plan: Plan) -> Plan:
    """Return a former plan, reduced if the budget has become smaller since."""
    most = context.limits.slots
    if most is None or plan.slots <= max(most, context.plan.slots):
        return plan
    return limits.within(context.limits, plan, context.plan, context.graph) or context.plan


def _gained(context: Context, trial: ChangeTrial) -> dict[str, float]:
    """Rows per second that growth promises, for the guard: highest gain of a section."""
    promised = [a.promise for a in trial.attempts if a.promise is not None]
    gain = max(promised, default=0.0)
    now = None if context.latest is None else context.latest.throughput
    if not trial.growing or now is None or not 0 < gain < math.inf:
        return {}
    return {GAIN_ROWS: gain * now}


def _words(attempts: Iterable[SectionChange]) -> str:
    return listed((attempt.why for attempt in attempts), "; ")


def _numbers(attempts: Iterable[SectionChange]) -> dict[str, float]:
    return {key: value for attempt in attempts for key, value in attempt.numbers.items()}
