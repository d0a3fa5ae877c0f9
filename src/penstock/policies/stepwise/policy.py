"""Stepwise profiling: finds the best plan of a flow under stress in few rounds.

First, the features of the pipelines are measured; they give the ratios of instances. Then sources
and the other pipelines grow in turns, by these ratios, until the platform is at its limit, and the
sources are slowed down as far as the latency bound requires. Last, the busiest pipelines get single
instances while that helps. A round is a plan that is observed for a while.

Afterwards the policy scales by the profile. It profiles again if the platform or the dataflow
changes, or if rows are late or wait for too long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from penstock.errors import InvalidInput
from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.policies.base import options
from penstock.policies.base.messages import listed
from penstock.policies.base.policy import Context
from penstock.policies.shared.bottlenecks import is_usable
from penstock.policies.stepwise import profile as profiles
from penstock.policies.stepwise import profiling_state, search
from penstock.policies.stepwise.profile import Profile, ProfilingRound
from penstock.policies.stepwise.profile_scaling import LoadWatch
from penstock.policies.stepwise.profiling_state import (
    FREE,
    Outcome,
    StepwiseMemory,
    pairs,
    request_again,
    request_round,
    round_text,
    sizes,
    started,
    unthrottled,
    with_admissions,
    with_budget_filled,
    with_cadences,
    with_more_instances,
    with_next_round,
    with_sizes,
)
from penstock.policies.stepwise.rounds import (
    BEAT,
    is_draining,
    least_service_times,
    mean_values,
    observe,
    round_from,
)
from penstock.policies.stepwise.search import (
    SearchRules,
    SearchState,
    TuningState,
    capacity_reached,
    next_step,
)


@dataclass(frozen=True)
class Stepwise:
    """Find the best plan under stress in a few rounds, and then scale by that profile.

    latency: bound in seconds for a dataflow without constraints; slice: unit in which ratios
    become whole numbers; k: multiple of its least time that a pipeline may take for a row in the
    end; alpha: share of the best throughput below which the search goes back; observations:
    snapshots of a round, which do not overlap; level: level of significance; change: relative
    difference that never counts, however significant; settle: seconds after a change that are not
    observed.

    throttle: first share by which sources are slowed down; fruitless: consecutive rounds without a
    gain after which the limit is reached; revocations: consecutive revoked instances after which
    profiling ends; most_rounds: rounds after which it ends in any case; sample: rows of a batch
    while features are measured, None for the present setting.

    queue: seconds of backlog that a source may have; patience: seconds for which backlog or latency
    may exceed their bounds before profiling starts again, and for which a refused plan is requested
    again; calm: seconds for which fewer instances must be enough before some are removed.
    """

    latency: float = 0.5
    slice: float = 0.3
    k: float = 2.0
    alpha: float = 0.9
    observations: int = 20
    level: float = 0.05
    change: float = 0.01
    settle: float = 5.0
    throttle: float = 0.1
    fruitless: int = 4
    revocations: int = 2
    most_rounds: int = 40
    sample: int | None = None
    queue: float = 60.0
    patience: float = 60.0
    calm: float = 15.0

    name = "stepwise"
    memory_type = StepwiseMemory

    def __post_init__(self) -> None:
        options.check(
            self,
            zero_or_more=("change", "settle", "queue", "patience", "calm"),
            above_zero=("latency",),
            one_or_more=("k", "fruitless", "revocations", "most_rounds", "sample"),
            shares=("slice", "alpha", "level", "throttle"),
        )
        if self.observations < 2:
            raise InvalidInput("stepwise: observations must be 2 or more, to compare rounds")

    def decide(self, context: Context, memory: StepwiseMemory | None) -> Outcome:
        state = started(context, -math.inf, self.sample) if memory is None else memory
        changed = _changed(context, state)
        if changed:
            fresh = started(context, context.now, self.sample)
            return Decision(None, f"profiling starts again: {changed}"), fresh
        latest = context.latest
        if state.phase == "done":
            return self._watch.look(context, state)
        if not profiling_state.in_force(state, context.plan):
            return self._insist(context, state)
        if latest is None or not is_usable(latest, state.since, self.settle):
            return Decision(
                None, f"no change: waiting for the flow to settle ({state.kind})"
            ), state
        patient = context.now - state.since < self.patience
        if state.phase != "features" and patient and is_draining(context.snapshots, self.latency):
            said = "no change: an older backlog is worked off first"
            return Decision(None, f"{said} ({state.kind})"), replace(state, seen=())
        if state.phase != "features" and self._watch.slack(state, latest):
            return self._watch.pause(context, state, latest)
        state = replace(state, calm=None)
        if not state.seen or latest.at >= state.seen[-1].at + latest.window - 1e-6:
            one = observe(latest, self.latency)
            if one is None:
                return Decision(
                    None, f"no change: not measured: rows processed ({state.kind})"
                ), state
            state = replace(state, seen=(*state.seen, one))
        if len(state.seen) < self.observations:
            done = f"{len(state.seen)} of {self.observations} observations"
            said = f"no change: round {len(state.rounds) + 1} ({state.kind}) has {done}"
            return Decision(None, said), state
        if state.phase == "features":
            return self._featured(context, state)
        seen = round_from(state.plan, state.kind, state.throttle, state.seen, state.features)
        state = replace(state, rounds=(*state.rounds, seen))
        if len(state.rounds) >= self.most_rounds:
            return self._done(context, state, f"{self.most_rounds} rounds are the limit")
        if state.phase == "platform":
            return self._searched(context, state, seen)
        return self._tuned(context, state, seen)

    def found(self, memory: StepwiseMemory) -> Profile | None:
        """Return the profile so far; None before the first round."""
        return profiling_state.profile_so_far(memory, self.level, self.change)

    # --- features -------------------------------------------------------------------------------

    def _featured(self, context: Context, state: StepwiseMemory) -> Outcome:
        """Compute the ratios, and request the first round under stress."""
        times = least_service_times(state.seen)
        missing = [p.name for p in state.plan.pipelines if p.name not in times]
        if missing:
            said = f"service time of {listed(missing, ', ')} not measured"
            return Decision(None, f"cannot profile: {said}"), replace(state, seen=(), stuck=said)
        rates = mean_values([o.rates for o in state.seen])
        selectivity = mean_values([o.selectivity for o in state.seen])
        rates = profiles.flows(context.graph, state.plan, rates, selectivity)
        features = profiles.features(context.graph, state.plan, times, rates)
        ratios = profiles.ratios(features)
        instances = ratios.instances(self.slice)
        plan = unthrottled(state.plan, state.flow)
        plan = with_sizes(plan, {**instances, **ratios.fixed}, context.graph)
        if context.limits.exceeded(plan):
            plan = with_sizes(plan, {}, context.graph)
        known = replace(
            state,
            phase="platform",
            features=features,
            ratios=ratios,
            instances=instances,
            stuck=None,
        )
        words = f"ratios of instances are {listed(pairs(instances), ', ')}"
        fixed = f", fixed {listed(pairs(ratios.fixed), ', ')}" if ratios.fixed else ""
        return request_round(context, known, plan, "start", f"{words}{fixed}")

    # --- platform capability --------------------------------------------------------------------

    def _searched(self, context: Context, state: StepwiseMemory, seen: ProfilingRound) -> Outcome:
        said = self._told(state.search.reference, seen)
        search, step = next_step(state.search, seen, self._rules)
        state = replace(state, search=search)
        if step in ("source", "sinks"):
            for kind in (step, "sinks" if step == "source" else "source"):
                more = state.instances if kind == "sinks" else dict.fromkeys(state.flow.sources, 1)
                plan = with_more_instances(seen.plan, more, context.graph, context.limits)
                if plan is None and kind == "sinks" and state.ratios is not None:
                    scaled = state.ratios.scaled
                    plan = with_budget_filled(seen.plan, scaled, context.graph, context.limits)
                if plan is not None:
                    return request_round(context, state, plan, kind, said)
            search, step = capacity_reached(search, self._rules)  # nothing more fits
            state = replace(state, search=search)
        slower = self._slower(context, search) if step == "throttle" else None
        if slower is not None:
            return request_round(context, state, slower, "throttle", said, search.strength)
        return self._tune(context, state, said)

    def _slower(self, context: Context, search: SearchState) -> Plan | None:
        """Return the best plan with slower sources; None if they cannot be slower."""
        best, latest = search.best, context.latest
        assert best is not None
        assert latest is not None
        rows = {n: int(size * (1 - search.strength)) for n, size in best.batches.items()}
        if not rows or min(rows.values()) < 1:
            return None
        beats = {n: BEAT for n in rows if latest.pipelines[n].in_batches}
        return with_cadences(with_admissions(best.plan, rows), beats)

    @property
    def _rules(self) -> SearchRules:
        return SearchRules(self.alpha, self.level, self.change, self.throttle, self.fruitless)

    # --- operator capacity ----------------------------------------------------------------------

    def _tune(self, context: Context, state: StepwiseMemory, said: str) -> Outcome:
        """Tune single pipelines, starting from the best round so far."""
        kept = profiles.best_round(state.rounds, self.level, self.change)
        return self._one_more(
            context, replace(state, phase="operators", tuning=TuningState(kept)), said
        )

    def _tuned(self, context: Context, state: StepwiseMemory, seen: ProfilingRound) -> Outcome:
        assert state.tuning is not None
        said = self._told(state.tuning.kept, seen)
        tuning = search.after_tuning_round(state.tuning, seen, self.level, self.change)
        if tuning.revoked >= self.revocations:
            return self._done(context, state, f"{said}; {tuning.revoked} revocations in a row")
        return self._one_more(context, replace(state, tuning=tuning), said)

    def _one_more(self, context: Context, state: StepwiseMemory, said: str) -> Outcome:
        """Give the busiest pipeline an instance; end profiling if that is impossible."""
        tuning = state.tuning
        assert tuning is not None
        kept = tuning.kept
        if search.all_fast_enough(kept, state.features, self.k):
            words = f"no pipeline takes more than {self.k:g} times its least service time"
            return self._done(context, state, f"{said}; {words}")
        inner = [n for n, f in state.features.items() if f.parallel and not f.source]
        plan, vertex = None, None
        while plan is None:
            vertex = search.busiest_vertex(tuning, inner)
            if vertex is None:
                return self._done(context, state, f"{said}; no other pipeline to try")
            plan = with_more_instances(kept.plan, {vertex: 1}, context.graph, context.limits)
            if plan is None:
                tuning = replace(tuning, tried=(*tuning.tried, vertex))
        share = kept.capacities[vertex or ""]
        words = f"{said}; {vertex} is the busiest pipeline, {share:.0%}"
        state = replace(state, tuning=replace(tuning, vertex=vertex))
        return request_round(context, state, plan, f"operator {vertex}", words, kept.throttle)

    # --- the end, and after it ------------------------------------------------------------------

    def _done(self, context: Context, state: StepwiseMemory, said: str) -> Outcome:
        found = self.found(state)
        assert found is not None
        final = found.final
        reason = (
            f"best plan, {listed(sizes(final.plan), ', ')}: profiling is done after "
            f"{len(state.rounds)} rounds, expected {final.throughput:.4g}/s; {said}"
        )
        numbers = {"throughput": final.throughput, "rounds": float(len(state.rounds)), **FREE}
        later = with_next_round(state, final.plan, "done", context.now, final.throttle)
        plan = None if profiling_state.in_force(later, context.plan) else final.plan
        return Decision(plan, reason, numbers), replace(later, phase="done", profile=found)

    # --- rounds ---------------------------------------------------------------------------------

    def _insist(self, context: Context, state: StepwiseMemory) -> Outcome:
        """Request a refused plan again, or end with the profile so far."""
        again = request_again(context, state, self.patience)
        if again is not None:
            return again
        if not state.rounds:
            said = f"the plan of the round ({state.kind}) was refused"
            return Decision(None, f"cannot profile: {said}"), replace(state, stuck=said)
        return self._done(context, state, f"the plan of the round ({state.kind}) was refused")

    def _told(self, before: ProfilingRound | None, seen: ProfilingRound) -> str:
        return round_text(before, seen, self.level, self.change)

    @property
    def _watch(self) -> LoadWatch:
        return LoadWatch(
            self.latency,
            self.alpha,
            self.level,
            self.change,
            self.settle,
            self.sample,
            self.queue,
            self.patience,
            self.calm,
        )


def _changed(context: Context, state: StepwiseMemory) -> str | None:
    """Say what has changed since profiling began; None if nothing has."""
    now = profiling_state.profiled_flow(context.graph, context.plan)
    if now.fingerprint != state.flow.fingerprint:
        return "the dataflow has changed"
    if now.executors != state.flow.executors:
        return f"the platform has changed, {state.flow.executors} -> {now.executors} executors"
    return None if now.groups == state.flow.groups else "the pipelines have changed"
