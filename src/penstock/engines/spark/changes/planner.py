"""Plans a change: the steps from the wiring in force to another plan.

Pipelines that can go on are only adjusted. The others are emptied and stopped, upstream first, so
that nothing is in flight between them; then the new wiring is committed, and new pipelines are
started. If only state moves, a successor is prepared first and takes over between two batches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from penstock.dataflow.graph import Graph
from penstock.engines.spark import pipeline_graph
from penstock.engines.spark.changes import wiring as wirings
from penstock.engines.spark.changes.steps import (
    AddExecutors,
    Adjust,
    CommitWiring,
    CopyCheckpoint,
    DiscardCheckpoint,
    DiscardCopy,
    Empty,
    HandOver,
    KeepRows,
    RemoveExecutors,
    Repartition,
    SpreadState,
    StartPipeline,
    StartSuccessor,
    Step,
    StopPipeline,
    SwitchOver,
)
from penstock.errors import Refused
from penstock.plan import fusion
from penstock.plan.plan import Pipeline, Plan
from penstock.store.run_directory import Wired, Wiring


@dataclass(frozen=True)
class Situation:
    """State of a flow when a change is planned.

    may_overlap: running pipelines with state to copy, whose successor may read the same rows again
    in other batches; failed pipelines are excluded.
    """

    graph: Graph
    wiring: Wiring
    may_overlap: frozenset[str] = frozenset()


def plan_change(situation: Situation, wanted: Plan) -> tuple[Step, ...]:
    """Steps to another plan. Raises `Refused` if no steps lead there."""
    return tuple(_Planner(situation, wanted).steps())


def plan_stop(graph: Graph, plan: Plan, final: bool = False) -> tuple[Step, ...]:
    """Steps that empty and stop all pipelines of a plan."""
    return tuple(stop_steps(graph, plan, plan.pipelines, final))


def stop_steps(
    graph: Graph, plan: Plan, stopping: Iterable[Pipeline], final: bool = False
) -> Iterator[Step]:
    """Yield steps that empty and stop pipelines, upstream first.

    Each pipeline may use the slots of the pipelines stopped before it.
    """
    order = {name: at for at, name in enumerate(graph.topological)}
    upstream_first = sorted(stopping, key=lambda p: order[pipeline_graph.tail(graph, p.operators)])
    names = {p.name for p in upstream_first}
    slots = 0
    for spec in upstream_first:
        slots += spec.parallelism
        entries = pipeline_graph.inputs(graph, spec.operators)
        inside = (e.upstream for e in entries if e.upstream)
        most = fusion.bounds(graph, spec.operators).most
        yield Empty(
            spec.name,
            tuple(dict.fromkeys(n for n in inside if plan.pipeline_of(n).name in names)),
            min(slots, most or slots),
            final,
        )
        yield StopPipeline(spec.name)


class _Planner:
    """Plans one change, from the wiring in force to a wanted plan."""

    def __init__(self, situation: Situation, wanted: Plan) -> None:
        self.graph, self.old = situation.graph, situation.wiring
        self.before, self.wanted = situation.wiring.plan, wanted
        self.number = self.old.number + 1
        self._refuse_parting_sources()
        self.stopping = [p for p in self.before.pipelines if not self._goes_on(p, _twin(wanted, p))]
        self.starting = [p for p in wanted.pipelines if not self._goes_on(_twin(self.before, p), p)]
        self.successors = [p for p in self.starting if self._overlaps(p, situation.may_overlap)]
        self.cold = [p for p in self.starting if p not in self.successors]

    def steps(self) -> Iterator[Step]:
        if self.wanted.executors > self.before.executors:
            yield AddExecutors(self.before.executors, self.wanted.executors)
        for spec in self.successors:
            yield from self._prepare(spec)
        yield from stop_steps(self.graph, self.before, self.stopping)
        for spec in self.successors:
            yield HandOver(spec.name)
        repartitioned = [*self._repartition()]
        yield from repartitioned
        yield self._commit()
        for spec in self.successors:
            yield SwitchOver(spec.name)
        for spec in self.cold:
            yield StartPipeline(spec.name)
        for step in repartitioned:
            yield DiscardCopy(step.checkpoint)
        for checkpoint in sorted(self._left_behind()):
            yield DiscardCheckpoint(checkpoint)
        for spec in self.wanted.pipelines:
            if spec not in self.starting and spec not in self.before.pipelines:
                yield Adjust(spec)
        yield from self._executors()

    def _prepare(self, spec: Pipeline) -> Iterator[Step]:
        wired = self._successor(spec)
        yield KeepRows(spec.name)
        yield CopyCheckpoint(spec.name, wired.checkpoint, wired.partitions)
        yield StartSuccessor(spec, wired.checkpoint, wired.epoch, wired.partitions)

    def _successor(self, spec: Pipeline) -> Wired:
        operator = pipeline_graph.stateful(self.graph, spec.operators)
        assert operator is not None
        parts = wirings.partitions(self.graph, spec, self.old.pipelines[spec.name].partitions)
        return Wired(f"state-{operator.name}-{self.number:06d}", self.number, {}, parts)

    def _repartition(self) -> Iterator[Repartition]:
        for spec in self.cold:
            held = wirings.holder(self.graph, spec, self.old)
            if held is not None:
                parts = wirings.partitions(self.graph, spec, held.partitions)
                if parts != held.partitions:
                    (name,) = (n for n, wired in self.old.pipelines.items() if wired is held)
                    yield Repartition(name, held.checkpoint, parts)

    def _commit(self) -> CommitWiring:
        successors = {spec.name: self._successor(spec) for spec in self.successors}
        return CommitWiring(
            self.number, self.wanted, tuple(p.name for p in self.starting), successors
        )

    def _left_behind(self) -> set[str]:
        """Disposable checkpoints that no pipeline of the new wiring uses."""
        stopped = {self.old.pipelines[p.name].checkpoint for p in self.stopping}
        taken_over = {
            held.checkpoint
            for held in (wirings.holder(self.graph, p, self.old) for p in self.cold)
            if held is not None
        }
        return {c for c in stopped - taken_over if wirings.is_disposable(c)}

    def _executors(self) -> Iterator[Step]:
        if self.wanted.executors == self.before.executors:
            return
        if self.wanted.executors < self.before.executors:
            yield RemoveExecutors(self.wanted.executors, self.wanted.leaving)
        for spec in self.wanted.pipelines:
            if pipeline_graph.stateful(self.graph, spec.operators) is not None:
                yield SpreadState(spec.name)

    def _goes_on(self, old: Pipeline | None, new: Pipeline | None) -> bool:
        """True if a pipeline can be adjusted without being stopped."""
        if old is None or new is None:
            return False
        operator = pipeline_graph.stateful(self.graph, old.operators)
        if operator is not None and operator.keys:
            parts = self.old.pipelines[old.name].partitions
            if new.parallelism > parts or (new.ceiling or parts) != parts:
                return False
        # A Spark source has no valve: its splits and its trigger are part of the query.
        return not pipeline_graph.spark_sources(self.graph, old.operators) or (
            (old.parallelism, old.cadence) == (new.parallelism, new.cadence)
        )

    def _overlaps(self, spec: Pipeline, may_overlap: Collection[str]) -> bool:
        twin = _twin(self.before, spec)
        return twin is not None and twin.name in may_overlap

    def _refuse_parting_sources(self) -> None:
        """Raise `Refused` for changes that a Spark source does not allow."""
        for spec in self.wanted.pipelines:
            for name in spec.operators:
                operator = self.graph[name]
                if operator not in self.graph.sources or pipeline_graph.generator(self.graph, name):
                    continue
                if spec.admission is not None:
                    raise Refused(
                        f"'{name}' is a source of Spark's own: how much it takes is set by its "
                        "options (such as maxOffsetsPerTrigger), it can be neither paused nor "
                        "limited"
                    )
                held = self.old.pipelines[self.before.pipeline_of(name).name]
                if not wirings.kept_together(self.graph, spec, held.checkpoint):
                    raise Refused(
                        f"'{name}' is a source of Spark's own: its position is kept together with "
                        "the state in its pipeline, so the two cannot be split or merged while "
                        "they run"
                    )


def _twin(plan: Plan, spec: Pipeline) -> Pipeline | None:
    """Pipeline of a plan with the same operators; None if there is none."""
    return next((p for p in plan.pipelines if p.operators == spec.operators), None)
