"""Data of the page as plain JSON values: points, decisions, events, one moment.

All computation happens here, not in the page: an operator's share of the work, how close a pipeline
is to its capacity, which instance gets too many rows. None means not measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, tee
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
from penstock.store import timeline
from penstock.store.history import RecordedEvent, RecordedSnapshot, RecordedTransition
from penstock.store.serialization import plain
from penstock.store.timeline import Sample, without_numbers

WARM, HOT = 0.7, 0.9
"""Utilisation from which a pipeline is busy, and is a bottleneck."""

SKEWED = 1.5
"""Multiple of the mean number of rows from which an instance is overloaded."""

Point = dict[str, Any]
Entry = dict[str, Any]
Frame = dict[str, Any]

KEPT = "kept"
"""Kind of a decision that keeps the plan, as most do."""


# --- points: what the charts show -----------------------------------------------------------------


def points(seen: Iterable[RecordedSnapshot], before: Point | None = None) -> Iterator[Point]:
    """Yield a point per turn; rates are means since the previous turn.

    A turn at the same time as the previous one, such as the last of a run, repeats its rates.
    before: the point of the first turn, if known; it is not yielded again.
    """
    one, other = tee(seen)
    pairs = zip(timeline.samples(one), other, strict=True)
    for line, now in islice(pairs, 0 if before is None else 1, None):
        made = _point(line, now)
        if before is not None and not line.first and line.at == before["at"]:
            made |= {name: before[name] for name in ("offered", "sustained")}
        before = made
        yield made


def _point(line: Sample, now: RecordedSnapshot) -> Point:
    shown: Point = plain(
        {
            "turn": line.turn,
            "time": line.time,
            "at": line.at,
            "first": line.first,
            "offered": _rate(line.offered),
            "sustained": _rate(line.sustained),
            "load": line.slots,
            "executors": line.executors,
            "instances": {p.name: p.parallelism for p in now.plan.pipelines},
            "latency": {
                name: (found.bound, found.mean, found.p50, found.p95, found.p99)
                for name, found in now.snapshot.latency.items()
            },
            "backlog": dict(_backlog(now)),
            "state": {
                p.name: p.state_bytes
                for p in now.snapshot.pipelines.values()
                if p.state_bytes is not None
            },
        }
    )
    return shown


def _rate(value: float | None) -> float | None:
    """The rate; None if negative: a continued run may restart from lower totals."""
    return None if value is None or value < 0 else value


def _backlog(now: RecordedSnapshot) -> Iterator[tuple[str, int]]:
    """Yield waiting rows by channel; of a pipeline that reads no channel, its total."""
    snapshot = now.snapshot
    home = {name: p.name for p in now.plan.pipelines for name in p.operators}
    read = {home.get(channel.reader) for channel in snapshot.channels.values()}
    for pipeline in snapshot.pipelines.values():
        if pipeline.name not in read and pipeline.backlog_rows is not None:
            yield f"before {pipeline.name}", pipeline.backlog_rows
    for channel in snapshot.channels.values():
        if channel.backlog_rows is not None:
            yield f"{channel.writer} → {channel.reader}", channel.backlog_rows


# --- entries: decisions and events ----------------------------------------------------------------


def entry(decision: Mapping[str, Any], change: RecordedTransition | None = None) -> Entry:
    """A decision and its outcome as JSON values.

    kind: changed, refused, failed (the policy), vetoed, advised or kept. turn, last: first and last
    turn that made the decision.
    """
    kind, title = _outcome(decision, change)
    return {
        "turn": decision["turn"],
        "last": decision["turn"],
        "times": 1,
        "time": decision["time"],
        "at": decision["at"],
        "kind": kind,
        "title": title,
        "reason": decision["reason"] or "",
        "numbers": decision["numbers"] or {},
        "mode": decision["mode"],
        "vetoes": decision["vetoes"] or [],
        "change": None if change is None else change.transition.to_json(),
    }


def grouped(
    decisions: Iterable[Mapping[str, Any]],
    changes: Mapping[int, RecordedTransition],
    before: Entry | None,
) -> list[Entry]:
    """Entries with repeated decisions merged; `before` is the last entry so far."""
    found: list[Entry] = [] if before is None else [dict(before)]
    for decision in decisions:
        one = entry(decision, changes.get(decision["turn"]))
        if found and one["kind"] != "changed" and _same(found[-1]) == _same(one):
            times = found[-1]["times"] + 1
            found[-1] = {**one, "turn": found[-1]["turn"], "at": found[-1]["at"], "times": times}
        else:
            found.append(one)
    return found


def _outcome(decision: Mapping[str, Any], change: RecordedTransition | None) -> tuple[str, str]:
    if change is not None:
        return "changed", "; ".join(change.transition.changes) or "no change"
    if decision["refused"]:
        return "refused", decision["refused"]
    if decision["error"]:
        return "failed", decision["error"]
    if decision["vetoes"]:
        rules = ", ".join(str(veto["rule"]) for veto in decision["vetoes"])
        return "vetoed", f"vetoed by {rules}"
    if decision["mode"] == "advise" and decision["plan"] is not None:
        return "advised", "would change the plan"
    return KEPT, "plan kept"


def _same(one: Entry) -> object:
    """Grouping key: equal for decisions that differ only in numbers."""
    words = without_numbers(f"{one['title']}|{one['reason']}")
    rules = tuple(veto["rule"] for veto in one["vetoes"])
    return one["kind"], one["mode"], rules, words


def event_entry(one: RecordedEvent) -> Entry:
    """An event of the run, such as a restart."""
    return {
        "number": one.number,
        "turn": one.turn,
        "time": one.time,
        "at": one.event.at,
        "kind": one.event.kind,
        "text": one.event.text,
        "pipeline": one.event.pipeline,
        "problem": one.event.is_problem,
    }


# --- the flow at one moment -----------------------------------------------------------------------


def frame(graph: Graph, seen: RecordedSnapshot, *, offers: bool = False) -> Frame:
    """The flow at one turn. offers: include the requests that are possible."""
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
    """Load level of a pipeline: calm, warm or hot; None if unknown.

    More arrivals than departures alone do not make a bottleneck: the pipeline may be batching.
    """
    utilisation = derived.utilisation(pipeline)
    congestion = derived.congestion(pipeline)
    queueing = congestion is not None and CONGESTED < congestion < math.inf
    if queueing and pipeline.backlog_rows and (utilisation is None or utilisation >= WARM):
        return "hot"
    if utilisation is None:
        return None
    return "hot" if utilisation >= HOT else "warm" if utilisation >= WARM else "calm"


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
    """One value per instance. share: its rows relative to the mean of all instances."""
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
    """Operators with metrics. work: seconds per second. cost: share of total work."""
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
    """Yield edges with their rate, and the channel if they lead to another pipeline."""
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
                "rate": _edge_rate(graph, name, home, snapshot),
                "channel": channel,
            }


def _edge_rate(graph: Graph, name: str, home: Pipeline, snapshot: Snapshot) -> float | None:
    """Rows per second out of an operator, or of its pipeline if it is the last in it."""
    if (found := snapshot.operators.get(name)) is not None:
        return found.rate_out
    whole = snapshot.pipelines.get(home.name)
    body = [one for one in home.operators if graph[one].state is not State.SINK]
    return whole.rate_out if whole is not None and name == body[-1] else None


def _executors(snapshot: Snapshot) -> list[dict[str, Any]]:
    return [plain(one) for one in snapshot.executors.values()]


def _offers(graph: Graph, plan: Plan, pipeline: Pipeline) -> dict[str, Any]:
    """Possible requests for a pipeline: bounds of parallelism, splits, fusions."""
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
