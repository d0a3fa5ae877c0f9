"""Wirings: checkpoint, epoch, first rows and state partitions of each pipeline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from penstock.dataflow.connectors import Spark
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import State, Write
from penstock.engines.spark import pipeline_graph
from penstock.plan.plan import Pipeline, Plan
from penstock.store.run_directory import Wired, Wiring


def first(graph: Graph, plan: Plan) -> Wiring:
    """Wiring of a new run: every input begins at row 0."""
    return Wiring(1, plan, {p.name: _wired(graph, p, 1, {}, None, _empty) for p in plan.pipelines})


def following(
    graph: Graph,
    old: Wiring,
    plan: Plan,
    changed: Collection[str],
    positions: Mapping[str, int],
    channel_end: Callable[[str], int],
    successors: Mapping[str, Wired],
) -> Wiring:
    """Wiring of the next plan. Pipelines not in `changed` keep their entries.

    positions: rows that the stopped pipelines have read, by input; channel_end: number of rows in
    an operator's channel; successors: entries of pipelines whose successor is prepared.
    """
    number = old.number + 1
    pipelines = {
        p.name: _wired(graph, p, number, positions, old, channel_end)
        if p.name in changed
        else old.pipelines[p.name]
        for p in plan.pipelines
        if p.name not in successors
    }
    return Wiring(number, replace(plan, leaving=()), {**pipelines, **successors})


def _empty(_: str) -> int:
    return 0


def _wired(
    graph: Graph,
    spec: Pipeline,
    number: int,
    positions: Mapping[str, int],
    old: Wiring | None,
    channel_end: Callable[[str], int],
) -> Wired:
    begin = {}
    for entry in pipeline_graph.inputs(graph, spec.operators):
        if entry.key in positions:
            begin[entry.key] = positions[entry.key]
        elif entry.upstream and old is not None:
            # This edge was inside a pipeline before, so older rows in the channel are not for it.
            begin[entry.key] = channel_end(entry.upstream)
        else:
            begin[entry.key] = 0
    held = holder(graph, spec, old)
    parts = partitions(graph, spec, None if held is None else held.partitions)
    return Wired(checkpoint_name(graph, spec, number, held), number, begin, parts)


def holder(graph: Graph, spec: Pipeline, wiring: Wiring | None) -> Wired | None:
    """Wiring entry that holds the state of a pipeline's operator; None without state."""
    operator = pipeline_graph.stateful(graph, spec.operators)
    if operator is None or wiring is None:
        return None
    return wiring.pipelines[wiring.plan.pipeline_of(operator.name).name]


def checkpoint_name(graph: Graph, spec: Pipeline, number: int, held: Wired | None) -> str:
    """Checkpoint of a pipeline that starts with wiring `number`.

    State stays with its operator, and the position in a Spark source with that source. A native
    sink identifies batches by number, so their numbers must continue. All other checkpoints are
    disposable, because the wiring records where their pipelines begin to read.
    """
    operator = pipeline_graph.stateful(graph, spec.operators)
    if operator is not None:
        return f"state-{operator.name}" if held is None else held.checkpoint
    for name in pipeline_graph.sinks(graph, spec.operators):
        body = graph[name].body
        if isinstance(body, Write) and isinstance(body.sink, Spark):
            return f"sink-{name}"
    for source in pipeline_graph.spark_sources(graph, spec.operators):
        return f"source-{source.name}"
    return f"run-{number:06d}-{spec.name}"


def is_disposable(checkpoint: str) -> bool:
    """True for checkpoints that are useless once no wiring names them."""
    return checkpoint.startswith(("run-", "state-"))


def kept_together(graph: Graph, spec: Pipeline, checkpoint: str) -> bool:
    """True if the checkpoint with a Spark source's position still fits the pipeline."""
    own = checkpoint_name(graph, spec, 0, None)
    return checkpoint == own or (own.startswith("state-") and checkpoint.startswith(f"{own}-"))


def partitions(graph: Graph, spec: Pipeline, now: int | None) -> int:
    """State partitions of a pipeline: as in the plan, else unchanged if sufficient."""
    if any(graph[n].state is State.GLOBAL for n in spec.operators):
        return 1
    if spec.ceiling is not None or pipeline_graph.stateful(graph, spec.operators) is None:
        return spec.ceiling or spec.parallelism
    if now is not None and now >= spec.parallelism:
        return now
    return default_ceiling(spec.parallelism)


def default_ceiling(parallelism: int) -> int:
    """Default number of state partitions: one per instance, for equal shares of work.

    Each further partition costs about 8 ms per batch (`make bench`, partitions) and gives instances
    unequal shares; moving state later interrupts the output for less time than a restart.
    """
    return parallelism
