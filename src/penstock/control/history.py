"""Everything a run saw and did, as JSON lines in its directory.

Three files, each only ever appended to: `snapshots.jsonl`, `decisions.jsonl` and
`transitions.jsonl`. A line is written by one call to the system, so the death of the process
can tear the last line at most; readers leave it out and the next run cuts it off. The dataflow
that ran is in `dataflow.json`, without its functions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.control.loop import Tick
from penstock.control.plain import plain, restored
from penstock.dataflow import structure
from penstock.dataflow.graph import Graph
from penstock.errors import InvalidInput, RunDirectoryError
from penstock.metrics.snapshot import Snapshot
from penstock.plan.plan import Plan

SNAPSHOTS = "snapshots.jsonl"
DECISIONS = "decisions.jsonl"
TRANSITIONS = "transitions.jsonl"
DATAFLOW = "dataflow.json"


class History:
    """Writes the history of one run. A directory that has one already gets a longer one."""

    def __init__(self, run_dir: Path, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._files: dict[str, int] = {}
        self._plan: Plan | None = None
        for name in (SNAPSHOTS, DECISIONS, TRANSITIONS):
            self._files[name] = _opened(run_dir / name)

    def append(self, tick: Tick) -> None:
        """Keep one turn of the loop."""
        snapshot = {**plain(tick.snapshot), "plan_slots": tick.plan.slots}
        if self._plan is None:
            snapshot["first"] = True
        if tick.plan != self._plan:  # it stays the plan of all lines up to the next one with a plan
            self._plan = tick.plan
            snapshot["plan"] = tick.plan.to_json()
        self._write(SNAPSHOTS, snapshot)
        if tick.decision is not None:
            self._write(DECISIONS, plain(_decision(tick)))
        if tick.transition is not None:
            self._write(TRANSITIONS, tick.transition.to_json())

    def close(self) -> None:
        """Close the files; harmless when done twice."""
        while self._files:
            os.close(self._files.popitem()[1])

    def _write(self, name: str, data: Mapping[str, Any]) -> None:
        # `time` tells runs that continue one directory apart: `at` starts again at zero in each.
        line = json.dumps({"time": round(self._wall(), 3), **data}, allow_nan=False) + "\n"
        os.write(self._files[name], line.encode())


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a history file, oldest first; a missing file has none, a torn end is no line."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield json.loads(line)


@dataclass(frozen=True)
class Seen:
    """A snapshot as it was recorded, and the plan that was in force; `first`: of its run."""

    snapshot: Snapshot
    plan: Plan
    first: bool


def seen(run_dir: Path) -> Iterator[Seen]:
    """What was measured in a run directory under which plan, oldest first."""
    plan = None
    for line in read(run_dir / SNAPSHOTS):
        if "plan" in line:
            plan = Plan.from_json(line["plan"])
        if plan is None:
            raise RunDirectoryError(f"the snapshots in {run_dir} do not say under which plan")
        yield Seen(restored(Snapshot, line), plan, line.get("first", False))


def snapshots(run_dir: Path) -> Iterator[Snapshot]:
    """The snapshots of a run directory, oldest first."""
    return (restored(Snapshot, line) for line in read(run_dir / SNAPSHOTS))


def keep_dataflow(run_dir: Path, graph: Graph) -> None:
    """Write down which dataflow runs here."""
    (run_dir / DATAFLOW).write_text(json.dumps(structure.to_json(graph), indent=1) + "\n")


def dataflow(run_dir: Path) -> Graph:
    """The dataflow that ran in a directory, without its functions."""
    try:
        data = json.loads((run_dir / DATAFLOW).read_text())
    except OSError as error:
        raise RunDirectoryError(
            f"'{run_dir}' holds no run that can be read: {DATAFLOW}: {error.strerror}"
        ) from None
    except ValueError:
        raise InvalidInput(f"{run_dir / DATAFLOW} is not JSON") from None
    return structure.from_json(data).graph()


def _decision(tick: Tick) -> dict[str, Any]:
    """A decision and what became of it; `wanted` is the policy's plan if it is another one."""
    assert tick.decision is not None
    review = tick.review
    wanted = None if review is None or review.wanted.plan == tick.decision.plan else review.wanted
    return {
        "at": tick.at,
        **tick.decision.to_json(),
        "refused": tick.refused,
        "vetoes": [] if review is None else review.vetoes,
        "wanted": None if wanted is None or wanted.plan is None else wanted.plan.to_json(),
        "mode": tick.mode.value,
        "error": tick.error,
    }


def _opened(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    os.ftruncate(file, _whole(file))
    return file


def _whole(file: int, step: int = 65536) -> int:
    """How many bytes of a file belong to complete lines, looking from its end."""
    end = os.fstat(file).st_size
    while end > 0:
        start = max(0, end - step)
        found = os.pread(file, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
