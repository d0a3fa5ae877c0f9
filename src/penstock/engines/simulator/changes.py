"""What a change of plan costs on a simulated cluster, and things that break."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from penstock.engines.simulator.machines import Move, Placement
from penstock.engines.simulator.simulation import Simulation
from penstock.plan.change import (
    CeilingChange,
    Change,
    ExecutorsChange,
    ParallelismChange,
    Regrouping,
)


@dataclass(frozen=True)
class Cost:
    """What passes before the new plan is in force, and what stands still when it is.

    phases: seconds under the old plan, by name; pauses: seconds by pipeline of the new plan;
    moves: by pipeline, instances that stand still while the others go on.
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


def cost(sim: Simulation, change: Change) -> Cost:
    """What a change would cost now.

    New executors and instances are started while the flow goes on as before. State that another
    number of instances puts elsewhere is moved while its pipeline stands still; a pipeline that
    is regrouped is restarted and reads all its state. An instance that goes to another executor,
    because its own leaves or others come, is restarted there with its part of the state. Where it
    takes time to stop an instance, all pipelines of the change stand still together.
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
                    held = sim.state(sim.stages[sim.plan.pipeline_of(name).name])
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
    return Cost(phases, pauses, moves, rows, round(size), max(shares, default=None))


def _dealt_anew(sim: Simulation, name: str, before: int, after: int) -> float:
    """The share of the keys that another number of instances puts elsewhere."""
    stage = sim.stages.get(sim.plan.pipeline_of(name).name)
    if stage is None or stage.work.keyed is None:
        return 0.0
    return sim.model.step(stage.work.keyed).keys.moved(before, after)


def _elsewhere(sim: Simulation, name: str, after: Placement, new: str) -> float:
    """The share of the keys that another instance gets, or an instance on another executor."""
    stage = sim.stages[sim.plan.pipeline_of(name).name]
    assert stage.work.keyed is not None
    keys = sim.model.step(stage.work.keyed).keys
    ways = ((sim.placement, stage.pipeline.name), (after, new))
    served = [keys.places(len(one.hosts[pipeline])) for one, pipeline in ways]
    names = [np.array(one.executors)[one.hosts[pipeline]] for one, pipeline in ways]
    host = [of[place] for of, place in zip(names, served, strict=True)]
    return float(np.mean((served[0] != served[1]) | (host[0] != host[1])))


def _state(sim: Simulation, operators: tuple[str, ...]) -> float:
    """Bytes of the state of some operators."""
    holders = {sim.plan.pipeline_of(name).name for name in operators if sim.graph[name].stateful}
    return sum(sim.state(sim.stages[name])[1] for name in holders)


@dataclass(frozen=True)
class Failure:
    """At a time, an executor fails, or one instance of a pipeline (`executor` is then None).

    What a broken instance had in hand is done again once it is back: after it was missed, started,
    and has read its state. An executor that fails is gone with its slots. Its instances are started
    on the others, and wait for a new one if there are none; that is there, under another name,
    after it was missed and started. comes_back: it is only restarted, and has its instances again
    as soon as these are started. A name that is not there breaks nothing.
    """

    at: float
    executor: str | None = None
    pipeline: str | None = None
    instance: int = 0
    comes_back: bool = False

    def strike(self, sim: Simulation) -> int:
        """Break it; rows that are done again."""
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
            stage = sim.stages[name]
            state = sim.state(stage)[1] * len(servers) / stage.instances
            back = away + timing.instance_start + state / timing.state_rate
            again += sim.fail(name, servers, sim.now + back)
        return again

    def _hit(self, sim: Simulation) -> dict[str, list[int]]:
        if self.executor is None:
            there = (
                self.pipeline in sim.stages and self.instance < sim.stages[self.pipeline].instances
            )
            return {self.pipeline: [self.instance]} if there and self.pipeline else {}
        if self.executor not in sim.placement.executors:
            return {}
        host = sim.placement.executors.index(self.executor)
        hit = {n: np.flatnonzero(h == host).tolist() for n, h in sim.placement.hosts.items()}
        return {name: servers for name, servers in hit.items() if servers}
