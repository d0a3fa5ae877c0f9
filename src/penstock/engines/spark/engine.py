"""Spark engine: runs pipelines as concurrent Structured Streaming queries."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.dataflow.graph import Graph
from penstock.engines.spark.changes.apply import apply
from penstock.engines.spark.changes.draining import drain as drain_flow
from penstock.engines.spark.changes.execution import recover
from penstock.engines.spark.changes.executors import ClusterExecutors
from penstock.engines.spark.changes.journal import Journal
from penstock.engines.spark.changes.spark_pipelines import SparkPipelines
from penstock.engines.spark.channels import python_sources
from penstock.engines.spark.channels.valve import BatchSize
from penstock.engines.spark.measuring.observer import Observer
from penstock.engines.spark.measuring.operator_meter import MeterReports
from penstock.engines.spark.queries import spark_checks
from penstock.engines.spark.queries.pipeline import RunningPipeline
from penstock.engines.spark.queries.sinks import Outlets, check_native
from penstock.engines.spark.run_context import RunContext
from penstock.engines.spark.running_flow import RunningFlow
from penstock.engines.spark.session.flow_session import active, overridden, own, session
from penstock.errors import FlowFailed, Refused
from penstock.metrics.events import Event
from penstock.metrics.snapshot import LatencyMetrics, Snapshot
from penstock.plan import fusion
from penstock.plan.change import Change
from penstock.plan.plan import Plan
from penstock.plan.transition import Transition
from penstock.store.run_directory import RunDirectory

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


class SparkEngine:
    """Runs a dataflow on Spark. See `penstock.engines.port.Engine` for the contract.

    master: of a new session, if no `spark` is given and none is running; conf: settings of the
    flow's own session, which is a copy of that one; window: seconds that a snapshot covers;
    channel_rows: rows that a channel holds before its writer has to wait; make_before_break: start
    a query on the moved state before the old query stops; metering: time Python operators where
    they run, and native ones on samples.
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
        self._make_before_break = make_before_break
        self._metering = metering
        self._state = "new"
        self._ending = False
        self._changing = threading.Lock()  # held during a change or a stop
        self._cut_short = threading.Event()

    # --- the port -------------------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        self._require("running", "stopped")
        return self.flow.wiring.plan

    def start(self, graph: Graph, plan: Plan | None, run_dir: Path) -> None:
        self._require("new")
        theirs = self._theirs or session(self._master, self._conf)
        for line in overridden(theirs, self._conf):
            print(f"penstock: {line}", file=sys.stderr, flush=True)
        self._spark = own(theirs, self._conf)
        with active(self._spark):
            self._start(graph, plan, Path(run_dir), self._spark)

    def apply(self, plan: Plan, reason: str = "") -> Transition:
        self._require("running")
        flow = self.flow
        flow.supervisor.raise_failure()
        plan = _checked(plan, flow.graph)
        if not self._changing.acquire(blocking=False):
            raise Refused("another change is under way; try again when it is done")
        try:
            self._require("running")
            change = Change(flow.wiring.plan, plan)
            if not change:
                return Transition(flow.now, (), 0.0, 0.0, reason, settled=True)
            flow.transitions.close(flow.observer.outputs)
            aftermath = apply(flow, change, reason, self._make_before_break)
            flow.watch(aftermath)
            return aftermath.transition
        finally:
            self._changing.release()

    def observe(self) -> Snapshot:
        self._require("running", "stopped")
        flow = self.flow
        flow.supervisor.raise_failure()
        if self._state == "stopped" and flow.last is not None:
            return flow.last
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
            self.flow.stop_profiling()
            if drain and self.failure is None:
                with suppress(Refused, FlowFailed):  # rows in flight then stay in the run directory
                    drain_flow(self.flow)
            self.flow.stop()
            self._snapshot()
            self._state = "stopped"
            self.flow.context.directory.close()

    # --- more than the port ---------------------------------------------------------------------

    @property
    def spark(self) -> SparkSession:
        assert self._spark is not None
        return self._spark

    @property
    def failure(self) -> FlowFailed | None:
        """Why the flow stopped by itself; None if it did not."""
        return self.flow.failure

    @property
    def pipelines(self) -> Mapping[str, RunningPipeline]:
        return self.flow.pipelines

    @property
    def observer(self) -> Observer:
        return self.flow.observer

    def rows(self, sink: str) -> list[Row]:
        """Rows of a memory sink."""
        return self.flow.context.outlets.rows(sink)

    def read_sink(self, sink: str) -> Iterator[Any] | None:
        """This run's rows of a sink as Arrow data, in write order; None if unreadable."""
        context = self.flow.context
        return context.outlets.read(sink, context.graph, context.schemas[sink])

    def ingested(self) -> dict[str, int]:
        """Number of committed records, by source that is a generator."""
        with self.flow.lock:
            return self.flow.gauges.ingested()

    def transitions(self) -> tuple[Transition, ...]:
        """All changes so far, with their effects as far as they are known."""
        with self.flow.lock:
            return tuple(self.flow.transitions.done)

    def take_events(self) -> tuple[Event, ...]:
        """Remove and return the waiting events, oldest first."""
        return () if self._state == "new" else self.flow.events.take()

    def latency_totals(self) -> Mapping[str, LatencyMetrics]:
        """Latency over the whole run, by constraint."""
        with self.flow.lock:
            return self.flow.observer.latency_totals()

    # --- inside ---------------------------------------------------------------------------------

    def _start(self, graph: Graph, plan: Plan | None, run_dir: Path, spark: SparkSession) -> None:
        resolved = spark_checks.check(graph, spark)
        executors = ClusterExecutors(spark)
        if plan is not None:
            plan = _checked(plan, graph)
            executors.check(plan.executors)
            executors.check_size(plan)
        directory = RunDirectory.open(run_dir, graph, self.name, channel_rows=self._channel_rows)
        try:
            spark_checks.make_directories(graph)
            check_native(graph, directory / "checkpoints", spark)
            python_sources.register(spark)
            context = RunContext(
                spark,
                graph,
                resolved.schemas,
                directory,
                Outlets(directory.run_id),
                self._channel_rows,
                MeterReports(spark.sparkContext) if self._metering else None,
                BatchSize(self._window),
                times=resolved.times,
            )
            self.flow = RunningFlow(context, executors, self._window, self._cut_short)
        except BaseException:
            directory.close()
            self._state = "stopped"
            raise
        try:
            self.flow.find_wiring(plan)
            recovered = recover(SparkPipelines(self.flow), Journal(directory / "changes"))
            self.flow.start()
            if recovered is not None:
                self.flow.events.add(*recovered)
        except BaseException:
            self.flow.abandon()
            directory.close()
            self._state = "stopped"
            raise
        self._state = "running"
        self.flow.supervise(self._metering)
        if plan is not None and executors.dynamic:  # Spark decides on the executors
            plan = replace(plan, executors=self.plan.executors, leaving=())
        if plan is not None and plan != self.plan:
            self.apply(plan, "plan given at start")

    def _snapshot(self) -> Snapshot:
        running = self._state == "running"
        return self.flow.snapshot(
            running=running, ending=self._ending, pace=running and not self._changing.locked()
        )

    def _require(self, *states: str) -> None:
        if self._state not in states:
            raise Refused(f"the engine is {self._state}, this needs it to be {' or '.join(states)}")


def _checked(plan: Plan, graph: Graph) -> Plan:
    fusion.check(plan, graph)
    return fusion.normalise(plan, graph)
