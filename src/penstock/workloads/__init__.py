"""The built-in dataflows, by name. A module is imported when its dataflow is asked for."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.dataflow.flow import Dataflow


@dataclass(frozen=True)
class Workload:
    """A dataflow that can be built: `build(out, **options)` puts its sinks under `out`.

    `given` are options of its module that make it this workload.
    """

    name: str
    description: str
    source: str
    given: Mapping[str, Any] = field(default_factory=dict)
    module: str = ""

    @property
    def build(self) -> Callable[..., Dataflow]:
        """The function that writes it, from its module."""
        module = self.module or self.name.replace("-", "_")
        return partial(import_module(f"{__name__}.{module}").build, **self.given)

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
            "Stepwise profiling, figure 3; Joker, figure 17",
        ),
        Workload(
            "synthetic-wordcount",
            "the word count with a wait of 1 ms before the parser",
            "Stepwise profiling, section 6.1.1",
        ),
        Workload(
            "twitter-analysis",
            "language, mood and hashtags of tweets: 11 operators, 8 deep; needs penstock[apps]",
            "Stepwise profiling, figure 10",
        ),
        Workload(
            "linear",
            "a chain of three operators, each bound by CPU, parsing or waiting",
            "Stela, figure 4b; Stepwise profiling, figure 9",
        ),
        Workload(
            "diamond",
            "every record through four operators side by side, then together again",
            "Stela, figure 4c; Stepwise profiling, figure 9",
        ),
        Workload(
            "star",
            "two sources into one operator, out of it into two sinks",
            "Stela, figure 4a; Stepwise profiling, figure 9",
        ),
        Workload(
            "page-load",
            "page views: transform, filter, join, filter, aggregate in windows",
            "Stela, figure 5a",
        ),
        Workload(
            "processing",
            "page views: transformed, then failures one way and normalised times the other",
            "Stela, figure 5b",
        ),
        Workload(
            "network",
            "connections: scans and floods side by side, then scores by host",
            "Stela, figure 5c",
        ),
        Workload(
            "region-4",
            "one region of four multiplication operators",
            "Joker, figure 4",
            module="region",
        ),
        Workload(
            "region-5",
            "one region of five multiplication operators, three of them costly",
            "Joker, figure 16",
            {"multiplications": "1024,32,32,1024,1024"},
            "region",
        ),
        Workload(
            "regions-7",
            "seven multiplication operators of unequal cost, selectivity and state",
            "Joker, figure 21",
            module="regions",
        ),
        Workload(
            "tree",
            "one region of a multiplication operator into two",
            "Joker, figure 7a",
        ),
        Workload(
            "reverse-tree",
            "two regions of a multiplication operator into one",
            "Joker, figure 7b",
        ),
        Workload(
            "chain-2",
            "two regions of one multiplication operator each",
            "Joker, figures 7c and 9",
            module="chain",
        ),
        Workload(
            "chain-4",
            "two regions of two multiplication operators each",
            "Joker, figure 7d",
            {"operators": 4},
            "chain",
        ),
        Workload(
            "selectivity",
            "one region whose records become four times as many, a quarter, a half",
            "Joker, figure 10",
        ),
        Workload(
            "finance",
            "trades and quotes: volume-weighted average prices, and bargains against them",
            "Joker, figure 17",
        ),
        Workload(
            "break-ins",
            "an ssh log: addresses from which passwords are guessed",
            "Joker, figure 17",
        ),
        Workload(
            "prime-tester",
            "numbers are tested for being prime, at a rate in steps up and down",
            "Nephele, figure 2",
        ),
        Workload(
            "twitter-sentiment",
            "moods of tweets about hot topics, two constraints; needs penstock[apps]",
            "Nephele, figure 7",
        ),
        Workload(
            "commodity-count",
            "clicks in a shop: how often each item is seen",
            "Es-Stream, section II, figure 1",
        ),
        Workload(
            "top-n",
            "clicks in a shop: the items that sell best",
            "Es-Stream, section II, figure 2",
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
