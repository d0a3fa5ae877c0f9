"""What is to come of a run: its load and the rules it goes by, as they are from today on."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from penstock.control.guard import Guard
from penstock.control.quiet_periods import Quiet
from penstock.dataflow import load_profile as loads
from penstock.dataflow.connectors import Generator
from penstock.dataflow.graph import Graph
from penstock.dataflow.load_profile import Load
from penstock.dataflow.operators import Read
from penstock.errors import InvalidInput
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.predict.batch_observations import Recording
from penstock.store.run_options import Terms

_FACTOR = re.compile(r"x(\d+(?:\.\d+)?)")
_LATEST = 1e9


@dataclass(frozen=True)
class Rules:
    """Within what a policy decides; backup: as it was asked for."""

    limits: Limits
    guard: Guard
    backup: str | None = None


def load_of(seen: Recording, asked: Sequence[Terms], text: str) -> dict[str, Load]:
    """The load of each source from today on."""
    names = [o.name for o in seen.graph.sources]
    factor = _FACTOR.fullmatch(text.strip())
    if factor is None:
        return dict.fromkeys(names, loads.parse(text))
    own = {n: loads.parse(load) for n, load in asked[-1].loads.items()} if asked else {}
    at = _place(seen, own, continued=len(asked) > 1)
    found = {}
    for name in names:
        base = own[name].since(at) if name in own else _measured(seen, name)
        found[name] = base.scaled(float(factor[1]))
    return found


def _place(seen: Recording, own: Mapping[str, Load], continued: bool) -> float:
    """Seconds of the load that have passed.

    A run that was continued goes on with the load where it stopped, while its own time begins anew:
    then the place is where as many rows were due as there have been.
    """
    today = seen.today.snapshot
    if not continued or today.rows_offered is None or not own:
        return today.at
    low, high = 0.0, 1.0
    while sum(load.offered(high) for load in own.values()) < today.rows_offered and high < _LATEST:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        enough = sum(load.offered(middle) for load in own.values()) >= today.rows_offered
        low, high = (low, middle) if enough else (middle, high)
    return high


def _measured(seen: Recording, source: str) -> Load:
    """What came of late, where nobody said what is to come."""
    pipeline = seen.plan.pipeline_of(source)
    metrics = seen.now.pipelines.get(pipeline.name)
    rate = None if metrics is None else metrics.arrival_rate or metrics.rate_in
    if not rate:
        raise InvalidInput(
            f"how much comes to '{source}' was not measured, so it cannot be multiplied: "
            "give a load like 5000/s"
        )
    together = sum(name in pipeline.operators for name in (o.name for o in seen.graph.sources))
    return loads.parse(f"{rate / together:.6g}/s")


def endless(graph: Graph) -> Graph:
    """The dataflow with generators that go on; the engine is told their loads."""
    operators = []
    for operator in graph.operators:
        body = operator.body
        if isinstance(body, Read) and isinstance(body.source, Generator):
            operator = replace(operator, body=Read(replace(body.source, load="1/s", limit=None)))
        operators.append(operator)
    return replace(graph, operators=tuple(operators))


def rules_of(asked: Sequence[Terms], plan: Plan, nodes: int, at: float) -> Rules:
    """What the run was told its policy may do, as it is from today on."""
    if not asked:
        return Rules(Limits(executors=nodes), Guard())
    own = asked[-1]
    slots = None if own.limits.slots is None else max(own.limits.slots, plan.slots)
    known = {f.name for f in fields(Guard)} - {"quiet"}
    times: dict[str, Any] = {  # one that never ends is not written as a number
        name: math.inf if value is None or math.isnan(value) else value
        for name, value in own.guard.items()
        if name in known
    }
    quiet = tuple(one for text in own.quiet for one in _ahead(Quiet.parse(text), at))
    limits = replace(own.limits, slots=slots, executors=nodes)
    return Rules(limits, Guard(**times, quiet=quiet), own.backup)


def _ahead(quiet: Quiet, at: float) -> tuple[Quiet, ...]:
    """A quiet period as seen from a time of the run; nothing is left of one that is over."""
    if quiet.daily:
        return (quiet,)
    return (Quiet(max(0.0, quiet.first - at), quiet.last - at),) if quiet.last > at else ()
