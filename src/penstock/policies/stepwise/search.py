"""What is changed after each round of profiling: the search for the best plan, and its tuning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from penstock.policies.stepwise.profile import Feature, ProfilingRound
from penstock.policies.stepwise.significance import Difference, compare

SearchStep = Literal["source", "sinks", "throttle", "finish"]


@dataclass(frozen=True)
class SearchRules:
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
class SearchState:
    """Where the search stands.

    best: the round with the highest throughput; reference: the round that the next one is compared
    with; strength: how much the sources are slowed down, with the bounds found so far: `weak` is
    too little for the latency, `strong` costs throughput; barren: rounds since the best one.
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
    """What to change after a round. Growth starts from the plan of the reference round."""
    change: Difference = "increased"
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
        return capacity_reached(search, rules)
    return search, "source" if seen.kind == "sinks" else "sinks"


def _above(top: ProfilingRound, seen: ProfilingRound, rules: SearchRules) -> bool:
    return compare(top.throughputs, seen.throughputs, rules.level, rules.least) == "increased"


def capacity_reached(search: SearchState, rules: SearchRules) -> tuple[SearchState, SearchStep]:
    """More does not help: back to the best round, with the sources slowed down."""
    return replace(search, reference=search.best, strength=rules.throttle), "throttle"


def _grown(search: SearchState, seen: ProfilingRound) -> tuple[SearchState, SearchStep]:
    """More came through: go on with what is short, rows or instances for them."""
    free = replace(search, strength=0.0, weak=0.0, strong=1.0)
    return free, "source" if seen.met else "sinks"


def _throttled(
    search: SearchState, seen: ProfilingRound, change: Difference, rules: SearchRules
) -> tuple[SearchState, SearchStep]:
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
class TuningState:
    """kept: the round to improve on; tried: vertices that brought nothing since the last gain;
    revoked: changes in a row that made it worse; vertex: the one that has just got an instance.
    """

    kept: ProfilingRound
    tried: tuple[str, ...] = ()
    revoked: int = 0
    vertex: str | None = None


def after_tuning_round(
    tuning: TuningState, seen: ProfilingRound, level: float, least: float
) -> TuningState:
    """After a round: a gain is kept and opens all vertices again, a loss is revoked."""
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
    """Whether no vertex takes longer for a row than so many times its least time."""
    times = {n: seen.services.get(n) for n, f in features.items() if not f.source}
    return all(
        time is not None and time <= factor * features[name].latency + 1e-12
        for name, time in times.items()
    )


def busiest_vertex(tuning: TuningState, candidates: Iterable[str]) -> str | None:
    """The vertex with the highest capacity of those that are open; None if there is none."""
    known = tuning.kept.capacities
    left = [name for name in candidates if name not in tuning.tried and name in known]
    return max(left, key=lambda name: known[name], default=None)
