"""The dataflow as a value: operators, constraints, expectations, and graph queries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from penstock.dataflow.connectors import Generator
from penstock.dataflow.operators import Aggregate, Deduplicate, Join, Operator, Process, Read, State
from penstock.errors import UNKNOWN, Location
from penstock.notebook_display import Shown


@dataclass(frozen=True)
class Constraint:
    """A bound on the mean latency from `first` to `last`, in seconds, over a window."""

    first: str
    last: str
    latency: float
    window: float = 10.0
    written: Location = UNKNOWN

    @property
    def name(self) -> str:
        return f"{self.first}->{self.last}"


@dataclass(frozen=True)
class Expectation:
    """What a sink must hold in the end, computed from the generated input without Spark.

    `oracle(inputs)` gets the generated records of every source, by source name, as Arrow tables,
    and returns the rows expected at the sink as tuples in column order. With `keys` the sink holds
    updates, and only the last row of each key counts.
    """

    sink: str
    oracle: Callable[[Mapping[str, Any]], Iterable[tuple[Any, ...]]]
    keys: tuple[str, ...] = ()
    written: Location = UNKNOWN


class CycleError(ValueError):
    """The graph has a cycle; `cycle` names its operators in order."""

    def __init__(self, cycle: tuple[str, ...]) -> None:
        self.cycle = cycle
        super().__init__(" -> ".join((*cycle, cycle[0])))


@dataclass(frozen=True)
class Graph(Shown):
    """A frozen dataflow. Only after validation are names unique and all inputs known."""

    name: str
    operators: tuple[Operator, ...]
    constraints: tuple[Constraint, ...] = ()
    expectations: tuple[Expectation, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, Operator]:
        return {o.name: o for o in self.operators}

    def __getitem__(self, name: str) -> Operator:
        return self.by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    @cached_property
    def successors(self) -> Mapping[str, tuple[str, ...]]:
        """The readers of every operator, in the order in which they were written."""
        found: dict[str, list[str]] = {o.name: [] for o in self.operators}
        for operator in self.operators:
            for name in dict.fromkeys(operator.inputs):
                if name in found:
                    found[name].append(operator.name)
        return {name: tuple(readers) for name, readers in found.items()}

    @cached_property
    def topological(self) -> tuple[str, ...]:
        """Names in topological order, ties in the order written. Raises `CycleError`."""
        waiting = {o.name: {i for i in o.inputs if i in self.by_name} for o in self.operators}
        order: list[str] = []
        ready = [name for name, inputs in waiting.items() if not inputs]
        while ready:
            name = ready.pop(0)
            order.append(name)
            del waiting[name]
            for reader in self.successors[name]:
                waiting[reader].discard(name)
                if not waiting[reader]:
                    ready.append(reader)
        if waiting:
            raise CycleError(_find_cycle(waiting))
        return tuple(order)

    def reachable(self, name: str) -> frozenset[str]:
        """Return an operator and everything downstream of it."""
        found: set[str] = set()
        stack = [name]
        while stack:
            current = stack.pop()
            if current not in found:
                found.add(current)
                stack.extend(self.successors.get(current, ()))
        return frozenset(found)

    @property
    def sources(self) -> tuple[Operator, ...]:
        return tuple(o for o in self.operators if o.state is State.SOURCE)

    @property
    def sinks(self) -> tuple[Operator, ...]:
        return tuple(o for o in self.operators if o.state is State.SINK)

    def with_load(self, load: str) -> Graph:
        """Return the dataflow with another load profile for every generator."""
        return replace(
            self,
            operators=tuple(
                replace(o, body=Read(replace_load(o.body.source, load)))
                if isinstance(o.body, Read) and isinstance(o.body.source, Generator)
                else o
                for o in self.operators
            ),
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of structure and state layout; code and load do not count."""
        shape = [
            [o.name, o.form, list(o.inputs), list(o.keys), str(o.schema or ""), _state_layout(o)]
            for o in sorted(self.operators, key=lambda o: o.name)
        ]
        return hashlib.sha256(json.dumps([self.name, shape]).encode()).hexdigest()[:16]


def _state_layout(operator: Operator) -> str:
    """Return what determines an operator's state layout besides keys and schema."""
    match operator.body:
        case Aggregate(columns, window, emit):
            texts = [str(c) for c in columns if not callable(c) or isinstance(c, str)]
            return f"{texts} {window} {emit}"
        case Deduplicate() | Join() | Process():
            settings = {f.name: getattr(operator.body, f.name) for f in fields(operator.body)}
            return str({k: v for k, v in settings.items() if not callable(v)})
        case _:
            return ""


def replace_load(source: Generator, load: str) -> Generator:
    """Return the generator with another load profile."""
    return Generator(source.make, source.schema, load, source.seed, source.limit, source.block)


def _find_cycle(waiting: Mapping[str, set[str]]) -> tuple[str, ...]:
    """Follow inputs of operators that could not be ordered until a name repeats."""
    path = [min(waiting)]
    while True:
        upstream = min(waiting[path[-1]])
        if upstream in path:
            return tuple(reversed(path[path.index(upstream) :]))
        path.append(upstream)
