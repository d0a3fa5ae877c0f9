"""Writing files so that a reader finds the old content or the new one, never a part of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """A draft to write to, which replaces `path` when the block ends without an error.

    durable: on disk before it replaces the file, so that a power failure loses neither.
    """
    draft = draft_of(path)
    try:
        yield draft
        if durable:
            with draft.open("rb") as file:
                os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def draft_of(path: Path) -> Path:
    """Where the draft of a file is while it is written; a crash may leave it behind."""
    return path.with_name(f".{path.name}.draft")


def write_text(path: Path, text: str, *, durable: bool = False) -> None:
    """Write a text file as a whole or not at all."""
    with replacing(path, durable=durable) as draft:
        draft.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any, *, indent: int | None = 1, durable: bool = False) -> None:
    """Write a JSON file as a whole or not at all."""
    write_text(path, json.dumps(value, indent=indent) + "\n", durable=durable)
