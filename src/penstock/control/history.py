"""Everything a run saw and did, as JSON lines in its directory.

Three files, each only ever appended to: `snapshots.jsonl`, `decisions.jsonl` and
`transitions.jsonl`. A line is written by one call to the system, so the death of the process
can tear the last line at most; readers leave it out and the next run cuts it off.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from penstock.control.loop import Tick

SNAPSHOTS = "snapshots.jsonl"
DECISIONS = "decisions.jsonl"
TRANSITIONS = "transitions.jsonl"


class History:
    """Writes the history of one run. A directory that has one already gets a longer one."""

    def __init__(self, run_dir: Path, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._files: dict[str, int] = {}
        for name in (SNAPSHOTS, DECISIONS, TRANSITIONS):
            self._files[name] = _opened(run_dir / name)

    def append(self, tick: Tick) -> None:
        """Keep one turn of the loop."""
        self._write(SNAPSHOTS, {**plain(tick.snapshot), "plan_slots": tick.plan.slots})
        if tick.decision is not None:
            decision = {"at": tick.at, **tick.decision.to_json(), "refused": tick.refused}
            self._write(DECISIONS, decision)
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


def plain(value: Any) -> Any:
    """Our values as JSON has them: dataclasses and mappings as objects, the rest as arrays."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        # JSON has no word for infinity, and "not measured" is what it means
        return value if math.isfinite(value) else None
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, Set):
        return sorted(plain(v) for v in value)
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


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
