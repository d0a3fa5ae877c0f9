"""Which checkpoint, which epoch and which rows a pipeline starts with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.dataflow.connectors import Spark
from penstock.dataflow.operator import State, Write
from penstock.engines.rundir import Wired, Wiring
from penstock.engines.spark.site import Site
from penstock.plan.fusion import bounds
from penstock.plan.plan import Pipeline, Plan


def first(site: Site, plan: Plan) -> Wiring:
    """The wiring of a new run: everything begins at row 0."""
    return Wiring(1, plan, {p.name: _wired(site, p, 1, {}, None) for p in plan.pipelines})


def following(
    site: Site,
    old: Wiring,
    plan: Plan,
    changed: frozenset[str],
    positions: Mapping[str, int],
    ready: Mapping[str, Wired],
) -> Wiring:
    """The wiring after a change: pipelines named in `changed` begin where others have ended.

    `positions` are the rows that the stopped pipelines have read, by input; `ready` are those
    that were wired before.
    """
    number = old.number + 1
    pipelines = {
        p.name: _wired(site, p, number, positions, old)
        if p.name in changed
        else old.pipelines[p.name]
        for p in plan.pipelines
        if p.name not in ready
    }
    return Wiring(number, replace(plan, leaving=()), {**pipelines, **ready})


def _wired(
    site: Site, spec: Pipeline, number: int, positions: Mapping[str, int], old: Wiring | None
) -> Wired:
    begin = {}
    for entry in site.inputs(spec.operators):
        if entry.key in positions:
            begin[entry.key] = positions[entry.key]
        elif entry.upstream and old is not None:
            # This edge was inside a pipeline until now: whatever is in the channel is not for it.
            begin[entry.key] = site.channel(entry.upstream).end
        else:
            begin[entry.key] = 0
    return Wired(checkpoint_name(site, spec, number, old), number, begin, partitions(site, spec))


def checkpoint_name(site: Site, spec: Pipeline, number: int, old: Wiring | None) -> str:
    """State stays with its operator, and the position in a foreign source with that source.

    A sink of Spark's own knows batches by their number, which must not begin again.
    All other checkpoints are disposable: the wiring says where a pipeline begins to read.
    """
    for name in spec.operators:
        if site.graph[name].stateful:
            held = None if old is None else old.plan.pipeline_of(name).name
            return (
                f"state-{name}" if old is None or held is None else old.pipelines[held].checkpoint
            )
    for name in site.sinks(spec.operators):
        body = site.graph[name].body
        if isinstance(body, Write) and isinstance(body.sink, Spark):
            return f"sink-{name}"
    for entry in site.inputs(spec.operators):
        if not entry.upstream and site.generator(entry.operator) is None:
            return f"source-{entry.operator}"
    return f"run-{number:06d}-{spec.name}"


def partitions(site: Site, spec: Pipeline) -> int:
    """Into how many parts the state is cut: by the plan, else with some room to grow."""
    if any(site.graph[n].state is State.GLOBAL for n in spec.operators):
        return 1
    return spec.ceiling or default_ceiling(
        spec.parallelism, bounds(site.graph, spec.operators).most
    )


def default_ceiling(parallelism: int, most: int | None) -> int:
    """Parts of state for so many instances: twice as many can come without moving any state.

    A part costs a few milliseconds of each batch (`make bench`, partitions).
    """
    return max(parallelism, min(2 * parallelism, most or 2 * parallelism))
