"""An experiment of a paper as a value: cases, claims and a picture.

Cases are run and leave records. A claim is a number from the paper and a function that reads the
same number from the records. The picture is drawn from the records alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from penstock.drawing.figures import Figure

Record = Mapping[str, Any]
"""An observation: JSON values, with its `case` and `kind`."""

EngineName = Literal["simulator", "spark"]
ENGINES: tuple[EngineName, ...] = ("simulator", "spark")


@dataclass(frozen=True)
class Setting:
    """The conditions under which a case runs.

    scratch: a temporary directory; tell: to be called with the share that is done.
    """

    seed: int
    scratch: Path
    tell: Callable[[float], None] = lambda share: None


class Job(Protocol):
    """Runs a case and returns its records, which need not have a `case`."""

    def __call__(self, setting: Setting, /) -> Iterable[Record]: ...


@dataclass(frozen=True)
class Case:
    """One bar or line of an experiment: a policy on a workload, usually a `Play`."""

    name: str
    job: Job


class NotTried(KeyError):
    """The case was not run."""


@dataclass(frozen=True)
class Data:
    """All records of an experiment on one engine, and the parameters of the run."""

    records: tuple[Record, ...]
    engine: EngineName = "simulator"
    seed: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cases(self) -> tuple[str, ...]:
        return tuple(self._by_case)

    def of(self, case: str, kind: str = "tick") -> tuple[Record, ...]:
        """The records of a case and kind. Raises `NotTried`."""
        if case not in self._by_case:
            raise NotTried(case)
        return tuple(r for r in self._by_case[case] if r["kind"] == kind)

    @cached_property
    def rounds(self) -> tuple[Data, ...]:
        """The data of each round; records without a round belong to the first."""
        found: dict[int, list[Record]] = {}
        for record in self.records:
            found.setdefault(int(record.get("round", 0)), []).append(record)
        if len(found) < 2:
            return (self,)
        return tuple(replace(self, records=tuple(found[number])) for number in sorted(found))

    @cached_property
    def _by_case(self) -> Mapping[str, list[Record]]:
        found: dict[str, list[Record]] = {}
        for record in self.records:
            found.setdefault(str(record["case"]), []).append(record)
        return found


Read = Callable[[Data], float | None]


@dataclass(frozen=True)
class Claim:
    """A number that the paper gives, and how to read the same number from the records.

    paper: the paper's number, None if it gives none and ours is only reported.
    read: reads our number; raises `KeyError` or returns None if the records do not have it.
    neutral: the number that means no difference, such as 1 for a ratio; effects are differences
    from it.
    side: on which side of `neutral` the paper's number is, where the paper says only that.
    ideal: the perfect number, such as 1 for a share of windows within a bound; misses are compared.
    better: the direction in which our number may exceed the paper's.
    within: the largest difference between effects that agree, as a share of the paper's.
    basis: "given" for a number that was put in or follows from what was put in, "varied" for one
    found with parameters other than the paper's; neither counts as found.
    given_on: the engine on which the number was put in; on the other it is measured.
    why, on_spark: the reason for a difference, on the simulator and on Spark.
    only: the only engine on which the number is compared.
    """

    what: str
    paper: float | None
    read: Read
    unit: str = ""
    neutral: float | None = None
    better: Literal["higher", "lower"] | None = None
    within: float = 0.25
    why: str = ""
    on_spark: str = ""
    only: EngineName | None = None
    side: Literal["above", "below"] | None = None
    basis: Literal["found", "given", "varied"] = "found"
    ideal: float | None = None
    given_on: EngineName | None = None

    def __post_init__(self) -> None:
        if self.side is not None and (self.paper is not None or self.neutral is None):
            raise ValueError(
                f"'{self.what}': a side needs a neutral number and no number of the paper's"
            )
        if self.ideal is not None and (self.paper is None or self.neutral is not None):
            raise ValueError(
                f"'{self.what}': an ideal number needs a number of the paper's and no neutral one"
            )


def simulated(*claims: Claim) -> tuple[Claim, ...]:
    """The claims, compared on the simulator only."""
    return tuple(replace(claim, only="simulator") for claim in claims)


LOCAL = (
    "a local master with more slots than cores, and operators that wait. Dynamic allocation does "
    "not apply: it requests executors from a cluster, and a local master always has one; nephele-6 "
    "includes it."
)


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper.

    cases: makes the cases for the simulator from parameters: `size`, overridden by `quick`.
    spark: makes the cases for Spark from `spark_size`; None if the experiment is not run on Spark,
    for the reason `no_spark`.
    on_spark: how Spark was set up; notes: what else a reader of the table has to know.
    """

    name: str
    title: str
    paper: str
    figure: str
    cases: Callable[..., Sequence[Case]]
    claims: tuple[Claim, ...]
    picture: Callable[[Data], Figure]
    size: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)
    spark: Callable[..., Sequence[Case]] | None = None
    spark_size: Mapping[str, Any] = field(default_factory=dict)
    no_spark: str = ""
    on_spark: str = LOCAL
    notes: tuple[str, ...] = ()

    def parameters(self, engine: EngineName, quick: bool) -> dict[str, Any]:
        if engine == "spark":
            return dict(self.spark_size)
        return {**self.size, **(self.quick if quick else {})}

    def made(self, engine: EngineName, parameters: Mapping[str, Any]) -> tuple[Case, ...]:
        """The cases with these parameters; none for an engine on which it does not run."""
        build = self.cases if engine == "simulator" else self.spark
        return () if build is None else tuple(build(**parameters))
