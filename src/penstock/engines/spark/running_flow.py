"""A flow at work: its pipelines, the wiring in force, and what is measured of them."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from pyspark.errors import PySparkException

from penstock.dataflow.graph import Graph
from penstock.engines.spark import pipeline_graph
from penstock.engines.spark.changes import wiring as wirings
from penstock.engines.spark.changes.executors import ClusterExecutors
from penstock.engines.spark.changes.transitions import Aftermath, TransitionLog
from penstock.engines.spark.measuring.native_profiler import Profiler
from penstock.engines.spark.measuring.observer import Observer
from penstock.engines.spark.measuring.snapshots import Gauges
from penstock.engines.spark.queries import checkpoint, dead_letters
from penstock.engines.spark.queries.diagnosis import reason
from penstock.engines.spark.queries.pipeline import RunningPipeline
from penstock.engines.spark.run_context import RunContext
from penstock.engines.spark.session.flow_session import default_parallelism
from penstock.engines.spark.supervisor import EventLog, Supervisor
from penstock.errors import FlowFailed, InvalidInput, Refused
from penstock.metrics.snapshot import Snapshot
from penstock.plan import fusion
from penstock.plan.plan import Pipeline, Plan
from penstock.store.run_directory import Wired, Wiring


class RunningFlow:
    """All pipelines of a run, by name, and everything that looks after them.

    clocks: when each generator's time began; limits: the record at which each generator ends, once
    it has to. `lock` is held for moments, while pipelines and what is known of them change. Once
    `cut_short` is set, nobody waits any longer.
    """

    def __init__(
        self,
        context: RunContext,
        executors: ClusterExecutors,
        window: float,
        cut_short: threading.Event,
    ) -> None:
        self.context = context
        self.executors = executors
        self.window = window
        self.lock = threading.RLock()
        self.pipelines: dict[str, RunningPipeline] = {}
        self.clocks: dict[str, float] = {}
        self.limits: dict[str, int] = {}
        self.transitions = TransitionLog()
        self.observer = Observer(context, window)
        self.gauges = Gauges(
            context, self.observer, self.pipelines, self.clocks, self.limits, executors
        )
        self.events = EventLog(lambda: self.now)
        self.supervisor = Supervisor(
            context,
            self.pipelines,
            self.observer,
            self.gauges,
            self.transitions,
            executors,
            self.events,
            self.lock,
        )
        self.cut_short = cut_short
        self.last: Snapshot | None = None
        self.wiring = Wiring(0, Plan(()), {})
        self._profiler = Profiler(
            lambda: dict(self.pipelines),
            lambda: self.last,
            self.gauges.statistics,
            self.gauges.estimates,
        )
        self._began = time.time()

    @property
    def failure(self) -> FlowFailed | None:
        """Why the flow stopped by itself, if it did."""
        return self.supervisor.failure

    @property
    def graph(self) -> Graph:
        return self.context.graph

    @property
    def now(self) -> float:
        """Seconds since the start of the run."""
        return self.since_start(time.time())

    def since_start(self, moment: float) -> float:
        return moment - self._began

    # --- starting -------------------------------------------------------------------------------

    def find_wiring(self, plan: Plan | None) -> None:
        """Take up the wiring of the run directory, or wire a new run under a plan."""
        found = self.context.directory.wiring() or self._first_wiring(plan)
        # After a restart there may be other executors than before.
        self.wiring = with_executors(found, self.executors.ready())

    def _first_wiring(self, plan: Plan | None) -> Wiring:
        executors = self.executors.ready()
        wanted = executors if plan is None or self.executors.dynamic else plan.executors
        if wanted > executors:
            self.executors.grow(wanted, _wait_idly)
        elif wanted < executors:
            self.executors.shrink(wanted, (), Counter(), _wait_idly)
        default = default_parallelism(self.context.spark)
        wiring = wirings.first(
            self.graph, plan or fusion.default_plan(self.graph, default, executors)
        )
        self.context.directory.commit(wiring)
        return wiring

    def start(self) -> None:
        """Start all pipelines of the wiring, and let records in once every query is up."""
        self._began = time.time()
        for folder in (self.context.directory / "checkpoints").glob("state-*/"):
            checkpoint.correct_paths(folder)
        self.context.dead_letters = sum(
            dead_letters.total(self.context.dead, o.name) for o in self.graph.operators
        )
        for spec in reversed(self.wiring.plan.pipelines):
            self.pipelines[spec.name] = self.open(spec, self.wiring.pipelines[spec.name])
            self.pipelines[spec.name].turn(open=False)
        for pipeline in self.pipelines.values():
            try:
                pipeline.start()
            except PySparkException as error:
                names = " + ".join(pipeline.spec.operators)
                raise InvalidInput(
                    f"pipeline {names} cannot start: {reason(str(error))}"
                ) from error
        # No generator may run ahead of its reader, so all valves open together.
        ours = [p for p in self.pipelines.values() if not p.spark_sources]
        self.wait(lambda: all(p.quiet for p in ours))
        self._began = time.time()
        for source in self.graph.sources:
            if pipeline_graph.generator(self.graph, source.name) is not None:
                self.clocks[source.name] = self._clock(source.name)
        for pipeline in self.pipelines.values():
            pipeline.turn(open=True, clocks=dict(self.clocks))

    def supervise(self, metering: bool) -> None:
        """Begin to look after the pipelines; with `metering` also try native operators."""
        self.supervisor.start()
        if metering:
            self._profiler.start()

    def _clock(self, source: str) -> float:
        """When a generator's time began, so that it goes on with the record after the last one."""
        wired = self.wiring.pipelines[self.wiring.plan.pipeline_of(source).name]
        folder = self.context.directory / "checkpoints" / wired.checkpoint
        _, rows, _ = checkpoint.progress(folder, wired.epoch)
        taken = max(rows.get(source, 0), wired.first.get(source, 0))
        if taken == 0:
            return self._began
        due = float(self.context.load(source).arrival([taken - 1])[0])
        return self._began - due if math.isfinite(due) else self._began

    # --- running --------------------------------------------------------------------------------

    def open(self, spec: Pipeline, wired: Wired, shadow: bool = False) -> RunningPipeline:
        """A pipeline that is not started yet; a `shadow` delivers nothing."""
        return RunningPipeline(
            self.context, spec, wired, self.clocks, self.limits, self.gauges.backlog, shadow
        )

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition while the flow goes on; a flow that fails ends the wait."""
        while not condition():
            self.supervisor.tick()
            self.supervisor.raise_failure()
            if self.cut_short.is_set():
                raise Refused("the flow is being stopped")
            time.sleep(0.02)

    def take_in(self, pipeline: RunningPipeline) -> None:
        """Read a pipeline's last reports."""
        with self.lock:
            self.observer.take(pipeline)

    def watch(self, aftermath: Aftermath) -> None:
        """Watch what a change does to the output; what was measured before it is forgotten."""
        with self.lock:
            self.transitions.begin(aftermath)
            touched = (p.name for p in self.pipelines.values() if aftermath.touches(p.spec))
            self.observer.start_anew(touched, aftermath.ended)

    def snapshot(self, *, running: bool, ending: bool, pace: bool) -> Snapshot:
        """Everything measured over the window; with `pace` batches are kept to their time."""
        with self.lock:
            if self.executors.dynamic and running:
                self.wiring = with_executors(self.wiring, self.executors.there)
            at = self.now
            self.last = self.gauges.snapshot(
                at, self.wiring.plan, settled=self._settled(at), ending=ending
            )
            if pace and not self.limits:
                self._pace(self.last)
            return self.last

    def _pace(self, snapshot: Snapshot) -> None:
        """Let no batch take much longer than the window, however many rows wait."""
        for pipeline in self.pipelines.values():
            spec, service = pipeline.spec, snapshot.pipelines[pipeline.name].service
            if pipeline.spark_sources or spec.admission is not None or not service:
                continue
            self.context.pace.learn(spec.operators, service)
            rows, now = self.context.pace.admission(spec), pipeline.valve.admission
            if rows and (now is None or not 0.7 < rows / now < 1.5):
                pipeline.turn(admission=rows)

    def _settled(self, at: float) -> bool:
        """True if the window shows the plan in force, and neither a change nor the start."""
        changes = (t.at + t.duration for t in self.transitions.done[-1:])
        return at >= 2 * self.window and all(at - end > self.window for end in changes)

    # --- stopping -------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop all queries and read their last reports."""
        self.supervisor.stop()
        for pipeline in self.pipelines.values():
            pipeline.stop()
        for pipeline in self.pipelines.values():
            self.observer.take(pipeline)
            done = checkpoint.committed(pipeline.checkpoint, pipeline.wired.epoch)
            for key, row in done.items():
                pipeline.reached(key, row)
        self.transitions.close(self.observer.outputs)

    def stop_profiling(self) -> None:
        self._profiler.stop()

    def abandon(self) -> None:
        """Undo a start that did not succeed."""
        for pipeline in self.pipelines.values():
            pipeline.stop()


def with_executors(wiring: Wiring, there: int) -> Wiring:
    """The same wiring with the executors that there are."""
    return replace(wiring, plan=replace(wiring.plan, executors=there, leaving=()))


def _wait_idly(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.05)
