"""The outcome of a run: its summary, and the totals and dead letters that it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock import text
from penstock.dataflow.delivery import Delivery
from penstock.dataflow.graph import Constraint
from penstock.metrics.events import ROUTINE, Event
from penstock.metrics.snapshot import LatencyMetrics, OperatorMetrics, Snapshot
from penstock.notebook_display import Shown
from penstock.plan.plan import Plan
from penstock.plan.transition import Transition
from penstock.store.turn import Tick

LEAST_DEAD_LETTERS = 10
"""Fewer dead letters than this are never too many, so that one bad row of five is not."""

LAST_EVENTS = 3
"""Number of events in the summary; the history has all of them."""


@dataclass(frozen=True)
class DeadLetters:
    """The dead letters of a run, compared with the rows that its sources took in.

    An operator that makes several rows of one can produce more dead letters than rows came in, so
    `share` may be above 1. With `at_most` 1 there are never too many.
    """

    rows: int
    entered: int
    at_most: float = 0.1

    @property
    def share(self) -> float:
        if self.entered > 0:
            return self.rows / self.entered
        return 1.0 if self.rows else 0.0

    @property
    def too_many(self) -> bool:
        return self.at_most < 1 and self.rows >= LEAST_DEAD_LETTERS and self.share > self.at_most

    @property
    def alarm(self) -> str | None:
        """What to show while there are too many; the text does not change with their number."""
        if not self.too_many:
            return None
        return (
            f"more than {100 * self.at_most:g}% of the rows became dead letters: see dead/ in the "
            "run directory for the errors"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "share": round(self.share, 4),
            "at_most": self.at_most,
            "too_many": self.too_many,
        }


@dataclass(frozen=True)
class LatencySummary:
    """One constraint over the whole run, in seconds; None where no record was measured.

    `met` is the share of the constraint's windows whose mean stayed below the bound.
    """

    bound: float
    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    met: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "bound_ms": _ms(self.bound),
            "mean_ms": _ms(self.mean),
            "p50_ms": _ms(self.p50),
            "p95_ms": _ms(self.p95),
            "p99_ms": _ms(self.p99),
            "met": None if self.met is None else round(self.met, 4),
        }


@dataclass(frozen=True)
class EventSummary:
    """The events of a run besides its start and end: how many, and the last few, oldest first."""

    count: int = 0
    last: tuple[Event, ...] = ()

    def plus(self, event: Event) -> EventSummary:
        """The summary with one more event; the same one if every run has such an event."""
        if event.kind in ROUTINE:
            return self
        return EventSummary(self.count + 1, (*self.last, event)[-LAST_EVENTS:])

    def __str__(self) -> str:
        return f"{self.count:,}; last: " + "; ".join(
            f"{text.clock(one.at)} {one.kind}: {_sentence(one)}" for one in self.last
        )

    def to_json(self) -> dict[str, Any]:
        return {"count": self.count, "last": [_event(one) for one in self.last]}


def _event(one: Event) -> dict[str, Any]:
    return {
        "at_s": round(one.at, 3),
        "kind": one.kind,
        "text": one.text,
        "pipeline": one.pipeline,
    }


def _sentence(event: Event) -> str:
    """The text of an event, with its pipeline if the text does not name it."""
    named = event.pipeline is None or event.pipeline in event.text
    return text.cut(text.line(event.text if named else f"{event.pipeline}: {event.text}"), 160)


NO_DEAD_LETTERS = DeadLetters(0, 0)
NO_EVENTS = EventSummary()


@dataclass(frozen=True)
class Summary(Shown):
    """The outcome of a run.

    seconds: from the start until the flow had drained; throughput_mean: rows ingested over that
    time; throughput_last: the last one measured while the sources were on; exact: None if it
    cannot be told, e.g. without an expectation or generated input; exact_reason: why it is not
    True; changes_left: scripted changes that the run ended before; operators: of the last window
    without a change; delivery: the guarantee of each sink; rows_repeated: rows of batches that a
    sink without exactly-once delivery was given again, so at most so many are duplicates;
    events: what happened in this run besides its start and end.
    """

    flow: str
    engine: str
    policy: str
    seconds: float
    rows_offered: int | None
    rows_ingested: int
    rows_delivered: int
    rows_dead: int
    throughput_mean: float
    throughput_last: float | None
    slot_seconds: float
    plan: Plan
    run_dir: str
    latency: Mapping[str, LatencySummary] = field(default_factory=dict)
    transitions: tuple[Transition, ...] = ()
    exact: bool | None = None
    exact_reason: str = ""
    interrupted: bool = False
    operators: Mapping[str, OperatorMetrics] = field(default_factory=dict)
    rows_late: int | None = None
    dead_letters: DeadLetters = NO_DEAD_LETTERS
    changes_left: tuple[str, ...] = ()
    rows_repeated: int = 0
    delivery: Mapping[str, Delivery] = field(default_factory=dict)
    events: EventSummary = NO_EVENTS

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "engine": self.engine,
            "policy": self.policy,
            "seconds": round(self.seconds, 3),
            "rows_offered": self.rows_offered,
            "rows_ingested": self.rows_ingested,
            "rows_delivered": self.rows_delivered,
            "rows_dead": self.rows_dead,
            "rows_late": self.rows_late,
            "dead_letters": self.dead_letters.to_json(),
            "rows_repeated": self.rows_repeated,
            "throughput": {
                "mean": round(self.throughput_mean, 2),
                "last": None if self.throughput_last is None else round(self.throughput_last, 2),
            },
            "latency": {name: one.to_json() for name, one in self.latency.items()},
            "operators": {name: _operator(one) for name, one in self.operators.items()},
            "slot_seconds": round(self.slot_seconds, 3),
            "plan": self.plan.to_json(),
            "transitions": [t.to_json() for t in self.transitions],
            "changes_left": list(self.changes_left),
            "events": self.events.to_json(),
            "delivery": {name: one.value for name, one in self.delivery.items()},
            "exact": self.exact,
            "run_dir": self.run_dir,
            "interrupted": self.interrupted,
        }


def _operator(one: OperatorMetrics) -> dict[str, Any]:
    return {
        "rate_in": _rounded(one.rate_in),
        "rate_out": _rounded(one.rate_out),
        "selectivity": _rounded(one.selectivity),
        "service_ms": _rounded(one.service, 1000),
        "service_cv": _rounded(one.service_cv),
        "arrival_cv": _rounded(one.arrival_cv),
        "busy": _rounded(one.busy),
        "basis": "measured" if one.measured else "estimated",
    }


def _rounded(value: float | None, factor: float = 1.0) -> float | None:
    """Five significant digits."""
    return None if value is None else float(f"{factor * value:.5g}")


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 3)


# --- totals -------------------------------------------------------------------------------------


class RunTotals:
    """Sums over the turns of one run: latency, slot-seconds, throughput, transitions, events."""

    def __init__(self, constraints: Iterable[Constraint]) -> None:
        self._windows = {c.name: _Windows(c) for c in constraints}
        self._at = 0.0
        self.slot_seconds = 0.0
        self.throughput_last: float | None = None
        self.transitions: list[Transition] = []
        self.snapshot: Snapshot | None = None
        self.settled: Snapshot | None = None
        self.events = NO_EVENTS

    def add(self, tick: Tick, *, running: bool = True) -> None:
        """Add a turn; `running` is False once the sources have been told to stop."""
        self.slot_seconds += max(0.0, tick.at - self._at) * tick.plan.slots
        self._at = max(self._at, tick.at)
        self.snapshot = tick.snapshot
        if running:
            if tick.snapshot.throughput is not None:
                self.throughput_last = tick.snapshot.throughput
            self.settled = tick.snapshot if tick.snapshot.settled else self.settled
        if tick.transition is not None:
            self.transitions.append(tick.transition)
        for event in tick.events:
            self.add_event(event)
        for name, windows in self._windows.items():
            windows.add(tick.at, tick.snapshot.latency.get(name))

    def add_event(self, event: Event) -> None:
        """Add an event that belongs to no turn."""
        self.events = self.events.plus(event)

    def latency(
        self, totals: Mapping[str, LatencyMetrics] | None = None
    ) -> dict[str, LatencySummary]:
        """Latency by constraint over the run; `totals` are the engine's own, if it has them."""
        return {
            name: windows.summary((totals or {}).get(name))
            for name, windows in self._windows.items()
        }


@dataclass
class _Windows:
    """The windows of one constraint, one after the other.

    Snapshots come about once a second and each covers a whole window, so only one per window
    counts: with all of them every record would count several times.
    """

    constraint: Constraint
    taken: list[LatencyMetrics] = field(default_factory=list)
    rest: LatencyMetrics | None = None
    since: float = 0.0
    now: float = 0.0

    def add(self, at: float, measured: LatencyMetrics | None) -> None:
        self.now = at
        if measured is None or measured.rows == 0:
            return
        self.rest = measured
        if at - self.since >= self.constraint.window:
            self.taken.append(measured)
            self.since, self.rest = at, None

    def all(self) -> list[LatencyMetrics]:
        """The whole windows, and the last part if it is most of one or there is no other."""
        if self.rest is None:
            return self.taken
        most = self.now - self.since >= self.constraint.window / 2
        return [*self.taken, self.rest] if most or not self.taken else self.taken

    def summary(self, total: LatencyMetrics | None) -> LatencySummary:
        windows = self.all()
        if total is not None and total.rows > 0:
            mean, p50, p95, p99 = total.mean, total.p50, total.p95, total.p99
        elif windows:
            rows = sum(w.rows for w in windows)
            # Means can be averaged exactly. Percentiles cannot: this is an approximation for
            # engines that keep no figures over the run.
            mean = sum(w.mean * w.rows for w in windows) / rows
            p50 = sum(w.p50 * w.rows for w in windows) / rows
            p95 = sum(w.p95 * w.rows for w in windows) / rows
            p99 = sum(w.p99 * w.rows for w in windows) / rows
        else:
            return LatencySummary(self.constraint.latency)
        met = sum(w.met for w in windows) / len(windows) if windows else None
        return LatencySummary(self.constraint.latency, mean, p50, p95, p99, met)
