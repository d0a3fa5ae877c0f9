"""Reads a run directory incrementally, on each request of a page."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.dashboard.view_model import (
    Entry,
    Frame,
    Point,
    event_entry,
    frame,
    grouped,
    points,
)
from penstock.dataflow import structure
from penstock.dataflow.graph import CycleError, Graph
from penstock.drawing.layout import layout
from penstock.errors import PenstockError, RunDirectoryError
from penstock.store import history, mailbox, run_directory, run_options, timeline
from penstock.store.history import RecordedTransition, TurnTime

DRAWN = 300
"""Dataflows with more operators are shown as a table, not drawn."""

_FULL = 2000  # maximum number of points; beyond it, every second one is dropped
_FRESH = 0.4  # minimum seconds between two reads of the directory
_SILENT = 15.0  # seconds without a turn until a notice is shown
_ENDING = 3.0  # seconds after the last turn in which a summary may still appear


@dataclass(frozen=True)
class Update:
    """What is new since a turn: points and events to add, entries to add or replace."""

    turn: int
    points: list[Point] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    events: list[Entry] = field(default_factory=list)


def check(run_dir: Path) -> None:
    """Raise `RunDirectoryError` if the directory holds no readable run."""
    if not run_dir.exists():
        raise RunDirectoryError(f"there is no run directory '{run_dir}'")
    if not run_dir.is_dir():
        raise RunDirectoryError(f"the run directory '{run_dir}' is a file, not a directory")
    with _translated(run_dir):
        run_directory.check_version(run_dir)
        if (run_dir / "run.json").exists() and not (run_dir / history.DATAFLOW).exists():
            return  # the run has just begun
        _ = history.dataflow(run_dir).topological
        history.turn_times(run_dir)


@contextmanager
def _translated(run_dir: Path) -> Iterator[None]:
    """Turn errors caused by files of another version into `RunDirectoryError`."""
    try:
        yield
    except CycleError as error:
        raise RunDirectoryError(f"the dataflow in '{run_dir}' has a cycle: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        why = f"the history in '{run_dir}' was written by another version: {error}"
        raise RunDirectoryError(why) from None


class RunReader:
    """History so far and state of the run in a directory. Thread-safe.

    A read covers only turns since the last one. A run that has not started yet is empty, not an
    error.
    """

    def __init__(self, run_dir: Path, clock: Callable[[], float] = time.time) -> None:
        self.run_dir = run_dir
        self._clock = clock
        self._lock = threading.RLock()
        self._looked = -_FRESH
        self._begin()

    def _begin(self) -> None:
        self._graph: Graph | None = None
        self._drawn: dict[str, Any] | None = None
        self._points: list[Point] = []
        self._entries: list[Entry] = []
        self._events: list[Entry] = []
        self._x: dict[int, float] = {}
        self._shift = 0.0
        self._last: TurnTime | None = None
        self._mixed = False
        self._trouble: str | None = None

    # --- what the page requests -------------------------------------------------------------------

    def head(self) -> dict[str, Any]:
        """What stays the same during a run: options, dataflow and layout."""
        with self._lock:
            self._refresh()
            asked = run_options.read(self.run_dir)
            shown: dict[str, Any] = {
                "run_dir": str(self.run_dir),
                "run": _json(self.run_dir / "run.json").get("run"),
                "engine": asked[-1].engine if asked else None,
                "policy": asked[-1].policy if asked else None,
                "dataflow": None,
            }
            if self._graph is not None:
                self._drawn = self._drawn or _drawn(self._graph)
                shown |= self._drawn
            return shown

    def since(self, turn: int, event: int = 0) -> Update:
        """What is new after a turn and after an event number; 0 for everything."""
        with self._lock:
            self._refresh()
            added = [p for p in self._points if p["turn"] > turn]
            told = [e for e in self._entries if e["last"] > turn or _open(e)]
            happened = [e for e in self._events if e["number"] > event]
            return Update(self._last.turn if self._last else 0, added, told, happened)

    def moment(self, turn: int | None = None) -> Frame | None:
        """The flow at a turn, by default the newest; None if nothing was measured yet."""
        with self._lock:
            self._refresh()
            if self._graph is None or self._last is None:
                return None
            newest = turn is None or turn >= self._last.turn
            wanted = self._last.turn if turn is None or newest else turn
            found = next(history.recorded_snapshots(self.run_dir, [wanted]), None)
            if found is None:
                raise RunDirectoryError(f"turn {wanted} is no longer in the history")
            made = frame(self._graph, found, offers=newest and self._running())
            made["x"] = self._x.get(wanted)
            decision = next(history.decisions(self.run_dir, wanted), None)
            if decision is not None and decision["turn"] == wanted:
                changes = {c.turn: c for c in history.transitions(self.run_dir, wanted)}
                made["decision"] = self._placed(grouped([decision], changes, None))[0]
            return made

    def status(self) -> dict[str, Any]:
        """Phase (starting, running, ending or over), and what is wrong, if anything."""
        with self._lock:
            self._refresh()
            running = self._running()
            mode = self._entries[-1]["mode"] if self._entries else None
            return {
                "phase": self._phase(running),
                "running": running,
                "mode": mode,
                "trouble": self._trouble or self._notice(running),
                "summary": None if running else self._summary(),
            }

    # --- reading ----------------------------------------------------------------------------------

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._looked < _FRESH:
            return
        self._looked = now
        try:
            with _translated(self.run_dir):
                self._read()
            self._trouble = None
        except PenstockError as error:
            self._trouble = str(error)

    def _read(self) -> None:
        if not self.run_dir.is_dir():
            raise RunDirectoryError(f"the run directory '{self.run_dir}' no longer exists")
        if self._graph is None:
            if not (self.run_dir / history.DATAFLOW).exists():
                return  # not started yet
            run_directory.check_version(self.run_dir)
            graph = history.dataflow(self.run_dir)
            _ = graph.topological  # raises `CycleError` before the graph is drawn
            self._graph = graph
        since = self._last.turn if self._last else 0
        found = history.turn_times(self.run_dir, since)
        if self._last is not None and (not found or found[0].turn != self._last.turn):
            self._begin()  # the history was replaced
            self._read()
            return
        new = found if self._last is None else found[1:]
        if new:
            self._place(new)
            self._add_points(found, new)
            self._last = new[-1]
        self._add_entries(new)
        self._add_events()

    def _place(self, new: list[TurnTime]) -> None:
        """Put turns on one time axis; a continued run starts where the previous ended."""
        before = self._last
        for one in new:
            if before is not None and one.run != before.run:
                self._mixed = self._mixed or one.run < before.run
                end = self._x[before.turn]
                self._shift = 0.0 if one.at >= end else end
            self._x[one.turn] = round(one.at + self._shift, 3)
            before = one

    def _add_points(self, found: list[TurnTime], new: list[TurnTime]) -> None:
        """Add points; rates need two turns, so the last known turn is read again."""
        if len(found) > _FULL:
            turns = timeline.chosen(found, timeline.step(found, _FULL // 2))
            seen = history.recorded_snapshots(self.run_dir, turns)
        else:
            seen = history.recorded_snapshots(self.run_dir, since=found[0].turn)
        for one in points(seen, self._points[-1] if self._points else None):
            self._points.append({**one, "x": self._x[one["turn"]]})
        if len(self._points) > _FULL:
            self._points = self._points[:-1:2] + self._points[-1:]

    def _add_entries(self, new: list[TurnTime]) -> None:
        """Add decisions; re-read earlier changes until their cost is settled."""
        first = new[0].turn if new else None
        waiting = [e["turn"] for e in self._entries if _open(e)]
        since = min((t for t in (first, *waiting) if t is not None), default=None)
        if since is None:
            return
        changes = {one.turn: one for one in history.transitions(self.run_dir, since)}
        self._settle(changes)
        if first is not None:
            before = self._entries.pop() if self._entries else None
            told = history.decisions(self.run_dir, first)
            known = (one for one in told if one["turn"] in self._x)
            self._entries += self._placed(grouped(known, changes, before))

    def _add_events(self) -> None:
        known = self._events[-1]["number"] if self._events else 0
        for one in history.events(self.run_dir, known):
            x = self._x.get(one.turn, max(0.0, one.event.at))
            self._events.append({**event_entry(one), "x": x})

    def _settle(self, changes: dict[int, RecordedTransition]) -> None:
        for n, one in enumerate(self._entries):
            if _open(one) and one["turn"] in changes:
                made = changes[one["turn"]].transition.to_json()
                self._entries[n] = {**one, "change": made}

    def _placed(self, entries: list[Entry]) -> list[Entry]:
        return [{**one, "x": self._x.get(one["turn"])} for one in entries]

    # --- state of the run -------------------------------------------------------------------------

    def _running(self) -> bool:
        try:
            return mailbox.is_running(self.run_dir)
        except RunDirectoryError:
            return False

    def _age(self) -> float | None:
        return None if self._last is None else self._clock() - self._last.time

    def _phase(self, running: bool) -> str:
        age = self._age()
        if running:
            return "running"
        if age is None:
            return "starting"
        return "ending" if 0 <= age < _ENDING and not self._summed_up() else "over"

    def _notice(self, running: bool) -> str | None:
        if self._mixed:
            return (
                "two processes write to this run directory, so their turns are mixed; stop one of "
                "them"
            )
        age = self._age()
        if running and age is not None and age > _SILENT:
            return f"the flow is running but has recorded nothing for {age:.0f} s"
        return None

    def _summed_up(self) -> bool:
        """True if the summary is of the last run, not of one that it continues."""
        try:
            written = (self.run_dir / "summary.json").stat().st_mtime
        except OSError:
            return False
        return self._last is not None and written >= self._last.time

    def _summary(self) -> dict[str, Any] | None:
        found = _json(self.run_dir / "summary.json") if self._summed_up() else {}
        return {key: found.get(key) for key in ("exact", "exact_reason")} if found else None


def _drawn(graph: Graph) -> dict[str, Any]:
    """Dataflow and layout as JSON values; no layout for too many operators."""
    placed = layout(graph).to_json() if len(graph.operators) <= DRAWN else None
    return {"dataflow": structure.to_json(graph), "layout": placed}


def _open(entry: Entry) -> bool:
    return entry["change"] is not None and not entry["change"]["settled"]


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
