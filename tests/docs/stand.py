"""What stands in for Spark where the commands of the documentation are run: engines without it.

The command line, the run, the policy, the guard and everything written are the real ones.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock import workloads
from penstock.app import run
from penstock.cli import main
from penstock.clock import Clock
from penstock.dataflow import load_profile as loads
from penstock.dataflow.connectors import Generator
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Read
from penstock.engines.simulator.distributions import Constant
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Model, OperatorCost
from penstock.plan.plan import Plan
from penstock.predict import operator_costs
from penstock.store.history import turn_times
from penstock.store.mailbox import is_running
from penstock.testing import MemoryEngine, fake_clock
from penstock.views.prometheus import Exporter

LONGEST = 60.0
"""Seconds of simulated time that a run of the documentation takes here at most."""


class Simulated(SimulatorEngine):
    """A cluster of four machines on which every operator takes some time.

    A load of thousands a second shows nothing more here than one of hundreds.
    """

    def start(self, graph: Graph, plan: Plan | None, run_dir: Path) -> None:
        sources = [o.body.source for o in graph.sources if isinstance(o.body, Read)]
        peaks = [loads.parse(s.load).peak for s in sources if isinstance(s, Generator)]
        if self._load is None and max(peaks, default=0) > 1000:
            self._load = loads.parse("300/s")
        steps = {o.name: OperatorCost(Constant(0.0001)) for o in graph.operators if o.inputs}
        self._model = replace(
            self._model, costs={**steps, **operator_costs.declared(graph)}, nodes=4
        )
        super().start(graph, plan, run_dir)


class Counted(MemoryEngine):
    """For profiles: sources are slow, the rest is not."""

    def start(self, graph: Graph, plan: Plan | None, run_dir: Path) -> None:
        for operator in graph.operators:
            self._costs[operator.name] = FRACTION / (1 if operator.inputs else 4)
        super().start(graph, plan, run_dir)


FRACTION = MemoryEngine({"x": 0.001})._costs["x"]


def stand_in(monkeypatch: Any) -> None:
    """No Spark in this process: engines of ours, and their time."""
    clocks: list[Clock] = []

    def engine(*settings: Any) -> Simulated | Counted:
        """An engine to profile with where a bound of its channels is given."""
        made: Simulated | Counted
        if len(settings) < 3:
            made = Simulated(Model())
            clocks.append(made.clock)
        else:
            made = Counted(rate=2000.0)
            clocks.append(fake_clock(made))
        return made

    monkeypatch.setattr("penstock.app._spark", engine)
    monkeypatch.setattr("penstock.app.Clock", lambda: clocks.pop())
    monkeypatch.setattr(
        "penstock.engines.spark.session.flow_session.session", lambda master, conf: None
    )
    monkeypatch.setattr("penstock.cli.explain._schemas", lambda graph, master, conf: ({}, ()))


@contextmanager
def live(home: Path) -> Iterator[Exporter]:
    """A run that goes on in real time, for those who ask it for changes; its metrics."""
    flow, done = workloads.build("wordcount", home / "out"), threading.Event()
    engine = Simulated(Model(), load="50/s")
    exporter = Exporter(0)

    def sleep(seconds: float) -> None:
        time.sleep(seconds / 10)
        engine.advance(seconds)

    clock = Clock(engine.clock.now, sleep)
    options = {"engine": engine, "clock": clock, "verify": False, "metrics": exporter}
    thread = threading.Thread(
        target=lambda: run(flow, run_dir=home, until=lambda tick: done.is_set(), **options)  # type: ignore[arg-type]
    )
    thread.start()
    try:
        until = time.monotonic() + 30
        while not (is_running(home) and len(turn_times(home)) > 2):
            assert time.monotonic() < until, "the run does not start"
            time.sleep(0.01)
        yield exporter
    finally:
        done.set()
        thread.join(30)


def shortened(words: Sequence[str], longest: float = LONGEST) -> list[str]:
    """The same command, but not for longer than that."""
    from penstock.dataflow import duration

    found = list(words)
    for at, word in enumerate(found[:-1]):
        if word == "--for" and duration.seconds(found[at + 1]) > longest:
            found[at + 1] = f"{longest:g}s"
    return found


def penstock(*words: str) -> int:
    """The command, in this process; its exit code."""
    return main.main(words)


def understood(words: Sequence[str]) -> None:
    """Parse a command line without running it; raises what is wrong with it."""
    name, *rest = words
    dict(main.commands())[name].make_context(name, rest)
