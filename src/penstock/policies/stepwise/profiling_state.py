"""State of profiling: its phase, the plan under observation, and the results."""

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
    """What a profile is valid for: one dataflow, fused in one way, on one platform.

    admissions, cadences: settings of the source pipelines before any of them is slowed down.
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
    """Memory of stepwise profiling.

    flow: what the profile is valid for; plan, kind, throttle: of the current round; since: when it
    was decided; seen: its observations so far; refused: since when its plan has not been carried
    out; stuck: why profiling cannot continue; late: since when rows are late or wait too long after
    profiling; calm: since when fewer instances would do; paused: the phase to continue with once
    the load is back.
    """

    flow: ProfiledFlow
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
    state: StepwiseMemory, plan: Plan, kind: str, since: float, throttle: float
) -> StepwiseMemory:
    """Return the memory with another round to observe."""
    return replace(
        state, plan=plan, kind=kind, since=since, throttle=throttle, seen=(), refused=None
    )


def paused(state: StepwiseMemory, profile: Profile | None, now: float) -> StepwiseMemory:
    """Return the memory of profiling that pauses because the load is too low."""
    return replace(
        state,
        phase="done",
        profile=profile,
        since=now,
        seen=(),
        calm=None,
        paused=state.phase,
    )


def profile_so_far(state: StepwiseMemory, level: float, least: float) -> Profile | None:
    """Return the profile so far; None before the first round is observed.

    level, least: when a difference between two rounds counts, see `compare`.
    """
    if not state.rounds:
        return None
    ratios = state.ratios or Ratios({}, {}, 0.0)
    final = best_round(state.rounds, level, least)
    return Profile(state.features, ratios, state.instances, state.rounds, final)


def in_force(state: StepwiseMemory, plan: Plan) -> bool:
    """True if a plan has the parallelism and admissions of the current round."""
    wanted = {p.name: (p.parallelism, p.admission) for p in state.plan.pipelines}
    return wanted == {p.name: (p.parallelism, p.admission) for p in plan.pipelines}


def with_more_instances(
    plan: Plan, more: Mapping[str, int], graph: Graph, limits: Limits
) -> Plan | None:
    """Add instances within the bounds; None if nothing more fits the limits."""
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
    """Distribute the rest of the budget by ratios; None if nothing is left.

    Each instance goes to the pipeline with the fewest for its ratio.
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
    """Set instances within their bounds; pipelines without a number get their least."""
    pipelines = []
    for pipeline in plan.pipelines:
        bounds = fusion.bounds(graph, pipeline.operators)
        size = max(bounds.least, sizes.get(pipeline.name, bounds.least))
        pipelines.append(resized(pipeline, size if bounds.most is None else min(size, bounds.most)))
    return replace(plan, pipelines=tuple(pipelines))


def plan_for_load(profile: Profile, load: float, share: float, graph: Graph) -> Plan:
    """Reduce the best plan to a load that may use `share` of its throughput."""
    final = profile.final
    needed = min(1.0, load / (share * final.throughput)) if final.throughput else 1.0
    sizes = {p.name: math.ceil(round(needed * p.parallelism, 9)) for p in final.plan.pipelines}
    return with_sizes(final.plan, sizes, graph)


def with_admissions(plan: Plan, rows: Mapping[str, int | None]) -> Plan:
    """Set the admission of some pipelines."""
    pipelines = (replace(p, admission=rows.get(p.name, p.admission)) for p in plan.pipelines)
    return replace(plan, pipelines=tuple(pipelines))


def with_cadences(plan: Plan, beats: Mapping[str, float]) -> Plan:
    """Set the cadence of some pipelines."""
    pipelines = (replace(p, cadence=beats.get(p.name, p.cadence)) for p in plan.pipelines)
    return replace(plan, pipelines=tuple(pipelines))


def unthrottled(plan: Plan, flow: ProfiledFlow) -> Plan:
    """Reset the sources to their settings before any was slowed down."""
    return with_cadences(with_admissions(plan, flow.admissions), flow.cadences)


Outcome = tuple[Decision, StepwiseMemory]


FREE = {UNDO: 1.0}
"""Tells the guard that rounds alternate between plans on purpose."""


def started(context: Context, since: float, sample: int | None) -> StepwiseMemory:
    """Return the initial memory; sample: rows per batch while features are measured."""
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
    """Decide on another round; sources have their first settings unless slowed down."""
    if not throttle:
        plan = unthrottled(plan, state.flow)
    slowed = f", sources {throttle:.0%} slower" if throttle else ""
    reason = f"next round ({kind}{slowed}) with {listed(sizes(plan), ', ')}: {said}"
    later = with_next_round(state, plan, kind, context.now, throttle)
    if in_force(later, context.plan):
        return Decision(None, reason), later
    return Decision(plan, reason, {"slots": float(plan.slots), **FREE}), later


def request_again(context: Context, state: StepwiseMemory, patience: float) -> Outcome | None:
    """Request the plan of the round again; None if it has been refused for too long."""
    first = context.now if state.refused is None else state.refused
    if context.now - first >= patience:
        return None
    later = replace(state, refused=first, since=context.now)
    numbers = {"slots": float(state.plan.slots), **FREE}
    return Decision(
        state.plan,
        f"plan of the round ({state.kind}) requested again: it was not carried out",
        numbers,
    ), later


def round_text(
    before: ProfilingRound | None, seen: ProfilingRound, level: float, least: float
) -> str:
    """Describe the throughput of a round, compared with another one."""
    late = "" if seen.latency is None else f", latency {seen.latency:.0%} of its bound"
    if before is None:
        return f"throughput {seen.throughput:.4g}/s{late}"
    change = compare(before.throughputs, seen.throughputs, level, least)
    return f"throughput {seen.throughput:.4g}/s {change} from {before.throughput:.4g}/s{late}"


def pairs(numbers: Mapping[str, int]) -> list[str]:
    return [f"{name} {number}" for name, number in numbers.items()]


def sizes(plan: Plan) -> list[str]:
    return [f"{p.name}={p.parallelism}" for p in plan.pipelines]
