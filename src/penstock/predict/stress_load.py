"""More load than a dataflow can carry, for profiling: then only the plan bounds throughput."""

from __future__ import annotations

import math
from dataclasses import replace

from penstock.dataflow import load_profile as load
from penstock.dataflow.connectors import Generator
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Operator, Read
from penstock.errors import InvalidInput
from penstock.plan import fusion
from penstock.plan.plan import Plan
from penstock.policies.stepwise.profiling_state import admitting

FACTOR = 10.0
"""Times the highest rate of a generator's own load. How much a platform carries is not known before
it is profiled; whether this was enough is, afterwards."""

_BATCH = 0.5
"""Seconds of load that a source takes at once. Without a limit a source that is behind takes all
that is due in one batch, which grows and grows, and no latency could ever be met."""


def stressed(graph: Graph, load: str | None = None) -> Graph:
    """The same dataflow with generators that never end, under a load.

    Without one, each has a steady rate, `FACTOR` times the highest of its own.
    """
    return replace(graph, operators=tuple(_stressed(o, load) for o in graph.operators))


def offered(graph: Graph) -> float | None:
    """Rows per second that all sources offer at most; None where a source is no generator."""
    rates = [_peak(operator) for operator in graph.sources]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if len(known) == len(rates) else None


def first_plan(graph: Graph, executors: int = 1) -> Plan:
    """Every operator alone with one instance, and batches of the sources that do not grow."""
    plan = fusion.finest_plan(graph, 1, executors)
    return admitting(plan, {plan.pipeline_of(n).name: rows for n, rows in _batches(graph).items()})


def relieved(plan: Plan, graph: Graph) -> Plan:
    """A plan of a profile without the limits that only the stress was for."""
    return admitting(plan, {plan.pipeline_of(name).name: None for name in _batches(graph)})


def channel_rows(graph: Graph) -> int | None:
    """Rows that may wait between two pipelines: as few as a batch, or the latency is theirs."""
    return sum(_batches(graph).values()) or None


def _batches(graph: Graph) -> dict[str, int]:
    rates = {operator.name: _peak(operator) for operator in graph.sources}
    return {n: max(100, math.ceil(_BATCH * rate)) for n, rate in rates.items() if rate is not None}


def _stressed(operator: Operator, given: str | None) -> Operator:
    rate = _peak(operator)
    if rate is None:
        return operator
    if rate == 0 and given is None:
        raise InvalidInput(
            f"the source '{operator.name}' gives nothing: say a load to profile with"
        )
    body = operator.body
    assert isinstance(body, Read) and isinstance(body.source, Generator)  # noqa: PT018
    raised = given or f"{min(FACTOR * rate, load.MOST)!r}/s"
    return replace(operator, body=Read(replace(body.source, load=raised, limit=None)))


def _peak(operator: Operator) -> float | None:
    body = operator.body
    if isinstance(body, Read) and isinstance(body.source, Generator):
        return load.parse(body.source.load).peak
    return None
