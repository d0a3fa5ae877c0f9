"""The state of profiling: which step it is in, which plan is observed next, what was found.

After each round the throughput is compared with that of the round before, and what is changed
next follows from that and from what was changed last. Where more hurts, the search returns to the
best round and slows the sources down until the latency is met.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from penstock.dataflow.graph import Graph
from penstock.plan import fusion
from penstock.plan.decision import UNDO, Decision
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.base.messages import listed
from penstock.policies.base.policy import Context
from penstock.policies.shared.scaling import resized
from penstock.policies.stepwise.profile import Feature, Profile, ProfilingRound, Ratios, best_round
from penstock.policies.stepwise.rounds import RoundObservation
from penstock.policies.stepwise.search import (
    SearchState,
    TuningState,
)
from penstock.policies.stepwise.significance import compare

Phase = Literal["features", "platform", "operators", "done"]


@dataclass(frozen=True)
class ProfiledFlow:
    """What profiling holds for: one dataflow, fused in one way, on one platform.

    admissions: what each source pipeline may take, before anything is slowed down; cadences: and
    how often.
    """

    fingerprint: str
    groups: tuple[tuple[str, ...], ...]
    executors: int
    admissions: Mapping[str, int | None]
    cadences: Mapping[str, float] = field(default_factory=dict)

    @property
    def sources(self) -> frozenset[str]:
        return frozenset(self.admissions)


def profiled_flow(graph: Graph, plan: Plan) -> ProfiledFlow:
    sources = {plan.pipeline_of(source.name).name for source in graph.sources}
    return ProfiledFlow(
        graph.fingerprint,
        tuple(sorted(p.operators for p in plan.pipelines)),
        plan.executors,
        {name: plan.pipeline_of(name).admission for name in sorted(sources)},
        {name: plan.pipeline_of(name).cadence for name in sorted(sources)},
    )


@dataclass(frozen=True)
class StepwiseMemory:
    """One profiling from its first observation to its end.

    plan, kind, throttle: of the round under way; since: when that was decided; seen:
    what was observed of it so far; refused: since when its plan is not carried out; stuck: why it
    cannot go on; late: since when a finished campaign sees rows late or waiting; calm: since when
    it could do with fewer instances; paused: the phase to go on with when the load is back.
    """

    ground: ProfiledFlow
    plan: Plan
    phase: Phase = "features"
    kind: str = "features"
    throttle: float = 0.0
    since: float = -math.inf
    seen: tuple[RoundObservation, ...] = ()
    features: Mapping[str, Feature] = field(default_factory=dict)
    ratios: Ratios | None = None
    instances: Mapping[str, int] = field(default_factory=dict)
    search: SearchState = field(default_factory=SearchState)
    tuning: TuningState | None = None
    rounds: tuple[ProfilingRound, ...] = ()
    refused: float | None = None
    stuck: str | None = None
    profile: Profile | None = None
    late: float | None = None
    calm: float | None = None
    paused: Phase | None = None
    version: Literal[1] = 1


def with_next_round(
    campaign: StepwiseMemory, plan: Plan, kind: str, since: float, throttle: float
) -> StepwiseMemory:
    """The campaign with another round to observe."""
    return replace(
        campaign, plan=plan, kind=kind, since=since, throttle=throttle, seen=(), refused=None
    )


def paused(campaign: StepwiseMemory, profile: Profile | None, now: float) -> StepwiseMemory:
    """The campaign while the load says nothing: done with what is known, and to be gone on with."""
    return replace(
        campaign,
        phase="done",
        profile=profile,
        since=now,
        seen=(),
        calm=None,
        paused=campaign.phase,
    )


def profile_so_far(campaign: StepwiseMemory, level: float, least: float) -> Profile | None:
    """What is known by now; nothing before the first round has been observed.

    level and least: when a difference between two rounds counts.
    """
    if not campaign.rounds:
        return None
    ratios = campaign.ratios or Ratios({}, {}, 0.0)
    final = best_round(campaign.rounds, level, least)
    return Profile(campaign.features, ratios, campaign.instances, campaign.rounds, final)


def in_force(campaign: StepwiseMemory, plan: Plan) -> bool:
    """Whether a plan is what the round wants, in all that profiling turns."""
    wanted = {p.name: (p.parallelism, p.admission) for p in campaign.plan.pipelines}
    return wanted == {p.name: (p.parallelism, p.admission) for p in plan.pipelines}


def with_more_instances(
    plan: Plan, more: Mapping[str, int], graph: Graph, limits: Limits
) -> Plan | None:
    """A plan with so many instances more, as far as bounds allow; None if nothing more fits."""
    pipelines = []
    for pipeline in plan.pipelines:
        wanted = pipeline.parallelism + more.get(pipeline.name, 0)
        most = fusion.bounds(graph, pipeline.operators).most
        size = wanted if most is None else max(pipeline.parallelism, min(wanted, most))
        pipelines.append(resized(pipeline, size))
    found = replace(plan, pipelines=tuple(pipelines))
    return None if found == plan or limits.exceeded(found) else found


def with_budget_filled(
    plan: Plan, ratios: Mapping[str, float], graph: Graph, limits: Limits
) -> Plan | None:
    """A plan with what the budget has left, dealt out by ratios; None where nothing is left.

    Each instance goes to the pipeline that has fewest for its ratio.
    """
    left = 0 if limits.slots is None else limits.slots - plan.slots
    sizes = {p.name: p.parallelism for p in plan.pipelines}
    most = {p.name: fusion.bounds(graph, p.operators).most or math.inf for p in plan.pipelines}
    neediest = [(-ratio / sizes[name], name) for name, ratio in ratios.items()]
    heapq.heapify(neediest)
    while left > 0 and neediest:
        name = neediest[0][1]
        if sizes[name] >= most[name]:
            heapq.heappop(neediest)
            continue
        sizes[name] += 1
        left -= 1
        heapq.heapreplace(neediest, (-ratios[name] / sizes[name], name))
    pipelines = tuple(resized(p, sizes[p.name]) for p in plan.pipelines)
    found = replace(plan, pipelines=pipelines)
    return None if found == plan or limits.exceeded(found) else found


def with_sizes(plan: Plan, sizes: Mapping[str, int], graph: Graph) -> Plan:
    """A plan with these instances within their bounds, and the least of all others."""
    pipelines = []
    for pipeline in plan.pipelines:
        bounds = fusion.bounds(graph, pipeline.operators)
        size = max(bounds.least, sizes.get(pipeline.name, bounds.least))
        pipelines.append(resized(pipeline, size if bounds.most is None else min(size, bounds.most)))
    return replace(plan, pipelines=tuple(pipelines))


def plan_for_load(profile: Profile, load: float, share: float, graph: Graph) -> Plan:
    """The best plan, cut down to what a load needs if it may use a share of its throughput."""
    final = profile.final
    needed = min(1.0, load / (share * final.throughput)) if final.throughput else 1.0
    sizes = {p.name: math.ceil(round(needed * p.parallelism, 9)) for p in final.plan.pipelines}
    return with_sizes(final.plan, sizes, graph)


def with_admissions(plan: Plan, rows: Mapping[str, int | None]) -> Plan:
    """A plan with other limits on the batches of some pipelines."""
    pipelines = (replace(p, admission=rows.get(p.name, p.admission)) for p in plan.pipelines)
    return replace(plan, pipelines=tuple(pipelines))


def with_cadences(plan: Plan, beats: Mapping[str, float]) -> Plan:
    """A plan with other cadences for some pipelines."""
    pipelines = (replace(p, cadence=beats.get(p.name, p.cadence)) for p in plan.pipelines)
    return replace(plan, pipelines=tuple(pipelines))


def unthrottled(plan: Plan, ground: ProfiledFlow) -> Plan:
    """A plan whose sources are as free as they were before anything was slowed down."""
    return with_cadences(with_admissions(plan, ground.admissions), ground.cadences)


Outcome = tuple[Decision, StepwiseMemory]


FREE = {UNDO: 1.0}
"""Rounds go back and forth on purpose: the guard need not see to it that they do not."""


def started(context: Context, since: float, sample: int | None) -> StepwiseMemory:
    """A campaign at its start; sample: rows of a batch while features are measured."""
    found = profiled_flow(context.graph, context.plan)
    plan = context.plan
    if sample is not None:
        plan = with_admissions(plan, dict.fromkeys(found.sources, sample))
    return StepwiseMemory(found, plan, since=since)


def request_round(
    context: Context,
    state: StepwiseMemory,
    plan: Plan,
    kind: str,
    said: str,
    throttle: float = 0.0,
) -> Outcome:
    """Another round. Sources are as free as at first unless they are slowed down."""
    if not throttle:
        plan = unthrottled(plan, state.ground)
    slowed = f", sources {throttle:.0%} slower" if throttle else ""
    reason = f"{said}; {kind}{slowed}: {listed(sizes(plan), ', ')}"
    later = with_next_round(state, plan, kind, context.now, throttle)
    if in_force(later, context.plan):
        return Decision(None, reason), later
    return Decision(plan, reason, {"slots": float(plan.slots), **FREE}), later


def request_again(context: Context, state: StepwiseMemory, patience: float) -> Outcome | None:
    """The round once more, whose plan was not carried out; None where patience is at its end."""
    first = context.now if state.refused is None else state.refused
    if context.now - first >= patience:
        return None
    later = replace(state, refused=first, since=context.now)
    numbers = {"slots": float(state.plan.slots), **FREE}
    return Decision(state.plan, f"asks again for {state.kind}", numbers), later


def round_text(
    before: ProfilingRound | None, seen: ProfilingRound, level: float, least: float
) -> str:
    """What a round has brought, beside another one; level and least: when a difference counts."""
    late = "" if seen.latency is None else f", latency {seen.latency:.2f} of its bound"
    if before is None:
        return f"throughput {seen.throughput:.4g}/s{late}"
    change = compare(before.throughputs, seen.throughputs, level, least)
    return f"throughput {seen.throughput:.4g}/s {change} from {before.throughput:.4g}/s{late}"


def pairs(numbers: Mapping[str, int]) -> list[str]:
    return [f"{name} {number}" for name, number in numbers.items()]


def sizes(plan: Plan) -> list[str]:
    return [f"{p.name}={p.parallelism}" for p in plan.pipelines]
