"""The cost of a change of plan on a simulated cluster, and injected failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from penstock.engines.simulator.executors import Move, Placement
from penstock.engines.simulator.simulation import Simulation
from penstock.plan.change import (
    CeilingChange,
    Change,
    ExecutorsChange,
    ParallelismChange,
    Regrouping,
)


@dataclass(frozen=True)
class ChangeCost:
    """What a change costs before the new plan is in force, and which pauses follow.

    phases: seconds under the old plan, by name; pauses: seconds by pipeline of the new plan; moves:
    by pipeline, instances that pause while the others keep running.
    """

    phases: Mapping[str, float]
    pauses: Mapping[str, float]
    moves: Mapping[str, Move]
    state_rows: int = 0
    state_bytes: int = 0
    keys_moved: float | None = None

    @property
    def preparation(self) -> float:
        return sum(self.phases.values())

    @property
    def interruption(self) -> float:
        return max((*self.pauses.values(), *(m.pause for m in self.moves.values())), default=0.0)


def change_cost(sim: Simulation, change: Change) -> ChangeCost:
    """Return what a change would cost now.

    New executors and instances start while the flow keeps running. State that another number of
    instances places elsewhere moves while its pipeline pauses; a regrouped pipeline restarts and
    reads all its state. An instance whose executor changes, because its own leaves or others
    arrive, restarts there with its part of the state. Where stopping an instance takes time, all
    pipelines of the change pause together.
    """
    timing = sim.model.timing
    after = sim.placed(change.after)
    moves = sim.moves(after)
    phases: dict[str, float] = {}
    pauses: dict[str, float] = {}
    rows, size, shares, stopped = 0, 0.0, [], 0
    for action in change.actions:
        match action:
            case ExecutorsChange(before, count) if count > before:
                phases["executors"] = timing.executor_start
            case ParallelismChange(name, before, count):
                if count > before:
                    phases["instances"] = timing.instance_start
                share = _dealt_anew(sim, name, before, count)
                new = change.after.pipeline_of(name).name
                stopped += before
                if timing.stop:
                    pauses[new] = timing.restart
                if share:
                    held = sim.state(sim.pipelines[sim.plan.pipeline_of(name).name])
                    shares.append(share)
                    if moves.pop(new, None):
                        share = _elsewhere(sim, name, after, new)
                    rows, size = rows + round(share * held[0]), size + share * held[1]
                    pauses[new] = share * held[1] / timing.state_rate + timing.restart
            case CeilingChange(name):
                pauses.setdefault(change.after.pipeline_of(name).name, timing.restart)
            case Regrouping(parts, groups):
                stopped += sum(sim.plan.pipeline_of(part[0]).parallelism for part in parts)
                phases["instances"] = timing.instance_start
                for operators in groups:
                    name = change.after.pipeline_of(operators[0]).name
                    moves.pop(name, None)
                    read = _state(sim, operators)
                    pauses[name] = timing.restart + read / timing.state_rate
                    size += read
    pauses = {name: pause + stopped * timing.stop for name, pause in pauses.items()}
    rows += sum(move.rows for move in moves.values())
    size += sum(move.bytes for move in moves.values())
    return ChangeCost(phases, pauses, moves, rows, round(size), max(shares, default=None))


def _dealt_anew(sim: Simulation, name: str, before: int, after: int) -> float:
    """Share of the keys that change instance with the number of instances."""
    pipeline = sim.pipelines.get(sim.plan.pipeline_of(name).name)
    if pipeline is None or pipeline.work.keyed is None:
        return 0.0
    return sim.model.cost(pipeline.work.keyed).keys.moved(before, after)


def _elsewhere(sim: Simulation, name: str, after: Placement, new: str) -> float:
    """Share of the keys that change instance or executor."""
    pipeline = sim.pipelines[sim.plan.pipeline_of(name).name]
    assert pipeline.work.keyed is not None
    keys = sim.model.cost(pipeline.work.keyed).keys
    ways = ((sim.placement, pipeline.spec.name), (after, new))
    served = [keys.places(len(one.hosts[host])) for one, host in ways]
    names = [np.array(one.executors)[one.hosts[host]] for one, host in ways]
    host = [of[place] for of, place in zip(names, served, strict=True)]
    return float(np.mean((served[0] != served[1]) | (host[0] != host[1])))


def _state(sim: Simulation, operators: tuple[str, ...]) -> float:
    """Bytes of the state of some operators."""
    holders = {sim.plan.pipeline_of(name).name for name in operators if sim.graph[name].stateful}
    return sum(sim.state(sim.pipelines[name])[1] for name in holders)


@dataclass(frozen=True)
class InjectedFailure:
    """The failure of an executor, or of one instance of a pipeline.

    executor: None for the failure of an instance. A failed instance processes its records again
    after its failure was detected, it was restarted and has read its state. A failed executor is
    gone with its slots. Its instances restart on the others, or wait for its replacement if there
    are none, which arrives under another name after detection and start-up. comes_back: the
    executor only restarts, and has its instances again as soon as these have restarted. A name that
    does not exist fails nothing.
    """

    at: float
    executor: str | None = None
    pipeline: str | None = None
    instance: int = 0
    comes_back: bool = False

    def inject(self, sim: Simulation) -> int:
        """Inject it; returns the number of rows that are processed again."""
        timing = sim.model.timing
        hit = self._hit(sim)
        away = timing.detection
        lost = None if self.comes_back else self.executor
        if lost is not None and lost in sim.placement.executors:
            up = timing.detection + timing.executor_start
            sim.lose(lost, sim.now + up)
            away = away if sim.placement.present else up
        again = 0
        for name, servers in hit.items():
            pipeline = sim.pipelines[name]
            state = sim.state(pipeline)[1] * len(servers) / pipeline.instances
            back = away + timing.instance_start + state / timing.state_rate
            again += sim.fail(name, servers, sim.now + back)
        return again

    def _hit(self, sim: Simulation) -> dict[str, list[int]]:
        """The instances that fail, by pipeline."""
        if self.executor is None:
            there = (
                self.pipeline in sim.pipelines
                and self.instance < sim.pipelines[self.pipeline].instances
            )
            return {self.pipeline: [self.instance]} if there and self.pipeline else {}
        if self.executor not in sim.placement.executors:
            return {}
        host = sim.placement.executors.index(self.executor)
        hit = {n: np.flatnonzero(h == host).tolist() for n, h in sim.placement.hosts.items()}
        return {name: servers for name, servers in hit.items() if servers}
