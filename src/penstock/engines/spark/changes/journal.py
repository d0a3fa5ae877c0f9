"""The journal of a change: its plan, written before it begins, and every step that is finished.

changes/000003.jsonl   the change that makes wiring 3: a line with all steps, a line for each step
                       that is finished, and a last one that says how the change ended
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
    """A change that a crash has interrupted; `finished` steps are known to be done."""

    steps: tuple[Step, ...]
    finished: int

    @property
    def number(self) -> int:
        """The number of the wiring that this change was to commit."""
        return next(s.number for s in self.steps if isinstance(s, CommitWiring))


class Journal:
    """The journal of the changes of one run. There is at most one change at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: Path | None = None

    def begin(self, number: int, reason: str, steps: Iterable[Step]) -> None:
        """Write down a change before its first step."""
        self._folder.mkdir(exist_ok=True)
        self._file = self._folder / f"{number:06d}.jsonl"
        self._file.unlink(missing_ok=True)  # an earlier attempt, which was undone
        self._write({"reason": reason, "steps": [to_json(step) for step in steps]})

    def finished(self, at: int) -> None:
        """A step is done, by its number in the plan of the change."""
        self._write({"finished": at})

    def end(self, how: str) -> None:
        """The change is over: `done` or `undone`."""
        self._write({"end": how})
        self._file = None

    def unfinished(self) -> Unfinished | None:
        """The change that was under way when the last process ended, if there was one."""
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
    """All whole lines. What a crash has left of one more is cut off."""
    text = file.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        file.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]
