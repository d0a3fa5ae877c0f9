"""Fits costs of batches and tasks, besides those of operators, to a recorded run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Read
from penstock.engines.simulator.model import MicroBatch
from penstock.engines.simulator.queues import Floats, Indices
from penstock.predict import operator_fit
from penstock.predict.least_squares import group_numbers, group_weights, robust, standard_errors
from penstock.predict.observations import BatchObservation, ObservedWindow, PlacedObservation
from penstock.predict.operator_fit import FittedCosts

ENOUGH = 6
"""Minimum number of windows for a fit."""

_SURE = 2.5
"""Standard errors above 0 from which a cost counts as more than noise."""

_FAR, _FARTHEST = 2.0, 2.5
"""Factors on `_SURE` for costs per row or key of operators, and other row costs.

The latter absorbs whatever nothing else explains. A large batch has many times the rows that were
observed, so noise would be extrapolated far; and windows overlap, so standard errors look small.
"""

_WORSE = 0.05
"""Increase of a plan's relative error that justifies keeping an uncertain cost.

A plan with large batches has few of them and may be the only one to show a cost.
"""

_TIMES = 3.0
"""Ratio of large to small tasks that suffices to fit the cost per row."""

_UNEVEN = 0.5
"""Upper bound of the jitter."""
_ALIKE = 0.02
"""A column with a smaller unexplained share cannot be told from the others."""


def driver_costs(placed: Sequence[PlacedObservation], notes: list[str]) -> MicroBatch:
    """Fit the costs of the driver: planning, log, commit and job."""
    alone = np.array([one.machine.stretch(1) for one in placed])
    more = np.array([one.seen.shape.inputs - 1.0 for one in placed])
    weights = np.array([min(one.seen.batches, 10.0) for one in placed])

    def value(name: str) -> Floats:
        return np.array([getattr(one.seen, name) for one in placed])

    planning = _solved(
        {"planning": alone, "inlet": alone * more}, value("planning"), weights, notes
    )
    log = _solved({"log": alone}, value("log"), weights, notes)
    commit = _solved({"commit": alone}, value("commit"), weights, notes)
    free = np.array([not one.crowded for one in placed])
    if free.sum() < ENOUGH:
        free[:] = True
        notes.append("tasks waited for slots nearly always: the wait is part of the cost of a job")
    pieces = np.array([_pieces(one.seen) for one in placed])
    rest = np.maximum(value("work") - value("longest"), 0.0)
    job = _solved(
        {"job": alone[free], "partition": (alone * pieces)[free]}, rest[free], weights[free], notes
    )
    return replace(MicroBatch(partition=0.0), **planning, **log, **commit, **job)


def jitter(windows: Sequence[ObservedWindow]) -> float:
    """Coefficient of variation of the driver's costs.

    Estimated from the means of windows of the same pipeline and plan, each over several batches.
    """
    groups: dict[tuple[int, str], list[BatchObservation]] = {}
    for moment in windows:
        for one in moment.pipelines:
            groups.setdefault((moment.plan, one.pipeline.name), []).append(one)
    off = [
        abs(one.beside / middle - 1) * np.sqrt(one.batches)
        for some in groups.values()
        if len(some) > 2 and (middle := float(np.median([one.beside for one in some])))
        for one in some
    ]
    return round(min(_UNEVEN, 1.4826 * float(np.median(off))), 3) if off else 0.0


def _pieces(seen: BatchObservation) -> float:
    """Number of tasks or state partitions that the driver handles."""
    return float(max(seen.shape.tasks * seen.shape.stages, seen.shape.parts))


def task_costs(
    graph: Graph,
    placed: Sequence[PlacedObservation],
    costs: FittedCosts,
    batch: MicroBatch,
    notes: list[str],
) -> tuple[MicroBatch, FittedCosts]:
    """Fit the costs of tasks, rows, sources and state that were not measured.

    Tasks before and after a shuffle are two observations, so the cost of handing rows to a stateful
    operator is not mistaken for the cost of reading.
    """
    seen = [(one, stage) for one in placed for stage in range(one.seen.shape.stages)]
    begin = np.array([one.machine.own(one.seen.shape.tasks, batch.idle) for one, _ in seen])
    slow = np.array(
        [operator_fit.slowdown(one.machine, one.seen, costs, stage) for one, stage in seen]
    )
    columns = {"task": begin * [float(one.seen.shape.tasks) for one, _ in seen]}
    touched: dict[str, str] = {}
    sought = [n for n in graph.topological if _works(graph, n)]
    for name in sought:
        here = np.array([_there(one.seen, name, stage) for one, stage in seen])
        columns[name] = slow * here * [one.seen.visits.get(name, 0.0) for one, _ in seen]
        if name in costs.keys:
            touched[name] = f"a key of {name}"
            keys = here * [costs.touched(o.seen, name) for o, _ in seen]
            columns[touched[name]] = ((1 - costs.still) * slow + costs.still) * keys
    if _differ([one.seen.rows / one.seen.shape.tasks for one in placed]):
        columns["row"] = slow * [one.seen.rows * (stage == 0) for one, stage in seen]
    else:
        notes.append(
            "batches had much the same size: the cost of rows besides operators is not known"
        )
    columns["state"] = begin * [float(one.seen.shape.parts * (stage > 0)) for one, stage in seen]
    columns["output"] = begin * [_writing(one.seen, stage) for one, stage in seen]
    rest = np.array([_rest(one, stage, costs) for one, stage in seen])
    whole = np.array([sum(_rest(o, s, costs) for s in range(o.seen.shape.stages)) for o, _ in seen])
    # A stage's time is the whole minus the other stage, so its error is that of the whole.
    # All plans count alike, however many windows show them: those with small batches overlap.
    groups = group_numbers([(one.plan, one.seen.pipeline.name) for one, _ in seen])
    weights = 1 / np.maximum(whole, 0.1 * float(np.median(whole)) + 1e-6) ** 2
    weights *= group_weights(groups)
    far = {**dict.fromkeys(sought, _FAR), "row": _FARTHEST}
    found = _solved(columns, rest, weights, notes, far, groups)
    cpu, touch = dict(costs.cpu), dict(costs.touch)
    for name in sought:  # in addition to what was measured
        cpu[name] = cpu.get(name, 0.0) + found.pop(name)
    for name, word in touched.items():
        touch[name] = touch.get(name, 0.0) + found.pop(word)
    # The fit does not cover larger tasks, whose rows may be cheaper.
    few = max(one.seen.rows / one.seen.shape.tasks for one in placed)
    return replace(batch, few=few, **found), replace(costs, cpu=cpu, touch=touch)


def _differ(sizes: Sequence[float]) -> bool:
    """True if task sizes differ enough to fit the cost per row."""
    few, many = np.quantile(sizes, (0.05, 0.95))
    return bool(many >= _TIMES * few)


def _works(graph: Graph, name: str) -> bool:
    """True for operators that may take unexplained time: sources and stateful ones."""
    return isinstance(graph[name].body, Read) or graph[name].stateful


def _there(seen: BatchObservation, name: str, stage: int) -> bool:
    """True if the pipeline runs an operator in a stage."""
    return name in seen.pipeline.operators and seen.stage(name) == stage


def _writing(seen: BatchObservation, stage: int) -> float:
    """Number of tasks of a stage that write the pipeline's output."""
    return float(seen.shape.tasks * (stage == seen.shape.stages - 1))


def _rest(one: PlacedObservation, stage: int, costs: FittedCosts) -> float:
    """Task seconds of a stage in a batch that no operator explains."""
    seen = one.seen
    slow = operator_fit.slowdown(one.machine, seen, costs, stage)
    known = sum(
        operator_fit.task_seconds(seen, name, costs, slow)
        for name in seen.visits
        if name in costs.cpu and seen.stage(name) == stage
    )
    return max(0.0, (seen.behind if stage else seen.spent - seen.behind) - known)


def _solved(
    columns: Mapping[str, Floats],
    values: Floats,
    weights: Floats,
    notes: list[str],
    far: Mapping[str, float] = MappingProxyType({}),
    groups: Indices | None = None,
) -> dict[str, float]:
    """Fit coefficients by name.

    A coefficient that cannot be told from others or from noise is 0, with a note. far: factors on
    the certainty required of coefficients that are extrapolated; groups: of values of the same
    plan.
    """
    groups = np.zeros(len(values), np.intp) if groups is None else groups
    found = dict.fromkeys(columns, 0.0)
    taken, needed = _apart(columns, np.sqrt(weights), notes), set[str]()
    while taken:
        table = np.column_stack([columns[n] for n in taken])
        solved = robust(table, values, weights)
        asked = _SURE * np.array([far.get(name, 1.0) for name in taken])
        sure = np.divide(solved, asked * standard_errors(table, values, weights, solved))
        weak = [(at, n) for n, at in zip(taken, sure, strict=True) if at < 1 and n in far]
        weakest = min((one for one in weak if one[1] not in needed), default=None)
        if weakest is None:
            found.update(zip(taken, solved.tolist(), strict=True))
            break
        name = weakest[1]
        fewer = np.column_stack([columns[n] for n in taken if n != name])
        without = robust(fewer, values, weights)
        off, more = (_off(t, values, groups, s) for t, s in ((table, solved), (fewer, without)))
        if (more > off + _WORSE).any():
            needed.add(name)
            continue
        if solved[taken.index(name)]:
            notes.append(f"the cost of '{name}' cannot be told from noise and is taken as 0")
        taken.remove(name)
    return found


def _off(table: Floats, values: Floats, groups: Indices, solved: Floats) -> Floats:
    """Total deviation of a fit in each group, as a share of the group's total."""
    left = np.bincount(groups, np.abs(values - table @ solved))
    return np.asarray(left / np.maximum(np.bincount(groups, values), 1e-9))


def _apart(columns: Mapping[str, Floats], scale: Floats, notes: list[str]) -> list[str]:
    """Names of columns that are not nearly a combination of the columns before them."""
    taken: list[str] = []
    for name, column in columns.items():
        if not column.any():
            if name not in ("inlet", "state", "output"):
                notes.append(f"'{name}' did not occur: its cost is not known and taken as 0")
            continue
        left = column * scale
        if taken:
            others = np.column_stack([columns[n] * scale for n in taken])
            left = left - others @ np.linalg.lstsq(others, left, rcond=None)[0]
        if np.linalg.norm(left) < _ALIKE * np.linalg.norm(column * scale):
            notes.append(
                f"'{name}' was always in the same proportion to {_list(taken)}, so its cost is "
                "part of theirs; a run with another parallelism, load or fusion would tell"
            )
            continue
        taken.append(name)
    return taken


def _list(names: Sequence[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
