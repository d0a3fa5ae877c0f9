"""What a change costs: its record, and its effect on the output while the flow goes on."""

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
"""When output left a pipeline, by the operator it came from, and by sink; oldest first."""

PATIENCE = 60.0
"""Seconds after which a change counts as settled, though its backlog is not worked off."""


@dataclass(frozen=True)
class Aftermath:
    """A change that is through and not yet settled; times as in `time.time()`.

    operators: all in the pipelines concerned; changed: those of them whose output left a pipeline
    both before and after; sinks: all sinks of the dataflow; waiting: rows that waited for the
    pipelines concerned before it.
    """

    transition: Transition
    began: float
    ended: float
    operators: frozenset[str]
    changed: frozenset[str]
    sinks: frozenset[str]
    waiting: int | None

    def touches(self, pipeline: Pipeline) -> bool:
        """Whether a pipeline was concerned."""
        return bool(self.operators.intersection(pipeline.operators))

    def settled(self, outputs: Outputs, waiting: int | None, now: float) -> Transition | None:
        """The whole record, once output has come again and the backlog is what it was."""
        late = now > self.ended + PATIENCE
        flowing = all(_after(outputs.get(name, ()), self.ended) for name in self.changed)
        caught_up = waiting is None or self.waiting is None or waiting <= self.waiting
        through = (flowing and caught_up) or waiting == 0  # then no more output is owed
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
    """The longest time without output from the last one before to the first one after."""
    before = [t for t in times if t <= began][-1:]
    during = [t for t in times if began < t <= ended]
    after = _after(times, ended)[:1]
    seen = [*before, *during, *after]
    return max((b - a for a, b in pairwise(seen)), default=None) if after else None


def moved_share(before: tuple[int, int], after: tuple[int, int]) -> float:
    """Share of keys that another instance serves; each side is (parts of state, instances).

    A key belongs to the part that its hash says, and neighbouring parts share an instance.
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
        """Settle the last change if it can be."""
        if self._open is not None:
            found = self._open.settled(outputs, waiting, now)
            if found is not None:
                self.done[-1], self._open = found, None

    def close(self, outputs: Outputs) -> None:
        """Watch no longer: another change begins, or the flow ends."""
        if self._open is not None:
            self.done[-1], self._open = self._open.closed(outputs), None
