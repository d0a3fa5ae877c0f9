"""Ready-made dataflows by name, found in the installed packages.

A package adds workloads with an entry point in the group `penstock.workloads` that names a
sequence of `Workload`. The dataflows of the papers are in the package `penstock-lab`.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.dataflow.flow import Dataflow

GROUP = "penstock.workloads"
LAB = "`pip install penstock-lab` adds the workloads and experiments of the papers"


@dataclass(frozen=True)
class Workload:
    """A dataflow that can be built by name.

    source: where it was published; factory: `package.module:function`, imported when it is needed.
    The function takes a directory for the output of its sinks, and options; `given` fixes some.
    """

    name: str
    description: str
    source: str
    factory: str
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def build(self) -> Callable[..., Dataflow]:
        """The factory with the fixed options set; imports its module."""
        return partial(EntryPoint(self.name, self.factory, GROUP).load(), **self.given)

    @property
    def options(self) -> dict[str, Any]:
        """Options of `build` besides `out`, with their defaults."""
        parameters = inspect.signature(self.build).parameters
        return {name: p.default for name, p in parameters.items() if name != "out"}


@cache
def _installed() -> Mapping[str, Workload]:
    return {one.name: one for entry in entry_points(group=GROUP) for one in entry.load()}


def names() -> tuple[str, ...]:
    """Names of all installed workloads."""
    return tuple(_installed())


def describe(name: str) -> Workload:
    """The workload of that name. Raises `InvalidInput` with the names that exist."""
    known = _installed()
    if not known:
        raise InvalidInput(f"unknown workload '{name}': no workloads are installed; {LAB}")
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f", did you mean '{close[0]}'?" if close else ";"
        raise InvalidInput(f"unknown workload '{name}'{hint} known workloads: {', '.join(known)}")
    return known[name]


def build(name: str, out: Path | str, **options: Any) -> Dataflow:
    """Build the dataflow of a workload; its sinks write below the directory `out`."""
    workload = describe(name)
    unknown = [option for option in options if option not in workload.options]
    if unknown:
        raise InvalidInput(
            f"workload '{name}' has no option '{unknown[0]}'; "
            f"options are {', '.join(workload.options)}"
        )
    return workload.build(out, **options)
