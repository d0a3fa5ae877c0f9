"""What happened in a run, in order: lines of measurements and the events between them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from typing import Any

from penstock import text
from penstock.metrics.snapshot import LatencyMetrics, Snapshot
from penstock.store.history import RecordedSnapshot, RecordedTransition, TurnTime

HEAD = (
    f"{'time':>9} {'offered/s':>10} {'taken in/s':>10} {'latency':>9} {'bound':>9} "
    f"{'inst':>5} {'exec':>5} {'backlog':>8} {'slots':>6}"
)
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)


@dataclass(frozen=True)
class Sample:
    """What was measured up to one turn. Rates are means since the line before.

    offered: records due at the generators, sustained: records taken in, both per second;
    latency, bound: of the constraint that is nearest to its bound or farthest beyond; slots: share
    of the slots at work. None is not measured.
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
class Event:
    """A change, or one that did not come about: refused, vetoed, or an error of the policy."""

    turn: int
    time: float
    at: float
    kind: str
    what: str

    def __str__(self) -> str:
        kind = "" if self.kind == "changed" else f"{self.kind}: "
        return f"[{text.clock(self.at):>7}] {kind}{text.line(self.what)}"


def step(moments: Iterable[TurnTime], lines: int = 30) -> float:
    """The round time between two lines that gives about so many of them."""
    runs: dict[int, list[float]] = {}
    for one in moments:
        runs.setdefault(one.run, []).append(one.at)
    whole = sum(max(at) - min(at) for at in runs.values())
    return next((s for s in _STEPS if whole / s <= lines), 3600 * max(1, whole // 3600 // lines))


def chosen(moments: Iterable[TurnTime], every: float) -> list[int]:
    """The turns that get a line: one each `every` seconds of a run, and the last one of a run."""
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


def lines(seen: Iterable[RecordedSnapshot]) -> Iterator[Sample]:
    """A line for each snapshot."""
    before: Snapshot | None = None
    for one in seen:
        now = one.snapshot
        before = None if one.first else before
        worst = max(now.latency.values(), key=_pressed, default=None)
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


def events(made: Iterable[RecordedTransition], told: Iterable[dict[str, Any]]) -> Iterator[Event]:
    """In the order in which they happened; what was told again and again stands once."""
    changes = {one.turn: one for one in made}
    decisions = {one["turn"]: one for one in told}
    said: object = None
    for turn in sorted({*changes, *decisions}):
        if (change := changes.get(turn)) is not None:
            done, said = change.transition, None
            held = f"{1000 * done.interruption:.0f} ms without output"
            what = f"{'; '.join(done.changes)} ({held}): {done.reason}"
            yield Event(turn, change.time, done.at, "changed", what)
        elif (found := _not_done(decisions[turn])) is not None:
            kind, why = found
            one = decisions[turn]
            rules = [v["rule"] for v in one["vetoes"] or ()]
            now = (kind, rules, one["wanted"], rules or re.sub(r"\d+", "#", why))
            if now != said:
                yield Event(turn, one["time"], one["at"], kind, f"{one['reason']} [{why}]")
            said = now
        else:
            said = None


def in_order(measured: Iterable[Sample], happened: Iterable[Event]) -> Iterator[Sample | Event]:
    """Lines with the events between them; what follows from a line comes after it."""
    return merge(measured, happened, key=lambda one: (one.turn, isinstance(one, Event)))


def _not_done(decision: dict[str, Any]) -> tuple[str, str] | None:
    if decision["refused"]:
        return "refused", decision["refused"]
    if decision["error"]:
        return "error", decision["error"]
    if decision["vetoes"]:
        return "vetoed", "; ".join(f"{v['rule']}: {v['reason']}" for v in decision["vetoes"])
    return None


def _pressed(latency: LatencyMetrics) -> float:
    pressed = latency.mean / latency.bound if latency.bound > 0 else latency.mean
    return pressed if math.isfinite(pressed) else -1.0


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _rate(before: Snapshot | None, now: Snapshot, total: str) -> float | None:
    """Totals give the rate between two snapshots without loss."""
    if before is None or now.at <= before.at:
        return None
    first, last = getattr(before, total), getattr(now, total)
    return None if first is None or last is None else (last - first) / (now.at - before.at)
