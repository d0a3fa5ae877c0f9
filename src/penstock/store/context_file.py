"""A context as a JSON file: what a policy sees at one moment, to ask any policy about it.

    {"dataflow": {...}, "plan": {...}, "snapshots": [{...}, ...], "limits": {...}, "now": 61.0}

The dataflow has the form that `penstock explain --json` prints, the plan the usual one, a snapshot
the names of `penstock.metrics.snapshot`; what was not measured is null or missing. `limits` and
`now` are optional: without them there is no budget, and now is the time of the last snapshot. So
is everything that has a default or follows from the rest, such as a name that is also a key.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import Any

from penstock.dataflow import structure, validation
from penstock.dataflow.graph import Graph
from penstock.errors import InvalidInput, InvalidPlan
from penstock.metrics.snapshot import Snapshot
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Context
from penstock.store.serialization import keys, plain, read

_PARTS = ("dataflow", "plan", "snapshots")


def to_json(context: Context) -> dict[str, Any]:
    """A context as dictionaries, lists, texts and numbers."""
    return {
        "dataflow": structure.to_json(context.graph),
        "plan": context.plan.to_json(),
        "snapshots": [plain(snapshot) for snapshot in context.snapshots],
        "limits": plain(context.limits),
        "now": context.now,
    }


def from_json(data: Any) -> Context:
    """Read what `to_json`, or a person, wrote. Raises `InvalidInput` or `InvalidPlan`."""
    if not isinstance(data, Mapping) or not all(part in data for part in _PARTS):
        raise InvalidInput(
            'a case is written as {"dataflow": ..., "plan": ..., "snapshots": [...]}'
        )
    keys(data, (*_PARTS, "limits", "now"), "the case")
    graph = structure.read(data["dataflow"], "dataflow").graph()
    for place, message in validation.structure_problems(graph):
        raise InvalidInput(f"dataflow.{place}: {message}")
    plan = _plan(data["plan"], graph)
    if not isinstance(data["snapshots"], list):
        raise InvalidInput("'snapshots' is a list, oldest first")
    snapshots = tuple(
        _snapshot(one, f"snapshots[{at}]", graph, plan) for at, one in enumerate(data["snapshots"])
    )
    for at, (before, after) in enumerate(pairwise(snapshots), 1):
        if after.at < before.at:
            raise InvalidInput(
                f"snapshots[{at}].at: {after.at:g} s is before the {before.at:g} s of the one "
                "before it; they are listed oldest first"
            )
    limits = read(Limits, data.get("limits") or {}, "limits")
    return Context(graph, plan, snapshots, _now(data.get("now"), snapshots), limits)


def _plan(data: Any, graph: Graph) -> Plan:
    try:
        plan = Plan.from_json(data)
        keys(data, ("pipelines", "executors"), "plan")
        named = ((name, "plan") for p in plan.pipelines for name in p.operators)
        _known("the plan is", named, graph)
        fusion.check(plan, graph)
    except InvalidPlan as error:
        raise InvalidPlan(f"plan: {error}") from None
    return plan


def _now(now: Any, snapshots: Sequence[Snapshot]) -> float:
    last = snapshots[-1].at if snapshots else 0.0
    if now is None:
        return last
    if isinstance(now, bool) or not isinstance(now, int | float) or not math.isfinite(now):
        raise InvalidInput(f"'now' is a number of seconds, found {now!r}")
    if now < last:
        raise InvalidInput(f"'now' is {now:g} s, before the last snapshot, which is at {last:g} s")
    return now


# --- snapshots ----------------------------------------------------------------------------------


def _snapshot(data: Any, place: str, graph: Graph, plan: Plan) -> Snapshot:
    if not isinstance(data, Mapping):
        raise InvalidInput(f"{place}: {data!r:.60} where an object has to stand")
    parts = ("pipelines", "operators", "sinks")
    given = {part: data[part] for part in parts if isinstance(data.get(part), Mapping)}
    named = ((str(name), f"{place}.{part}") for part, found in given.items() for name in found)
    _known("the snapshots are", named, graph)
    found = read(Snapshot, _completed(data, graph, plan), place)
    _known("the snapshots are", _named(found, place), graph)
    _possible(found, place)
    return found


def _completed(data: Mapping[str, Any], graph: Graph, plan: Plan) -> dict[str, Any]:
    """A snapshot completed with what need not be written."""
    instances = {p.name: {"parallelism": p.parallelism} for p in plan.pipelines}
    bounds = {c.name: {"bound": c.latency} for c in graph.constraints}
    rest = {"rows": 0, "p50": None, "p95": None, "p99": None}
    more: dict[str, Any] = {
        "pipelines": lambda name: {"name": name, **instances.get(name, {})},
        "operators": lambda name: {"name": name},
        "executors": lambda name: {"name": name},
        "channels": lambda name: dict(zip(("writer", "reader"), name.split(">"), strict=False)),
        "latency": lambda name: {"constraint": name, **bounds.get(name, {}), **rest},
    }
    sources = {o.name for o in graph.sources}
    fed = [p.name for p in plan.pipelines if sources & {*p.operators}]
    made = {"rows_offered": None, "rows_ingested": 0, "rows_delivered": 0, "rows_dead": 0}
    found = {**made, "source_pipelines": fed, **data}
    for part, implied in more.items():
        if isinstance(given := data.get(part), Mapping):
            found[part] = {
                name: {**implied(name), **one} if isinstance(one, Mapping) else one
                for name, one in given.items()
            }
    return found


def _possible(snapshot: Snapshot, place: str) -> None:
    """Raise `InvalidInput` for impossible numbers, and for a name that differs from its key."""
    for word, number in (("at", snapshot.at), ("window", snapshot.window)):
        if not 0 <= number < math.inf:
            raise InvalidInput(f"{place}.{word}: {number} is no time of 0 s or more")
    named: dict[str, Mapping[str, Any]] = {
        "pipelines": snapshot.pipelines,
        "operators": snapshot.operators,
        "executors": snapshot.executors,
    }
    for part, found in named.items():
        for name, one in found.items():
            where = f"{place}.{part}.{name}"
            if one.name != name:
                raise InvalidInput(f"{where}.name: it is called '{one.name}'")
            for word in ("parallelism", "slots"):
                if getattr(one, word, 1) < 1:
                    raise InvalidInput(f"{where}.{word}: {getattr(one, word)} is below 1")
    for where, number in _numbers(snapshot, place):
        if number < -_ROUNDING:
            raise InvalidInput(f"{where}: {number:g} is below 0")
        if number > _MOST:
            raise InvalidInput(f"{where}: {number:g} is more than anything that can be measured")


_MOST = 1e100
"""Largest number accepted; products of two are still finite."""

_ROUNDING = 1e-6
"""A difference of measured times may be this far below 0."""


def _numbers(value: Any, place: str) -> Iterator[tuple[str, float]]:
    """All numbers of a snapshot with their places in the file."""
    if is_dataclass(value):
        for one in fields(value):
            yield from _numbers(getattr(value, one.name), f"{place}.{one.name}")
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _numbers(inner, f"{place}.{name}")
    elif isinstance(value, tuple):
        for at, inner in enumerate(value):
            yield from _numbers(inner, f"{place}[{at}]")
    elif isinstance(value, int | float):
        yield place, value


def _known(what: str, names: Iterable[tuple[str, str]], graph: Graph) -> None:
    """Raise `InvalidInput` if a name is not an operator of this dataflow."""
    for name, place in names:
        if name not in graph:
            raise InvalidInput(
                f"{place}: {what} of another dataflow: '{name}' is no operator of '{graph.name}'"
            )


def _named(snapshot: Snapshot, place: str) -> Iterator[tuple[str, str]]:
    """All operator names in a snapshot with their places; a pipeline is named by its first."""
    for name in snapshot.pipelines:
        yield name, f"{place}.pipelines"
    for name in snapshot.operators:
        yield name, f"{place}.operators"
    for name in snapshot.sinks:
        yield name, f"{place}.sinks"
    for name in snapshot.source_pipelines:
        yield name, f"{place}.source_pipelines"
    for key, channel in snapshot.channels.items():
        yield from ((n, f"{place}.channels.{key}") for n in (channel.writer, channel.reader))
    for key, executor in snapshot.executors.items():
        at = f"{place}.executors.{key}"
        yield from ((n, f"{at}.instances") for n in executor.instances)
        yield from ((n, f"{at}.state_parts") for n in executor.state_parts)
