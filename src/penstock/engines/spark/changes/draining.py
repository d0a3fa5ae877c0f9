"""Drains a flow: no new record enters, and every record in flight reaches its sink."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.dataflow import operators as op
from penstock.dataflow.connectors import Files
from penstock.engines.spark.changes.execution import Execution
from penstock.engines.spark.changes.planner import plan_stop
from penstock.engines.spark.changes.spark_pipelines import SparkPipelines
from penstock.engines.spark.queries.pipeline import RunningPipeline, foreign_name
from penstock.engines.spark.queries.unread_files import Unread, listing

if TYPE_CHECKING:
    from penstock.engines.spark.running_flow import RunningFlow


def drain(flow: RunningFlow) -> None:
    """Let no new record in and stop every pipeline once every record is through."""
    flow.limits.update(_ends(flow))
    for pipeline in flow.pipelines.values():
        pipeline.turn(limits=dict(flow.limits), cadence=0.0, admission=None)
    _read_all_files(flow)
    steps = plan_stop(flow.graph, flow.wiring.plan, final=True)
    Execution(SparkPipelines(flow), steps).run_unrecorded()


def _ends(flow: RunningFlow) -> Mapping[str, int]:
    """The record at which each generator ends: what is due by now, or taken in if it is paused."""
    found = {}
    for source, offered in flow.gauges.offered(time.time()).items():
        pipeline = flow.pipelines[flow.wiring.plan.pipeline_of(source).name]
        paused = pipeline.spec.admission == 0
        found[source] = pipeline.positions[source] if paused else offered
    return found


def _read_all_files(flow: RunningFlow) -> None:
    """Let file sources read what is there now; other sources of Spark's own have no end.

    Files that come later are not waited for, so this ends however fast they come.
    """
    began = time.time()
    left = [
        (pipeline, Unread(listing(flow.site.spark, source), pipeline.checkpoint, name, by_name))
        for pipeline in flow.pipelines.values()
        for name, source, by_name in _file_sources(pipeline)
    ]

    def all_read() -> bool:
        left[:] = [(p, u) for p, u in left if not (u.none() or p.found_nothing(began))]
        return not left

    flow.wait(all_read)


def _file_sources(pipeline: RunningPipeline) -> Iterator[tuple[str, Files, bool]]:
    for operator in pipeline.foreign:
        source = operator.body.source if isinstance(operator.body, op.Read) else None
        if isinstance(source, Files):
            options = {name.lower(): value for name, value in source.options.items()}
            by_name = options.get("filenameonly", "false").lower() == "true"
            yield foreign_name(operator), source, by_name
