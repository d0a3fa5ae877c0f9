"""Journal of a change: its steps, written before the first, and their progress.

changes/000003.jsonl   the change that commits wiring 3: one line with all steps, one line per
                       finished step, and a last line that says how the change ended
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.engines.spark.changes.steps import CommitWiring, Step, from_json, to_json


@dataclass(frozen=True)
class Unfinished:
    """A change that a crash interrupted; finished: number of steps known to be done."""

    steps: tuple[Step, ...]
    finished: int

    @property
    def number(self) -> int:
        """Number of the wiring that this change would have committed."""
        return next(s.number for s in self.steps if isinstance(s, CommitWiring))


class Journal:
    """Journal of the changes of one run. There is at most one change at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: Path | None = None

    def begin(self, number: int, reason: str, steps: Iterable[Step]) -> None:
        """Record a change before its first step."""
        self._folder.mkdir(exist_ok=True)
        self._file = self._folder / f"{number:06d}.jsonl"
        self._file.unlink(missing_ok=True)  # an earlier attempt, which was undone
        self._write({"reason": reason, "steps": [to_json(step) for step in steps]})

    def finished(self, at: int) -> None:
        """Record that step number `at` of the change is done."""
        self._write({"finished": at})

    def end(self, how: str) -> None:
        """Record the end of the change; how: `done` or `undone`."""
        self._write({"end": how})
        self._file = None

    def unfinished(self) -> Unfinished | None:
        """The change under way when the previous process ended; None if none was."""
        files = sorted(self._folder.glob("[0-9]*.jsonl"))
        lines = _whole_lines(files[-1]) if files else []
        if not lines or "end" in lines[-1]:
            return None
        self._file = files[-1]
        steps = tuple(map(from_json, lines[0]["steps"]))
        return Unfinished(steps, sum("finished" in line for line in lines))

    def _write(self, line: Mapping[str, Any]) -> None:
        assert self._file is not None
        with self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _whole_lines(file: Path) -> list[Mapping[str, Any]]:
    """Read all complete lines; truncate a partial last line, which a crash can leave."""
    text = file.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        file.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]
