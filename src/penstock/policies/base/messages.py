"""Texts for the reasons of decisions, short even with ten thousand pipelines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penstock.plan.change import CadenceChange, ExecutorsChange
from penstock.plan.plan import Plan

_FEW = 12


def listed(texts: Iterable[str], between: str = "; ") -> str:
    """Join the first few texts, and say how many more there are."""
    found = list(texts)
    more = [f"and {len(found) - _FEW} more"] if len(found) > _FEW else []
    return between.join([*found[:_FEW], *more])


def changes_text(before: Plan, after: Plan) -> str:
    """Changes between two plans with the same pipelines in the same order."""
    return listed(_changes(before, after), ", ") or "no change"


def shortage_text(found: Mapping[str, int], wanted: Mapping[str, int]) -> str:
    """Pipelines that get fewer instances than they need."""
    cut = [f"{name} gets {found[name]} of {k}" for name, k in wanted.items() if found[name] < k]
    return listed(cut) or "no pipeline can have fewer"


def _changes(before: Plan, after: Plan) -> Iterator[str]:
    for old, new in zip(before.pipelines, after.pipelines, strict=True):
        if old.parallelism != new.parallelism:
            yield f"{new.name} {old.parallelism} -> {new.parallelism} instances"
        if old.cadence != new.cadence:
            yield str(CadenceChange(new.name, old.cadence, new.cadence))
    if before.executors != after.executors:
        yield str(ExecutorsChange(before.executors, after.executors, after.leaving))
