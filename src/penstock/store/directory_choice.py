"""Choosing the directory of a run."""

from __future__ import annotations

import os
import time
from pathlib import Path

from penstock.errors import RunDirectoryError
from penstock.store.run_directory import local


def choose(flow: str, given: str | Path | None, wall: float) -> Path:
    """The directory asked for, made if missing; else a new one, `runs/<flow>-<date>-<time>`.

    One that exists is only looked at: whether it can be continued is for the engine to say.
    """
    try:
        if given is None:
            return _fresh(
                Path("runs"), f"{flow}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(wall))}"
            )
        path = local(given)
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise RunDirectoryError(f"the run directory '{given}' is a file, not a directory") from None
    except OSError as error:
        where = "runs" if given is None else given
        raise RunDirectoryError(
            f"cannot make the run directory '{where}': {error.strerror}"
        ) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise RunDirectoryError(f"the run directory '{given}' cannot be written to")
    return path


def _fresh(parent: Path, name: str) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        path = parent / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        else:
            return path
