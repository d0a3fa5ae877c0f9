"""What a row costs in each operator, and how unevenly keys come, from a recorded run."""

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
from penstock.predict.batch_observations import Moment, Observation, Placed
from penstock.predict.least_squares import alike, numbered, robust

_CALM = 0.25
"""Of all windows the share that is taken to be undisturbed."""

_IDLE = 0.05
"""Waiting below this share of the time on a processor is noise."""


@dataclass(frozen=True)
class Costs:
    """Seconds of a row by operator, on a processor and waiting, and of a key; timed: where it ran.

    keys: of operators with state; still: share of what keys take in which nobody needs a processor.
    """

    cpu: Mapping[str, float] = field(default_factory=dict)
    wait: Mapping[str, float] = field(default_factory=dict)
    touch: Mapping[str, float] = field(default_factory=dict)
    timed: frozenset[str] = frozenset()
    keys: Mapping[str, Keys] = field(default_factory=dict)
    still: float = 0.0

    def need(self, seen: Observation, name: str) -> float:
        """Seconds on a processor for an operator in a batch."""
        rows = self.cpu.get(name, 0.0) * seen.visits.get(name, 0.0)
        return rows + (1 - self.still) * self._of_keys(seen, name)

    def idle(self, seen: Observation, name: str) -> float:
        """Seconds of waiting of an operator in a batch."""
        rows = self.wait.get(name, 0.0) * seen.visits.get(name, 0.0)
        return rows + self.still * self._of_keys(seen, name)

    def _of_keys(self, seen: Observation, name: str) -> float:
        return self.touch.get(name, 0.0) * self.touched(seen, name)

    def touched(self, seen: Observation, name: str) -> float:
        """How many keys of an operator come up in a batch."""
        rows = seen.visits.get(name, 0.0)
        return _touched(self.keys[name], rows) if rows and name in self.keys else 0.0


@lru_cache(maxsize=4096)
def _touched(keys: Keys, rows: float) -> float:
    """A search asks for the same many times."""
    return keys.touched(rows)


def first(graph: Graph, moments: Sequence[Moment], keys: Mapping[str, Keys], still: float) -> Costs:
    """Before it is known who had to share: whatever is not on a processor counts as waiting."""
    seen = [one for moment in moments for one in moment.pipelines]
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
    return Costs(cpu, wait, {}, frozenset(timed), keys, still)


def again(placed: Sequence[Placed], costs: Costs) -> Costs:
    """Knowing who shared a processor with whom, and so what of the time was no waiting."""
    cpu, wait, touch = dict(costs.cpu), dict(costs.wait), dict(costs.touch)
    for name in costs.timed:
        found = [
            (one, o)
            for one in placed
            if (o := one.seen.operators.get(name)) and o.measured and o.service is not None
        ]
        if name in costs.keys:
            cpu[name], touch[name] = _of_rows_and_keys(name, found, costs)
        if any(o.cpu is None for _, o in found):  # only the time of the clock is known
            wait[name] = 0.0
            continue
        left = [
            (o.service or 0.0)
            * (1 - (o.cpu or 0.0) * slow(one.machine, one.seen, costs, one.seen.stage(name)))
            for one, o in found
        ]
        rest = max(0.0, float(np.quantile(left, _CALM)))
        wait[name] = rest if rest > _IDLE * cpu[name] else 0.0
    return replace(costs, cpu=cpu, wait=wait, touch=touch)


def _of_rows_and_keys(
    name: str, found: Sequence[tuple[Placed, OperatorMetrics]], costs: Costs
) -> tuple[float, float]:
    """What of the time of a stateful operator goes with rows, and what with keys."""
    rows = np.array([one.seen.visits.get(name, 0.0) for one, _ in found])
    keys = np.array([costs.touched(one.seen, name) for one, _ in found])
    spent = rows * [
        _on_processor(o)
        / (1.0 if o.cpu is not None else slow(one.machine, one.seen, costs, one.seen.stage(name)))
        for one, o in found
    ]
    groups = numbered([one.plan for one, _ in found])
    weights = alike(groups) / np.maximum(spent, 1e-9) ** 2
    of_rows, of_keys = robust(np.column_stack([rows, keys]), spent, weights).tolist()
    return of_rows, of_keys


def slow(machine: SharedProcessors, seen: Observation, costs: Costs, stage: int) -> float:
    """How many times as long a row's work in a stage took as if it had been alone."""
    need = sum(costs.need(seen, name) for name in seen.visits)
    idle = sum(costs.idle(seen, name) for name in seen.visits)
    return machine.slowness(_shares(seen)[stage], idle / need if need else 0.0)


def _shares(seen: Observation) -> Floats:
    """Of the work of a batch, by stage and task."""
    shape = seen.shape
    shares = np.full((shape.stages, shape.tasks), 1 / shape.tasks)
    if shape.stages == 1 and shape.inputs > 1:
        shares[0] = task_shares(shape.tasks, [1.0] * shape.inputs)
    if len(seen.shares) == shape.tasks:
        shares[-1] = seen.shares
    return shares


def took(seen: Observation, name: str, costs: Costs, slowness: float) -> float:
    """Seconds of tasks for an operator in a batch: as timed, or else as the model has it."""
    o = seen.operators.get(name)
    if name in costs.timed and o is not None and o.measured and o.service is not None:
        return o.service * seen.visits.get(name, 0.0)
    return costs.need(seen, name) * slowness + costs.idle(seen, name)


def needs(seen: Observation, costs: Costs, row: float) -> tuple[Floats, Floats]:
    """Seconds on a processor and of waiting by stage and task, for the rows of a batch."""
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


def step(name: str, seen: Sequence[Observation], costs: Costs) -> OperatorCost:
    """An operator for the simulator."""
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
    """Windows with many rows count more."""
    order = np.argsort(values)
    weights = np.cumsum(np.array([o.rows_in or 1 for o in found], float)[order])
    return float(np.array(values)[order][np.searchsorted(weights, weights[-1] / 2)])


_SKEWS = np.arange(0.0, 2.01, 0.05)


def keys(name: str, seen: Sequence[Observation], notes: list[str]) -> Keys:
    """The keys of a stateful operator: number and size as its state says, skew as its rows do.

    Where a key goes is another matter here than on Spark, so for the skew it is not single
    instances that are compared but how far the fullest is above the average. What each instance
    had is kept: it also tells what fewer of them would have.
    """
    holding = [one for one in seen if one.stateful == name]
    number = max((one.state_rows or 0 for one in holding), default=0)
    size = max((one.state_bytes or 0 for one in holding), default=0)
    spread = [one for one in holding if len(one.shares) > 1]
    if not number:
        notes.append(f"the state of '{name}' was not measured: {Keys().number} keys are assumed")
    made = Keys(number or Keys().number, 0.0, size / number if number else Keys().bytes)
    if not spread:
        notes.append(f"'{name}' had one instance at a time: how uneven its keys are is not known")
        return made
    fullest: dict[int, list[float]] = {}
    for one in spread:
        fullest.setdefault(len(one.shares), []).append(max(one.shares))
    wanted = {count: float(np.median(found)) for count, found in fullest.items()}
    errors = [
        sum((_fullest(Keys(made.number, skew), n) - share) ** 2 for n, share in wanted.items())
        for skew in _SKEWS.tolist()
    ]
    skew = round(float(_SKEWS[int(np.argmin(errors))]), 2)
    return replace(made, skew=skew, dealt=_dealt([one for one in spread if one.hashed]))


def _dealt(seen: Sequence[Observation]) -> tuple[tuple[float, ...], ...]:
    """The shares of instances by how many there were, on average over windows."""
    found: dict[int, list[tuple[float, ...]]] = {}
    for one in seen:
        if len(one.shares) == one.shape.tasks:
            found.setdefault(len(one.shares), []).append(one.shares)
    return tuple(tuple(np.mean(found[n], axis=0).round(4).tolist()) for n in sorted(found))


def _fullest(one: Keys, instances: int) -> float:
    return float(one.shares(instances).max())
