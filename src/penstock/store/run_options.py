"""What a run was asked for, in `asked.jsonl` in its directory: a line for each of its runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from penstock.control.guard import Guard
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
class Terms:
    """What somebody asked for when the run began, at `time` in seconds since 1970.

    policy: its name, and the options that are not the usual ones, as they are written; mode: what
    it may do at first; loads: of the generators, by source; seconds: how long (None: until it is
    stopped); changes: what was scripted; guard: its times; quiet: when nothing may change.
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
    """The load of every generator, in words that can be read anywhere."""
    return {
        o.name: parse(o.body.source.load).portable
        for o in graph.operators
        if isinstance(o.body, Read) and isinstance(o.body.source, Generator)
    }


def policy(value: Any) -> str:
    """A policy as somebody would write it: its name, and the options that are not the usual."""
    name = str(getattr(value, "name", type(value).__name__))
    changed = [
        f"{f.name}={options.formatted(getattr(value, f.name))}"
        for f in (fields(value) if is_dataclass(value) else ())
        if f.init and f.default is not MISSING and getattr(value, f.name) != f.default
    ]
    return f"{name}:{','.join(changed)}" if changed else name


def guard(value: Guard) -> dict[str, float]:
    """The times of a guard, by name."""
    return {f.name: getattr(value, f.name) for f in fields(value) if f.name != "quiet"}


def keep(run_dir: Path, terms: Terms) -> None:
    """Write down what was asked, behind what was asked before."""
    with (run_dir / FILE).open("a") as file:
        file.write(json.dumps(plain(terms)) + "\n")


def limits(run_dir: Path, time: float) -> Limits:
    """The budget that a run of a directory had at a time, in seconds since 1970."""
    begun = [terms.limits for terms in read(run_dir) if terms.time <= time]
    return begun[-1] if begun else Limits()


def read(run_dir: Path) -> list[Terms]:
    """What was asked of every run of a directory, oldest first; a line cut short is passed over."""
    try:
        lines = (run_dir / FILE).read_text(errors="replace").splitlines()
    except OSError:
        return []  # a run from before they were kept
    found = []
    for line in lines:
        try:
            found.append(restored(Terms, json.loads(line)))
        except (ValueError, InvalidInput):
            continue
    return found
