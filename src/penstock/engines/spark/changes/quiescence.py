"""Emptying and stopping pipelines, so that nothing is in flight and nothing half done."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.dataflow import operators as op
from penstock.dataflow.connectors import Files
from penstock.engines.spark.queries import checkpoint
from penstock.engines.spark.queries.pipeline import RunningPipeline, foreign_name
from penstock.engines.spark.queries.unread_files import Unread, listing
from penstock.engines.spark.run_context import Input
from penstock.plan import fusion
from penstock.plan.plan import Pipeline

if TYPE_CHECKING:
    from penstock.engines.spark.engine import SparkEngine


@dataclass
class Stopped:
    """Pipelines that were emptied and stopped: the rows they have read, by input."""

    positions: dict[str, int] = field(default_factory=dict)


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
    quiesce(engine, engine.wiring.plan.pipelines, final=True)


def quiesce(engine: SparkEngine, specs: Iterable[Pipeline], final: bool = False) -> Stopped:
    """Empty and stop pipelines, upstream first; who is left has the slots of those who are done.

    final: nothing is started after this, so windows that the last rows close have to close now.
    """
    order = {name: at for at, name in enumerate(engine.site.graph.topological)}
    upstream_first = sorted(specs, key=lambda p: order[engine.site.tail(p.operators)])
    stopping = frozenset(p.name for p in upstream_first)
    result, slots = Stopped(), 0
    for spec in upstream_first:
        slots += spec.parallelism
        _quiesce_one(engine, engine.pipelines[spec.name], stopping, result, slots, final)
    return result


def _quiesce_one(
    engine: SparkEngine,
    pipeline: RunningPipeline,
    stopping: frozenset[str],
    result: Stopped,
    slots: int,
    final: bool,
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
    if not pipeline.foreign:
        pipeline.turn(open=False)
        engine.wait(lambda: pipeline.quiet)
    if final:
        engine.wait(lambda: pipeline.caught_up)
    _stop(engine, pipeline)
    done = checkpoint.committed(pipeline.checkpoint, pipeline.wired.epoch)
    result.positions |= {**pipeline.positions, **done}


def _stop(engine: SparkEngine, pipeline: RunningPipeline) -> None:
    """Stop a query between two batches.

    Where its source has no valve, or timers go off, its next batch may be planned already. That
    one is left to the next start, which finds it in the checkpoint, unless state may be cut anew
    or channels are read under other names then: these want it to be run before.
    """
    pipeline.hold()
    engine.wait(lambda: pipeline.settled)
    engine.take_in(pipeline)
    pipeline.stop()
    alone = len(pipeline.foreign) == len(pipeline.inputs) and pipeline.stateful is None
    if pipeline.pending and not alone:
        pipeline.start(once=True)
        engine.wait(lambda: pipeline.settled and not pipeline.pending)
        engine.take_in(pipeline)
        pipeline.stop()


def _take_all_files(engine: SparkEngine) -> None:
    """Let file sources read what is there now; other sources of Spark's own have no end.

    Files that come later are not waited for, so this ends however fast they come.
    """
    began = time.time()
    left = [
        (pipeline, Unread(listing(engine.spark, source), pipeline.checkpoint, name, by_name))
        for pipeline in engine.pipelines.values()
        for name, source, by_name in _file_sources(pipeline)
    ]

    def taken() -> bool:
        left[:] = [(p, u) for p, u in left if not (u.none() or p.found_nothing(began))]
        return not left

    engine.wait(taken)


def _file_sources(pipeline: RunningPipeline) -> Iterator[tuple[str, Files, bool]]:
    for operator in pipeline.foreign:
        source = operator.body.source if isinstance(operator.body, op.Read) else None
        if isinstance(source, Files):
            options = {name.lower(): value for name, value in source.options.items()}
            by_name = options.get("filenameonly", "false").lower() == "true"
            yield foreign_name(operator), source, by_name
