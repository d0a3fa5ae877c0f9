"""Short messages of policies: of ten thousand pipelines a person reads the first few."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penstock.plan.change import Action, CadenceChange, ExecutorsChange, ParallelismChange
from penstock.plan.plan import Plan

_FEW = 12


def listed(texts: Iterable[str], between: str = "; ") -> str:
    """Join the first few texts, and say how many more there are."""
    found = list(texts)
    more = [f"and {len(found) - _FEW} more"] if len(found) > _FEW else []
    return between.join([*found[:_FEW], *more])


def changes_text(before: Plan, after: Plan) -> str:
    """What is different in a plan that has the same pipelines in the same order."""
    return listed([str(action) for action in _actions(before, after)]) or "no change"


def shortage_text(found: Mapping[str, int], wanted: Mapping[str, int]) -> str:
    """Who gets fewer instances than it should have."""
    cut = [f"{name} {found[name]} not {k}" for name, k in wanted.items() if found[name] < k]
    return listed(cut) or "none of them can do with fewer"


def _actions(before: Plan, after: Plan) -> Iterator[Action]:
    for old, new in zip(before.pipelines, after.pipelines, strict=True):
        if old.parallelism != new.parallelism:
            yield ParallelismChange(new.name, old.parallelism, new.parallelism)
        if old.cadence != new.cadence:
            yield CadenceChange(new.name, old.cadence, new.cadence)
    if before.executors != after.executors:
        yield ExecutorsChange(before.executors, after.executors, after.leaving)
