"""Fits row costs of each operator, and the skew of keys, to a recorded run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Read
from penstock.engines.simulator import distributions
from penstock.engines.simulator.batch_time import SharedProcessors, task_shares
from penstock.engines.simulator.model import Keys, OperatorCost
from penstock.engines.simulator.queues import Floats
from penstock.metrics.snapshot import OperatorMetrics
from penstock.predict.least_squares import group_numbers, group_weights, robust
from penstock.predict.observations import BatchObservation, ObservedWindow, PlacedObservation

_CALM = 0.25
"""Quantile over the windows that counts as undisturbed."""

_IDLE = 0.05
"""Waiting time below this share of the processor time is noise."""


@dataclass(frozen=True)
class FittedCosts:
    """Costs by operator, in seconds per row and per distinct key in a batch.

    cpu, wait: per row, on a processor and waiting; touch: per key. timed: operators whose time was
    measured where they ran; keys: of operators with state; still: share of the key time in which no
    processor is needed.
    """

    cpu: Mapping[str, float] = field(default_factory=dict)
    wait: Mapping[str, float] = field(default_factory=dict)
    touch: Mapping[str, float] = field(default_factory=dict)
    timed: frozenset[str] = frozenset()
    keys: Mapping[str, Keys] = field(default_factory=dict)
    still: float = 0.0

    def need(self, seen: BatchObservation, name: str) -> float:
        """Processor seconds of an operator in a batch."""
        rows = self.cpu.get(name, 0.0) * seen.visits.get(name, 0.0)
        return rows + (1 - self.still) * self._of_keys(seen, name)

    def idle(self, seen: BatchObservation, name: str) -> float:
        """Waiting seconds of an operator in a batch."""
        rows = self.wait.get(name, 0.0) * seen.visits.get(name, 0.0)
        return rows + self.still * self._of_keys(seen, name)

    def _of_keys(self, seen: BatchObservation, name: str) -> float:
        return self.touch.get(name, 0.0) * self.touched(seen, name)

    def touched(self, seen: BatchObservation, name: str) -> float:
        """Number of distinct keys of an operator in a batch."""
        rows = seen.visits.get(name, 0.0)
        return _touched(self.keys[name], rows) if rows and name in self.keys else 0.0


@lru_cache(maxsize=4096)
def _touched(keys: Keys, rows: float) -> float:
    """Distinct keys among rows; cached, because a search repeats the same arguments."""
    return keys.touched(rows)


def initial_costs(
    graph: Graph, windows: Sequence[ObservedWindow], keys: Mapping[str, Keys], still: float
) -> FittedCosts:
    """Costs before contention is known: all time off a processor counts as waiting.

    keys: of operators with state; still: share of the key time in which no processor is needed.
    """
    seen = [one for moment in windows for one in moment.pipelines]
    cpu, wait, timed = {}, {}, set()
    for operator in graph.operators:
        name = operator.name
        found = [o for one in seen if (o := one.operators.get(name)) and o.service is not None]
        if not found:
            continue
        measured = [o for o in found if o.measured]
        if measured:
            timed.add(name)
            cpu[name] = _median([_on_processor(o) for o in measured], measured)
            wait[name] = float(np.quantile([_off(o) for o in measured], _CALM))
        elif not isinstance(operator.body, Read) and not operator.stateful:
            cpu[name] = _median([o.service or 0.0 for o in found], found)
    return FittedCosts(cpu, wait, {}, frozenset(timed), keys, still)


def refined_costs(placed: Sequence[PlacedObservation], costs: FittedCosts) -> FittedCosts:
    """Refine costs, given the contention during each observation."""
    cpu, wait, touch = dict(costs.cpu), dict(costs.wait), dict(costs.touch)
    for name in costs.timed:
        found = [
            (one, o)
            for one in placed
            if (o := one.seen.operators.get(name)) and o.measured and o.service is not None
        ]
        if name in costs.keys:
            cpu[name], touch[name] = _of_rows_and_keys(name, found, costs)
        if any(o.cpu is None for _, o in found):  # only the elapsed time is known
            wait[name] = 0.0
            continue
        left = [
            (o.service or 0.0)
            * (1 - (o.cpu or 0.0) * slowdown(one.machine, one.seen, costs, one.seen.stage(name)))
            for one, o in found
        ]
        rest = max(0.0, float(np.quantile(left, _CALM)))
        wait[name] = rest if rest > _IDLE * cpu[name] else 0.0
    return replace(costs, cpu=cpu, wait=wait, touch=touch)


def _of_rows_and_keys(
    name: str, found: Sequence[tuple[PlacedObservation, OperatorMetrics]], costs: FittedCosts
) -> tuple[float, float]:
    """Split the time of a stateful operator between rows and distinct keys."""
    rows = np.array([one.seen.visits.get(name, 0.0) for one, _ in found])
    keys = np.array([costs.touched(one.seen, name) for one, _ in found])
    spent = rows * [
        _on_processor(o)
        / (
            1.0
            if o.cpu is not None
            else slowdown(one.machine, one.seen, costs, one.seen.stage(name))
        )
        for one, o in found
    ]
    groups = group_numbers([one.plan for one, _ in found])
    weights = group_weights(groups) / np.maximum(spent, 1e-9) ** 2
    of_rows, of_keys = robust(np.column_stack([rows, keys]), spent, weights).tolist()
    return of_rows, of_keys


def slowdown(
    machine: SharedProcessors, seen: BatchObservation, costs: FittedCosts, stage: int
) -> float:
    """Factor by which contention stretched the work of rows in a stage."""
    need = sum(costs.need(seen, name) for name in seen.visits)
    idle = sum(costs.idle(seen, name) for name in seen.visits)
    return machine.slowness(_shares(seen)[stage], idle / need if need else 0.0)


def _shares(seen: BatchObservation) -> Floats:
    """Shares of the work of a batch, by stage and task."""
    shape = seen.shape
    shares = np.full((shape.stages, shape.tasks), 1 / shape.tasks)
    if shape.stages == 1 and shape.inputs > 1:
        shares[0] = task_shares(shape.tasks, [1.0] * shape.inputs)
    if len(seen.shares) == shape.tasks:
        shares[-1] = seen.shares
    return shares


def task_seconds(seen: BatchObservation, name: str, costs: FittedCosts, slowness: float) -> float:
    """Task seconds of an operator in a batch: measured, or else by its costs."""
    o = seen.operators.get(name)
    if name in costs.timed and o is not None and o.measured and o.service is not None:
        return o.service * seen.visits.get(name, 0.0)
    return costs.need(seen, name) * slowness + costs.idle(seen, name)


def task_times(seen: BatchObservation, costs: FittedCosts, row: float) -> tuple[Floats, Floats]:
    """Processor and waiting seconds of a batch's rows, by stage and task."""
    shape = seen.shape
    cpu, wait = np.zeros(shape.stages), np.zeros(shape.stages)
    cpu[0] = row * seen.rows
    stage, keys = 0, 0.0
    for name in seen.pipeline.operators:
        if name == seen.stateful:
            stage = shape.stages - 1
        cpu[stage] += costs.cpu.get(name, 0.0) * seen.visits.get(name, 0.0)
        wait[stage] += costs.wait.get(name, 0.0) * seen.visits.get(name, 0.0)
        keys += costs.touch.get(name, 0.0) * costs.touched(seen, name)
    shares = _shares(seen)
    work, still = cpu[:, None] * shares, wait[:, None] * shares
    work[-1] += (1 - costs.still) * keys / shape.tasks
    still[-1] += costs.still * keys / shape.tasks
    return work, still


def operator_cost(name: str, seen: Sequence[BatchObservation], costs: FittedCosts) -> OperatorCost:
    """Cost of an operator, for the simulator."""
    found = [o for one in seen if (o := one.operators.get(name)) is not None]
    cpu, wait = costs.cpu.get(name, 0.0), costs.wait.get(name, 0.0)
    variation = [o.service_cv for o in found if o.service_cv is not None and o.measured]
    came = sum(o.rows_in for o in found if o.rows_in and o.rows_out is not None)
    left = sum(o.rows_out for o in found if o.rows_in and o.rows_out is not None)
    return OperatorCost(
        distributions.of(cpu + wait, round(float(np.median(variation)), 3) if variation else 0.0),
        round(left / came, 4) if came else 1.0,
        costs.keys.get(name, Keys()),
        cpu=cpu / (cpu + wait) if cpu + wait else 1.0,
        touch=costs.touch.get(name, 0.0),
    )


def _on_processor(o: OperatorMetrics) -> float:
    return (o.service or 0.0) * (1.0 if o.cpu is None else o.cpu)


def _off(o: OperatorMetrics) -> float:
    return (o.service or 0.0) - _on_processor(o)


def _median(values: Sequence[float], found: Sequence[OperatorMetrics]) -> float:
    """Median weighted by the rows of each window."""
    order = np.argsort(values)
    weights = np.cumsum(np.array([o.rows_in or 1 for o in found], float)[order])
    return float(np.array(values)[order][np.searchsorted(weights, weights[-1] / 2)])


_SKEWS = np.arange(0.0, 2.01, 0.05)


def fit_keys(name: str, seen: Sequence[BatchObservation], notes: list[str]) -> Keys:
    """Fit the keys of a stateful operator to its state and its rows.

    Number and size follow from the state, the skew from the rows. The simulator hashes keys
    otherwise than Spark, so the skew is fitted to the share of the fullest instance, not to single
    instances. The measured shares are kept: they also show what fewer instances would get.
    """
    holding = [one for one in seen if one.stateful == name]
    number = max((one.state_rows or 0 for one in holding), default=0)
    size = max((one.state_bytes or 0 for one in holding), default=0)
    spread = [one for one in holding if len(one.shares) > 1]
    if not number:
        notes.append(f"the state of '{name}' was not measured: {Keys().number} keys are assumed")
    made = Keys(number or Keys().number, 0.0, size / number if number else Keys().bytes)
    if not spread:
        notes.append(f"'{name}' always had one instance: the skew of its keys is not known")
        return made
    fullest: dict[int, list[float]] = {}
    for one in spread:
        fullest.setdefault(len(one.shares), []).append(max(one.shares))
    wanted = {count: float(np.median(found)) for count, found in fullest.items()}
    deviations = [
        sum((_fullest(Keys(made.number, skew), n) - share) ** 2 for n, share in wanted.items())
        for skew in _SKEWS.tolist()
    ]
    skew = round(float(_SKEWS[int(np.argmin(deviations))]), 2)
    return replace(made, skew=skew, dealt=_dealt([one for one in spread if one.hashed]))


def _dealt(seen: Sequence[BatchObservation]) -> tuple[tuple[float, ...], ...]:
    """Mean shares of the instances, for each number of instances."""
    found: dict[int, list[tuple[float, ...]]] = {}
    for one in seen:
        if len(one.shares) == one.shape.tasks:
            found.setdefault(len(one.shares), []).append(one.shares)
    return tuple(tuple(np.mean(found[n], axis=0).round(4).tolist()) for n in sorted(found))


def _fullest(one: Keys, instances: int) -> float:
    return float(one.shares(instances).max())
