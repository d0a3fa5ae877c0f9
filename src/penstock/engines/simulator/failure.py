"""Things that break: single instances, or an executor with all that is on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.engines.simulator.simulation import Simulation


@dataclass(frozen=True)
class Failure:
    """At a time, an executor fails, or one instance of a pipeline (`executor` is then None).

    What a broken instance had in hand is done again once it is back: after it was missed, started
    elsewhere, and has read its state. A name that is not there breaks nothing.
    """

    at: float
    executor: str | None = None
    pipeline: str | None = None
    instance: int = 0

    def strike(self, sim: Simulation) -> int:
        """Break it; rows that are done again."""
        timing = sim.model.timing
        again = 0
        for name, servers in self._hit(sim).items():
            stage = sim.stages[name]
            state = sim.state(stage)[1] * len(servers) / stage.instances
            back = timing.detection + timing.instance_start + state / timing.state_rate
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
