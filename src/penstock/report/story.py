"""A run as a story, read from its directory: what was asked, what happened, what came of it.

Everything is a value; `prose.py` puts it into words, `curves.py` into pictures and `page.py` on a
page. A run that goes on, or was killed, has a story as far as it got.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.control.summary import LatencySummary, RunTotals
from penstock.dataflow.graph import Graph
from penstock.errors import RunDirectoryError
from penstock.metrics.snapshot import Snapshot
from penstock.plan.plan import Plan
from penstock.plan.transition import Transition
from penstock.report.choices import Choice, choices
from penstock.store import history, mailbox, run_directory, timeline
from penstock.store import run_options as terms
from penstock.store.history import RecordedTransition, TurnTime
from penstock.store.run_options import RunOptions
from penstock.store.timeline import Sample
from penstock.store.turn import Tick

MOST = 1500
"""Turns that are looked at; of a longer run an even choice of them."""

LOOK = 30.0
"""Seconds before and after a change that are compared, as far as no other change is in them."""


@dataclass(frozen=True)
class Point:
    """A turn: `x` seconds of running since the beginning, what was measured, under which plan."""

    x: float
    line: Sample
    plan: Plan
    snapshot: Snapshot


@dataclass(frozen=True)
class Level:
    """What the flow did on average over some seconds; None is not measured."""

    sustained: float | None
    latency: float | None
    backlog: float | None
    instances: float | None


@dataclass(frozen=True)
class Made:
    """A change: what it cost, and how the flow was before and after it, as far as that is known."""

    x: float
    transition: Transition
    before: Level | None
    after: Level | None


@dataclass(frozen=True)
class Story:
    """Everything there is to tell.

    state: finished, running, or unfinished (nobody writes to the directory any more, and there is
    no summary); seconds: of running, in all `runs` of the directory; slot_seconds: instances
    times time; resumed: where a run continued the one before; outcome, exactness: what was summed
    up in the end, if it came to that.
    """

    run_dir: Path
    graph: Graph
    state: str
    terms: tuple[RunOptions, ...] = ()
    points: tuple[Point, ...] = ()
    choices: tuple[Choice, ...] = ()
    changes: tuple[Made, ...] = ()
    latency: Mapping[str, LatencySummary] = field(default_factory=dict)
    slot_seconds: float = 0.0
    seconds: float = 0.0
    resumed: tuple[float, ...] = ()
    outcome: Mapping[str, Any] = field(default_factory=dict)
    exactness: Mapping[str, Any] = field(default_factory=dict)
    engine: str | None = None
    policy: str | None = None
    began: float | None = None

    @property
    def last(self) -> Point | None:
        return self.points[-1] if self.points else None

    @property
    def peak(self) -> Point | None:
        """The turn with the most instances, which a plan that never changes would need."""
        return max(self.points, key=lambda p: p.plan.slots, default=None)

    @property
    def busiest(self) -> Point | None:
        """The turn in which most came through, if possible one that shows one plan alone."""
        settled = [p for p in self.points if p.snapshot.settled] or self.points
        return max(settled, key=lambda p: p.snapshot.throughput or 0.0, default=None)

    @property
    def static_slot_seconds(self) -> float:
        """What a plan as large as the largest would have used."""
        return self.seconds * self.peak.plan.slots if self.peak else 0.0


def story(run_dir: str | Path) -> Story:
    """Read a run directory. Raises `RunDirectoryError` that says what is wrong with it."""
    home = run_directory.local(run_dir)
    _check(home)
    graph = history.dataflow(home)
    moments = history.turn_times(home)
    places = _places(moments)
    seen = [*history.recorded_snapshots(home, _chosen(moments))]
    points = tuple(
        Point(places[line.turn], line, one.plan, one.snapshot)
        for line, one in zip(timeline.lines(seen), seen, strict=True)
    )
    tally = _tally(graph, points)
    made = [one for one in history.transitions(home) if one.turn in places]
    told = [one for one in history.decisions(home) if one["turn"] in places]
    asked = tuple(terms.read(home))
    outcome = _json(home / "summary.json")
    running = mailbox.is_running(home) or run_directory.is_held(home)
    fresh = not running and _covers(outcome, points)
    head = _json(home / "run.json")
    return Story(
        run_dir=home,
        graph=graph,
        state="running" if running else "finished" if fresh else "unfinished",
        terms=asked,
        points=points,
        choices=choices(told, made, places),
        changes=_made(made, places, points),
        latency=_latency(tally, outcome if fresh and len(_runs(moments)) == 1 else {}),
        slot_seconds=tally.slot_seconds,
        seconds=max(places.values(), default=0.0),
        resumed=tuple(places[m.turn] for m in _runs(moments)[1:]),
        outcome=outcome if fresh else {},
        exactness=_json(home / "exactness.json") if fresh else {},
        engine=asked[-1].engine if asked else outcome.get("engine") or head.get("engine"),
        policy=asked[-1].policy if asked else outcome.get("policy"),
        began=asked[0].time if asked else head.get("created"),
    )


def _check(home: Path) -> None:
    if not home.exists():
        raise RunDirectoryError(f"there is no run directory '{home}'")
    if not home.is_dir():
        raise RunDirectoryError(f"the run directory '{home}' is a file, not a directory")
    run_directory.check_version(home)


# --- turns --------------------------------------------------------------------------------------


def _runs(moments: Sequence[TurnTime]) -> list[TurnTime]:
    """The first turn of every run of the directory."""
    return [m for n, m in enumerate(moments) if n == 0 or m.run != moments[n - 1].run]


def _places(moments: Iterable[TurnTime]) -> dict[int, float]:
    """Seconds of running by turn: a run goes on where the one before ended."""
    found: dict[int, float] = {}
    shift = end = 0.0
    run = None
    for one in moments:
        if run is not None and one.run != run:
            shift = end if one.at < end else 0.0  # some engines go on counting
        run = one.run
        found[one.turn] = end = shift + one.at
    return found


def _chosen(moments: Sequence[TurnTime]) -> list[int]:
    if len(moments) <= MOST:
        return [one.turn for one in moments]
    return timeline.chosen(moments, timeline.step(moments, MOST))


def _tally(graph: Graph, points: Iterable[Point]) -> RunTotals:
    tally = RunTotals(graph.constraints)
    for one in points:
        tally.add(Tick(one.x, one.plan, one.snapshot))
    return tally


def _latency(tally: RunTotals, outcome: Mapping[str, Any]) -> dict[str, LatencySummary]:
    """The engine's own figures over the run where it was summed up, else those of the windows."""
    found = tally.latency()
    for name, one in outcome.get("latency", {}).items():
        if name in found and one.get("mean_ms") is not None:
            times = [one.get(key) for key in ("mean_ms", "p50_ms", "p95_ms", "p99_ms")]
            mean, p50, p95, p99 = (None if t is None else t / 1000 for t in times)
            found[name] = LatencySummary(found[name].bound, mean, p50, p95, p99, one.get("met"))
    return found


# --- changes ----------------------------------------------------------------------------------


def _made(
    made: Sequence[RecordedTransition], places: Mapping[int, float], points: Sequence[Point]
) -> tuple[Made, ...]:
    at = [places[one.turn] for one in made]
    found = []
    for n, one in enumerate(made):
        x = at[n]
        first = max(at[n - 1] if n else 0.0, x - LOOK)
        last = min(
            at[n + 1] if n + 1 < len(at) else x + 2 * LOOK, x + one.transition.duration + LOOK
        )
        before = [p for p in points if first < p.x <= x]
        after = [p for p in points if x + one.transition.duration < p.x <= last]
        found.append(Made(x, one.transition, level(before), level(after)))
    return tuple(found)


def level(points: Sequence[Point]) -> Level | None:
    """Means over some turns; None of none."""
    if not points:
        return None
    return Level(
        _mean([p.line.sustained for p in points]),
        _mean([p.line.latency for p in points]),
        _mean([p.line.backlog for p in points]),
        _mean([p.line.instances for p in points]),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None


# --- files --------------------------------------------------------------------------------------


def _json(path: Path) -> dict[str, Any]:
    """What is in a file that need not be there, or whole."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _covers(outcome: Mapping[str, Any], points: Sequence[Point]) -> bool:
    """Whether a summary is that of the last run: it counts the rows of the last turn."""
    if not outcome or not points:
        return bool(outcome)
    last = points[-1].snapshot
    counted = (outcome.get("rows_ingested"), outcome.get("rows_delivered"))
    return counted == (last.rows_ingested, last.rows_delivered)
