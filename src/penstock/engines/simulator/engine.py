"""The simulator as an engine: a simulated cluster behind the engine port.

Records are numbers: no function of an operator is called. Time passes only when `advance` is
called, and is simulated when somebody looks, so many small advances cost no more than one.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.clock import Clock
from penstock.dataflow import load_profile as loads
from penstock.dataflow import validation
from penstock.dataflow.connectors import Generator
from penstock.dataflow.graph import Graph
from penstock.dataflow.load_profile import Load
from penstock.dataflow.operators import Read
from penstock.engines.simulator.changes import InjectedFailure, change_cost
from penstock.engines.simulator.model import Model
from penstock.engines.simulator.simulation import Simulation
from penstock.engines.simulator.snapshots import snapshot
from penstock.engines.simulator.state import InitialState, SavedState
from penstock.errors import Refused
from penstock.metrics.snapshot import LatencyMetrics, Snapshot
from penstock.plan import fusion
from penstock.plan.change import Change
from penstock.plan.plan import Plan
from penstock.plan.transition import Transition

_SAME = 1e-9


class SimulatorEngine:
    """An `Engine` whose cluster is a `Model`.

    load: of every source, or of each by name (None: each generator's own); failures: injected at
    their times; initial: waiting rows and state at the start of a new run (None: none); step:
    seconds that are simulated at a time while queues are not nearly full; finest: shortest step
    while they are, so a queue can overflow by the records of one such step; window: seconds of a
    snapshot; detail: largest number of a pipeline's instances that a snapshot lists.

    The same arguments and calls give the same result to the last bit. The run directory is written
    by `start` and `stop`: a simulation that was killed is simply run again.
    """

    name = "simulator"

    def __init__(
        self,
        model: Model | None = None,
        *,
        load: Load | str | Mapping[str, Load] | None = None,
        seed: int = 0,
        failures: Sequence[InjectedFailure] = (),
        initial: InitialState | None = None,
        step: float = 1.0,
        finest: float = 0.01,
        window: float = 5.0,
        detail: int = 64,
    ) -> None:
        self._model = Model() if model is None else model
        self._load = loads.parse(load) if isinstance(load, str) else load
        self._seed = seed
        self._initial = initial
        self._failures = sorted(failures, key=lambda f: f.at)
        self._step, self._finest = step, finest
        self._window, self._detail = window, detail
        self._phase, self._drained = "new", False
        self._lock = threading.RLock()
        self._cut_short = False
        self._target = 0.0
        self._changed = 0.0
        self._slot_seconds = 0.0
        self._sim: Simulation
        self._saved: SavedState
        self.rows_replayed = 0

    # --- the port -----------------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        self._expect("running", "stopped")
        return self._sim.plan

    def start(self, graph: Graph, plan: Plan | None, run_dir: Path) -> None:
        self._expect("new")
        validation.check(graph)
        file = SavedState(Path(run_dir), graph)
        saved = file.read()
        if plan is None:
            plan = Plan.from_json(saved["plan"]) if saved else self._default(graph)
        fusion.check(plan, graph)
        self._check_nodes(plan)
        sim = Simulation(
            graph,
            self._model,
            self._loads(graph),
            self._seed,
            step=self._step,
            finest=self._finest,
            window=self._window,
            most=_limits(graph),
            resumed=saved.get("starts", 0),
        )
        file.restore(sim, saved)
        if self._initial is not None and not saved:
            self._initial.apply_to(sim, plan)
        sim.switch(plan)
        self._sim, self._saved, self._phase = sim, file, "running"
        self._target = self._changed = sim.now
        file.write(sim)

    def apply(self, plan: Plan, reason: str = "") -> Transition:
        with self._lock:
            self._expect("running")
            sim = self._sim
            fusion.check(plan, sim.graph)
            self._check_nodes(plan)
            self._catch_up()
            at, change = sim.now, Change(sim.plan, plan)
            if not change:
                return Transition(at, (), 0.0, 0.0, reason, settled=True)
            cost, placement = change_cost(sim, change), sim.placement
            self._pass(cost.preparation)
            if sim.placement is not placement:  # an executor failed or came back meanwhile
                cost = change_cost(sim, change)
            sim.switch(plan, cost.pauses, cost.moves)
            left = sum(s.waiting(sim.now) for s in sim.pipelines.values())
            self._pass(cost.interruption)
            self._changed = sim.now
            return Transition(
                at,
                tuple(map(str, change.actions)),
                duration=cost.preparation + cost.interruption,
                interruption=cost.interruption,
                reason=reason,
                phases=(*cost.phases.items(), ("pause", cost.interruption)),
                state_rows_moved=cost.state_rows,
                state_bytes_moved=cost.state_bytes,
                keys_moved=cost.keys_moved,
                backlog_left=left,
                settled=True,
            )

    def _settled(self) -> bool:
        """True if the window shows only the plan in force, with a batch where rows wait."""
        sim = self._sim
        if sim.now - self._changed < sim.window - _SAME:
            return False
        return sim.model.batch is None or all(
            pipeline.gauge.rates(sim.now, sim.window) or not pipeline.waiting(sim.now)
            for pipeline in sim.pipelines.values()
        )

    def observe(self) -> Snapshot:
        with self._lock:
            self._expect("running", "stopped")
            self._catch_up()
            sim = self._sim
            return snapshot(
                sim,
                settled=self._settled(),
                drained=self._drained,
                slot_seconds=self._slot_seconds,
                detail=self._detail,
            )

    def stop(self, drain: bool = True) -> None:
        self._expect("running", "stopped")
        self._cut_short = self._cut_short or not drain
        with self._lock:
            if self._phase == "stopped":
                return
            self._catch_up()
            sim = self._sim
            if drain:
                self.drain_for(math.inf)
            self._phase, self._drained = "stopped", drain and not sim.in_flight
            if not self._drained:
                sim.put_back()
            self._saved.write(sim)

    # --- time ---------------------------------------------------------------------------------

    def drain_for(self, seconds: float) -> bool:
        """Close the sources and advance until the flow is empty or time is up.

        Returns True if it is empty.
        """
        with self._lock:
            self._expect("running")
            self._catch_up()
            sim = self._sim
            if not sim.closed:
                sim.close_sources()
            until = sim.now + seconds
            while sim.in_flight and sim.now < until and not self._cut_short:
                self._pass(min(until, max(sim.now + self._step, sim.next_departure())) - sim.now)
            return not sim.in_flight

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._expect("running")
        self._target += seconds

    @property
    def now(self) -> float:
        """Simulated seconds."""
        return self._target

    @property
    def clock(self) -> Clock:
        """A clock with simulated time, whose days begin with the run."""

        def sleep(seconds: float) -> None:
            if self._phase == "running":
                self.advance(seconds)
            else:
                time.sleep(min(seconds, 0.01))

        return Clock(
            now=lambda: self._target, sleep=sleep, of_day=lambda: self._target % (24 * 3600.0)
        )

    def latency_totals(self) -> Mapping[str, LatencyMetrics]:
        found = {name: gauge.total() for name, gauge in self._sim.latency.items()}
        return {name: metrics for name, metrics in found.items() if metrics is not None}

    def _catch_up(self) -> None:
        self._run_to(self._target)

    def _pass(self, seconds: float) -> None:
        self._target = self._sim.now + seconds
        self._run_to(self._target)

    def _run_to(self, until: float) -> None:
        """Advance to a time, stopping to inject failures."""
        sim = self._sim
        while self._failures and self._failures[0].at <= until:
            self._move(self._failures[0].at)
            self.rows_replayed += self._failures.pop(0).inject(sim)
        self._move(until)

    def _move(self, until: float) -> None:
        sim = self._sim
        self._slot_seconds += max(0.0, until - sim.now) * sim.plan.slots
        sim.advance(until)

    # --- checks -------------------------------------------------------------------------------

    def _expect(self, *phases: str) -> None:
        if self._phase not in phases:
            raise Refused(f"the engine is {self._phase}; this needs one that is {phases[0]}")

    def _check_nodes(self, plan: Plan) -> None:
        if plan.executors > self._model.nodes:
            raise Refused(
                f"the plan has {plan.executors} executors and the simulated cluster "
                f"{self._model.nodes}: give it more nodes"
            )

    def _default(self, graph: Graph) -> Plan:
        return fusion.default_plan(graph, 1, self._model.nodes)

    def _loads(self, graph: Graph) -> dict[str, Load]:
        if isinstance(self._load, Mapping):
            return {operator.name: self._load[operator.name] for operator in graph.sources}
        found = {}
        for operator in graph.sources:
            body, text = operator.body, "1000/s"
            if isinstance(body, Read) and isinstance(body.source, Generator):
                text = body.source.load
            found[operator.name] = self._load if self._load is not None else loads.parse(text)
        return found


def _limits(graph: Graph) -> dict[str, int | None]:
    return {
        o.name: o.body.source.limit
        for o in graph.sources
        if isinstance(o.body, Read) and isinstance(o.body.source, Generator)
    }
