"""Carrying out a change of plan while records flow.

What a valve can do takes effect with the next batch. For the rest only the pipelines concerned
are stopped, upstream first: each takes nothing new, finishes what it has and is then empty, so
nothing is in flight between them. One file, the new wiring, is the instant of the change: a
crash before it leaves the old plan in force and a crash after it the new one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.engines.rundir import Wiring
from penstock.engines.spark import checkpoint
from penstock.engines.spark.pipeline import RunningPipeline
from penstock.engines.spark.repartition import repartition
from penstock.engines.spark.site import Input
from penstock.engines.spark.wiring import checkpoint_name, following
from penstock.errors import PenstockError, Refused
from penstock.plan.change import Change
from penstock.plan.plan import Pipeline, Plan

if TYPE_CHECKING:
    from penstock.engines.spark.engine import SparkEngine

Phases = tuple[tuple[str, float], ...]


def rewire(engine: SparkEngine, change: Change) -> Phases:
    """Bring an engine from one plan to the next; returns the phases that interrupted something."""
    before, after = change.before, change.after
    _refuse_impossible(engine, after)
    stopping = [p for p in before.pipelines if not _survives(engine, p, _same_operators(after, p))]
    starting = [p for p in after.pipelines if not _survives(engine, _same_operators(before, p), p)]
    phases: list[tuple[str, float]] = []
    clock = time.time()

    def phase(name: str) -> None:
        nonlocal clock
        phases.append((name, time.time() - clock))
        clock = time.time()

    names = frozenset(p.name for p in starting)
    try:
        positions = quiesce(engine, stopping)
        if stopping:
            phase("quiesce")
        wiring = following(engine.site, engine.wiring, after, names, positions)
        if _repartition(engine, wiring, starting):
            phase("repartition")
    except Exception as error:
        engine.bring_back(p.name for p in stopping)
        if isinstance(error, PenstockError):
            raise
        raise Refused(f"the change failed and was undone: {error}") from error
    engine.put_in_force(wiring, [p.name for p in stopping], starting)
    if starting:
        phase("restart")
    for spec in after.pipelines:
        if spec.name not in names:
            engine.pipelines[spec.name].respecify(spec)
    return tuple(phases)


def _repartition(engine: SparkEngine, wiring: Wiring, starting: list[Pipeline]) -> bool:
    """Cut the state of pipelines that start anew into the parts their wiring wants."""
    done = False
    for spec in starting:
        wired = wiring.pipelines[spec.name]
        folder = engine.site.directory / "checkpoints" / wired.checkpoint
        if wired.checkpoint.startswith("state-") and folder.exists():
            done |= repartition(engine.spark, folder, wired.partitions)
    return done


def _refuse_impossible(engine: SparkEngine, after: Plan) -> None:
    if after.executors != engine.wiring.plan.executors:
        raise Refused(
            f"this engine cannot change the number of executors ({engine.wiring.plan.executors})"
        )
    for spec in after.pipelines:
        for name in spec.operators:
            if engine.site.graph[name].state.value != "source" or engine.site.generator(name):
                continue
            if spec.admission is not None:
                raise Refused(
                    f"'{name}' is a source of Spark's own: how much it takes is set by its options "
                    "(such as maxOffsetsPerTrigger), it can be neither paused nor limited"
                )
            old = engine.wiring.plan.pipeline_of(name)
            kept = engine.wiring.pipelines[old.name].checkpoint
            if checkpoint_name(engine.site, spec, 0) != kept:
                raise Refused(
                    f"'{name}' is a source of Spark's own: its position is kept together with the "
                    "state in its pipeline, so the two cannot be split or merged while they run"
                )


def _same_operators(plan: Plan, spec: Pipeline) -> Pipeline | None:
    return next((p for p in plan.pipelines if p.operators == spec.operators), None)


def _survives(engine: SparkEngine, old: Pipeline | None, new: Pipeline | None) -> bool:
    """Whether a pipeline can go from one form to the other without being stopped."""
    if old is None or new is None:
        return False
    running = engine.pipelines[old.name]
    if running.stateful is not None and running.stateful.keys:
        parts = running.wired.partitions
        if new.parallelism > parts or (new.ceiling or parts) != parts:
            return False
    # Sources of Spark's own have no valve: their spread and cadence are part of the query.
    return not running.foreign or (old.parallelism, old.cadence) == (new.parallelism, new.cadence)


def quiesce(engine: SparkEngine, specs: Iterable[Pipeline]) -> dict[str, int]:
    """Empty and stop pipelines, upstream first; returns the rows they have read, by input."""
    order = {name: at for at, name in enumerate(engine.site.graph.topological)}
    upstream_first = sorted(specs, key=lambda p: order[engine.site.tail(p.operators)])
    stopping = frozenset(p.name for p in upstream_first)
    positions: dict[str, int] = {}
    for spec in upstream_first:
        positions |= _quiesce_one(engine, engine.pipelines[spec.name], stopping)
    return positions


def _quiesce_one(
    engine: SparkEngine, pipeline: RunningPipeline, stopping: frozenset[str]
) -> dict[str, int]:
    """Stop a pipeline when it has taken in all that can still come.

    That is the rest of a channel whose writer has been stopped just before, and what a
    generator that has been given an end still owes.
    """
    plan = engine.wiring.plan

    def ended(entry: Input) -> bool:
        at = pipeline.positions[entry.key]
        if not entry.upstream:
            return at >= engine.limits.get(entry.operator, 0)
        inner = plan.pipeline_of(entry.upstream).name in stopping
        return not inner or at >= engine.site.channel(entry.upstream).end

    if not all(ended(entry) for entry in pipeline.inputs):
        pipeline.turn(admission=None, cadence=0.0)  # nothing is won by taking the rest slowly
        engine.wait(lambda: all(ended(entry) for entry in pipeline.inputs))
    if pipeline.foreign:
        _finish_foreign(engine, pipeline)
    else:
        pipeline.turn(open=False)
        engine.wait(lambda: pipeline.quiet)
        pipeline.stop()
    engine.take_in(pipeline)
    done = checkpoint.committed(pipeline.checkpoint, pipeline.wired.epoch)
    return {**pipeline.positions, **done}


def _finish_foreign(engine: SparkEngine, pipeline: RunningPipeline) -> None:
    """Stop a query whose source has no valve, and run the batch that this cut off."""
    pipeline.stop()
    if checkpoint.progress(pipeline.checkpoint, pipeline.wired.epoch)[2]:
        return
    pipeline.start(once=True)
    engine.wait(lambda: checkpoint.progress(pipeline.checkpoint, pipeline.wired.epoch)[2])
    pipeline.stop()
