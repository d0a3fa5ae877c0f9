"""The Spark engine: pipelines as concurrent Structured Streaming queries that meet at channels."""

from __future__ import annotations

import math
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from penstock.dataflow.graph import Graph
from penstock.engines.spark.changes import repartition
from penstock.engines.spark.changes import wiring as wirings
from penstock.engines.spark.changes.executors import Executors
from penstock.engines.spark.changes.interruption import Changes
from penstock.engines.spark.changes.quiescence import drain as drain_flow
from penstock.engines.spark.changes.quiescence import ends
from penstock.engines.spark.changes.rewiring import rewire
from penstock.engines.spark.channels import python_sources
from penstock.engines.spark.channels.batch_size import Pace
from penstock.engines.spark.measuring.gauges import Gauges
from penstock.engines.spark.measuring.meter import Mail
from penstock.engines.spark.measuring.native_profiler import Profiler
from penstock.engines.spark.measuring.observer import Observer
from penstock.engines.spark.queries import checkpoint, dead_letters, spark_checks
from penstock.engines.spark.queries.diagnosis import reason as telling
from penstock.engines.spark.queries.pipeline import RunningPipeline
from penstock.engines.spark.queries.sinks import Outlets, check_native
from penstock.engines.spark.run_context import Site
from penstock.engines.spark.session.flow_session import (
    active,
    default_parallelism,
    overridden,
    own,
    session,
)
from penstock.engines.spark.supervisor import Supervisor
from penstock.errors import FlowFailed, InvalidInput, Refused
from penstock.metrics.snapshot import LatencyMetrics, Snapshot
from penstock.plan import fusion
from penstock.plan.change import Change
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.transition import Transition
from penstock.store.run_directory import RunDirectory, Wired, Wiring

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from penstock.engines.spark.changes.shadow import Shadow


class SparkEngine:
    """Runs a dataflow on Spark. See `penstock.engines.port.Engine` for the contract.

    master: of a new session, where `spark` gives none and none is running; conf: settings of the
    flow's own session, which is a copy of that one; window: seconds that a snapshot looks back;
    channel_rows: rows a channel holds before its writer has to wait;
    make_before_break: whether moved state has its new query running before the old one stops;
    metering: whether Python operators are timed where they run, and native ones tried on samples.
    """

    name = "spark"

    def __init__(
        self,
        master: str | None = None,
        spark: SparkSession | None = None,
        *,
        conf: Mapping[str, str] | None = None,
        window: float = 5.0,
        channel_rows: int = 1_000_000,
        make_before_break: bool = True,
        metering: bool = True,
    ) -> None:
        self._master = master
        self._conf = conf
        self._theirs = spark
        self._spark: SparkSession | None = None
        self._window = window
        self._channel_rows = channel_rows
        self.make_before_break = make_before_break
        self._metering = metering
        self._state = "new"
        self._ending = False
        self._pipelines: dict[str, RunningPipeline] = {}
        self._lock = threading.RLock()  # held for moments: the pipelines and what is known of them
        self._changing = threading.Lock()  # held for as long as a change or a stop takes
        self._cut_short = threading.Event()
        self._limits: dict[str, int] = {}
        self._clocks: dict[str, float] = {}
        self._last: Snapshot | None = None
        self._changes = Changes()

    # --- the port -------------------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        self._require("running", "stopped")
        return self._wiring.plan

    def start(self, graph: Graph, plan: Plan | None, run_dir: Path) -> None:
        self._require("new")
        theirs = self._theirs or session(self._master, self._conf)
        for line in overridden(theirs, self._conf):
            print(f"penstock: {line}", file=sys.stderr, flush=True)
        self._spark = own(theirs, self._conf)
        with active(self._spark):
            self._start(graph, plan, run_dir, self._spark)

    def _start(self, graph: Graph, plan: Plan | None, run_dir: Path, spark: SparkSession) -> None:
        resolved = spark_checks.check(graph, spark)
        self._executors = Executors(spark)
        if plan is not None:
            plan = _checked(plan, graph)
            self._executors.check(plan.executors)
            self._executors.check_size(plan)
        self._directory = RunDirectory.open(
            Path(run_dir), graph, self.name, channel_rows=self._channel_rows
        )
        try:
            spark_checks.make_directories(graph)
            check_native(graph, self._directory / "checkpoints", spark)
            python_sources.register(spark)
            outlets = Outlets(self._directory.run_id)
            mail = Mail(spark.sparkContext) if self._metering else None
            self._site = Site(
                spark,
                graph,
                resolved.schemas,
                self._directory,
                outlets,
                self._channel_rows,
                mail,
                Pace(self._window),
                times=resolved.times,
            )
            self._observer = Observer(self._site, self._window)
            self._gauges = Gauges(
                self._site,
                self._observer,
                self._pipelines,
                self._clocks,
                self._limits,
                self._executors,
            )
            self._supervisor = Supervisor(
                self._site,
                self._pipelines,
                self._observer,
                self._gauges,
                self._changes,
                self._lock,
            )
            self._wiring = self._staffed(
                self._directory.wiring() or self._first_wiring(graph, plan)
            )
            self._began = time.time()
            repartition.undo(self._directory / "checkpoints")
            self._forget_checkpoints()
            for folder in (self._directory / "checkpoints").glob("state-*/"):
                checkpoint.come_home(folder)
            dead_letters.forget(self._site.dead, graph.by_name, self._wiring.number + 1)
            self._site.dead_letters = sum(
                dead_letters.total(self._site.dead, o.name) for o in graph.operators
            )
            for spec in reversed(self._wiring.plan.pipelines):
                self._pipelines[spec.name] = self._open(spec)
                self._pipelines[spec.name].turn(open=False)
            for pipeline in self._pipelines.values():
                self._begin(pipeline)
            self._open_valves()
        except BaseException:
            self._abandon()
            raise
        self._state = "running"
        self._supervisor.start()
        self._profiler = Profiler(
            lambda: dict(self._pipelines),
            lambda: self._last,
            self._gauges.statistics,
            self._gauges.estimates,
        )
        if self._metering:
            self._profiler.start()
        if plan is not None and self._executors.dynamic:  # what it says of executors is Spark's
            plan = replace(plan, executors=self._wiring.plan.executors, leaving=())
        if plan is not None and plan != self._wiring.plan:
            self.apply(plan, "plan given at start")

    def apply(self, plan: Plan, reason: str = "") -> Transition:
        self._require("running")
        self._supervisor.raise_failure()
        plan = _checked(plan, self._site.graph)
        if not self._changing.acquire(blocking=False):
            raise Refused("another change is under way; try again when it is done")
        try:
            self._require("running")
            change = Change(self._wiring.plan, plan)
            if not change:
                return Transition(self.since_start(time.time()), (), 0.0, 0.0, reason, settled=True)
            self._changes.close(self._observer.outputs)
            aftermath = rewire(self, change, reason)
            with self._lock:
                self._changes.begin(aftermath)
                touched = (p.name for p in self._pipelines.values() if aftermath.touches(p.spec))
                self._observer.start_anew(touched, aftermath.ended)
            return aftermath.transition
        finally:
            self._changing.release()

    def observe(self) -> Snapshot:
        self._require("running", "stopped")
        self._supervisor.raise_failure()
        if self._state == "stopped" and self._last is not None:
            return self._last
        return self._snapshot()

    def stop(self, drain: bool = True) -> None:
        if self._state == "new":
            raise Refused("the engine has not been started")
        if self._state == "stopped":
            return
        if not drain:
            self._cut_short.set()
        with self._changing:
            if self._state == "stopped":
                return
            self._ending = True
            self._profiler.stop()
            if drain and self.failure is None:
                self._drain()
            self._supervisor.stop()
            for pipeline in self._pipelines.values():
                pipeline.stop()
            for pipeline in self._pipelines.values():
                self._observer.take(pipeline)
                done = checkpoint.committed(pipeline.checkpoint, pipeline.wired.epoch)
                for key, row in done.items():
                    pipeline.reached(key, row)
            self._changes.close(self._observer.outputs)
            self._last = self._snapshot()
            self._state = "stopped"
            self._directory.close()

    # --- more than the port ---------------------------------------------------------------------

    @property
    def spark(self) -> SparkSession:
        assert self._spark is not None
        return self._spark

    @property
    def failure(self) -> FlowFailed | None:
        """Why the flow stopped by itself, if it did."""
        return self._supervisor.failure

    def rows(self, sink: str) -> list[Row]:
        """What a memory sink has got."""
        return self._site.outlets.rows(sink)

    def read_sink(self, sink: str) -> Iterator[Any] | None:
        """This run's rows of a sink, as Arrow data in the order of writing; None if unreadable."""
        return self._site.outlets.read(sink, self._site.graph, self._site.schemas[sink])

    def ingested(self) -> dict[str, int]:
        """Records taken in and committed, by source with a generator."""
        with self._lock:
            return self._gauges.ingested()

    def transitions(self) -> tuple[Transition, ...]:
        """All changes so far, with what is known of them by now."""
        with self._lock:
            return tuple(self._changes.done)

    def latency_totals(self) -> Mapping[str, LatencyMetrics]:
        """Latency over the whole run, by constraint."""
        with self._lock:
            return self._observer.latency_totals()

    def _first_wiring(self, graph: Graph, plan: Plan | None) -> Wiring:
        executors = self._executors.ready()
        wanted = executors if plan is None or self._executors.dynamic else plan.executors
        if wanted > executors:
            self._executors.grow(wanted, self._wait_idly)
        elif wanted < executors:
            self._executors.shrink(wanted, (), Counter(), self._wait_idly)
        chosen = plan or fusion.default_plan(graph, default_parallelism(self.spark), executors)
        wiring = wirings.first(self._site, chosen)
        self._directory.commit(wiring)
        return wiring

    @staticmethod
    def _begin(pipeline: RunningPipeline) -> None:
        try:
            pipeline.start()
        except PySparkException as error:
            names = " + ".join(pipeline.spec.operators)
            raise InvalidInput(f"pipeline {names} cannot start: {telling(str(error))}") from error

    def _staffed(self, wiring: Wiring) -> Wiring:
        """A wiring with the executors that there are: after a restart these may be others."""
        return _with_executors(wiring, self._executors.ready())

    @staticmethod
    def _wait_idly(condition: Callable[[], bool]) -> None:
        while not condition():
            time.sleep(0.05)

    def _open_valves(self) -> None:
        """Let records in once every query is up, so that no generator runs ahead of its reader."""
        ours = [p for p in self._pipelines.values() if not p.foreign]
        self.wait(lambda: all(p.quiet for p in ours))
        self._began = time.time()
        for source in self._site.graph.sources:
            if self._site.generator(source.name) is not None:
                self._clocks[source.name] = self._clock(source.name)
        for pipeline in self._pipelines.values():
            pipeline.turn(open=True, clocks=dict(self._clocks))

    # --- what a rewiring needs of the engine ----------------------------------------------------

    @property
    def site(self) -> Site:
        return self._site

    @property
    def wiring(self) -> Wiring:
        return self._wiring

    @property
    def pipelines(self) -> Mapping[str, RunningPipeline]:
        return self._pipelines

    @property
    def limits(self) -> Mapping[str, int]:
        """Where each generator ends, once it has to."""
        return self._limits

    @property
    def executors(self) -> Executors:
        return self._executors

    @property
    def gauges(self) -> Gauges:
        return self._gauges

    @property
    def observer(self) -> Observer:
        return self._observer

    def since_start(self, moment: float) -> float:
        return moment - self._began

    def take_in(self, pipeline: RunningPipeline) -> None:
        """Read a pipeline's last reports."""
        with self._lock:
            self._observer.take(pipeline)

    def open_shadow(self, spec: Pipeline, wired: Wired) -> RunningPipeline:
        """A successor of a pipeline, which delivers nothing yet."""
        return RunningPipeline(
            self._site, spec, wired, self._clocks, self._limits, self._gauges.backlog, shadow=True
        )

    def hold(self, pipeline: RunningPipeline) -> None:
        """Keep in the channels what a pipeline has not committed yet, also when it has."""
        rows = {i.upstream: pipeline.positions[i.key] for i in pipeline.inputs if i.upstream}
        self._supervisor.hold(pipeline.name, rows)

    def let_go(self, name: str) -> None:
        """End a hold."""
        self._supervisor.let_go(name)

    def put_in_force(
        self,
        wiring: Wiring,
        stopped: list[str],
        starting: list[Pipeline],
        successors: Mapping[str, Shadow],
    ) -> None:
        """Commit a wiring, start the pipelines that are new in it, let successors go live."""
        with self._lock:
            self._directory.commit(wiring)
            self._wiring = wiring
            for name in stopped:
                del self._pipelines[name]
            for spec in starting:
                self._pipelines[spec.name] = self._open(spec)
            for name, shadow in successors.items():
                self._pipelines[name] = shadow.running
                self._supervisor.let_go(name)
        for shadow in successors.values():
            shadow.go_live(self._limits)
        try:
            for spec in starting:
                self._pipelines[spec.name].start()
        except Exception as error:
            self._supervisor.give_up(
                f"the flow could not go on under its new plan: {telling(str(error))}"
            )
            self._supervisor.raise_failure()
        self._forget_checkpoints()

    def bring_back(self, stopped: Iterable[str]) -> None:
        """Let pipelines go on that were held or stopped for a change that did not come about."""
        if self._cut_short.is_set() or self.failure is not None:
            return
        for name in stopped:
            pipeline = self._pipelines[name]
            pipeline.turn(open=True, **pipeline.usual)
            pipeline.release()
            if pipeline.stopping:
                pipeline.start()

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition while the flow goes on; a flow that fails ends the waiting."""
        while not condition():
            self._supervisor.tick()
            self._supervisor.raise_failure()
            if self._cut_short.is_set():
                raise Refused("the flow is being stopped")
            time.sleep(0.02)

    # --- inside ---------------------------------------------------------------------------------

    def _open(self, spec: Pipeline) -> RunningPipeline:
        wired = self._wiring.pipelines[spec.name]
        return RunningPipeline(
            self._site, spec, wired, self._clocks, self._limits, self._gauges.backlog
        )

    def _clock(self, source: str) -> float:
        """When a generator's time began, so that it goes on with the record after the last one."""
        spec = self._wiring.plan.pipeline_of(source)
        wired = self._wiring.pipelines[spec.name]
        folder = self._directory / "checkpoints" / wired.checkpoint
        _, rows, _ = checkpoint.progress(folder, wired.epoch)
        taken = max(rows.get(source, 0), wired.first.get(source, 0))
        if taken == 0:
            return self._began
        due = float(self._site.load(source).arrival([taken - 1])[0])
        return self._began - due if math.isfinite(due) else self._began

    def _forget_checkpoints(self) -> None:
        """Delete checkpoints of other wirings that hold nothing anybody needs."""
        kept = {wired.checkpoint for wired in self._wiring.pipelines.values()}
        for entry in (self._directory / "checkpoints").iterdir():
            if not entry.name.startswith(("run-", "state-")) or entry.name in kept:
                continue
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)

    def _drain(self) -> None:
        self._limits.update(ends(self))
        with suppress(Refused, FlowFailed):  # what is in flight then stays in the directory
            drain_flow(self)

    def _snapshot(self) -> Snapshot:
        with self._lock:
            if self._executors.dynamic and self._state == "running":
                self._wiring = _with_executors(self._wiring, self._executors.there)
            at = self.since_start(time.time())
            self._last = self._gauges.snapshot(
                at, self._wiring.plan, settled=self._settled(at), ending=self._ending
            )
            self._pace(self._last)
            return self._last

    def _pace(self, snapshot: Snapshot) -> None:
        """Let no batch take much longer than the window, however many rows wait."""
        if self._state != "running" or self._limits or self._changing.locked():
            return
        for pipeline in self._pipelines.values():
            spec, service = pipeline.spec, snapshot.pipelines[pipeline.name].service
            if pipeline.foreign or spec.admission is not None or not service:
                continue
            self._site.pace.learn(spec.operators, service)
            rows, now = self._site.pace.admission(spec), pipeline.valve.admission
            if rows and (now is None or not 0.7 < rows / now < 1.5):
                pipeline.turn(admission=rows)

    def _settled(self, at: float) -> bool:
        """Whether the window shows the plan in force, and neither a change nor the start."""
        changes = (t.at + t.duration for t in self._changes.done[-1:])
        return at >= 2 * self._window and all(at - end > self._window for end in changes)

    def _require(self, *states: str) -> None:
        if self._state not in states:
            raise Refused(f"the engine is {self._state}, this needs it to be {' or '.join(states)}")

    def _abandon(self) -> None:
        """Undo a start that did not succeed."""
        for pipeline in self._pipelines.values():
            pipeline.stop()
        self._directory.close()
        self._state = "stopped"


def _with_executors(wiring: Wiring, there: int) -> Wiring:
    return replace(wiring, plan=replace(wiring.plan, executors=there, leaving=()))


def _checked(plan: Plan, graph: Graph) -> Plan:
    fusion.check(plan, graph)
    return fusion.normalise(plan, graph)
