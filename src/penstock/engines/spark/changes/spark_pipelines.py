"""Effects of the steps of a change on Spark's queries (see `changes.steps`)."""

from __future__ import annotations

import logging
import shutil
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.dataflow import operators as op
from penstock.dataflow.graph import Graph
from penstock.engines.spark import pipeline_graph
from penstock.engines.spark.changes import repartition
from penstock.engines.spark.changes import wiring as wirings
from penstock.engines.spark.changes.executors import spread
from penstock.engines.spark.queries import checkpoint, dead_letters
from penstock.engines.spark.queries.diagnosis import reason
from penstock.engines.spark.queries.pipeline import RunningPipeline
from penstock.plan.plan import Pipeline, Plan
from penstock.store.run_directory import Wired, Wiring

if TYPE_CHECKING:
    from penstock.engines.spark.running_flow import RunningFlow

_DELETIONS = 20
"""Attempts to delete a folder: Spark may still be writing a file of the query that has stopped."""

_ROUNDS = 3
"""Times that a successor catches up with its pipeline before the pipeline stops."""

log = logging.getLogger(__name__)


class SparkPipelines:
    """Implements `Pipelines` on a running flow."""

    def __init__(self, flow: RunningFlow) -> None:
        self._flow = flow
        self._successors: dict[str, RunningPipeline] = {}

    @property
    def graph(self) -> Graph:
        return self._flow.context.graph

    @property
    def wiring(self) -> Wiring:
        return self._flow.wiring

    def channel_end(self, operator: str) -> int:
        return self._flow.context.channel(operator).end

    # --- what is known before a change ------------------------------------------------------------

    def refuse_impossible(self, wanted: Plan) -> None:
        """Raise `Refused` for a plan that the executors or the state do not allow."""
        flow = self._flow
        flow.executors.check(wanted.executors, wanted.leaving, flow.wiring.plan.executors)
        flow.executors.check_size(wanted)
        for spec in wanted.pipelines:
            held = wirings.holder(self.graph, spec, flow.wiring)
            if held is None:
                continue
            if wirings.partitions(self.graph, spec, held.partitions) != held.partitions:
                repartition.check(self._checkpoint(held.checkpoint))

    def may_overlap(self) -> frozenset[str]:
        """Pipelines whose successor may read the same rows again in other batches.

        The successor must reach the same state, and its output must be one that can be dropped.
        """
        return frozenset(
            name
            for name, pipeline in self._flow.pipelines.items()
            if self._replayable(pipeline)
            and pipeline.failure() is None
            and checkpoint.last_commit(pipeline.checkpoint) >= 0
        )

    def _replayable(self, pipeline: RunningPipeline) -> bool:
        operator = pipeline.stateful
        if operator is None or pipeline.spark_sources or pipeline.native_sink is not None:
            return False
        lags = self._flow.context.times.follows.get(operator.name, ())
        return all(lag is None for lag in lags) and _timeless(operator.body)

    # --- emptying and stopping --------------------------------------------------------------------

    def empty(self, pipeline: str, inside: tuple[str, ...], instances: int, final: bool) -> None:
        flow, running = self._flow, self._flow.pipelines[pipeline]

        def ended(entry: pipeline_graph.Input) -> bool:
            at = running.positions[entry.key]
            if not entry.upstream:
                return at >= flow.limits.get(entry.operator, 0)
            if entry.upstream not in inside:
                return True
            return at >= self.channel_end(entry.upstream) and not running.owes_mark(entry)

        if not all(ended(entry) for entry in running.inputs):
            # Reading the rest slowly gains nothing.
            running.turn(parallelism=instances, admission=None, cadence=0.0)
            flow.wait(lambda: all(ended(entry) for entry in running.inputs))
        if not running.spark_sources:
            running.turn(open=False)
            flow.wait(lambda: running.quiet)
        if final:
            flow.wait(lambda: running.caught_up)

    def stop(self, pipeline: str) -> Mapping[str, int]:
        """Stop a query between two batches; return the rows it has read, by input.

        If its source has no valve, or timers fire, its next batch may be planned already. A
        stateless query that reads only Spark sources leaves that batch to the next start, which
        finds it in the checkpoint. All others run it first, because state may be repartitioned, or
        channels read under other names, before the next start.
        """
        flow, running = self._flow, self._flow.pipelines[pipeline]
        running.hold()
        flow.wait(lambda: running.settled)
        flow.take_in(running)
        running.stop()
        alone = len(running.spark_sources) == len(running.inputs) and running.stateful is None
        if running.pending and not alone:
            running.start(once=True)
            flow.wait(lambda: running.settled and not running.pending)
            flow.take_in(running)
            running.stop()
        done = checkpoint.committed(running.checkpoint, running.wired.epoch)
        return {**running.positions, **done}

    def resume(self, pipeline: str) -> None:
        running = self._flow.pipelines.get(pipeline)
        if running is None or self._flow.cut_short.is_set() or self._flow.failure is not None:
            return
        running.turn(open=True, **running.usual)
        running.release()
        if running.stopping:
            running.start()

    # --- successors -------------------------------------------------------------------------------

    def keep_rows(self, pipeline: str) -> None:
        running = self._flow.pipelines[pipeline]
        rows = {i.upstream: running.positions[i.key] for i in running.inputs if i.upstream}
        self._flow.supervisor.keep_rows(pipeline, rows)

    def release_rows(self, pipeline: str) -> None:
        self._flow.supervisor.release_rows(pipeline)

    def copy_checkpoint(self, pipeline: str, checkpoint: str) -> Mapping[str, int]:
        running = self._flow.pipelines[pipeline]
        target = self._checkpoint(checkpoint)
        return repartition.copy_running(running.checkpoint, target, running.wired)

    def start_successor(self, spec: Pipeline, wired: Wired) -> None:
        if spec.name in self._successors:
            return
        successor = self._flow.open(spec, wired, shadow=True)
        self._successors[spec.name] = successor
        positions = self._flow.pipelines[spec.name].positions
        successor.turn(limits=dict(positions), admission=None, cadence=0.0)
        successor.start()
        for _ in range(_ROUNDS):
            self.catch_up(spec.name, dict(positions))

    def catch_up(self, pipeline: str, positions: Mapping[str, int]) -> None:
        successor = self._successors[pipeline]
        goal = {entry.key: positions[entry.key] for entry in successor.inputs}
        successor.turn(limits=goal)
        self._flow.wait(lambda: _read(successor) == goal or successor.failure() is not None)
        error = successor.failure()
        if error is not None:
            raise error

    def stop_successor(self, spec: Pipeline, epoch: int) -> None:
        successor = self._successors.pop(spec.name, None)
        if successor is not None:
            successor.stop()
        dead_letters.forget(self._flow.context.dead, spec.operators, epoch)

    def switch_over(self, pipeline: str) -> None:
        successor = self._successors.pop(pipeline, None)
        if successor is not None:
            limits = dict(self._flow.limits)
            successor.go_live(_read(successor), limits=limits, **successor.usual)

    # --- state and checkpoints --------------------------------------------------------------------

    def repartition(self, checkpoint: str, partitions: int, guarded: bool) -> bool:
        folder = self._checkpoint(checkpoint)
        spark = self._flow.context.spark
        return repartition.repartition(spark, folder, partitions, guarded=guarded)

    def restore(self, checkpoint: str) -> None:
        repartition.restore(self._checkpoint(checkpoint))

    def discard(self, checkpoint: str) -> None:
        folder = self._checkpoint(checkpoint)
        for _ in range(_DELETIONS):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                return
            time.sleep(0.05)

    def discard_copy(self, checkpoint: str) -> None:
        repartition.discard_copy(self._checkpoint(checkpoint))

    def _checkpoint(self, name: str) -> Path:
        return self._flow.context.directory / "checkpoints" / name

    # --- the new wiring ---------------------------------------------------------------------------

    def commit(self, wiring: Wiring) -> None:
        flow = self._flow
        with flow.lock:
            flow.context.directory.commit(wiring)
            old, flow.wiring = flow.wiring, wiring
            for name, wired in old.pipelines.items():
                if wiring.pipelines.get(name) != wired:
                    del flow.pipelines[name]
            for spec in wiring.plan.pipelines:
                if spec.name not in flow.pipelines:
                    wired = wiring.pipelines[spec.name]
                    successor = self._successors.get(spec.name)
                    flow.pipelines[spec.name] = successor or flow.open(spec, wired)

    def start(self, pipeline: str) -> None:
        running = self._flow.pipelines[pipeline]
        if running.query is not None and running.query.isActive:
            return
        try:
            running.start()
        except Exception as error:
            self._flow.supervisor.give_up(
                f"the flow could not go on under its new plan: {reason(str(error))}"
            )
            self._flow.supervisor.raise_failure()

    def adjust(self, spec: Pipeline) -> None:
        self._flow.pipelines[spec.name].respecify(spec)

    # --- executors --------------------------------------------------------------------------------

    def add_executors(self, total: int) -> None:
        self._flow.executors.grow(total, self._flow.wait)

    def remove_executors(self, total: int, leaving: tuple[str, ...]) -> None:
        flow = self._flow
        keyed = [p for p in flow.pipelines.values() if p.stateful is not None]
        held = Counter(
            where for p in keyed for where in p.placement(flow.executors).values() if where
        )
        flow.executors.shrink(total, leaving, held, flow.wait)

    def spread_state(self, pipeline: str) -> bool:
        executors = self._flow.executors
        held = self._flow.pipelines[pipeline].placement(executors)
        where = spread(held, executors.ids())
        if not where or len(held) < 2:
            return False
        self.place_state(pipeline, where)
        return True

    def place_state(self, pipeline: str, where: Mapping[int, str]) -> None:
        """Assign state partitions to executors from the next batch on.

        Waits for the end of the running batch, because its tasks report their own executor as the
        location of the state.
        """
        running = self._flow.pipelines[pipeline]
        running.turn(open=False)
        self._flow.wait(lambda: running.quiet or bool(running.spark_sources))
        running.place(self._flow.executors, where)
        running.turn(open=True)


def _read(successor: RunningPipeline) -> Mapping[str, int]:
    """Rows that a successor has read and committed, by input."""
    done = checkpoint.committed(successor.checkpoint, successor.wired.epoch)
    return {**successor.wired.first, **done}


def _timeless(body: object) -> bool:
    """True if no watermark or clock decides what the operator drops or emits.

    With one, the result depends on where a batch ends.
    """
    match body:
        case op.Aggregate(window=window):
            return window is None
        case op.Deduplicate(on=on):
            return on is None
        case op.Process(time_mode=mode):
            return mode == "none"
        case op.Join(how=how, left_watermark=left, right_watermark=right):
            return how == "inner" and left is None and right is None
    return False
