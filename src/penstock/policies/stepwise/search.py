"""Search for the best plan: what to change after each round of profiling.

The throughput of a round is compared with that of the round before. The next change follows from
the result and from what was changed last. Where more resources reduce throughput, the search
returns to the best round and slows the sources down until latency is within its bound. Finally,
single vertices are tuned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from penstock.policies.stepwise.profile import Feature, ProfilingRound
from penstock.policies.stepwise.significance import Difference, compare

SearchStep = Literal["source", "sinks", "throttle", "finish"]


@dataclass(frozen=True)
class SearchRules:
    """Thresholds of the search.

    alpha: share of the best throughput below which the search returns to the best round; level,
    least: when a difference counts, see `compare`; throttle: first strength by which sources are
    slowed down, and its increment; fruitless: consecutive rounds without a new best throughput
    after which the limit is reached.
    """

    alpha: float = 0.9
    level: float = 0.05
    least: float = 0.0
    throttle: float = 0.1
    fruitless: int = 4


@dataclass(frozen=True)
class SearchState:
    """State of the search.

    best: the round with the highest throughput; reference: the round to compare the next one with;
    strength: share by which sources are slowed down, between the bounds found so far: `weak` is too
    little for the latency bound, `strong` costs throughput; barren: rounds since the best one.
    """

    best: ProfilingRound | None = None
    reference: ProfilingRound | None = None
    strength: float = 0.0
    weak: float = 0.0
    strong: float = 1.0
    barren: int = 0


def next_step(
    search: SearchState, seen: ProfilingRound, rules: SearchRules
) -> tuple[SearchState, SearchStep]:
    """Return what to change after a round, relative to the reference plan."""
    change: Difference = "increased"
    if search.reference is not None:
        reference = search.reference.throughputs
        change = compare(reference, seen.throughputs, rules.level, rules.least)
    top = search.best
    # several small gains may be significant in total although none is alone
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
        return capacity_reached(search, rules)
    return search, "source" if seen.kind == "sinks" else "sinks"


def _above(top: ProfilingRound, seen: ProfilingRound, rules: SearchRules) -> bool:
    return compare(top.throughputs, seen.throughputs, rules.level, rules.least) == "increased"


def capacity_reached(search: SearchState, rules: SearchRules) -> tuple[SearchState, SearchStep]:
    """More resources do not help: return to the best round, with slower sources."""
    return replace(search, reference=search.best, strength=rules.throttle), "throttle"


def _grown(search: SearchState, seen: ProfilingRound) -> tuple[SearchState, SearchStep]:
    """Throughput rose: go on with more rows or, if they are late, more instances."""
    free = replace(search, strength=0.0, weak=0.0, strong=1.0)
    return free, "source" if seen.met else "sinks"


def _throttled(
    search: SearchState, seen: ProfilingRound, change: Difference, rules: SearchRules
) -> tuple[SearchState, SearchStep]:
    """Slow sources down just enough: more if rows are late, less if throughput falls.

    Every throttled round is compared with the best round, whose plan it has.
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
class TuningState:
    """State of tuning single vertices.

    kept: the round to improve on; tried: vertices without effect since the last gain; revoked:
    consecutive changes that reduced throughput; vertex: the one that has just got an instance.
    """

    kept: ProfilingRound
    tried: tuple[str, ...] = ()
    revoked: int = 0
    vertex: str | None = None


def after_tuning_round(
    tuning: TuningState, seen: ProfilingRound, level: float, least: float
) -> TuningState:
    """Judge a round: keep a gain and make all vertices eligible, or revoke a loss."""
    if tuning.vertex is None:
        return replace(tuning, kept=seen)
    match compare(tuning.kept.throughputs, seen.throughputs, level, least):
        case "increased":
            return TuningState(seen)
        case "unchanged":
            return TuningState(seen, (*tuning.tried, tuning.vertex))
        case _:
            return TuningState(tuning.kept, (*tuning.tried, tuning.vertex), tuning.revoked + 1)


def all_fast_enough(seen: ProfilingRound, features: Mapping[str, Feature], factor: float) -> bool:
    """True if no vertex takes more than `factor` times its least time for a row."""
    times = {n: seen.services.get(n) for n, f in features.items() if not f.source}
    return all(
        time is not None and time <= factor * features[name].latency + 1e-12
        for name, time in times.items()
    )


def busiest_vertex(tuning: TuningState, candidates: Iterable[str]) -> str | None:
    """Return the eligible vertex with the highest capacity (utilisation), or None."""
    known = tuning.kept.capacities
    left = [name for name in candidates if name not in tuning.tried and name in known]
    return max(left, key=lambda name: known[name], default=None)
