"""Things that break: single instances, or an executor with all that is on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.engines.simulator.simulation import Simulation


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
