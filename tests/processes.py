"""Processes of this machine, for tests that kill some of them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def command(pid: int) -> str:
    """The words a process was started with; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def of_session(leader: int) -> list[int]:
    """All processes of a session, whoever started them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getsid(int(entry.name)) == leader:
                    found.append(int(entry.name))
    return sorted(found)


def descendants(pid: int) -> list[int]:
    """Children, and theirs."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                children = [int(word) for word in task.read_text().split()]
                found += children
                waiting += children
    return sorted(found)
