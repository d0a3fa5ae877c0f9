"""Fits the costs with which the simulator reproduces a recorded run.

Separate measurements are fitted separately: the parts of a batch, the times of its tasks, and the
times of Python operators, which were measured where they ran. Times under contention are first
reduced to what they would have been alone (`batch_time.SharedProcessors`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import State
from penstock.engines.simulator.batch_time import SharedProcessors, batch_times
from penstock.engines.simulator.model import Machine, MicroBatch, OperatorCost, Timing
from penstock.engines.simulator.queues import Floats
from penstock.errors import InvalidInput
from penstock.predict import batch_fit, operator_fit
from penstock.predict.least_squares import FEW
from penstock.predict.observations import (
    BatchObservation,
    ObservedWindow,
    PlacedObservation,
    RunRecord,
)
from penstock.predict.operator_fit import FittedCosts

_WARM = 25.0
"""Seconds at the start of a run that the fit ignores if enough windows remain.

The JVM is slow until it has compiled its hot code.
"""

_SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
_ASIDE = (0.0, 0.02, 0.04, 0.06, 0.08, 0.12, 0.18, 0.25)
_IDLE = (0.0, 0.2, 0.4, 0.6, 0.8)
"""Search grid: processor shares, processor seconds aside, shares of idle time.

The first are available processors relative to the known ones; the second is what a batch takes
aside; the last is the share of task, state and key costs in which tasks wait.
"""

_CLEARLY = 0.9
"""A more complex fit must reduce the error to at most this share."""

_MOST = 0.9
"""Quantile of the windows' processor use that the machine must provide."""

_POLL = 0.02
"""Polling interval in seconds of Penstock's Spark sessions; not in a history."""


@dataclass(frozen=True)
class Quality:
    """How well a fit explains the recorded batches, as shares of their time.

    typical: median error of the windows; most: error that nine tenths of them stay below.
    """

    windows: int
    left_out: int
    typical: float
    most: float
    bias: float


@dataclass(frozen=True)
class Calibration:
    """A fitted model of a dataflow; notes say what could not be fitted, and why."""

    graph: Graph
    costs: Mapping[str, OperatorCost]
    batch: MicroBatch
    node: Machine
    quality: Quality
    timing: Timing = field(default_factory=Timing)
    notes: tuple[str, ...] = ()
    residuals: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)


def fit(recordings: Sequence[RunRecord]) -> Calibration:
    """Fit recorded runs of one dataflow."""
    graph = recordings[0].graph
    for one in recordings[1:]:
        if one.graph.fingerprint != graph.fingerprint:
            raise InvalidInput(
                f"'{one.run_dir}' ran another dataflow than '{recordings[0].run_dir}': "
                f"'{one.graph.name}' and '{graph.name}', or another shape of it"
            )
    windows, notes = _warm(_all_windows(recordings))
    for why, count in _sum(r.missing for r in recordings).items():
        notes.append(f"{count} windows of pipelines were left out: {why}")
    notes += _background_note(windows)
    known, cores = _cores(windows, notes)
    made = _search(graph, windows, known)
    if made.processors < 0.9 * known:
        notes.append(
            f"the machine has {known:g} processors and behaved as if it had {made.processors:.2g}: "
            "something else ran on it, or batches compete for another resource"
        )
    off = made.off
    quality = Quality(
        windows=len(made.errors),
        left_out=sum(len(m.pipelines) for r in recordings for m in r.windows) - len(made.errors),
        typical=float(np.median(np.abs(off))),
        most=float(np.quantile(np.abs(off), 0.9)),
        bias=float(np.median(off)),
    )
    return Calibration(
        graph,
        made.costs,
        replace(made.batch, channel=recordings[-1].channel),
        Machine(cores=cores, processors=round(made.processors, 3)),
        quality,
        _timing(recordings, notes),
        (*notes, *made.notes),
        made.errors,
    )


@dataclass(frozen=True)
class _Fit:
    """A fit for given processors, and given processor seconds aside per batch."""

    processors: float
    costs: Mapping[str, OperatorCost]
    batch: MicroBatch
    errors: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]

    @property
    def score(self) -> float:
        """Mean over plans and pipelines of the median error; lower is better.

        All count alike, however many windows show them.
        """
        found: dict[tuple[int, str], list[float]] = {}
        for one in self.calm:
            found.setdefault((one["plan"], one["pipeline"]), []).append(abs(one["error"]))
        weights = [min(len(some), FEW) for some in found.values()]
        return float(np.average([np.median(some) for some in found.values()], weights=weights))

    @property
    def off(self) -> Floats:
        return np.array([one["error"] for one in self.calm])

    @property
    def calm(self) -> Sequence[Mapping[str, Any]]:
        """Errors of windows in which no task waited for a slot, if there are enough."""
        calm = [one for one in self.errors if not one["crowded"]]
        return calm if len(calm) >= batch_fit.ENOUGH else self.errors


def _search(graph: Graph, windows: Sequence[ObservedWindow], known: float) -> _Fit:
    """The simplest fit that explains the recorded batches.

    All processors are available and no task waits, unless another assumption explains clearly more.
    """

    def best(shares: Sequence[float], asides: Sequence[float], idles: Sequence[float]) -> _Fit:
        every = itertools.product(shares, asides, idles)
        some = [_under(graph, windows, share * known, *others) for share, *others in every]
        return min(some, key=lambda one: one.score)

    shares = _shares(windows, known)
    all_there = best(shares[:1], _ASIDE, _IDLE[:1])
    made = _clearer(all_there, best(shares[1:], _ASIDE, _IDLE[:1])) if shares[1:] else all_there
    idle = best([made.processors / known], [made.batch.aside], _IDLE[1:]).batch.idle
    return _clearer(made, best(shares, _ASIDE, [idle]))


def _clearer(plain: _Fit, other: _Fit) -> _Fit:
    return other if other.score < _CLEARLY * plain.score else plain


def _under(
    graph: Graph, windows: Sequence[ObservedWindow], processors: float, aside: float, idle: float
) -> _Fit:
    notes: list[str] = []
    every = [one for moment in windows for one in moment.pipelines]
    keys = {
        o.name: operator_fit.fit_keys(o.name, every, notes) for o in graph.operators if o.stateful
    }
    costs = operator_fit.initial_costs(graph, windows, keys, idle)
    batch = MicroBatch(task=0.0, aside=aside, idle=idle)
    for _ in range(2):  # contention depends on waiting times, and vice versa
        costs = operator_fit.refined_costs(_placed(windows, costs, processors, batch), costs)
    measured = costs
    told = [*notes]
    for _ in range(2 if idle else 1):
        notes[:] = told
        placed = _placed(windows, costs, processors, batch)
        batch = replace(batch_fit.driver_costs(placed, notes), aside=aside, idle=idle)
        batch, costs = batch_fit.task_costs(graph, placed, measured, batch, notes)
    pace = float(np.median([m.window for m in windows]))
    batch = replace(batch, pace=pace, poll=_POLL, jitter=batch_fit.jitter(windows))
    fitted = _operator_costs(graph, placed, costs)
    errors = tuple(_error(one, costs, batch) for one in placed)
    return _Fit(processors, fitted, batch, errors, tuple(notes))


def _all_windows(recordings: Sequence[RunRecord]) -> list[ObservedWindow]:
    """Windows of all runs, with the plans of all runs numbered in sequence."""
    found: list[ObservedWindow] = []
    for one in recordings:
        first = max((m.plan for m in found), default=-1) + 1
        found += [replace(m, plan=first + m.plan) for m in one.windows]
    return found


def _warm(windows: Sequence[ObservedWindow]) -> tuple[list[ObservedWindow], list[str]]:
    later = [m for m in windows if m.at >= _WARM]
    if len(later) >= batch_fit.ENOUGH:
        return later, []
    note = f"the run is short, so its first {_WARM:g} s count although Spark is slow in them"
    return list(windows), [note]


def _sum(some: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in some:
        for name, count in one.items():
            found[name] = found.get(name, 0) + count
    return found


def _background_note(windows: Sequence[ObservedWindow]) -> list[str]:
    """Note on the processors kept busy by work outside tasks, by plan.

    Not used by the fit; shows where the fit is poor. Part of it is `aside`, which is searched for.
    """
    found: dict[int, list[tuple[float, float]]] = {}
    for one in windows:
        if one.beside is not None and one.by_tasks is not None:
            found.setdefault(one.plan, []).append((one.beside, one.by_tasks))
    if not found:
        return []
    middle = {plan: np.median(some, axis=0) for plan, some in found.items()}
    words = [f"{beside:.2f} ({tasks:.2f} tasks)" for beside, tasks in middle.values()]
    return [f"processors busy with work of no task, by plan: {', '.join(words)}"]


def _cores(windows: Sequence[ObservedWindow], notes: list[str]) -> tuple[float, int]:
    """Number of processors, assumed equal to slots if unknown, and number of slots."""
    slots = round(float(np.median([m.slots for m in windows])))
    found = [m.processors for m in windows if m.processors is not None]
    if not found:
        notes.append(
            f"the number of processors is not known: assumed one for each of {slots} slots"
        )
    return (float(np.median(found)) if found else float(slots)), slots


def _shares(windows: Sequence[ObservedWindow], known: float) -> list[float]:
    """Shares of the processors to try: no fewer than were observed busy at once."""
    used = [m.used for m in windows if m.used is not None]
    least = min(1.0, float(np.quantile(used, _MOST)) / known) if used else 0.0
    return [share for share in _SHARES if share >= least] or [1.0]


def _placed(
    windows: Sequence[ObservedWindow], costs: FittedCosts, processors: float, batch: MicroBatch
) -> list[PlacedObservation]:
    calm = [one.beside for m in windows if not m.crowded for one in m.pipelines]
    usual = float(np.median(calm)) if calm else np.inf
    found = []
    for moment in windows:
        # A batch that waits for a slot needs no processor.
        most = usual if moment.crowded else np.inf
        wants = [_runnable(one, costs, batch, most) for one in moment.pipelines]
        always = sum(batch.aside * one.batches / one.seconds for one in moment.pipelines)
        for one, own in zip(moment.pipelines, wants, strict=True):
            if one.fresh:
                machine = SharedProcessors(
                    moment.slots, processors, max(0.0, sum(wants) - own) + always
                )
                found.append(PlacedObservation(one, machine, moment.crowded, moment.plan))
    return found


def _runnable(seen: BatchObservation, costs: FittedCosts, batch: MicroBatch, most: float) -> float:
    """Mean number of processors that a pipeline wanted."""
    shape = seen.shape
    own = (batch.task * shape.stages + batch.output) * shape.tasks + batch.state * shape.parts
    waiting = batch.idle * own + sum(costs.idle(seen, name) for name in seen.visits)
    beside = min(seen.beside, most)
    return seen.batches * (beside + max(0.0, seen.spent - waiting)) / seen.seconds


def _timing(recordings: Sequence[RunRecord], notes: list[str]) -> Timing:
    made = [one for r in recordings for one in r.transitions if one.changes]
    if not made:
        notes.append("the plan never changed: the cost of a change is not known")
        return Timing()
    pauses = [one.interruption for one in made if one.interruption > 0]
    return replace(
        Timing(),
        instance_start=float(np.median([max(0.0, m.duration - m.interruption) for m in made])),
        restart=float(np.median(pauses)) if pauses else 0.0,
    )


# --- operators ----------------------------------------------------------------------------------


def _operator_costs(
    graph: Graph, placed: Sequence[PlacedObservation], costs: FittedCosts
) -> dict[str, OperatorCost]:
    seen = [one.seen for one in placed]
    found = {}
    for operator in graph.operators:
        cost = operator_fit.operator_cost(operator.name, seen, costs)
        if operator.state is State.SINK:
            cost = replace(cost, selectivity=1.0)
        found[operator.name] = cost
    return found


# --- how good it is -----------------------------------------------------------------------------


def _error(one: PlacedObservation, costs: FittedCosts, batch: MicroBatch) -> dict[str, Any]:
    """A recorded batch beside the prediction for the same rows."""
    seen = one.seen
    cpu, wait = operator_fit.task_times(seen, costs, batch.row)
    took = batch_times(batch, seen.shape, one.machine, cpu, wait)
    longest = float(took.tasks.max(axis=1).sum())
    whole = took.beside + longest
    return {
        "pipeline": "+".join(seen.pipeline.operators),
        "parallelism": seen.shape.tasks,
        "rows": round(seen.rows, 1),
        "crowded": one.crowded,
        "plan": one.plan,
        "seconds": seen.whole,
        "model": whole,
        "error": whole / seen.whole - 1 if seen.whole else 0.0,
    }
