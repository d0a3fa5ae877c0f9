"""The state of profiling: which step it is in, which plan is observed next, what was found.

After each round the throughput is compared with that of the round before, and what is changed
next follows from that and from what was changed last. Where more hurts, the search returns to the
best round and slows the sources down until the latency is met.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from penstock.dataflow.graph import Graph
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.joker.shrinking import resized
from penstock.policies.stepwise.observation import Observation
from penstock.policies.stepwise.profile import (
    Change,
    Feature,
    Profile,
    Ratios,
    Round,
    best,
    compare,
)

Step = Literal["source", "sinks", "throttle", "finish"]


@dataclass(frozen=True)
class Rules:
    """alpha: share of the best throughput below which the search returns to it; level and least:
    when a difference counts; throttle: the first strength, and what is added to it; fruitless:
    rounds in a row without a new best after which the limit is reached. To get back what a round
    before has lost is none.
    """

    alpha: float = 0.9
    level: float = 0.05
    least: float = 0.0
    throttle: float = 0.1
    fruitless: int = 4


@dataclass(frozen=True)
class Search:
    """Where the search stands.

    best: the round with the highest throughput; reference: the round that the next one is compared
    with; strength: how much the sources are slowed down, with the bounds found so far: `weak` is
    too little for the latency, `strong` costs throughput; barren: rounds since the best one.
    """

    best: Round | None = None
    reference: Round | None = None
    strength: float = 0.0
    weak: float = 0.0
    strong: float = 1.0
    barren: int = 0


def next_step(search: Search, seen: Round, rules: Rules) -> tuple[Search, Step]:
    """What to change after a round. Growth starts from the plan of the reference round."""
    change: Change = "increased"
    if search.reference is not None:
        reference = search.reference.throughputs
        change = compare(reference, seen.throughputs, rules.level, rules.least)
    top = search.best
    # small gains in a row, none of which is significant, are one when they are added up
    record = top is not None and _above(top, seen, rules)
    if top is None or (change == "increased" and seen.throughput > top.throughput):
        record = True
    if record:
        search = replace(search, best=seen)
    search = replace(search, reference=seen, barren=0 if record else search.barren + 1)
    if change == "increased" and search.barren < rules.fruitless:
        return _grown(search, seen)
    if seen.kind == "throttle":
        return _throttled(search, seen, change, rules)
    hurt = (
        top is not None
        and change == "decreased"
        and seen.throughput < rules.alpha * (top.throughput)
    )
    if hurt or search.barren >= rules.fruitless:
        return limit(search, rules)
    return search, "source" if seen.kind == "sinks" else "sinks"


def _above(top: Round, seen: Round, rules: Rules) -> bool:
    return compare(top.throughputs, seen.throughputs, rules.level, rules.least) == "increased"


def limit(search: Search, rules: Rules) -> tuple[Search, Step]:
    """More does not help: back to the best round, with the sources slowed down."""
    return replace(search, reference=search.best, strength=rules.throttle), "throttle"


def _grown(search: Search, seen: Round) -> tuple[Search, Step]:
    """More came through: go on with what is short, rows or instances for them."""
    free = replace(search, strength=0.0, weak=0.0, strong=1.0)
    return free, "source" if seen.met else "sinks"


def _throttled(search: Search, seen: Round, change: Change, rules: Rules) -> tuple[Search, Step]:
    """Slow the sources down just enough: stronger if rows are late, weaker if fewer come through.

    Every throttled round is compared with the best one, which it slows down.
    """
    search = replace(search, reference=search.best)
    if change == "unchanged" and seen.met:
        return search, "finish"
    if change == "unchanged":
        search = replace(search, weak=search.strength)
        bounded = search.strong < 1
        step = (search.strong - search.strength) / 2 if bounded else rules.throttle
        strength = search.strength + step
    else:
        search = replace(search, strong=search.strength)
        strength = (search.weak + search.strength) / 2
    if search.strong - search.weak < rules.throttle / 2 or strength >= 0.95:
        return search, "finish"
    return replace(search, strength=strength), "throttle"


@dataclass(frozen=True)
class Tuning:
    """kept: the round to improve on; tried: vertices that brought nothing since the last gain;
    revoked: changes in a row that made it worse; vertex: the one that has just got an instance.
    """

    kept: Round
    tried: frozenset[str] = frozenset()
    revoked: int = 0
    vertex: str | None = None


def judged(tuning: Tuning, seen: Round, level: float, least: float) -> Tuning:
    """After a round: a gain is kept and opens all vertices again, a loss is revoked."""
    if tuning.vertex is None:
        return replace(tuning, kept=seen)
    match compare(tuning.kept.throughputs, seen.throughputs, level, least):
        case "increased":
            return Tuning(seen)
        case "unchanged":
            return Tuning(seen, tuning.tried | {tuning.vertex})
        case _:
            return Tuning(tuning.kept, tuning.tried | {tuning.vertex}, tuning.revoked + 1)


def swift(seen: Round, features: Mapping[str, Feature], factor: float) -> bool:
    """Whether no vertex takes longer for a row than so many times its least time."""
    times = {n: seen.services.get(n) for n, f in features.items() if not f.source}
    return all(
        time is not None and time <= factor * features[name].latency + 1e-12
        for name, time in times.items()
    )


def busiest(tuning: Tuning, candidates: Iterable[str]) -> str | None:
    """The vertex with the highest capacity of those that are open; None if there is none."""
    known = tuning.kept.capacities
    left = [name for name in candidates if name not in tuning.tried and name in known]
    return max(left, key=lambda name: known[name], default=None)


Phase = Literal["features", "platform", "operators", "done"]


@dataclass(frozen=True)
class Ground:
    """What profiling holds for: one dataflow, fused in one way, on one platform.

    admissions: what each source pipeline may take, before anything is slowed down; cadences: and
    how often.
    """

    fingerprint: str
    groups: frozenset[tuple[str, ...]]
    executors: int
    admissions: Mapping[str, int | None]
    cadences: Mapping[str, float] = field(default_factory=dict)

    @property
    def sources(self) -> frozenset[str]:
        return frozenset(self.admissions)


def ground(graph: Graph, plan: Plan) -> Ground:
    sources = {plan.pipeline_of(source.name).name for source in graph.sources}
    return Ground(
        graph.fingerprint,
        frozenset(p.operators for p in plan.pipelines),
        plan.executors,
        {name: plan.pipeline_of(name).admission for name in sorted(sources)},
        {name: plan.pipeline_of(name).cadence for name in sorted(sources)},
    )


@dataclass(frozen=True)
class Campaign:
    """One profiling from its first observation to its end.

    plan, kind, throttle: of the round under way; since: when that was decided; seen:
    what was observed of it so far; refused: since when its plan is not carried out; stuck: why it
    cannot go on; late: since when a finished campaign sees rows late or waiting; calm: since when
    it could do with fewer instances; paused: the phase to go on with when the load is back.
    """

    ground: Ground
    plan: Plan
    phase: Phase = "features"
    kind: str = "features"
    throttle: float = 0.0
    since: float = -math.inf
    seen: tuple[Observation, ...] = ()
    features: Mapping[str, Feature] = field(default_factory=dict)
    ratios: Ratios | None = None
    instances: Mapping[str, int] = field(default_factory=dict)
    search: Search = field(default_factory=Search)
    tuning: Tuning | None = None
    rounds: tuple[Round, ...] = ()
    refused: float | None = None
    stuck: str | None = None
    profile: Profile | None = None
    late: float | None = None
    calm: float | None = None
    paused: Phase | None = None


def trying(campaign: Campaign, plan: Plan, kind: str, since: float, throttle: float) -> Campaign:
    """The campaign with another round to observe."""
    return replace(
        campaign, plan=plan, kind=kind, since=since, throttle=throttle, seen=(), refused=None
    )


def pausing(campaign: Campaign, profile: Profile | None, now: float) -> Campaign:
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


def found(campaign: Campaign, level: float, least: float) -> Profile | None:
    """What is known by now; nothing before the first round has been observed.

    level and least: when a difference between two rounds counts.
    """
    if not campaign.rounds:
        return None
    ratios = campaign.ratios or Ratios({}, {}, 0.0)
    final = best(campaign.rounds, level, least)
    return Profile(campaign.features, ratios, campaign.instances, campaign.rounds, final)


def in_force(campaign: Campaign, plan: Plan) -> bool:
    """Whether a plan is what the round wants, in all that profiling turns."""
    wanted = {p.name: (p.parallelism, p.admission) for p in campaign.plan.pipelines}
    return wanted == {p.name: (p.parallelism, p.admission) for p in plan.pipelines}


def grown(plan: Plan, more: Mapping[str, int], graph: Graph, limits: Limits) -> Plan | None:
    """A plan with so many instances more, as far as bounds allow; None if nothing more fits."""
    pipelines = []
    for pipeline in plan.pipelines:
        wanted = pipeline.parallelism + more.get(pipeline.name, 0)
        most = fusion.bounds(graph, pipeline.operators).most
        size = wanted if most is None else max(pipeline.parallelism, min(wanted, most))
        pipelines.append(resized(pipeline, size))
    found = replace(plan, pipelines=tuple(pipelines))
    return None if found == plan or limits.exceeded(found) else found


def filled(plan: Plan, ratios: Mapping[str, float], graph: Graph, limits: Limits) -> Plan | None:
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


def sized(plan: Plan, sizes: Mapping[str, int], graph: Graph) -> Plan:
    """A plan with these instances within their bounds, and the least of all others."""
    pipelines = []
    for pipeline in plan.pipelines:
        bounds = fusion.bounds(graph, pipeline.operators)
        size = max(bounds.least, sizes.get(pipeline.name, bounds.least))
        pipelines.append(resized(pipeline, size if bounds.most is None else min(size, bounds.most)))
    return replace(plan, pipelines=tuple(pipelines))


def carrying(profile: Profile, load: float, share: float, graph: Graph) -> Plan:
    """The best plan, cut down to what a load needs if it may use a share of its throughput."""
    final = profile.final
    needed = min(1.0, load / (share * final.throughput)) if final.throughput else 1.0
    sizes = {p.name: math.ceil(round(needed * p.parallelism, 9)) for p in final.plan.pipelines}
    return sized(final.plan, sizes, graph)


def admitting(plan: Plan, rows: Mapping[str, int | None]) -> Plan:
    """A plan with other limits on the batches of some pipelines."""
    pipelines = (replace(p, admission=rows.get(p.name, p.admission)) for p in plan.pipelines)
    return replace(plan, pipelines=tuple(pipelines))


def at_beat(plan: Plan, beats: Mapping[str, float]) -> Plan:
    """A plan with other cadences for some pipelines."""
    pipelines = (replace(p, cadence=beats.get(p.name, p.cadence)) for p in plan.pipelines)
    return replace(plan, pipelines=tuple(pipelines))


def free(plan: Plan, ground: Ground) -> Plan:
    """A plan whose sources are as free as they were before anything was slowed down."""
    return at_beat(admitting(plan, ground.admissions), ground.cadences)
