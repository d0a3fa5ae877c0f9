"""A running flow: its pipelines, the wiring in force, and its measurements."""

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
    """All pipelines of a run by name, with their supervisor, observer and gauges.

    clocks: start time of each generator; limits: the record at which each generator ends, set when
    the flow drains. `lock` is held briefly while pipelines or what is known of them change. Setting
    `cut_short` ends all waits.
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
        """Why the flow stopped by itself; None if it did not."""
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
        """Load the wiring of the run directory, or create one for a new run."""
        found = self.context.directory.wiring() or self._first_wiring(plan)
        # After a restart the number of executors may differ.
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
        """Start all pipelines of the wiring; open their valves once every query is up."""
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
        # All valves open together, so that no generator runs ahead of its reader.
        ours = [p for p in self.pipelines.values() if not p.spark_sources]
        self.wait(lambda: all(p.quiet for p in ours))
        self._began = time.time()
        for source in self.graph.sources:
            if pipeline_graph.generator(self.graph, source.name) is not None:
                self.clocks[source.name] = self._clock(source.name)
        for pipeline in self.pipelines.values():
            pipeline.turn(open=True, clocks=dict(self.clocks))

    def supervise(self, metering: bool) -> None:
        """Start the supervisor, and with `metering` the profiler of native operators."""
        self.supervisor.start()
        if metering:
            self._profiler.start()

    def _clock(self, source: str) -> float:
        """Start time of a generator, shifted so that it continues after its last record."""
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
        """Create a pipeline that is not started yet; a `shadow` delivers nothing."""
        return RunningPipeline(
            self.context, spec, wired, self.clocks, self.limits, self.gauges.backlog, shadow
        )

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition while the flow runs. Raises `FlowFailed` or `Refused`.

        `Refused` means that the flow is being stopped.
        """
        while not condition():
            self.supervisor.tick()
            self.supervisor.raise_failure()
            if self.cut_short.is_set():
                raise Refused("the flow is being stopped")
            time.sleep(0.02)

    def take_in(self, pipeline: RunningPipeline) -> None:
        """Read the last reports of a pipeline."""
        with self.lock:
            self.observer.take(pipeline)

    def watch(self, aftermath: Aftermath) -> None:
        """Watch the effect of a change on the output, and discard older measurements."""
        with self.lock:
            self.transitions.begin(aftermath)
            touched = (p.name for p in self.pipelines.values() if aftermath.touches(p.spec))
            self.observer.start_anew(touched, aftermath.ended)

    def snapshot(self, *, running: bool, ending: bool, pace: bool) -> Snapshot:
        """Snapshot of the last window; with `pace` batch sizes are adapted to the window."""
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
        """Limit batch sizes, so that no batch takes much longer than the window."""
        for pipeline in self.pipelines.values():
            spec, service = pipeline.spec, snapshot.pipelines[pipeline.name].service
            if pipeline.spark_sources or spec.admission is not None or not service:
                continue
            self.context.pace.learn(spec.operators, service)
            rows, now = self.context.pace.admission(spec), pipeline.valve.admission
            if rows and (now is None or not 0.7 < rows / now < 1.5):
                pipeline.turn(admission=rows)

    def _settled(self, at: float) -> bool:
        """True if the window shows only the plan in force: no change, and not the start."""
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
        """Stop all pipelines after a failed start."""
        for pipeline in self.pipelines.values():
            pipeline.stop()


def with_executors(wiring: Wiring, there: int) -> Wiring:
    """The same wiring with the given number of executors."""
    return replace(wiring, plan=replace(wiring.plan, executors=there, leaving=()))


def _wait_idly(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.05)
