"""A context as a JSON file: what a policy sees at one moment, to be asked about it anywhere.

    {"dataflow": {...}, "plan": {...}, "snapshots": [{...}, ...], "limits": {...}, "now": 61.0}

The dataflow is written as `penstock explain --json` prints its structure, the plan as everywhere,
a snapshot with the names of `penstock.metrics.snapshot`; what was not measured is null or left
out. `limits` and `now` may be left out: then there is no budget, and it is the time of the last
snapshot. So may all that has a default or follows from the rest, e.g. names that stand as keys.
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
    """A context as plain lists, dictionaries, texts and numbers."""
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
    """With what need not be written, because it is nothing or follows from the rest."""
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
    """Whether the numbers can have been measured, and everything stands under its own name."""
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
"""Products of any two are numbers too."""

_ROUNDING = 1e-6
"""Differences of times that were measured may be so much below 0."""


def _numbers(value: Any, place: str) -> Iterator[tuple[str, float]]:
    """All numbers of what was measured, and where they stand."""
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
    """Whether a part of a case is of this dataflow: all operators that it names are there."""
    for name, place in names:
        if name not in graph:
            raise InvalidInput(
                f"{place}: {what} of another dataflow: '{name}' is no operator of '{graph.name}'"
            )


def _named(snapshot: Snapshot, place: str) -> Iterator[tuple[str, str]]:
    """All operators that a snapshot names, and where; a pipeline has that of its first one."""
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
