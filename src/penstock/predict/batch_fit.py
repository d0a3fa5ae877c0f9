"""What batches and their tasks cost beside their operators, fitted to what was recorded."""

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
from penstock.predict.batch_observations import Moment, Observation, Placed
from penstock.predict.least_squares import alike, errors, numbered, robust
from penstock.predict.operator_fit import Costs

ENOUGH = 6
"""Windows from which something can be learned."""

_SURE = 2.5
"""A cost that is not so many standard errors above 0 may as well be noise."""

_FAR, _FARTHEST = 2.0, 2.5
"""What rows and keys cost operators has to be surer than that so many times, and what rows cost
beside them still more, which is all that nothing else explains. A large batch has many times the
rows that were seen, so noise would be carried far; and windows overlap, so errors look small."""

_WORSE = 0.05
"""A cost without which the batches of some plan are off by so much more of their time is no noise,
however unsure: a plan with large batches has few of them, and may be all that shows it."""

_TIMES = 3.0
"""Rows of a large task for one of a small one, from which on what a row costs can be told."""

_UNEVEN = 0.5
_ALIKE = 0.02
"""A column that others explain but for so much of it cannot be told from them."""


def parts(placed: Sequence[Placed], notes: list[str]) -> MicroBatch:
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
        notes.append("tasks waited for slots nearly always: that wait is part of what a job costs")
    pieces = np.array([_pieces(one.seen) for one in placed])
    rest = np.maximum(value("work") - value("longest"), 0.0)
    job = _solved(
        {"job": alone[free], "partition": (alone * pieces)[free]}, rest[free], weights[free], notes
    )
    return replace(MicroBatch(partition=0.0), **planning, **log, **commit, **job)


def jitter(moments: Sequence[Moment]) -> float:
    """How much batches of one pipeline under one plan vary, from how much their means do."""
    groups: dict[tuple[int, str], list[Observation]] = {}
    for moment in moments:
        for one in moment.pipelines:
            groups.setdefault((moment.plan, one.pipeline.name), []).append(one)
    off = [
        abs(one.beside / middle - 1) * np.sqrt(one.batches)
        for some in groups.values()
        if len(some) > 2 and (middle := float(np.median([one.beside for one in some])))
        for one in some
    ]
    return round(min(_UNEVEN, 1.4826 * float(np.median(off))), 3) if off else 0.0


def _pieces(seen: Observation) -> float:
    return float(max(seen.shape.tasks * seen.shape.stages, seen.shape.parts))


def tasks(
    graph: Graph, placed: Sequence[Placed], costs: Costs, batch: MicroBatch, notes: list[str]
) -> tuple[MicroBatch, Costs]:
    """What tasks cost beside the operators that are known: themselves, rows, sources and state.

    Tasks before a shuffle and behind it are two observations, so what is handed to a stateful
    operator, and what Spark does for it, is not taken for what reading costs.
    """
    seen = [(one, stage) for one in placed for stage in range(one.seen.shape.stages)]
    begin = np.array([one.machine.own(one.seen.shape.tasks, batch.idle) for one, _ in seen])
    slow = np.array([operator_fit.slow(one.machine, one.seen, costs, stage) for one, stage in seen])
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
        notes.append("batches had much the same size: what rows cost beside operators is not known")
    columns["state"] = begin * [float(one.seen.shape.parts * (stage > 0)) for one, stage in seen]
    columns["output"] = begin * [_writing(one.seen, stage) for one, stage in seen]
    rest = np.array([_rest(one, stage, costs) for one, stage in seen])
    whole = np.array([sum(_rest(o, s, costs) for s in range(o.seen.shape.stages)) for o, _ in seen])
    # what is known of one stage is known of what the other leaves, and no better than all of it;
    # every plan says as much, however many windows show it: those with small batches overlap
    groups = numbered([(one.plan, one.seen.pipeline.name) for one, _ in seen])
    weights = 1 / np.maximum(whole, 0.1 * float(np.median(whole)) + 1e-6) ** 2
    weights *= alike(groups)
    far = {**dict.fromkeys(sought, _FAR), "row": _FARTHEST}
    found = _solved(columns, rest, weights, notes, far, groups)
    cpu, touch = dict(costs.cpu), dict(costs.touch)
    for name in sought:  # on top of what it measured itself
        cpu[name] = cpu.get(name, 0.0) + found.pop(name)
    for name, word in touched.items():
        touch[name] = touch.get(name, 0.0) + found.pop(word)
    # more at once may come cheaper: nobody has seen it
    few = max(one.seen.rows / one.seen.shape.tasks for one in placed)
    return replace(batch, few=few, **found), replace(costs, cpu=cpu, touch=touch)


def _differ(sizes: Sequence[float]) -> bool:
    """Whether tasks had few rows and many: else what varies with them may be anything."""
    few, many = np.quantile(sizes, (0.05, 0.95))
    return bool(many >= _TIMES * few)


def _works(graph: Graph, name: str) -> bool:
    """Whether what is left of the time of tasks may be an operator's."""
    return isinstance(graph[name].body, Read) or graph[name].stateful


def _there(seen: Observation, name: str, stage: int) -> bool:
    return name in seen.pipeline.operators and seen.stage(name) == stage


def _writing(seen: Observation, stage: int) -> float:
    """Tasks of a stage that write what leaves the pipeline."""
    return float(seen.shape.tasks * (stage == seen.shape.stages - 1))


def _rest(one: Placed, stage: int, costs: Costs) -> float:
    """Seconds of the tasks of a stage in a batch that no operator explains."""
    seen = one.seen
    slow = operator_fit.slow(one.machine, seen, costs, stage)
    known = sum(
        operator_fit.took(seen, name, costs, slow)
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
    """Coefficients by name; what cannot be told from the others, or from noise, is 0, and noted.

    far: how many times as sure those have to be that are carried far; groups: of values that are
    of one plan.
    """
    groups = np.zeros(len(values), np.intp) if groups is None else groups
    found = dict.fromkeys(columns, 0.0)
    taken, needed = _apart(columns, np.sqrt(weights), notes), set[str]()
    while taken:
        table = np.column_stack([columns[n] for n in taken])
        solved = robust(table, values, weights)
        asked = _SURE * np.array([far.get(name, 1.0) for name in taken])
        sure = np.divide(solved, asked * errors(table, values, weights, solved))
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
            notes.append(f"'{name}' cannot be told from noise: its cost is taken as 0")
        taken.remove(name)
    return found


def _off(table: Floats, values: Floats, groups: Indices, solved: Floats) -> Floats:
    """How far off a fit is in each group, as a share of all that is in it."""
    left = np.bincount(groups, np.abs(values - table @ solved))
    return np.asarray(left / np.maximum(np.bincount(groups, values), 1e-9))


def _apart(columns: Mapping[str, Floats], scale: Floats, notes: list[str]) -> list[str]:
    """Those that are more than a mixture of the ones before them."""
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
                f"'{name}' always came in the same proportion to {_list(taken)}: its cost is part "
                "of theirs; another parallelism, load or fusion would tell them apart"
            )
            continue
        taken.append(name)
    return taken


def _list(names: Sequence[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
