"""The built-in dataflows, by name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.dataflow.flow import Dataflow
from penstock.errors import InvalidInput
from penstock.workloads import diamond, linear, star, wordcount


@dataclass(frozen=True)
class Workload:
    """A dataflow that can be built: `build(out, **options)` puts its sinks under `out`."""

    name: str
    description: str
    source: str
    build: Callable[..., Dataflow]

    @property
    def options(self) -> dict[str, Any]:
        """What `build` takes beside `out`, with the defaults."""
        parameters = inspect.signature(self.build).parameters
        return {name: p.default for name, p in parameters.items() if name != "out"}


_WORKLOADS = {
    w.name: w
    for w in (
        Workload(
            "wordcount",
            "generated tweets in JSON: parse, split into words, count each word",
            "Stepwise profiling, figure 3",
            wordcount.build,
        ),
        Workload(
            "linear",
            "a chain of three operators, each bound by CPU, parsing or waiting",
            "Stela, figure 4b; Stepwise profiling, figure 9",
            linear.build,
        ),
        Workload(
            "diamond",
            "every record through four operators side by side, then together again",
            "Stela, figure 4c; Stepwise profiling, figure 9",
            diamond.build,
        ),
        Workload(
            "star",
            "two sources into one operator, out of it into two sinks",
            "Stela, figure 4a; Stepwise profiling, figure 9",
            star.build,
        ),
    )
}


def names() -> tuple[str, ...]:
    """The workloads that can be run by name."""
    return tuple(_WORKLOADS)


def describe(name: str) -> Workload:
    """The workload of that name."""
    if name not in _WORKLOADS:
        near = difflib.get_close_matches(name, _WORKLOADS, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise InvalidInput(f"no workload '{name}': {hint}there are {', '.join(_WORKLOADS)}")
    return _WORKLOADS[name]


def build(name: str, out: Path | str, **options: Any) -> Dataflow:
    """Write the dataflow of a workload, with its sinks under the directory `out`."""
    workload = describe(name)
    unknown = [option for option in options if option not in workload.options]
    if unknown:
        raise InvalidInput(
            f"workload '{name}' has no option '{unknown[0]}'; "
            f"options are {', '.join(workload.options)}"
        )
    return workload.build(out, **options)
