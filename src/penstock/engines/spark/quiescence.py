"""Emptying and stopping pipelines, so that nothing is in flight and nothing half done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engines.spark import checkpoint
from penstock.engines.spark.pipeline import RunningPipeline
from penstock.engines.spark.site import Input
from penstock.plan.plan import Pipeline

if TYPE_CHECKING:
    from penstock.engines.spark.engine import SparkEngine


@dataclass
class Stopped:
    """Pipelines that were emptied and stopped: the rows they have read, by input, and how many of
    these a source of Spark's own had to give twice."""

    positions: dict[str, int] = field(default_factory=dict)
    replayed: int = 0


def quiesce(engine: SparkEngine, specs: Iterable[Pipeline]) -> Stopped:
    """Empty and stop pipelines, upstream first."""
    order = {name: at for at, name in enumerate(engine.site.graph.topological)}
    upstream_first = sorted(specs, key=lambda p: order[engine.site.tail(p.operators)])
    stopping = frozenset(p.name for p in upstream_first)
    result = Stopped()
    for spec in upstream_first:
        _quiesce_one(engine, engine.pipelines[spec.name], stopping, result)
    return result


def _quiesce_one(
    engine: SparkEngine, pipeline: RunningPipeline, stopping: frozenset[str], result: Stopped
) -> None:
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
        result.replayed += _finish_foreign(engine, pipeline)
    else:
        pipeline.turn(open=False)
        engine.wait(lambda: pipeline.quiet)
        pipeline.stop()
    engine.take_in(pipeline)
    done = checkpoint.committed(pipeline.checkpoint, pipeline.wired.epoch)
    result.positions |= {**pipeline.positions, **done}


def _finish_foreign(engine: SparkEngine, pipeline: RunningPipeline) -> int:
    """Stop a query whose source has no valve, and run the batch that this cut off; its rows."""
    pipeline.stop()
    engine.take_in(pipeline)
    if checkpoint.progress(pipeline.checkpoint, pipeline.wired.epoch)[2]:
        return 0
    before = engine.observer.foreign_rows
    pipeline.start(once=True)
    engine.wait(lambda: checkpoint.progress(pipeline.checkpoint, pipeline.wired.epoch)[2])
    pipeline.stop()
    engine.take_in(pipeline)
    return engine.observer.foreign_rows - before
