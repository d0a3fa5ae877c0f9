"""Rows counted once for each batch, however often it runs, in a file that outlives a crash."""

from __future__ import annotations

import json
from pathlib import Path

from penstock import files


class Tally:
    """Rows that a source has given or that a sink has got.

    rows: all of them, each batch counted once. repeated: rows of batches that were handed over more
    than once to a sink that cannot take them back; up to so many are there more than once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            data = json.loads(path.read_text())
        except (FileNotFoundError, ValueError):
            data = {}
        self._tag = str(data.get("tag", ""))
        self._before = int(data.get("before", 0))
        self.rows = int(data.get("after", 0))
        self._begun = str(data.get("begun", ""))
        self._attempts = int(data.get("attempts", 0))
        self.repeated = int(data.get("repeated", 0))

    def begin(self, tag: str) -> None:
        """A batch is about to be handed to a sink that cannot take it back."""
        self._attempts = self._attempts + 1 if tag == self._begun else 1
        self._begun = tag
        self._save()

    def add(self, tag: str, rows: int) -> None:
        """A batch is through; if it was the last one counted, this count replaces that one."""
        if tag != self._tag:
            self._before = self.rows
        self._tag, self.rows = tag, self._before + rows
        if tag == self._begun and self._attempts > 1:
            self.repeated += rows * (self._attempts - 1)
            self._attempts = 1
        self._save()

    def reach(self, rows: int) -> None:
        """All batches so far have so many rows together."""
        if rows != self.rows:
            self._tag, self._before, self.rows = "", rows, rows
            self._save()

    def _save(self) -> None:
        data = {
            "tag": self._tag,
            "before": self._before,
            "after": self.rows,
            "begun": self._begun,
            "attempts": self._attempts,
            "repeated": self.repeated,
        }
        files.write_json(self._path, data, indent=None)
