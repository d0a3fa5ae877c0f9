"""Reads the history of a run: the SQLite file `history.db` in its directory.

One turn is one transaction, so a crash loses at most the turn under way, and another process may
read at any time. `recorder.py` writes it and thins out old turns. The dataflow of the run is in
`dataflow.json`, without its functions.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from penstock import files
from penstock.dataflow import structure
from penstock.dataflow.graph import Graph
from penstock.errors import InvalidInput, RunDirectoryError
from penstock.metrics.events import Event
from penstock.metrics.snapshot import Snapshot
from penstock.plan.plan import Plan
from penstock.plan.transition import Transition
from penstock.store import tables
from penstock.store.recorder import History
from penstock.store.tables import FILE, PARTS, Table

__all__ = [
    "DATAFLOW",
    "FILE",
    "History",
    "RecordedEvent",
    "RecordedSnapshot",
    "RecordedTransition",
    "TurnTime",
    "dataflow",
    "decisions",
    "events",
    "keep_dataflow",
    "loop_state",
    "opened",
    "recorded_snapshots",
    "snapshots",
    "transitions",
    "turn_times",
]

DATAFLOW = "dataflow.json"
_PATIENCE = 5.0  # seconds that a reader waits where the file has to be recovered first


@contextmanager
def opened(run_dir: Path) -> Iterator[sqlite3.Connection | None]:
    """The history of a run as of now, to be read only; None if there is none."""
    path = run_dir / FILE
    if not path.exists():
        yield None
        return
    with closing(_readable(path)) as connection:
        try:
            connection.execute("BEGIN")
            yield connection
        except sqlite3.Error as error:
            raise RunDirectoryError(f"{path} cannot be read: {error}") from None


def _readable(path: Path) -> sqlite3.Connection:
    uri = path.absolute().as_uri()
    modes = ["mode=ro"]
    if not os.access(path.parent, os.W_OK):  # a read-only directory: no locks, and none needed
        modes.append("mode=ro&immutable=1")
    for mode in modes:
        connection = sqlite3.connect(
            f"{uri}?{mode}", uri=True, timeout=_PATIENCE, isolation_level=None
        )
        try:
            connection.execute("SELECT 1 FROM sqlite_schema")
        except sqlite3.Error as error:
            connection.close()
            failed = error
        else:
            return connection
    raise RunDirectoryError(f"{path} cannot be read: {failed}")


@dataclass(frozen=True)
class RecordedSnapshot:
    """A snapshot, and the plan in force while it was measured.

    first: it is the first of its run; turn: number of the turn in the directory; time: in seconds
    since 1970.
    """

    snapshot: Snapshot
    plan: Plan
    first: bool
    turn: int = 0
    time: float = 0.0


@dataclass(frozen=True)
class TurnTime:
    """The time of a turn: `at` seconds of a run of the directory, and `time` since 1970.

    ending: the sources had been told to stop.
    """

    turn: int
    run: int
    at: float
    time: float
    ending: bool = False


def turn_times(run_dir: Path, since: int = 0) -> list[TurnTime]:
    """The times of the recorded turns from a number on, oldest first."""
    with opened(run_dir) as connection:
        if connection is None:
            return []
        names = [one.name for one in fields(TurnTime)]
        rows = tables.SNAPSHOTS.read(connection, since, names=names)
        return [TurnTime(**row) for row in rows]


def recorded_snapshots(
    run_dir: Path, turns: Iterable[int] | None = None, since: int = 0
) -> Iterator[RecordedSnapshot]:
    """Snapshots with their plans, oldest first: of all turns from a number on, or of `turns`."""
    with opened(run_dir) as connection:
        if connection is None:
            return
        plans = _plans(connection)
        run = None
        spans = [(since, tables.LAST)] if turns is None else [(turn, turn) for turn in turns]
        for row, snapshot in chain.from_iterable(_snapshots(connection, *one) for one in spans):
            if row["plan"] not in plans:
                raise RunDirectoryError(f"the snapshots in {run_dir} do not say under which plan")
            first, run = row["run"] != run, row["run"]
            yield RecordedSnapshot(snapshot, plans[row["plan"]], first, row["turn"], row["time"])


def snapshots(run_dir: Path) -> Iterator[Snapshot]:
    """The snapshots of a run directory, oldest first."""
    with opened(run_dir) as connection:
        if connection is not None:
            yield from (snapshot for _, snapshot in _snapshots(connection))


def decisions(run_dir: Path, since: int = 0) -> Iterator[dict[str, Any]]:
    """The decisions of a run directory and their outcomes, oldest first."""
    with opened(run_dir) as connection:
        if connection is None:
            return
        plans = {row["plan"]: row["json"] for row in tables.PLANS.read(connection)}
        for row in tables.DECISIONS.read(connection, since):
            yield {**row, "plan": plans.get(row["plan"]), "wanted": plans.get(row["wanted"])}


@dataclass(frozen=True)
class RecordedTransition:
    """A change of plan as it was recorded."""

    turn: int
    time: float
    transition: Transition


def transitions(run_dir: Path, since: int = 0) -> Iterator[RecordedTransition]:
    """The changes of a run directory, oldest first."""
    with opened(run_dir) as connection:
        if connection is not None:
            for row in tables.TRANSITIONS.read(connection, since):
                yield RecordedTransition(row["turn"], row["time"], tables.TRANSITIONS.value(row))


@dataclass(frozen=True)
class RecordedEvent:
    """An event as it was recorded.

    `number` counts the events of a directory, `run` its runs, both from 1; `turn` is the turn it
    came with, or the last one before it; `time` is in seconds since 1970.
    """

    number: int
    run: int
    turn: int
    time: float
    event: Event


def events(run_dir: Path, after: int = 0) -> Iterator[RecordedEvent]:
    """The events of a run directory with a number above `after`, oldest first."""
    with opened(run_dir) as connection:
        if connection is not None:
            for row in tables.EVENTS.read(connection, after + 1, by="number"):
                event = tables.EVENTS.value(row)
                yield RecordedEvent(row["number"], row["run"], row["turn"], row["time"], event)


def loop_state(run_dir: Path) -> Any:
    """What the control loop of the last run left for the next one; None if there is nothing."""
    with opened(run_dir) as connection:
        rows = [] if connection is None else [*tables.LOOP_STATE.read(connection)]
        return rows[0]["data"] if rows else None


def _plans(connection: sqlite3.Connection) -> dict[int, Plan]:
    return {row["plan"]: Plan.from_json(row["json"]) for row in tables.PLANS.read(connection)}


def _snapshots(
    connection: sqlite3.Connection, first: int = 0, last: int = tables.LAST
) -> Iterator[tuple[dict[str, Any], Snapshot]]:
    parts = {
        name: _Parts(table, table.read(connection, first, last)) for name, table in PARTS.items()
    }
    for row in tables.SNAPSHOTS.read(connection, first, last):
        more: dict[str, Any] = {name: part.of(row["turn"]) for name, part in parts.items()}
        snapshot: Snapshot = tables.SNAPSHOTS.value(row)
        yield row, replace(snapshot, **more)


class _Parts:
    """One kind of part of the snapshots, read in step with them."""

    def __init__(self, table: Table, rows: Iterator[dict[str, Any]]) -> None:
        self._table = table
        self._groups = groupby(rows, key=lambda row: row["turn"])
        self._next = next(self._groups, None)

    def of(self, turn: int) -> dict[str, Any]:
        if self._next is None or self._next[0] != turn:
            return {}
        found = {row["key"]: self._table.value(row) for row in self._next[1]}
        self._next = next(self._groups, None)
        return found


# --- the dataflow -------------------------------------------------------------------------------


def keep_dataflow(run_dir: Path, graph: Graph) -> None:
    """Store the dataflow of a run, without its functions."""
    files.write_json(run_dir / DATAFLOW, structure.to_json(graph))


def dataflow(run_dir: Path) -> Graph:
    """The dataflow of a run, without its functions."""
    try:
        data = json.loads((run_dir / DATAFLOW).read_text())
    except OSError as error:
        raise RunDirectoryError(
            f"'{run_dir}' holds no run that can be read: {DATAFLOW}: {error.strerror}"
        ) from None
    except ValueError:
        raise InvalidInput(f"{run_dir / DATAFLOW} is not JSON") from None
    return structure.from_json(data).graph()
