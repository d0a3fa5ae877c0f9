"""A run as a timeline: samples of what was measured, and what happened between them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from typing import Any

from penstock import text
from penstock.metrics.events import EventKind
from penstock.metrics.snapshot import LatencyMetrics, Snapshot
from penstock.store.history import RecordedEvent, RecordedSnapshot, RecordedTransition, TurnTime

HEAD = (
    f"{'time':>9} {'offered/s':>10} {'taken in/s':>10} {'latency':>9} {'bound':>9} "
    f"{'inst':>5} {'exec':>5} {'backlog':>8} {'slots':>6}"
)
DECIDED = frozenset({EventKind.REFUSED, EventKind.POLICY_FAILED})
"""Events that a decision of the same turn tells too, with its reason."""

_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)


@dataclass(frozen=True)
class Sample:
    """Measurements of one turn. Rates are means since the previous sample; None is not measured.

    offered: records due at the generators per second. sustained: records taken in per second.
    latency, bound: of the constraint closest to its bound or furthest beyond. slots: share of the
    slots that is busy.
    """

    turn: int
    time: float
    at: float
    first: bool
    offered: float | None
    sustained: float | None
    latency: float | None
    bound: float | None
    instances: int
    executors: int
    backlog: int | None
    slots: float | None

    def __str__(self) -> str:
        missed = "!" if self.latency and self.bound and self.latency > self.bound else " "
        return (
            f"[{text.clock(self.at):>7}] {text.rate(self.offered):>10} "
            f"{text.rate(self.sustained):>10} {text.span(self.latency):>9}{missed}"
            f"{text.span(self.bound):>9} {self.instances:>5} {self.executors:>5} "
            f"{text.count(self.backlog):>8} {text.share(self.slots):>6}"
        )


@dataclass(frozen=True)
class Entry:
    """Something between samples: a change, a decision that was not carried out, or an event.

    kind: changed, refused, vetoed, error, or the kind of the event.
    """

    turn: int
    time: float
    at: float
    kind: str
    what: str

    def __str__(self) -> str:
        kind = "" if self.kind == "changed" else f"{self.kind}: "
        return f"[{text.clock(self.at):>7}] {kind}{text.line(self.what)}"


def step(moments: Iterable[TurnTime], lines: int = 30) -> float:
    """The round interval, in seconds, that gives about so many samples."""
    runs: dict[int, list[float]] = {}
    for one in moments:
        runs.setdefault(one.run, []).append(one.at)
    whole = sum(max(at) - min(at) for at in runs.values())
    return next((s for s in _STEPS if whole / s <= lines), 3600 * max(1, whole // 3600 // lines))


def chosen(moments: Iterable[TurnTime], every: float) -> list[int]:
    """Turns to sample: one every `every` seconds of a run, and the last turn of each run."""
    turns: list[int] = []
    before: TurnTime | None = None
    first = due = 0.0
    for one in moments:
        if before is None or one.run != before.run:
            if before is not None and turns[-1] != before.turn:
                turns.append(before.turn)
            first = due = one.at
        if one.at >= due - 1e-6:
            turns.append(one.turn)
            due = first + every * (1 + (one.at - first + 1e-6) // every)
        before = one
    if before is not None and turns[-1] != before.turn:
        turns.append(before.turn)
    return turns


def samples(seen: Iterable[RecordedSnapshot]) -> Iterator[Sample]:
    """A sample for each snapshot."""
    before: Snapshot | None = None
    for one in seen:
        now = one.snapshot
        before = None if one.first else before
        worst = max(now.latency.values(), key=_pressure, default=None)
        waiting = [p.backlog_rows for p in now.pipelines.values() if p.backlog_rows is not None]
        yield Sample(
            one.turn,
            one.time,
            now.at,
            one.first,
            _rate(before, now, "rows_offered"),
            _finite(now.throughput) if before is None else _rate(before, now, "rows_ingested"),
            None if worst is None else _finite(worst.mean),
            None if worst is None else worst.bound,
            one.plan.slots,
            len(now.executors) or one.plan.executors,
            sum(waiting) if waiting else None,
            now.load,
        )
        before = now


def entries(
    changes: Iterable[RecordedTransition],
    decisions: Iterable[Mapping[str, Any]],
    events: Iterable[RecordedEvent] = (),
) -> Iterator[Entry]:
    """Changes, failed decisions and events in order; a repeated decision is given once."""
    found = _decided(changes, decisions)
    yield from merge(found, map(_event, _told_once(events)), key=lambda one: one.turn)


def in_order(measured: Iterable[Sample], happened: Iterable[Entry]) -> Iterator[Sample | Entry]:
    """Samples and entries by turn; what follows from a sample comes after it."""
    return merge(measured, happened, key=lambda one: (one.turn, isinstance(one, Entry)))


def sentence(event: RecordedEvent) -> str:
    """The text of an event, with the pipeline that it concerns."""
    one = event.event
    return one.text if one.pipeline is None else f"{one.pipeline}: {one.text}"


def without_numbers(words: str) -> str:
    """Words in which every number is `#`: repeated decisions differ in their numbers only."""
    return re.sub(r"[\d.,]+(e-?\d+)?", "#", words)


def _decided(
    changes: Iterable[RecordedTransition], decisions: Iterable[Mapping[str, Any]]
) -> Iterator[Entry]:
    made = {one.turn: one for one in changes}
    told = {one["turn"]: one for one in decisions}
    previous: object = None
    for turn in sorted({*made, *told}):
        if (change := made.get(turn)) is not None:
            done, previous = change.transition, None
            held = f"{1000 * done.interruption:.0f} ms without output"
            what = f"{'; '.join(done.changes)} ({held}): {done.reason}"
            yield Entry(turn, change.time, done.at, "changed", what)
        elif (found := _failure(told[turn])) is not None:
            kind, why = found
            one = told[turn]
            rules = [v["rule"] for v in one["vetoes"] or ()]
            now = (kind, rules, one["wanted"], rules or re.sub(r"\d+", "#", why))
            if now != previous:
                yield Entry(turn, one["time"], one["at"], kind, f"{one['reason']} [{why}]")
            previous = now
        else:
            previous = None


def _failure(decision: Mapping[str, Any]) -> tuple[str, str] | None:
    """Why a decision was not carried out; None if it was, or wanted nothing."""
    if decision["refused"]:
        return "refused", decision["refused"]
    if decision["error"]:
        return "error", decision["error"]
    if decision["vetoes"]:
        return "vetoed", "; ".join(f"{v['rule']}: {v['reason']}" for v in decision["vetoes"])
    return None


def _told_once(events: Iterable[RecordedEvent]) -> Iterator[RecordedEvent]:
    return (one for one in events if one.event.kind not in DECIDED)


def _event(one: RecordedEvent) -> Entry:
    return Entry(one.turn, one.time, one.event.at, one.event.kind, sentence(one))


def _pressure(latency: LatencyMetrics) -> float:
    """Mean latency relative to its bound; below zero if unknown."""
    pressure = latency.mean / latency.bound if latency.bound > 0 else latency.mean
    return pressure if math.isfinite(pressure) else -1.0


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _rate(before: Snapshot | None, now: Snapshot, total: str) -> float | None:
    """The rate between two snapshots, from totals, which is exact."""
    if before is None or now.at <= before.at:
        return None
    first, last = getattr(before, total), getattr(now, total)
    return None if first is None or last is None else (last - first) / (now.at - before.at)
