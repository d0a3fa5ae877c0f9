"""What has been changed in a run so far, and what it cost."""

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
"""Seconds without output that a kind of action is taken to cost until a run has measured it.

The first three change with the next batch. The others stop pipelines, and were measured with
state of up to a million keys (`bench/RESULTS.md`).
"""


@dataclass(frozen=True)
class Made:
    """A change that was made; `at` is the second of the run from which on its plan was in force."""

    at: float
    change: Change
    transition: Transition

    @property
    def cost(self) -> float:
        """Seconds without output, beyond those that pass between two batches anyway."""
        return max(0.0, self.transition.interruption - (self.transition.usual_gap or 0.0))


@dataclass(frozen=True)
class Attempt:
    """A plan that the engine refused, when, and why."""

    at: float
    plan: Plan
    why: str


@dataclass(frozen=True)
class Past:
    """The changes of a run, oldest first, and what the engine refused last.

    `time_of_day` is that of now, in seconds since midnight; None where nobody said.
    """

    made: tuple[Made, ...] = ()
    refused: Attempt | None = None
    time_of_day: float | None = None

    def with_made(self, at: float, change: Change, transition: Transition) -> Past:
        return replace(self, made=(*self.made[1 - _KEPT :], Made(at, change, transition)))

    def known_by_now(self, transitions: Iterable[Transition]) -> Past:
        """The same changes with what has been found out about them since."""
        latest = {t.at: t for t in transitions}
        made = (replace(m, transition=latest.get(m.transition.at, m.transition)) for m in self.made)
        return replace(self, made=tuple(made))

    def expected(self, change: Change) -> tuple[float, int]:
        """What a change will cost in seconds without output, and on how many that is based.

        A change costs what its dearest action costs: the mean of those of this kind, or with
        none of them the default.
        """
        kind = kind_of(change)
        costs = [m.cost for m in self.made if kind_of(m.change) == kind]
        return (fmean(costs), len(costs)) if costs else (DEFAULT_COSTS[kind], 0)


def kind_of(change: Change) -> str:
    """The kind of a change: that of its dearest action."""
    return max((a.kind for a in change.actions), key=lambda k: (DEFAULT_COSTS[k], k))


def light(change: Change) -> bool:
    """Whether it turns admission and cadence only, which restarts nothing."""
    return all(isinstance(action, AdmissionChange | CadenceChange) for action in change.actions)
