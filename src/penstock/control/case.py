"""A context as a JSON file: what a policy sees at one moment, to be asked about it anywhere.

    {"dataflow": {...}, "plan": {...}, "snapshots": [{...}, ...], "limits": {...}, "now": 61.0}

The dataflow is written as `penstock explain --json` prints its structure, the plan as everywhere,
a snapshot with the names of `penstock.metrics.snapshot`; what was not measured is null or left
out. `limits` and `now` may be left out: then there is no budget, and it is the time of the last
snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.control.context import Context
from penstock.control.plain import plain, restored
from penstock.dataflow import structure
from penstock.dataflow.graph import CycleError, Graph
from penstock.errors import InvalidInput
from penstock.metrics.snapshot import Snapshot
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan

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
    """Read what `to_json` wrote. Raises `InvalidInput` or `InvalidPlan`."""
    if not isinstance(data, Mapping) or not all(part in data for part in _PARTS):
        raise InvalidInput(
            'a case is written as {"dataflow": ..., "plan": ..., "snapshots": [...]}'
        )
    graph = structure.from_json(data["dataflow"]).graph()
    _sound(graph)
    plan = Plan.from_json(data["plan"])
    _known("the plan is", (name for p in plan.pipelines for name in p.operators), graph)
    fusion.check(plan, graph)
    if not isinstance(data["snapshots"], list):
        raise InvalidInput("'snapshots' is a list, oldest first")
    snapshots = tuple(restored(Snapshot, one) for one in data["snapshots"])
    for snapshot in snapshots:
        _known("the snapshots are", _named(snapshot), graph)
    limits = restored(Limits, data.get("limits") or {})
    now = data.get("now", snapshots[-1].at if snapshots else 0.0)
    if isinstance(now, bool) or not isinstance(now, int | float):
        raise InvalidInput(f"'now' is a number of seconds, found {now!r}")
    return Context(graph, plan, snapshots, now, limits)


def _known(what: str, names: Iterable[str], graph: Graph) -> None:
    """Whether a part of a case is of this dataflow: all operators that it names are there."""
    strange = next((name for name in names if name not in graph), None)
    if strange is not None:
        raise InvalidInput(
            f"{what} of another dataflow: '{strange}' is no operator of '{graph.name}'"
        )


def _named(snapshot: Snapshot) -> Iterator[str]:
    """All operators that a snapshot names; a pipeline has the name of its first one."""
    yield from snapshot.pipelines
    yield from snapshot.operators
    yield from snapshot.sinks
    yield from snapshot.source_pipelines
    for channel in snapshot.channels.values():
        yield from (channel.writer, channel.reader)
    for executor in snapshot.executors.values():
        yield from (*executor.instances, *executor.state_parts)


def _sound(graph: Graph) -> None:
    """What plans and policies rely on. Functions and schemas are not there to be checked."""
    if len(graph.by_name) < len(graph.operators):
        raise InvalidInput(f"two operators of '{graph.name}' have the same name")
    for operator in graph.operators:
        for name in operator.inputs:
            if name not in graph:
                raise InvalidInput(f"'{operator.name}' reads '{name}', which is no operator")
    try:
        graph.topological  # noqa: B018
    except CycleError as cycle:
        raise InvalidInput(f"the dataflow has a cycle: {cycle}") from None
