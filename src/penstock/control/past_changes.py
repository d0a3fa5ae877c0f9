"""The changes made in a run so far, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from types import MappingProxyType

from penstock.plan.change import AdmissionChange, CadenceChange, Change
from penstock.plan.plan import Plan
from penstock.plan.transition import Transition

_KEPT = 200

DEFAULT_COSTS: Mapping[str, float] = MappingProxyType(
    {
        "admit": 0.1,
        "cadence": 0.1,
        "rescale": 0.1,
        "executors": 1.0,
        "ceiling": 2.0,
        "merge": 2.0,
        "split": 2.0,
        "regroup": 2.0,
    }
)
"""Assumed seconds without output by kind of action, until a run has measured it.

The first three take effect with the next batch. The others stop pipelines; they were measured
with state of up to a million keys (`bench/RESULTS.md`).
"""


@dataclass(frozen=True)
class AppliedChange:
    """A change that was made; its plan is in force since `at`, in seconds of the loop."""

    at: float
    change: Change
    transition: Transition

    @property
    def cost(self) -> float:
        """Seconds without output, beyond the usual gap between two batches."""
        return max(0.0, self.transition.interruption - (self.transition.usual_gap or 0.0))


@dataclass(frozen=True)
class RefusedPlan:
    """A plan that the engine refused, when, and why."""

    at: float
    plan: Plan
    why: str


@dataclass(frozen=True)
class PastChanges:
    """The changes made so far, oldest first, and the plan that the engine refused last.

    began: when the run under way began, in seconds of the loop (above 0 if it is a resumed one);
    time_of_day: now, in seconds since midnight, None if unknown.
    """

    made: tuple[AppliedChange, ...] = ()
    refused: RefusedPlan | None = None
    began: float = 0.0
    time_of_day: float | None = None

    def with_change(self, at: float, change: Change, transition: Transition) -> PastChanges:
        """These changes and one more; only the last 200 are kept."""
        return replace(self, made=(*self.made[1 - _KEPT :], AppliedChange(at, change, transition)))

    def with_outcomes(self, transitions: Iterable[Transition], since: float = 0.0) -> PastChanges:
        """The same changes, with what is known by now of those made since a second."""
        latest = {t.at: t for t in transitions}
        made = (
            replace(m, transition=latest.get(m.transition.at, m.transition)) if m.at >= since else m
            for m in self.made
        )
        return replace(self, made=tuple(made))

    def expected_cost(self, change: Change) -> tuple[float, int]:
        """Expected seconds without output of a change, and how many measurements that is based on.

        A change costs what its most expensive action costs: the mean over the changes of that
        kind so far, or the default if there are none.
        """
        kind = kind_of(change)
        costs = [m.cost for m in self.made if kind_of(m.change) == kind]
        return (fmean(costs), len(costs)) if costs else (DEFAULT_COSTS[kind], 0)


def kind_of(change: Change) -> str:
    """The kind of a change: that of its most expensive action."""
    return max((a.kind for a in change.actions), key=lambda k: (DEFAULT_COSTS[k], k))


def is_light(change: Change) -> bool:
    """True if a change sets admission and cadence only, which restarts nothing."""
    return all(isinstance(action, AdmissionChange | CadenceChange) for action in change.actions)
