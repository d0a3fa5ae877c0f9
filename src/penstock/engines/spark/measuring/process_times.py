"""What the processes of a run have had of the processors of this machine.

Tasks say what they took, but a JVM does more than its tasks: it collects garbage, compiles,
compacts state and answers Python's questions about it. Only the system knows all of that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

_PARENT, _TIMES = 1, slice(11, 15)
"""Fields of `/proc/N/stat` behind the name: the parent; user and system time, its own and that of
children that have ended."""


def processor_seconds(root: int | None = None, proc: Path = Path("/proc")) -> float | None:
    """Seconds on processors of a process and all that it has started; None where nobody tells.

    root: the process, this one if not given; those that run elsewhere are not seen.
    """
    stats = [one for path in _numbered(proc) if (one := _stat(path)) is not None]
    parents = {number: int(fields[_PARENT]) for number, fields in stats}
    ours = _descendants(os.getpid() if root is None else root, parents)
    ticks = [sum(int(t) for t in fields[_TIMES]) for number, fields in stats if number in ours]
    return sum(ticks) / os.sysconf("SC_CLK_TCK") if ticks else None


def _numbered(proc: Path) -> list[Path]:
    try:
        return [path for path in proc.iterdir() if path.name.isdigit()]
    except OSError:
        return []


def _stat(path: Path) -> tuple[int, list[str]] | None:
    """A process and its fields behind the name, which may hold anything; None if it has ended."""
    try:
        return int(path.name), (path / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _descendants(root: int, parents: Mapping[int, int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for number, parent in parents.items():
        children.setdefault(parent, []).append(number)
    found: set[int] = set()
    waiting: Iterable[int] = [root] if root in parents else []
    while waiting:
        found.update(waiting)
        waiting = [child for one in waiting for child in children.get(one, ())]
    return found
