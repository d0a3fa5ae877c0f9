"""Reads a run directory into values: options, measurements, decisions, outcome.

`prose.py` turns them into sentences, `curves.py` into charts, `page.py` into a page. Also works for
a run that is still going or was killed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.control.summary import LatencySummary, RunTotals
from penstock.dataflow.graph import Graph
from penstock.errors import RunDirectoryError
from penstock.metrics.snapshot import Snapshot
from penstock.plan.plan import Plan
from penstock.plan.transition import Transition
from penstock.store import history, mailbox, run_directory, timeline
from penstock.store import run_options as terms
from penstock.store.history import RecordedEvent, RecordedTransition, TurnTime
from penstock.store.run_options import RunOptions
from penstock.store.timeline import Sample, without_numbers
from penstock.store.turn import Tick

MOST = 1500
"""Maximum number of turns read; of a longer run, turns at even intervals."""

LOOK = 30.0
"""Seconds before and after a change to compare, unless another change is closer."""


@dataclass(frozen=True)
class Turn:
    """A turn of the run; x: its time in seconds since the first run began."""

    x: float
    line: Sample
    plan: Plan
    snapshot: Snapshot


@dataclass(frozen=True)
class Choice:
    """A decision, or `times` consecutive ones that differ only in numbers.

    kind: changed, vetoed, refused, error, would change (advise mode) or kept. against: why the
    decision was not carried out.
    """

    x: float
    until: float
    times: int
    kind: str
    reason: str
    numbers: Mapping[str, float]
    against: str = ""


@dataclass(frozen=True)
class Averages:
    """Means over some turns; None if not measured."""

    sustained: float | None
    latency: float | None
    backlog: float | None
    instances: float | None


@dataclass(frozen=True)
class AppliedChange:
    """A plan change, its cost, and averages before and after it."""

    x: float
    transition: Transition
    before: Averages | None
    after: Averages | None


@dataclass(frozen=True)
class Incident:
    """An event of the run, such as a restart; problems are highlighted."""

    x: float
    kind: str
    text: str
    is_problem: bool


@dataclass(frozen=True)
class Story:
    """Everything that a report shows.

    state: finished, running, or unfinished (no process holds the directory, and there is no
    summary). seconds: running time of all runs of the directory. slot_seconds: instances times
    time. resumed: times at which a run continued the previous one. outcome, exactness: summary and
    exactness check of a finished run, else empty.
    """

    run_dir: Path
    graph: Graph
    state: str
    terms: tuple[RunOptions, ...] = ()
    points: tuple[Turn, ...] = ()
    choices: tuple[Choice, ...] = ()
    changes: tuple[AppliedChange, ...] = ()
    incidents: tuple[Incident, ...] = ()
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
    def last(self) -> Turn | None:
        return self.points[-1] if self.points else None

    @property
    def peak(self) -> Turn | None:
        """The turn with the most instances, which determines the size of a static plan."""
        return max(self.points, key=lambda p: p.plan.slots, default=None)

    @property
    def busiest(self) -> Turn | None:
        """The turn with the highest throughput, preferably a settled one."""
        settled = [p for p in self.points if p.snapshot.settled] or self.points
        return max(settled, key=lambda p: p.snapshot.throughput or 0.0, default=None)

    @property
    def static_slot_seconds(self) -> float:
        """Slot-seconds of a static plan as large as the largest plan of the run."""
        return self.seconds * self.peak.plan.slots if self.peak else 0.0


def story(run_dir: str | Path) -> Story:
    """Read a run directory. Raises `RunDirectoryError` if it cannot be read."""
    home = run_directory.local(run_dir)
    _check(home)
    graph = history.dataflow(home)
    moments = history.turn_times(home)
    places = _places(moments)
    seen = [*history.recorded_snapshots(home, _chosen(moments))]
    points = tuple(
        Turn(places[sample.turn], sample, one.plan, one.snapshot)
        for sample, one in zip(timeline.samples(seen), seen, strict=True)
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
        changes=_applied(made, places, points),
        incidents=tuple(_incident(one, places) for one in history.events(home)),
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


# --- turns ----------------------------------------------------------------------------------------


def _runs(moments: Sequence[TurnTime]) -> list[TurnTime]:
    """First turn of every run of the directory."""
    return [m for n, m in enumerate(moments) if n == 0 or m.run != moments[n - 1].run]


def _places(moments: Iterable[TurnTime]) -> dict[int, float]:
    """Time in seconds by turn; each run continues where the previous one ended."""
    found: dict[int, float] = {}
    shift = end = 0.0
    run = None
    for one in moments:
        if run is not None and one.run != run:
            shift = end if one.at < end else 0.0  # the clock of some engines continues
        run = one.run
        found[one.turn] = end = shift + one.at
    return found


def _chosen(moments: Sequence[TurnTime]) -> list[int]:
    if len(moments) <= MOST:
        return [one.turn for one in moments]
    return timeline.chosen(moments, timeline.step(moments, MOST))


def _tally(graph: Graph, points: Iterable[Turn]) -> RunTotals:
    tally = RunTotals(graph.constraints)
    for one in points:
        tally.add(Tick(one.x, one.plan, one.snapshot))
    return tally


def _latency(tally: RunTotals, outcome: Mapping[str, Any]) -> dict[str, LatencySummary]:
    """Latency by constraint: the engine's totals if known, else from the windows."""
    found = tally.latency()
    for name, one in outcome.get("latency", {}).items():
        if name in found and one.get("mean_ms") is not None:
            times = [one.get(key) for key in ("mean_ms", "p50_ms", "p95_ms", "p99_ms")]
            mean, p50, p95, p99 = (None if t is None else t / 1000 for t in times)
            found[name] = LatencySummary(found[name].bound, mean, p50, p95, p99, one.get("met"))
    return found


# --- decisions, changes and events ----------------------------------------------------------------


def choices(
    told: Iterable[Mapping[str, Any]],
    made: Iterable[RecordedTransition],
    places: Mapping[int, float],
) -> tuple[Choice, ...]:
    """Decisions in order, with repeated ones merged."""
    changed = {one.turn for one in made}
    found = []
    for one in told:
        kind, against = _outcome(one, one["turn"] in changed)
        x = places[one["turn"]]
        found.append(Choice(x, x, 1, kind, one["reason"] or "", one["numbers"] or {}, against))
    return merged(found)


def merged(choices: Iterable[Choice]) -> tuple[Choice, ...]:
    """Merge consecutive decisions that differ only in numbers; keep the last text."""
    found: list[Choice] = []
    for one in choices:
        before = found[-1] if found else None
        if before is not None and one.kind != "changed" and _same(before) == _same(one):
            found[-1] = replace(one, x=before.x, times=before.times + one.times)
        else:
            found.append(one)
    return tuple(found)


def _outcome(one: Mapping[str, Any], changed: bool) -> tuple[str, str]:
    """Kind of a decision, and why it was not carried out."""
    if changed:
        return "changed", ""
    if one["refused"]:
        return "refused", str(one["refused"])
    if one["error"]:
        return "error", str(one["error"])
    if one["vetoes"]:
        return "vetoed", "; ".join(f"{v['rule']}: {v['reason']}" for v in one["vetoes"])
    if one["mode"] == "advise" and one["plan"] is not None:
        return "would change", ""
    return "kept", ""


def _same(one: Choice) -> object:
    return one.kind, without_numbers(one.reason), without_numbers(one.against)


def _applied(
    made: Sequence[RecordedTransition], places: Mapping[int, float], points: Sequence[Turn]
) -> tuple[AppliedChange, ...]:
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
        found.append(AppliedChange(x, one.transition, averages(before), averages(after)))
    return tuple(found)


def averages(points: Sequence[Turn]) -> Averages | None:
    """Means over some turns; None without turns."""
    if not points:
        return None
    return Averages(
        _mean([p.line.sustained for p in points]),
        _mean([p.line.latency for p in points]),
        _mean([p.line.backlog for p in points]),
        _mean([p.line.instances for p in points]),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None


def _incident(one: RecordedEvent, places: Mapping[int, float]) -> Incident:
    x = places.get(one.turn, max(0.0, one.event.at))
    return Incident(x, one.event.kind, timeline.sentence(one), one.event.is_problem)


# --- files ----------------------------------------------------------------------------------------


def _json(path: Path) -> dict[str, Any]:
    """Object in a JSON file; empty if the file is missing or damaged."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _covers(outcome: Mapping[str, Any], points: Sequence[Turn]) -> bool:
    """True if a summary is of the last run: it counts the same rows as the last turn."""
    if not outcome or not points:
        return bool(outcome)
    last = points[-1].snapshot
    counted = (outcome.get("rows_ingested"), outcome.get("rows_delivered"))
    return counted == (last.rows_ingested, last.rows_delivered)
