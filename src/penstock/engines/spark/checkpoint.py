"""Reading Spark's checkpoint: how far a query has come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def progress(checkpoint: Path) -> tuple[int, dict[str, int], bool]:
    """The last batch that was begun (-1: none), the rows it ends at by input, and if it is done."""
    begun, done = _latest(checkpoint / "offsets"), _latest(checkpoint / "commits")
    if begun < 0:
        return -1, {}, True
    return begun, _rows(checkpoint / "offsets" / str(begun)), done >= begun


def committed(checkpoint: Path) -> dict[str, int]:
    """The rows that are done for good, by input."""
    done = _latest(checkpoint / "commits")
    return _rows(checkpoint / "offsets" / str(done)) if done >= 0 else {}


def rows_of(offset: Any) -> tuple[str, int] | None:
    """The input and row of an offset of ours; None for a source of Spark's own."""
    data = offset
    while isinstance(data, str):
        try:
            data = json.loads(data)
        except ValueError:
            return None
    if isinstance(data, dict) and "of" in data and "row" in data:
        return data["of"], data["row"]
    return None


def _latest(folder: Path) -> int:
    return max((int(f.name) for f in folder.glob("*") if f.name.isdigit()), default=-1)


def _rows(file: Path) -> dict[str, int]:
    """Every offset of ours in a file of the offset log, whatever its version's layout."""
    found: dict[str, int] = {}

    def search(value: Any) -> None:
        pair = rows_of(value)
        if pair is not None:
            found[pair[0]] = pair[1]
        elif isinstance(value, dict):
            for inner in value.values():
                search(inner)
        elif isinstance(value, list):
            for inner in value:
                search(inner)

    for line in file.read_text().splitlines():
        try:
            search(json.loads(line))
        except ValueError:
            continue
    return found
