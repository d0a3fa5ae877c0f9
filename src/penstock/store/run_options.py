"""The options of each run of a directory: one line each in its `asked.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Generator
from penstock.dataflow.graph import Graph
from penstock.dataflow.load_profile import parse
from penstock.dataflow.operators import Read
from penstock.errors import InvalidInput
from penstock.plan.limits import Limits
from penstock.policies.base import options
from penstock.store.serialization import plain, restored

FILE = "asked.jsonl"


@dataclass(frozen=True)
class RunOptions:
    """The options of a run that began at `time`, in seconds since 1970.

    policy: its name, and its options that are not the defaults, as a user writes them; mode: what
    it may do at first; loads: of the generators, by source; seconds: duration (None: until
    stopped); changes: scripted changes; guard: its times; quiet: periods without changes.
    """

    time: float
    engine: str
    policy: str
    mode: str = "on"
    loads: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    changes: tuple[str, ...] = ()
    backup: str | None = None
    limits: Limits = field(default_factory=Limits)
    guard: Mapping[str, float] = field(default_factory=dict)
    quiet: tuple[str, ...] = ()
    version: str = field(default_factory=lambda: version("penstock"))


def loads(graph: Graph) -> dict[str, str]:
    """The load of every generator, by source, in a form that needs no file of this machine."""
    return {
        o.name: parse(o.body.source.load).portable
        for o in graph.operators
        if isinstance(o.body, Read) and isinstance(o.body.source, Generator)
    }


def policy(value: Any) -> str:
    """A policy as a user writes it: its name, and its options that are not the defaults."""
    name = str(getattr(value, "name", type(value).__name__))
    changed = [
        f"{f.name}={options.formatted(getattr(value, f.name))}"
        for f in (fields(value) if is_dataclass(value) else ())
        if f.init and f.default is not MISSING and getattr(value, f.name) != f.default
    ]
    return f"{name}:{','.join(changed)}" if changed else name


def append(run_dir: Path, run: RunOptions) -> None:
    """Add the options of a run to those of the runs before."""
    with (run_dir / FILE).open("a") as file:
        file.write(json.dumps(plain(run)) + "\n")


def limits(run_dir: Path, time: float) -> Limits:
    """The budget in force in a run directory at a time, in seconds since 1970."""
    begun = [run.limits for run in read(run_dir) if run.time <= time]
    return begun[-1] if begun else Limits()


def read(run_dir: Path) -> list[RunOptions]:
    """The options of every run of a directory, oldest first; an incomplete line is skipped."""
    try:
        lines = (run_dir / FILE).read_text(errors="replace").splitlines()
    except OSError:
        return []  # a run of a version that did not record them
    found = []
    for line in lines:
        try:
            found.append(restored(RunOptions, json.loads(line)))
        except (ValueError, InvalidInput):
            continue
    return found
