"""Reads Spark's checkpoints: which rows of each input a query has planned and committed.

A line of the offset log is `name:offset`. Our sources are named by the epoch of their wiring, so
offsets of an earlier wiring in a checkpoint that is kept for its state are not mistaken for ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SCHEMA_FILE = re.compile(r'file:[^"]*?/state/(\d+/_stateSchema/)')


def source_name(epoch: int, number: int) -> str:
    """The name of a pipeline's n-th source in the offset log."""
    return f"e{epoch}_{number}"


def progress(checkpoint: Path, epoch: int) -> tuple[int, dict[str, int], bool]:
    """The last planned batch (-1: none), its end rows by input, and whether it is committed."""
    begun, done = _latest(checkpoint / "offsets"), _latest(checkpoint / "commits")
    if begun < 0:
        return -1, {}, True
    return begun, _rows(checkpoint / "offsets" / str(begun), epoch), done >= begun


def committed(checkpoint: Path, epoch: int) -> dict[str, int]:
    """The rows that are committed, by input."""
    done = _latest(checkpoint / "commits")
    return _rows(checkpoint / "offsets" / str(done), epoch) if done >= 0 else {}


def planned(checkpoint: Path, epoch: int, batch: int) -> dict[str, int]:
    """The end rows of a planned batch, by input."""
    return _rows(checkpoint / "offsets" / str(batch), epoch)


def marks(checkpoint: Path, epoch: int, batch: int | None = None) -> dict[str, int]:
    """Event-time marks that arrived with a batch (by default the last committed), by input."""
    number = _latest(checkpoint / "commits") if batch is None else batch
    found = {}
    for offset in _offsets(checkpoint / "offsets" / str(number), epoch) if number >= 0 else ():
        if offset.get("mark") is not None:
            found[offset["of"]] = offset["mark"]
    return found


def watermark(checkpoint: Path, batch: int) -> int:
    """The watermark that closes windows in a batch, in milliseconds since 1970; 0 for none."""
    try:
        lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    except FileNotFoundError:
        return 0
    return int(json.loads(lines[1]).get("batchWatermarkMs", 0))


def watermark_moved(checkpoint: Path) -> bool:
    """True if the watermark is later than the one that the last committed batch ran with.

    Spark then runs a batch without new rows, in which windows close.
    """
    done = _latest(checkpoint / "commits")
    if done < 0:
        return False
    lines = (checkpoint / "commits" / str(done)).read_text().splitlines()
    return int(json.loads(lines[1]).get("nextBatchWatermarkMs", 0)) > watermark(checkpoint, done)


def last_commit(checkpoint: Path) -> int:
    """The number of the last committed batch, -1 if there is none."""
    return _latest(checkpoint / "commits")


def log_offset(checkpoint: Path, source: str) -> int:
    """The last committed entry of a file source's log, -1 if there is none."""
    done = _latest(checkpoint / "commits")
    if done < 0:
        return -1
    for line in (checkpoint / "offsets" / str(done)).read_text().splitlines():
        name, _, offset = line.partition(":")
        if name == source and offset.startswith("{"):
            return int(json.loads(offset).get("logOffset", -1))
    return -1


def come_home(checkpoint: Path) -> None:
    """Correct the absolute paths in a checkpoint that was copied or moved.

    Spark stores the full paths of a processor's schema files, so a copy would go on reading those
    of the original, and not start once the original is deleted.
    """
    home = f"{checkpoint.absolute().as_uri()}/state/".replace("file:///", "file:/")
    for note in checkpoint.glob("state/*/_metadata/v2/[!.]*"):
        text = note.read_text()
        right = _SCHEMA_FILE.sub(lambda found: home + found.group(1), text)
        if right != text:
            draft = note.with_name(f".{note.name}.home")
            draft.write_text(right)
            note.with_name(f".{note.name}.crc").unlink(missing_ok=True)
            draft.replace(note)


def rows_of(offset: Any) -> tuple[str, int] | None:
    """The input and row of an offset of ours; None for a source of Spark's own."""
    data = _ours(offset)
    return None if data is None else (data["of"], data["row"])


def _ours(offset: Any) -> dict[str, Any] | None:
    data = offset
    while isinstance(data, str):
        try:
            data = json.loads(data)
        except ValueError:
            return None
    return data if isinstance(data, dict) and "of" in data and "row" in data else None


def _latest(folder: Path) -> int:
    return max((int(f.name) for f in folder.glob("*") if f.name.isdigit()), default=-1)


def _rows(file: Path, epoch: int) -> dict[str, int]:
    return {offset["of"]: offset["row"] for offset in _offsets(file, epoch)}


def _offsets(file: Path, epoch: int) -> Iterator[dict[str, Any]]:
    """The offsets of our sources in a file of the offset log."""
    for line in file.read_text().splitlines():
        name, _, offset = line.partition(":")
        found = _ours(offset) if name.startswith(source_name(epoch, 0)[:-1]) else None
        if found is not None:
            yield found
