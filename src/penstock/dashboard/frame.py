"""A dataflow at one moment, ready to be drawn: what the page shows of a turn.

Where a page would have to reckon, it is reckoned here: how much of the work an operator does, how
hard a pipeline is pressed, which instance gets too much. Numbers are those of the snapshot; None is
not measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import State
from penstock.errors import PenstockError
from penstock.metrics import derived
from penstock.metrics.snapshot import (
    InstanceMetrics,
    OperatorMetrics,
    PipelineMetrics,
    Snapshot,
)
from penstock.plan import fusion
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.request import Fuse, Split
from penstock.policies.shared.rates import CONGESTED
from penstock.store.history import RecordedSnapshot
from penstock.store.serialization import plain

WARM, HOT = 0.7, 0.9
"""From which share of the work that it can do a pipeline is busy, and a bottleneck."""

SKEWED = 1.5
"""An instance with so many times the rows of the mean has too many."""

Frame = dict[str, Any]


def frame(graph: Graph, seen: RecordedSnapshot, *, offers: bool = False) -> Frame:
    """The flow at one turn; `offers`: with what could be asked for."""
    plan, snapshot = seen.plan, seen.snapshot
    made: Frame = plain(
        {
            "turn": seen.turn,
            "time": seen.time,
            "at": snapshot.at,
            "window": snapshot.window,
            "settled": snapshot.settled,
            "totals": {
                "offered": snapshot.rows_offered,
                "ingested": snapshot.rows_ingested,
                "delivered": snapshot.rows_delivered,
                "dead": snapshot.rows_dead,
                "late": snapshot.rows_late,
                "slot_seconds": snapshot.slot_seconds,
            },
            "load": snapshot.load,
            "executors": {"planned": plan.executors, "there": _executors(snapshot)},
            "pipelines": [_pipeline(graph, p, snapshot) for p in plan.pipelines],
            "operators": _operators(graph, snapshot),
            "edges": [*_edges(graph, plan, snapshot)],
            "latency": {
                one.name: snapshot.latency.get(one.name) or {"bound": one.latency}
                for one in graph.constraints
            },
            "paused": any(plan.pipeline_of(o.name).admission == 0 for o in graph.sources),
        }
    )
    if offers:
        made["offers"] = {p.name: _offers(graph, plan, p) for p in plan.pipelines}
    return made


def level(pipeline: PipelineMetrics) -> str | None:
    """How hard a pipeline is pressed: calm, warm or hot; None where nothing tells.

    Rows that come faster than they go make a calm pipeline no bottleneck: it may just be gathering.
    """
    pressed = derived.utilisation(pipeline)
    congestion = derived.congestion(pipeline)
    queueing = congestion is not None and CONGESTED < congestion < math.inf
    if queueing and pipeline.backlog_rows and (pressed is None or pressed >= WARM):
        return "hot"
    if pressed is None:
        return None
    return "hot" if pressed >= HOT else "warm" if pressed >= WARM else "calm"


def _pipeline(graph: Graph, planned: Pipeline, snapshot: Snapshot) -> dict[str, Any]:
    found = snapshot.pipelines.get(planned.name)
    shown: dict[str, Any] = {
        "name": planned.name,
        "operators": planned.operators,
        "parallelism": planned.parallelism,
        "admission": planned.admission,
        "cadence": planned.cadence,
        "ceiling": planned.ceiling,
        "level": None,
        "instances": [{"index": n} for n in range(planned.parallelism)],
        "skewed": False,
    }
    if found is None:
        return shown
    dots = _instances(found, planned.parallelism)
    return shown | {
        "level": level(found),
        "utilisation": derived.utilisation(found),
        "congestion": derived.congestion(found),
        "skew": found.skew,
        "skewed": any(dot.get("heavy") for dot in dots),
        "instances": dots,
        **{name: getattr(found, name) for name in _FIGURES},
    }


_FIGURES = (
    "rate_in",
    "rate_out",
    "arrival_rate",
    "busy",
    "service",
    "batches",
    "batch_seconds",
    "wait",
    "batching",
    "parts",
    "backlog_rows",
    "backlog_seconds",
    "state_rows",
    "state_bytes",
    "hottest",
)


def _instances(found: PipelineMetrics, planned: int) -> list[dict[str, Any]]:
    """One for each instance; `share`: of the rows, where an even one would be 1."""
    measured = {one.index: one for one in found.instances}
    rows = [one.rows for one in found.instances if one.rows is not None]
    mean = sum(rows) / len(rows) if rows else 0.0
    return [_instance(n, measured.get(n), mean) for n in range(planned)]


def _instance(index: int, found: InstanceMetrics | None, mean: float) -> dict[str, Any]:
    if found is None:
        return {"index": index}
    share = found.rows / mean if found.rows is not None and mean else None
    heavy = share is not None and share >= SKEWED
    more = {"rows": found.rows, "busy": found.busy, "executor": found.executor}
    return {"index": index, "share": share, "heavy": heavy, **more}


def _operators(graph: Graph, snapshot: Snapshot) -> list[dict[str, Any]]:
    """`work`: seconds of work in a second; `cost`: its share in the work of all operators."""
    work = {o.name: _work(snapshot.operators.get(o.name)) for o in graph.operators}
    whole = sum(one for one in work.values() if one is not None)
    return [
        {
            "name": name,
            "work": one,
            "cost": one / whole if one is not None and whole else None,
            "figures": snapshot.operators.get(name),
        }
        for name, one in work.items()
    ]


def _work(found: OperatorMetrics | None) -> float | None:
    if found is None or found.service is None or found.rate_in is None:
        return None
    return found.service * found.rate_in


def _edges(graph: Graph, plan: Plan, snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """Every edge with its rows per second, and the channel where it leads to another pipeline."""
    for name in graph.topological:
        home = plan.pipeline_of(name)
        for reader in graph.successors[name]:
            other = plan.pipeline_of(reader)
            crossing = other.name != home.name
            channel = snapshot.channels.get(f"{name}>{reader}") if crossing else None
            yield {
                "from": name,
                "to": reader,
                "crossing": crossing,
                "rate": _rate(graph, name, home, snapshot),
                "channel": channel,
            }


def _rate(graph: Graph, name: str, home: Pipeline, snapshot: Snapshot) -> float | None:
    """Rows per second out of an operator; what leaves a pipeline is known in any case."""
    if (found := snapshot.operators.get(name)) is not None:
        return found.rate_out
    whole = snapshot.pipelines.get(home.name)
    body = [one for one in home.operators if graph[one].state is not State.SINK]
    return whole.rate_out if whole is not None and name == body[-1] else None


def _executors(snapshot: Snapshot) -> list[dict[str, Any]]:
    return [plain(one) for one in snapshot.executors.values()]


def _offers(graph: Graph, plan: Plan, pipeline: Pipeline) -> dict[str, Any]:
    """What a running flow could be asked for here: bounds of parallelism, cuts, neighbours."""
    bounds = fusion.bounds(graph, pipeline.operators)
    others = (p.name for p in plan.pipelines if p is not pipeline)
    return {
        "least": bounds.least,
        "most": bounds.most,
        "split": [name for name in pipeline.operators if _possible(Split(name), plan, graph)],
        "fuse": [name for name in others if _possible(Fuse(pipeline.name, name), plan, graph)],
    }


def _possible(request: Fuse | Split, plan: Plan, graph: Graph) -> bool:
    try:
        return request.apply(plan, graph) != plan
    except PenstockError:
        return False
