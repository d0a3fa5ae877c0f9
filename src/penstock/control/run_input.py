"""What a run is given, read and checked before anything starts."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.control.scripted_changes import Script, Scripted, parse_change
from penstock.dataflow import duration
from penstock.dataflow.connectors import Generator, Source
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.dataflow.load_profile import parse
from penstock.dataflow.operators import Read
from penstock.errors import InvalidInput
from penstock.plan import request
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan


def graph(flow: Dataflow | Graph, load: str | None) -> Graph:
    """The dataflow, under the load if one is given."""
    found = flow.graph if isinstance(flow, Dataflow) else flow
    if load is None:
        return found
    parse(load)
    if not any(isinstance(source, Generator) for source in _sources(found)):
        raise InvalidInput(
            f"a load is for generated input, and dataflow '{found.name}' has no generator"
        )
    return found.with_load(load)


def script(changes: Iterable[str | Scripted], graph: Graph, lasting: float | None) -> Script:
    """The script, if every change names operators that there are and comes before the end."""
    found = [parse_change(c) if isinstance(c, str) else c for c in changes]
    for change in found:
        request.check(change.request, graph)
    in_time(found, lasting)
    return Script(found)


def in_time(changes: Iterable[Scripted], lasting: float | None) -> None:
    """Raise if a change would come when the run has ended already."""
    for change in changes:
        if lasting is not None and change.at >= lasting:
            end = duration.text(lasting)
            raise InvalidInput(f"the change '{change}' comes too late: the run ends after {end}")


def check_budget(limits: Limits, graph: Graph, plan: Plan | None) -> None:
    """Raise if the run is to begin above its budget, or could never be within it."""
    excess = None if plan is None else limits.exceeded(plan)
    if excess is not None:
        raise InvalidInput(f"the plan to start with is more than the budget: {excess}")
    for operator in graph.operators:
        if limits.slots is not None and operator.bounds.least > limits.slots:
            raise InvalidInput(
                f"a budget of {limits.slots} slots is too small: '{operator.name}' runs with "
                f"{operator.bounds.least} instances or more"
            )


def rows_to_come(graph: Graph) -> int | None:
    """How many records there will ever be, where that is known."""
    total = 0
    for source in _sources(graph):
        if not isinstance(source, Generator) or source.limit is None:
            return None
        total += source.limit
    return total


def _sources(graph: Graph) -> list[Source]:
    return [o.body.source for o in graph.operators if isinstance(o.body, Read)]
