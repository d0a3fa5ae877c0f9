"""Applies a plan to a running flow: plans the steps, runs them, records the cost."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engines.spark.changes.execution import Execution, Undone
from penstock.engines.spark.changes.journal import Journal
from penstock.engines.spark.changes.planner import Situation, plan_change
from penstock.engines.spark.changes.spark_pipelines import SparkPipelines
from penstock.engines.spark.changes.steps import EXECUTORS, PREPARE, CopyCheckpoint, StartSuccessor
from penstock.engines.spark.changes.transitions import Aftermath, moved_share
from penstock.engines.spark.queries.pipeline import RunningPipeline
from penstock.errors import PenstockError, Refused
from penstock.plan.change import CeilingChange, Change
from penstock.plan.transition import Transition

if TYPE_CHECKING:
    from penstock.engines.spark.running_flow import RunningFlow

log = logging.getLogger(__name__)

Partitions = Mapping[str, tuple[int, int]]
"""State partitions and the instances that serve them, by stateful operator."""


def apply(flow: RunningFlow, change: Change, reason: str, make_before_break: bool) -> Aftermath:
    """Apply a plan to a running flow. On `Refused`, nothing has changed."""
    before, after = change.before, change.after
    pipelines = SparkPipelines(flow)
    pipelines.refuse_impossible(after)
    began = time.time()
    everywhere = after.executors != before.executors
    old = [p for p in before.pipelines if everywhere or p not in after.pipelines]
    new = [p for p in after.pipelines if everywhere or p not in before.pipelines]
    was = [flow.pipelines[p.name] for p in old]
    waiting = flow.gauges.usually_waiting(was)
    held = _partitions(was)
    overlap = pipelines.may_overlap() if make_before_break else frozenset()
    execution = _carry_out(flow, pipelines, change, reason, overlap)
    now = [flow.pipelines[p.name] for p in new]
    moved, phases = execution.results.moved, execution.phases
    rows, size = flow.observer.state(moved) if moved else (0, 0)
    transition = Transition(
        at=flow.since_start(began),
        changes=(*map(str, change.actions), *_repartitioned(held, _partitions(now), change)),
        duration=time.time() - began,
        interruption=sum(t for name, t in phases.items() if name not in (EXECUTORS, PREPARE)),
        reason=reason,
        phases=tuple(phases.items()),
        state_rows_moved=rows,
        state_bytes_moved=size,
        keys_moved=_keys_moved(held, _partitions(now)),
        backlog_left=flow.gauges.waiting(now),
    )
    log.info("%s in %.2f s", change, transition.duration)
    return Aftermath(
        transition,
        began,
        time.time(),
        operators=frozenset(name for spec in new for name in spec.operators),
        changed=frozenset({p.tail for p in was} & {p.tail for p in now}),
        sinks=frozenset(sink.name for sink in flow.graph.sinks),
        waiting=waiting,
    )


def _carry_out(
    flow: RunningFlow,
    pipelines: SparkPipelines,
    change: Change,
    reason: str,
    overlap: frozenset[str],
) -> Execution:
    """Run the steps of a change.

    If a successor cannot be prepared, retry without it, which moves the state while its pipeline is
    stopped.
    """
    journal = Journal(flow.context.directory / "changes")
    # With dynamic allocation the number of executors may have changed since planning.
    wiring = replace(flow.wiring, plan=change.before)
    while True:
        steps = plan_change(Situation(flow.graph, wiring, overlap), change.after)
        execution = Execution(pipelines, steps)
        try:
            execution.run(journal, reason)
            return execution
        except Undone as undone:
            step, error = undone.step, undone.error
            log.warning("the change was undone: %s failed: %s", step, error)
            if isinstance(error, PenstockError):
                raise error from None
            if step.phase == PREPARE and isinstance(step, CopyCheckpoint | StartSuccessor):
                overlap -= {step.pipeline}  # the state can be moved while the pipeline is stopped
                continue
            raise Refused(f"the change failed and was undone: {error}") from error
        except PenstockError:
            raise
        except Exception as error:
            flow.supervisor.give_up(f"a change could be neither finished nor undone: {error}")
            flow.supervisor.raise_failure()


def _partitions(pipelines: Iterable[RunningPipeline]) -> Partitions:
    return {
        p.stateful.name: (p.wired.partitions, min(p.wired.partitions, p.valve.parallelism))
        for p in pipelines
        if p.stateful is not None
    }


def _repartitioned(before: Partitions, after: Partitions, change: Change) -> Iterator[str]:
    """Yield changes of state partitions that the change does not name."""
    asked = any(isinstance(action, CeilingChange) for action in change.actions)
    for name in before.keys() & after.keys() if not asked else ():
        if before[name][0] != after[name][0]:
            yield f"{name}: state cut from {before[name][0]} into {after[name][0]} parts"


def _keys_moved(before: Partitions, after: Partitions) -> float | None:
    """Share of keys that move to another instance; the largest of all operators."""
    shares = [moved_share(before[name], after[name]) for name in before.keys() & after.keys()]
    return max(shares, default=None)
