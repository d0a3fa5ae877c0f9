"""Loads a flow beyond its capacity, so that only the plan limits throughput."""

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
from penstock.policies.stepwise.profiling_state import with_admissions

FACTOR = 10.0
"""Multiple of a generator's highest rate that is offered.

The capacity of a platform is unknown before it is profiled; `Profiled.carried_all` tells afterwards
whether the load was high enough.
"""

_BATCH = 0.5
"""Seconds of load that a source takes in one batch.

Without a limit, a source that is behind takes its whole backlog at once, batches grow without
bound, and no latency bound can be met.
"""


def stressed(graph: Graph, load: str | None = None) -> Graph:
    """Return the dataflow with generators that never end and offer `load`.

    Without a load, each offers a steady rate of `FACTOR` times its own highest rate.
    """
    return replace(graph, operators=tuple(_stressed(o, load) for o in graph.operators))


def offered(graph: Graph) -> float | None:
    """Highest total rate of the sources in rows/s; None if one is not a generator."""
    rates = [_peak(operator) for operator in graph.sources]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if len(known) == len(rates) else None


def first_plan(graph: Graph, executors: int = 1) -> Plan:
    """Plan with each operator alone, one instance each, and limited source batches."""
    plan = fusion.finest_plan(graph, 1, executors)
    return with_admissions(
        plan, {plan.pipeline_of(n).name: rows for n, rows in _batches(graph).items()}
    )


def relieved(plan: Plan, graph: Graph) -> Plan:
    """Return a plan without the admission limits that the stress needed."""
    return with_admissions(plan, {plan.pipeline_of(name).name: None for name in _batches(graph)})


def channel_rows(graph: Graph) -> int | None:
    """Maximum number of rows in a channel: one batch; None without generators.

    With more rows, waiting in channels would dominate the latency.
    """
    return sum(_batches(graph).values()) or None


def _batches(graph: Graph) -> dict[str, int]:
    """Rows of a batch, by source that is a generator."""
    rates = {operator.name: _peak(operator) for operator in graph.sources}
    return {n: max(100, math.ceil(_BATCH * rate)) for n, rate in rates.items() if rate is not None}


def _stressed(operator: Operator, load_text: str | None) -> Operator:
    rate = _peak(operator)
    if rate is None:
        return operator
    if rate == 0 and load_text is None:
        raise InvalidInput(
            f"the source '{operator.name}' generates no rows: give a load to profile with"
        )
    body = operator.body
    assert isinstance(body, Read) and isinstance(body.source, Generator)  # noqa: PT018
    raised = load_text or f"{min(FACTOR * rate, load.MAX_RATE)!r}/s"
    return replace(operator, body=Read(replace(body.source, load=raised, limit=None)))


def _peak(operator: Operator) -> float | None:
    body = operator.body
    if isinstance(body, Read) and isinstance(body.source, Generator):
        return load.parse(body.source.load).peak
    return None
