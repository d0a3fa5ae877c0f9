"""The last step of profiling: one instance more for the vertex that is most at work, one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from penstock.models.profile import Feature, Round
from penstock.models.significance import compare


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
