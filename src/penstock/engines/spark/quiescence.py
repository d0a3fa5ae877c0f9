"""Emptying and stopping pipelines, so that nothing is in flight and nothing half done."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.dataflow import operator as op
from penstock.dataflow.connectors import Files
from penstock.dataflow.operator import Operator
from penstock.engines.spark import checkpoint
from penstock.engines.spark.pipeline import RunningPipeline
from penstock.engines.spark.site import Input
from penstock.plan import fusion
from penstock.plan.plan import Pipeline

if TYPE_CHECKING:
    from penstock.engines.spark.engine import SparkEngine


@dataclass
class Stopped:
    """Pipelines that were emptied and stopped: the rows they have read, by input, and how many of
    these a source of Spark's own had to give twice."""

    positions: dict[str, int] = field(default_factory=dict)
    replayed: int = 0


def ends(engine: SparkEngine) -> Mapping[str, int]:
    """Where each generator ends if it gives what is due by now; one that is paused ends here."""
    found = {}
    for source, offered in engine.gauges.offered(time.time()).items():
        pipeline = engine.pipelines[engine.wiring.plan.pipeline_of(source).name]
        paused = pipeline.spec.admission == 0
        found[source] = pipeline.positions[source] if paused else offered
    return found


def drain(engine: SparkEngine) -> None:
    """Let no new record in and wait until every record is through."""
    for pipeline in engine.pipelines.values():
        pipeline.turn(limits=dict(engine.limits), cadence=0.0, admission=None)
    _take_all_files(engine)
    quiesce(engine, engine.wiring.plan.pipelines)


def quiesce(engine: SparkEngine, specs: Iterable[Pipeline]) -> Stopped:
    """Empty and stop pipelines, upstream first; who is left has the slots of those who are done."""
    order = {name: at for at, name in enumerate(engine.site.graph.topological)}
    upstream_first = sorted(specs, key=lambda p: order[engine.site.tail(p.operators)])
    stopping = frozenset(p.name for p in upstream_first)
    result, slots = Stopped(), 0
    for spec in upstream_first:
        slots += spec.parallelism
        _quiesce_one(engine, engine.pipelines[spec.name], stopping, result, slots)
    return result


def _quiesce_one(
    engine: SparkEngine,
    pipeline: RunningPipeline,
    stopping: frozenset[str],
    result: Stopped,
    slots: int,
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
        if not inner:
            return True
        return at >= engine.site.channel(entry.upstream).end and not pipeline.owes_mark(entry)

    if not all(ended(entry) for entry in pipeline.inputs):
        most = fusion.bounds(engine.site.graph, pipeline.spec.operators).most
        # nothing is won by taking the rest slowly
        pipeline.turn(parallelism=min(slots, most or slots), admission=None, cadence=0.0)
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


def _take_all_files(engine: SparkEngine) -> None:
    """Let file sources read what is there; other sources of Spark's own have no end."""
    threads = [
        threading.Thread(target=p.query.processAllAvailable, daemon=True)
        for p in engine.pipelines.values()
        if p.foreign and all(_reads_files(o) for o in p.foreign)
    ]
    for thread in threads:
        thread.start()
    engine.wait(lambda: not any(thread.is_alive() for thread in threads))


def _reads_files(operator: Operator) -> bool:
    return isinstance(operator.body, op.Read) and isinstance(operator.body.source, Files)
