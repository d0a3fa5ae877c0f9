"""Checks of the arguments of a run, before anything starts."""

from __future__ import annotations

import math
from collections.abc import Iterable

from penstock.control.requests import Script, ScriptedChange, parse_change
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
    """The graph of a dataflow, with another load for its generators if one is given."""
    found = flow.graph if isinstance(flow, Dataflow) else flow
    if load is None:
        return found
    parse(load)
    if not any(isinstance(source, Generator) for source in _sources(found)):
        raise InvalidInput(
            f"a load is for generated input, and dataflow '{found.name}' has no generator"
        )
    return found.with_load(load)


def script(changes: Iterable[str | ScriptedChange], graph: Graph, lasting: float | None) -> Script:
    """The script, after a check that its changes name existing operators and come in time."""
    found = [parse_change(c) if isinstance(c, str) else c for c in changes]
    for change in found:
        request.check(change.request, graph)
    in_time(found, lasting)
    return Script(found)


def in_time(changes: Iterable[ScriptedChange], lasting: float | None) -> None:
    """Raise `InvalidInput` if a change is scripted for after the end of the run."""
    for change in changes:
        if lasting is not None and change.at >= lasting:
            end = duration.text(lasting)
            raise InvalidInput(f"the change '{change}' comes too late: the run ends after {end}")


def check_budget(limits: Limits, graph: Graph, plan: Plan | None) -> None:
    """Raise `InvalidInput` if the first plan exceeds the budget, or every plan would."""
    excess = None if plan is None else limits.exceeded(plan)
    if excess is not None:
        raise InvalidInput(f"the plan to start with is more than the budget: {excess}")
    for operator in graph.operators:
        if limits.slots is not None and operator.bounds.least > limits.slots:
            raise InvalidInput(
                f"a budget of {limits.slots} slots is too small: '{operator.name}' runs with "
                f"{operator.bounds.least} instances or more"
            )


def dead_letter_limit(given: float | str) -> float:
    """Read the share of rows that may become dead letters: 0 to 1, or a percentage like `5%`."""
    text = str(given).strip()
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = math.nan
    if isinstance(given, bool) or not 0 <= share <= 1:
        raise InvalidInput(
            f"the share of dead letters is '{given}': write a number from 0 to 1, e.g. 0.1, where "
            "1 allows any number of them"
        )
    return share


def rows_to_come(graph: Graph) -> int | None:
    """Total number of records that all generators will make, None if unbounded or unknown."""
    total = 0
    for source in _sources(graph):
        if not isinstance(source, Generator) or source.limit is None:
            return None
        total += source.limit
    return total


def _sources(graph: Graph) -> list[Source]:
    return [o.body.source for o in graph.operators if isinstance(o.body, Read)]
