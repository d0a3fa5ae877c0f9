"""Plans: everything that can be changed about a running flow, as one frozen value."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from penstock.errors import InvalidPlan
from penstock.notebook_display import Shown


@dataclass(frozen=True)
class Pipeline:
    """Operators that run as one unit, and how that unit runs.

    parallelism: number of instances; admission: most rows per batch (None: no limit; 0: nothing is
    taken); cadence: seconds between starts of batches (0: as soon as possible); ceiling: number of
    state partitions, which bounds the parallelism of a keyed pipeline until its state is
    repartitioned (None: no state, or left to the engine).
    """

    operators: tuple[str, ...]
    parallelism: int = 1
    admission: int | None = None
    cadence: float = 0.0
    ceiling: int | None = None

    def __post_init__(self) -> None:
        if not self.operators:
            raise InvalidPlan("a pipeline needs at least one operator")
        if self.parallelism < 1:
            raise InvalidPlan(f"pipeline '{self.name}': parallelism {self.parallelism} is below 1")
        if self.admission is not None and self.admission < 0:
            raise InvalidPlan(f"pipeline '{self.name}': admission {self.admission} is below 0 rows")
        if not 0 <= self.cadence < math.inf:
            raise InvalidPlan(
                f"pipeline '{self.name}': cadence {self.cadence} is not a time of 0 s or more"
            )
        if self.ceiling is not None and self.ceiling < self.parallelism:
            raise InvalidPlan(
                f"pipeline '{self.name}': parallelism {self.parallelism} is above its ceiling "
                f"of {self.ceiling} state partitions"
            )

    @property
    def name(self) -> str:
        return self.operators[0]

    def to_json(self) -> dict[str, Any]:
        return {
            "operators": list(self.operators),
            "parallelism": self.parallelism,
            "admission": self.admission,
            "cadence": self.cadence,
            "ceiling": self.ceiling,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Pipeline:
        known = {"operators", "parallelism", "admission", "cadence", "ceiling"}
        if not isinstance(data, Mapping) or "operators" not in data or set(data) - known:
            raise InvalidPlan(
                f"a pipeline is written as {{'operators': [...], 'parallelism': n}}, found {data!r}"
            )
        operators = data["operators"]
        if not isinstance(operators, list | tuple) or not all(
            isinstance(name, str) for name in operators
        ):
            raise InvalidPlan(f"'operators' is a list of names, found {operators!r}")
        for key in ("parallelism", "admission", "cadence", "ceiling"):
            optional = key in ("admission", "ceiling") and data.get(key) is None
            if key in data and not optional:
                _number(key, data[key], whole=key != "cadence")
        return cls(**{**data, "operators": tuple(operators)})


@dataclass(frozen=True)
class Plan(Shown):
    """All pipelines and the number of executors. The order of the pipelines has no meaning.

    leaving: executors to remove when there are to be fewer. It says how to reach the plan and is
    not part of it: comparisons ignore it, and an engine forgets it once the executors are gone.
    """

    pipelines: tuple[Pipeline, ...]
    executors: int = 1
    leaving: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.executors < 1:
            raise InvalidPlan(f"a plan needs at least one executor, found {self.executors}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        return self.executors == other.executors and Counter(self.pipelines) == Counter(
            other.pipelines
        )

    def __hash__(self) -> int:
        return hash((frozenset(self.pipelines), self.executors))

    @cached_property
    def _of_operator(self) -> Mapping[str, Pipeline]:
        return {name: p for p in self.pipelines for name in p.operators}

    def pipeline_of(self, operator: str) -> Pipeline:
        """Return the pipeline that holds an operator; raise `InvalidPlan` if none does."""
        try:
            return self._of_operator[operator]
        except KeyError:
            known = ", ".join(sorted(self._of_operator))
            raise InvalidPlan(f"no pipeline holds '{operator}'; operators are {known}") from None

    @property
    def slots(self) -> int:
        """Number of instances in all."""
        return sum(p.parallelism for p in self.pipelines)

    def with_pipeline(self, operator: str, **changes: Any) -> Plan:
        """Return the plan with other settings for one pipeline, e.g. `parallelism=4`."""
        old = self.pipeline_of(operator)
        new = replace(old, **changes)
        return replace(self, pipelines=tuple(new if p is old else p for p in self.pipelines))

    def to_json(self) -> dict[str, Any]:
        return {"pipelines": [p.to_json() for p in self.pipelines], "executors": self.executors}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        if not isinstance(data, Mapping) or not isinstance(data.get("pipelines"), list | tuple):
            raise InvalidPlan(
                "a plan is written as {'pipelines': [...], 'executors': n}; "
                "`penstock explain FLOW --json` prints one to start from"
            )
        pipelines = tuple(Pipeline.from_json(p) for p in data["pipelines"])
        executors = data.get("executors", 1)
        _number("executors", executors, whole=True)
        return cls(pipelines, executors)


def _number(what: str, value: Any, *, whole: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise InvalidPlan(f"'{what}' is a {'whole ' if whole else ''}number, found {value!r}")
