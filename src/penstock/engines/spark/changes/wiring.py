"""Which checkpoint, which epoch and which rows a pipeline starts with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.dataflow.connectors import Spark
from penstock.dataflow.operators import State, Write
from penstock.engines.spark.run_context import Site
from penstock.plan.plan import Pipeline, Plan
from penstock.store.run_directory import Wired, Wiring


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
    held = _holder(site, spec, old)
    parts = partitions(site, spec, None if held is None else held.partitions)
    return Wired(checkpoint_name(site, spec, number, held), number, begin, parts)


def _holder(site: Site, spec: Pipeline, old: Wiring | None) -> Wired | None:
    """What held the state of a pipeline's stateful operator until now."""
    for name in spec.operators:
        if site.graph[name].stateful and old is not None:
            return old.pipelines[old.plan.pipeline_of(name).name]
    return None


def checkpoint_name(site: Site, spec: Pipeline, number: int, held: Wired | None) -> str:
    """State stays with its operator, and the position in a foreign source with that source.

    A sink of Spark's own knows batches by their number, which must not begin again.
    All other checkpoints are disposable: the wiring says where a pipeline begins to read.
    """
    for name in spec.operators:
        if site.graph[name].stateful:
            return f"state-{name}" if held is None else held.checkpoint
    for name in site.sinks(spec.operators):
        body = site.graph[name].body
        if isinstance(body, Write) and isinstance(body.sink, Spark):
            return f"sink-{name}"
    for entry in site.inputs(spec.operators):
        if not entry.upstream and site.generator(entry.operator) is None:
            return f"source-{entry.operator}"
    return f"run-{number:06d}-{spec.name}"


def kept_together(site: Site, spec: Pipeline, checkpoint: str) -> bool:
    """Whether a checkpoint that holds a foreign source's position is still that pipeline's own."""
    own = checkpoint_name(site, spec, 0, None)
    return checkpoint == own or (own.startswith("state-") and checkpoint.startswith(f"{own}-"))


def partitions(site: Site, spec: Pipeline, now: int | None) -> int:
    """Into how many parts the state is cut: by the plan, else as it is now if that will do."""
    if any(site.graph[n].state is State.GLOBAL for n in spec.operators):
        return 1
    if spec.ceiling is not None or not any(site.graph[n].stateful for n in spec.operators):
        return spec.ceiling or spec.parallelism
    if now is not None and now >= spec.parallelism:
        return now
    return default_ceiling(spec.parallelism)


def default_ceiling(parallelism: int) -> int:
    """Parts of state for so many instances: one each, so that all have the same to do.

    A part more costs some 8 ms of each batch (`make bench`, partitions) and leaves instances with
    unequal shares; to move state later holds the output for less time than a restart.
    """
    return parallelism
