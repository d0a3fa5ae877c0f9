"""Writes the history of a run; one turn of the loop is one transaction.

Old turns without news are thinned out: the newest 3600 are all kept, of the 36,000 before them
every 10th, of the 360,000 before those every 100th, and so on. At a turn a second that is an
hour, then ten hours, then four days, so a history grows by 3600 turns each time a run gets ten
times longer.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from penstock.metrics.events import Event
from penstock.plan.plan import Plan
from penstock.plan.transition import Transition
from penstock.store import tables
from penstock.store.turn import Tick

FULL = 3600
"""The newest turns, which are all kept."""

NEWS = 10_000
"""Turns with news, and events, are kept whatever their age, but at most so many."""

_PATIENCE = 0.5  # seconds that a turn waits for another process that writes to the file
log = logging.getLogger(__name__)

_ORPHANS = """DELETE FROM plans WHERE plan NOT IN (
    SELECT plan FROM snapshots WHERE plan IS NOT NULL
    UNION SELECT plan FROM decisions WHERE plan IS NOT NULL
    UNION SELECT wanted FROM decisions WHERE wanted IS NOT NULL)"""
_OLDEST_EVENTS = "DELETE FROM events WHERE number <= (SELECT max(number) FROM events) - ?"
_OLDEST_NEWS = """DELETE FROM snapshots WHERE turn = (
    SELECT turn FROM snapshots WHERE news ORDER BY turn DESC LIMIT 1 OFFSET ?)"""


class History:
    """Writes the history of one run, after those of earlier runs of the directory.

    If it cannot be written the run goes on without; `tell` is called once with the reason.
    """

    def __init__(
        self, run_dir: Path, wall: Callable[[], float], tell: Callable[[str], None] | None = None
    ) -> None:
        self._path = run_dir / tables.FILE
        self._wall = wall
        self._tell: Callable[[str], None] | None = tell or _to_stderr
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._turn = self._run = 0
        self._before: object = None
        self._unsettled: dict[float, tuple[int, float, Transition]] = {}
        with self._forgiving():
            self._open()

    @property
    def resumed(self) -> bool:
        """True if the directory has the history of an earlier run."""
        return self._run > 1

    def append(self, tick: Tick) -> None:
        """Record one turn of the loop."""
        if self._closed:
            return
        with self._forgiving():
            connection = self._connection or self._open()
            with connection:  # one transaction
                self._write(connection, self._turn + 1, tick)
            self._turn += 1
            self._before = _outcome(tick)
            made = tick.transition
            if made is not None and not made.settled:
                self._unsettled[made.at] = (self._turn, round(self._wall(), 3), made)

    def add_event(self, event: Event) -> None:
        """Record an event that belongs to no turn, such as the start of the run."""
        if self._closed:
            return
        with self._forgiving():
            connection = self._connection or self._open()
            with connection:
                self._write_events(connection, self._turn, (event,))

    def save_loop_state(self, data: Mapping[str, Any]) -> None:
        """Replace what the control loop needs to go on when the run is resumed."""
        if self._closed:
            return
        with self._forgiving():
            connection = self._connection or self._open()
            with connection:
                row = (1, self._run, json.dumps(data, allow_nan=False))
                connection.execute(tables.LOOP_STATE.insert.replace("INSERT", "REPLACE", 1), row)

    def settle(self, transitions: Iterable[Transition]) -> None:
        """Update the recorded changes of this run with what is known about them by now."""
        for one in transitions if self._unsettled and self._connection else ():
            turn, time, known = self._unsettled.get(one.at, (0, 0.0, one))
            if one != known and self._connection is not None:
                with self._forgiving(), self._connection as connection:
                    row = tables.TRANSITIONS.row((turn, time), one)
                    connection.execute("DELETE FROM transitions WHERE turn = ?", (turn,))
                    connection.execute(tables.TRANSITIONS.insert, row)
                self._unsettled[one.at] = (turn, time, one)
                if one.settled:
                    del self._unsettled[one.at]

    def close(self) -> None:
        """Close the file; harmless when done twice."""
        self._closed = True
        self._disconnect()

    def _open(self) -> sqlite3.Connection:
        try:
            self._connection = _opened(self._path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            aside = self._put_aside()  # a run must not fail because of its records
            self._told(f"{self._path} was no history; it is {aside} now, and a new one begins")
            self._connection = _opened(self._path)
        if self._run == 0:
            row = self._connection.execute("SELECT max(turn), max(run) FROM snapshots").fetchone()
            self._turn, self._run = row[0] or 0, (row[1] or 0) + 1
        return self._connection

    def _put_aside(self) -> str:
        """Rename the file, and SQLite's files beside it, which would be taken for the new one's."""
        aside = f"{tables.FILE}.broken-{int(self._wall())}"
        for suffix in ("-wal", "-shm", ""):
            with suppress(FileNotFoundError):
                self._path.with_name(f"{tables.FILE}{suffix}").replace(
                    self._path.with_name(f"{aside}{suffix}")
                )
        return aside

    def _write(self, connection: sqlite3.Connection, turn: int, tick: Tick) -> None:
        time = round(self._wall(), 3)  # `at` begins at 0 in every run of a directory
        news = self._is_news(tick)
        keys = (turn, self._run, time, _plan_id(connection, tick.plan), news)
        connection.execute(tables.SNAPSHOTS.insert, tables.SNAPSHOTS.row(keys, tick.snapshot))
        for name, table in tables.PARTS.items():
            parts: Mapping[str, Any] = getattr(tick.snapshot, name)
            rows = [table.row((turn, i, k), v) for i, (k, v) in enumerate(parts.items())]
            if rows:
                connection.executemany(table.insert, rows)
        if tick.decision is not None:
            row = tables.DECISIONS.row((turn, time), _decision(connection, tick))
            connection.execute(tables.DECISIONS.insert, row)
        if tick.transition is not None:
            row = tables.TRANSITIONS.row((turn, time), tick.transition)
            connection.execute(tables.TRANSITIONS.insert, row)
        self._write_events(connection, turn, tick.events)
        for old in expired_turns(turn):
            connection.execute("DELETE FROM snapshots WHERE turn = ? AND NOT news", (old,))
        if news:
            connection.execute(_OLDEST_NEWS, (NEWS,))
        if turn % 1000 == 0:
            connection.execute(_ORPHANS)

    def _write_events(
        self, connection: sqlite3.Connection, turn: int, events: Iterable[Event]
    ) -> None:
        time = round(self._wall(), 3)
        rows = [tables.EVENTS.row((None, self._run, turn, time), one) for one in events]
        if rows:
            connection.executemany(tables.EVENTS.insert, rows)
            connection.execute(_OLDEST_EVENTS, (NEWS,))

    def _is_news(self, tick: Tick) -> bool:
        """True if a turn differs from the one before in more than its measurements."""
        return tick.transition is not None or _outcome(tick) != self._before

    @contextmanager
    def _forgiving(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, OverflowError) as error:
            self._disconnect()  # the next turn tries again
            self._told(f"cannot write to {self._path}, the flow goes on without: {error}")

    def _told(self, what: str) -> None:
        log.warning("%s", what)
        if self._tell is not None:
            self._tell(what)
            self._tell = None

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


def _to_stderr(text: str) -> None:
    print(f"penstock: {text}", file=sys.stderr, flush=True)


def expired_turns(turn: int, full: int = FULL) -> Iterator[int]:
    """The turns to delete when a turn is written; called at every turn, this thins out all."""
    step, age = 1, 0
    while (age := age + full * step) < turn:
        step *= 10
        if (turn - age) % step:
            yield turn - age


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_PATIENCE, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")  # readers and the writer do not wait
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        with connection:
            for table in (*tables.ALL, tables.LOOP_STATE):
                table.prepare(connection)
            connection.execute("CREATE INDEX IF NOT EXISTS news ON snapshots (turn) WHERE news")
    except BaseException:
        connection.close()
        raise
    return connection


def _plan_id(connection: sqlite3.Connection, plan: Plan | None) -> int | None:
    """The number of a plan in this file; adds the plan if it is new."""
    if plan is None:
        return None
    text = json.dumps(plan.to_json())
    connection.execute("INSERT OR IGNORE INTO plans (json) VALUES (?)", (text,))
    found = connection.execute("SELECT plan FROM plans WHERE json = ?", (text,)).fetchone()
    return int(found[0])


def _decision(connection: sqlite3.Connection, tick: Tick) -> dict[str, Any]:
    """A decision and its outcome; `wanted` is the policy's plan if another one is in force."""
    assert tick.decision is not None
    return {
        "at": tick.at,
        "plan": _plan_id(connection, tick.decision.plan),
        "reason": tick.decision.reason,
        "numbers": tick.decision.numbers,
        "refused": tick.refused,
        "vetoes": [] if tick.review is None else tick.review.vetoes,
        "wanted": _plan_id(connection, _wanted(tick)),
        "mode": tick.mode.value,
        "error": tick.error,
    }


def _wanted(tick: Tick) -> Plan | None:
    if tick.review is None or tick.decision is None:
        return None
    wanted = tick.review.wanted.plan
    return None if wanted == tick.decision.plan else wanted


def _outcome(tick: Tick) -> object:
    """What has to differ for a turn to be news; numbers within texts do not count."""
    rules = () if tick.review is None else tuple(veto.rule for veto in tick.review.vetoes)
    words = tuple(re.sub(r"\d+", "#", text or "") for text in (tick.refused, tick.error))
    decided = None if tick.decision is None else tick.decision.plan
    return tick.plan, decided, _wanted(tick), rules, words, tick.mode
