"""Finding the costs of operators and batches with which the simulator does as a recorded run did.

Everything measured stands on its own feet: the parts of a batch are fitted apart from the times
of its tasks, and these apart from the times of Python operators, which were measured where they
ran. What shares a machine is first put to how long it would have taken alone (`batch.Machine`).
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
from penstock.predict.batch_observations import Moment, Observation, Placed, Recording
from penstock.predict.least_squares import FEW
from penstock.predict.operator_fit import Costs

_WARM = 25.0
"""Seconds at the start of a run that are left out where enough others are there: the JVM is slow
until it has compiled what it runs often."""

_SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
_ASIDE = (0.0, 0.02, 0.04, 0.06, 0.08, 0.12, 0.18, 0.25)
_IDLE = (0.0, 0.2, 0.4, 0.6, 0.8)
"""What is searched: processors as shares of those there are, seconds of them that a batch takes
aside, and the share of what is for tasks, state and keys in which these wait."""

_CLEARLY = 0.9
"""What is less plain has to leave no more than so much of what is not explained."""

_MOST = 0.9
"""The share of windows that used no more processors than the machine may have."""

_POLL = 0.02  # what the session is set to; a history does not show it


@dataclass(frozen=True)
class Quality:
    """How well a fit explains the batches that it was made from, as shares of their time.

    typical: the error that half of the windows stay below; most: nine tenths of them.
    """

    windows: int
    left_out: int
    typical: float
    most: float
    bias: float


@dataclass(frozen=True)
class Calibration:
    """A fitted model of a dataflow in batches; notes say what could not be fitted, and why."""

    graph: Graph
    steps: Mapping[str, OperatorCost]
    batch: MicroBatch
    node: Machine
    quality: Quality
    timing: Timing = field(default_factory=Timing)
    notes: tuple[str, ...] = ()
    residuals: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)


def fit(recordings: Sequence[Recording]) -> Calibration:
    """Fit recorded runs of one dataflow."""
    graph = recordings[0].graph
    for one in recordings[1:]:
        if one.graph.fingerprint != graph.fingerprint:
            raise InvalidInput(
                f"'{one.run_dir}' ran another dataflow than '{recordings[0].run_dir}': "
                f"'{one.graph.name}' and '{graph.name}', or another shape of it"
            )
    moments, notes = _warm(_together(recordings))
    for why, count in _summed(r.missing for r in recordings).items():
        notes.append(f"{count} windows of pipelines were left out: {why}")
    notes += _beside(moments)
    known, cores = _cores(moments, notes)
    made = _searched(graph, moments, known)
    if made.processors < 0.9 * known:
        notes.append(
            f"the machine has {known:g} processors and worked as if it had {made.processors:.2g}: "
            "something else ran on it, or batches get in each other's way elsewhere"
        )
    off = made.off
    quality = Quality(
        windows=len(made.errors),
        left_out=sum(len(m.pipelines) for r in recordings for m in r.moments) - len(made.errors),
        typical=float(np.median(np.abs(off))),
        most=float(np.quantile(np.abs(off), 0.9)),
        bias=float(np.median(off)),
    )
    return Calibration(
        graph,
        made.steps,
        replace(made.batch, channel=recordings[-1].channel),
        Machine(cores=cores, processors=round(made.processors, 3)),
        quality,
        _timing(recordings, notes),
        (*notes, *made.notes),
        made.errors,
    )


@dataclass(frozen=True)
class _Made:
    """A fit for a number of processors, and what a batch takes of them aside."""

    processors: float
    steps: Mapping[str, OperatorCost]
    batch: MicroBatch
    errors: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]

    @property
    def score(self) -> float:
        """The lower the better: the usual error of each pipeline under each plan.

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
        """The errors of windows in which no task can have waited for a slot, if there are any."""
        calm = [one for one in self.errors if not one["crowded"]]
        return calm if len(calm) >= batch_fit.ENOUGH else self.errors


def _searched(graph: Graph, moments: Sequence[Moment], known: float) -> _Made:
    """The plainest that explains the recorded batches: all processors are there and no task waits
    for itself, unless that leaves clearly more unexplained."""

    def best(shares: Sequence[float], asides: Sequence[float], idles: Sequence[float]) -> _Made:
        every = itertools.product(shares, asides, idles)
        some = [_under(graph, moments, share * known, *others) for share, *others in every]
        return min(some, key=lambda one: one.score)

    shares = _shares(moments, known)
    all_there = best(shares[:1], _ASIDE, _IDLE[:1])
    made = _clearer(all_there, best(shares[1:], _ASIDE, _IDLE[:1])) if shares[1:] else all_there
    idle = best([made.processors / known], [made.batch.aside], _IDLE[1:]).batch.idle
    return _clearer(made, best(shares, _ASIDE, [idle]))


def _clearer(plain: _Made, other: _Made) -> _Made:
    return other if other.score < _CLEARLY * plain.score else plain


def _under(
    graph: Graph, moments: Sequence[Moment], processors: float, aside: float, idle: float
) -> _Made:
    notes: list[str] = []
    every = [one for moment in moments for one in moment.pipelines]
    keys = {o.name: operator_fit.keys(o.name, every, notes) for o in graph.operators if o.stateful}
    costs = operator_fit.first(graph, moments, keys, idle)
    batch = MicroBatch(task=0.0, aside=aside, idle=idle)
    for _ in range(2):  # what others want depends on waits, and waits on what others want
        costs = operator_fit.again(_placed(moments, costs, processors, batch), costs)
    measured = costs
    told = [*notes]
    for _ in range(2 if idle else 1):
        notes[:] = told
        placed = _placed(moments, costs, processors, batch)
        batch = replace(batch_fit.parts(placed, notes), aside=aside, idle=idle)
        batch, costs = batch_fit.tasks(graph, placed, measured, batch, notes)
    pace = float(np.median([m.window for m in moments]))
    batch = replace(batch, pace=pace, poll=_POLL, jitter=batch_fit.jitter(moments))
    steps = _steps(graph, placed, costs)
    errors = tuple(_error(one, costs, batch) for one in placed)
    return _Made(processors, steps, batch, errors, tuple(notes))


def _together(recordings: Sequence[Recording]) -> list[Moment]:
    """The windows of all runs; plans of different runs are different ones."""
    found: list[Moment] = []
    for one in recordings:
        first = max((m.plan for m in found), default=-1) + 1
        found += [replace(m, plan=first + m.plan) for m in one.moments]
    return found


def _warm(moments: Sequence[Moment]) -> tuple[list[Moment], list[str]]:
    later = [m for m in moments if m.at >= _WARM]
    if len(later) >= batch_fit.ENOUGH:
        return later, []
    note = f"the run is short: its first {_WARM:g} s, in which Spark is still slow, are counted too"
    return list(moments), [note]


def _summed(some: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in some:
        for name, count in one.items():
            found[name] = found.get(name, 0) + count
    return found


def _beside(moments: Sequence[Moment]) -> list[str]:
    """What is on no task's account, by plan. The fit does not go by it: it shows where it cannot.

    Some of it is what batches take aside, which is searched for.
    """
    found: dict[int, list[tuple[float, float]]] = {}
    for one in moments:
        if one.beside is not None and one.by_tasks is not None:
            found.setdefault(one.plan, []).append((one.beside, one.by_tasks))
    if not found:
        return []
    middle = {plan: np.median(some, axis=0) for plan, some in found.items()}
    words = [f"{beside:.2f} ({tasks:.2f} tasks)" for beside, tasks in middle.values()]
    return [f"processors that were busy beside tasks, plan by plan: {', '.join(words)}"]


def _cores(moments: Sequence[Moment], notes: list[str]) -> tuple[float, int]:
    """Processors as far as they are known, and slots."""
    slots = round(float(np.median([m.slots for m in moments])))
    found = [m.processors for m in moments if m.processors is not None]
    if not found:
        notes.append(f"how many processors there are was not seen: one for each of {slots} slots")
    return (float(np.median(found)) if found else float(slots)), slots


def _shares(moments: Sequence[Moment], known: float) -> list[float]:
    """Of the processors; there are no fewer than were seen at work at once."""
    used = [m.used for m in moments if m.used is not None]
    least = min(1.0, float(np.quantile(used, _MOST)) / known) if used else 0.0
    return [share for share in _SHARES if share >= least] or [1.0]


def _placed(
    moments: Sequence[Moment], costs: Costs, processors: float, batch: MicroBatch
) -> list[Placed]:
    calm = [one.beside for m in moments if not m.crowded for one in m.pipelines]
    usual = float(np.median(calm)) if calm else np.inf
    found = []
    for moment in moments:
        # who waits for a slot wants no processor
        most = usual if moment.crowded else np.inf
        wants = [_runnable(one, costs, batch, most) for one in moment.pipelines]
        always = sum(batch.aside * one.batches / one.seconds for one in moment.pipelines)
        for one, own in zip(moment.pipelines, wants, strict=True):
            if one.fresh:
                machine = SharedProcessors(
                    moment.slots, processors, max(0.0, sum(wants) - own) + always
                )
                found.append(Placed(one, machine, moment.crowded, moment.plan))
    return found


def _runnable(seen: Observation, costs: Costs, batch: MicroBatch, most: float) -> float:
    """How many processors a pipeline wanted at once, on average."""
    shape = seen.shape
    own = (batch.task * shape.stages + batch.output) * shape.tasks + batch.state * shape.parts
    waiting = batch.idle * own + sum(costs.idle(seen, name) for name in seen.visits)
    beside = min(seen.beside, most)
    return seen.batches * (beside + max(0.0, seen.spent - waiting)) / seen.seconds


def _timing(recordings: Sequence[Recording], notes: list[str]) -> Timing:
    made = [one for r in recordings for one in r.transitions if one.changes]
    if not made:
        notes.append("nothing was changed while it ran: what a change costs is not known")
        return Timing()
    pauses = [one.interruption for one in made if one.interruption > 0]
    return replace(
        Timing(),
        instance_start=float(np.median([max(0.0, m.duration - m.interruption) for m in made])),
        restart=float(np.median(pauses)) if pauses else 0.0,
    )


# --- operators ----------------------------------------------------------------------------------


def _steps(graph: Graph, placed: Sequence[Placed], costs: Costs) -> dict[str, OperatorCost]:
    seen = [one.seen for one in placed]
    found = {}
    for operator in graph.operators:
        step = operator_fit.step(operator.name, seen, costs)
        if operator.state is State.SINK:
            step = replace(step, selectivity=1.0)
        found[operator.name] = step
    return found


# --- how good it is -----------------------------------------------------------------------------


def _error(one: Placed, costs: Costs, batch: MicroBatch) -> dict[str, Any]:
    """A batch as it was and as the model has it, of the same rows."""
    seen = one.seen
    cpu, wait = operator_fit.needs(seen, costs, batch.row)
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
