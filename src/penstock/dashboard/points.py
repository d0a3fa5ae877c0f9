"""What is drawn over time: one point a turn, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, tee
from typing import Any

from penstock.store import timeline
from penstock.store.history import RecordedSnapshot
from penstock.store.serialization import plain
from penstock.store.timeline import Sample

Point = dict[str, Any]


def points(seen: Iterable[RecordedSnapshot], before: Point | None = None) -> Iterator[Point]:
    """A point for each turn; rates are means since the one before. None is not measured.

    A turn of the same instant as the one before, as the last of a run may be, has its rates.
    `before` is the point of the first turn where it is known; it does not come again.
    """
    one, other = tee(seen)
    pairs = zip(timeline.lines(one), other, strict=True)
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
    """A total that went down, as where a run was continued from an earlier state, is no rate."""
    return None if value is None or value < 0 else value


def _backlog(now: RecordedSnapshot) -> Iterator[tuple[str, int]]:
    """Rows that wait: in each channel, and where there is none before a pipeline as a whole."""
    snapshot = now.snapshot
    home = {name: p.name for p in now.plan.pipelines for name in p.operators}
    read = {home.get(channel.reader) for channel in snapshot.channels.values()}
    for pipeline in snapshot.pipelines.values():
        if pipeline.name not in read and pipeline.backlog_rows is not None:
            yield f"before {pipeline.name}", pipeline.backlog_rows
    for channel in snapshot.channels.values():
        if channel.backlog_rows is not None:
            yield f"{channel.writer} → {channel.reader}", channel.backlog_rows
