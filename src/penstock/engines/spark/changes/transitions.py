"""Follows the effect of a change on the output until it has settled."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

import numpy as np

from penstock.plan.plan import Pipeline
from penstock.plan.transition import Transition

Outputs = Mapping[str, Sequence[float]]
"""Output times by tail operator of a pipeline and by sink, oldest first."""

PATIENCE = 60.0
"""Seconds after which a change is no longer watched, even with a backlog left."""


@dataclass(frozen=True)
class Aftermath:
    """A change that was applied and has not settled; times as in `time.time()`.

    operators: those of all changed pipelines; changed: tails that pipelines had both before and
    after; sinks: all sinks of the dataflow; waiting: backlog of the pipelines before the change, in
    rows.
    """

    transition: Transition
    began: float
    ended: float
    operators: frozenset[str]
    changed: frozenset[str]
    sinks: frozenset[str]
    waiting: int | None

    def touches(self, pipeline: Pipeline) -> bool:
        """True if the change affected a pipeline."""
        return bool(self.operators.intersection(pipeline.operators))

    def settled(self, outputs: Outputs, waiting: int | None, now: float) -> Transition | None:
        """Complete record once output flows and the backlog is worked off; else None.

        After `PATIENCE` seconds it returns the record as far as it is known.
        """
        late = now > self.ended + PATIENCE
        flowing = all(_after(outputs.get(name, ()), self.ended) for name in self.changed)
        caught_up = waiting is None or self.waiting is None or waiting <= self.waiting
        through = (flowing and caught_up) or waiting == 0  # then no further output is due
        if not late and not through:
            return None
        return self.closed(outputs, now - self.ended if through else None)

    def closed(self, outputs: Outputs, catch_up: float | None = None) -> Transition:
        """The record as far as it is known."""
        phases = self.transition.phases
        if catch_up is not None:
            phases = (*phases, ("catch-up", catch_up))
        gap = self._gap(outputs, self.changed)
        return replace(
            self.transition,
            phases=phases,
            interruption=self.transition.interruption if gap is None else gap,
            sink_gap=self._gap(outputs, self.sinks),
            usual_gap=self._usual(outputs),
            settled=catch_up is not None,
        )

    def _gap(self, outputs: Outputs, names: frozenset[str]) -> float | None:
        found = [gap(outputs.get(name, ()), self.began, self.ended) for name in names]
        return max((g for g in found if g is not None), default=None)

    def _usual(self, outputs: Outputs) -> float | None:
        gaps = [
            b - a
            for name in self.changed
            for a, b in pairwise([t for t in outputs.get(name, ()) if t <= self.began][-20:])
        ]
        return median(gaps) if gaps else None


def gap(times: Sequence[float], began: float, ended: float) -> float | None:
    """Longest gap between outputs around a change; None if no output followed it."""
    before = [t for t in times if t <= began][-1:]
    during = [t for t in times if began < t <= ended]
    after = _after(times, ended)[:1]
    seen = [*before, *during, *after]
    return max((b - a for a, b in pairwise(seen)), default=None) if after else None


def moved_share(before: tuple[int, int], after: tuple[int, int]) -> float:
    """Share of keys that move to another instance.

    Each argument is (state partitions, instances). The hash of a key decides its partition, and
    adjacent partitions share an instance.
    """
    (parts, instances), (parts_then, instances_then) = before, after
    keys = np.arange(math.lcm(parts, parts_then))
    here = keys % parts * instances // parts
    there = keys % parts_then * instances_then // parts_then
    return float(np.mean(here != there))


def _after(times: Sequence[float], moment: float) -> list[float]:
    return [t for t in times if t > moment]


class TransitionLog:
    """All changes of a run; the last one may still be watched."""

    def __init__(self) -> None:
        self.done: list[Transition] = []
        self._open: Aftermath | None = None

    @property
    def watched(self) -> Aftermath | None:
        return self._open

    def begin(self, aftermath: Aftermath) -> None:
        self.done.append(aftermath.transition)
        self._open = aftermath

    def look(self, outputs: Outputs, waiting: int | None, now: float) -> None:
        """Settle the last change if its effect is complete."""
        if self._open is not None:
            found = self._open.settled(outputs, waiting, now)
            if found is not None:
                self.done[-1], self._open = found, None

    def close(self, outputs: Outputs) -> None:
        """Stop watching, because another change begins or the flow ends."""
        if self._open is not None:
            self.done[-1], self._open = self._open.closed(outputs), None
