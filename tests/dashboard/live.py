"""A run in a process of its own, for the browser to look at: simulated, but in real time.

`python -m tests.dashboard.live RUN_DIR [SPEED]` runs until it is interrupted.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from penstock import workloads
from penstock.app import run
from penstock.clock import Clock
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Model
from penstock.predict import operator_costs

from .runs import TIMES


def main(run_dir: str, speed: float = 1.0) -> None:
    flow = workloads.build("wordcount", Path(run_dir) / "out")
    steps = operator_costs.costs_of(flow.graph, *TIMES, None)
    engine = SimulatorEngine(Model(steps, nodes=4), load="sine:500,1500@60s")
    before = time.monotonic()

    def now() -> float:
        return before + (time.monotonic() - before) * speed

    def sleep(seconds: float) -> None:
        began = now()
        time.sleep(seconds / speed)
        engine.advance(now() - began)

    clock = Clock(now, sleep)
    run(flow, engine=engine, policy="organic", run_dir=run_dir, verify=False, clock=clock)


if __name__ == "__main__":
    main(sys.argv[1], float((*sys.argv, "1")[2]))
