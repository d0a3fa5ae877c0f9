"""What an experiment is, as values.

An experiment has cases, which are carried out and leave records; claims, which are numbers of a
seed's and how to read the same off the records; and a picture, drawn from the records alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from penstock.drawing.figures import Figure

Record = Mapping[str, Any]
"""Something that was seen: values that JSON knows, with its `case` and its `kind`."""

EngineName = Literal["simulator", "spark"]
ENGINES: tuple[EngineName, ...] = ("simulator", "spark")


@dataclass(frozen=True)
class Setting:
    """What a case is carried out with.

    scratch: a directory that is thrown away; tell: to be called with the share that is done.
    """

    seed: int
    scratch: Path
    tell: Callable[[float], None] = lambda share: None


class Job(Protocol):
    """Carries a case out; the records need not have their `case`."""

    def __call__(self, setting: Setting, /) -> Iterable[Record]: ...


@dataclass(frozen=True)
class Case:
    """One bar, or one line, of an experiment: a policy on a workload, most often a `Play`."""

    name: str
    job: Job


class NotTried(KeyError):
    """A case that was not carried out."""


@dataclass(frozen=True)
class Data:
    """All records of an experiment on one engine, and the parameters it ran with."""

    records: tuple[Record, ...]
    engine: EngineName = "simulator"
    seed: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cases(self) -> tuple[str, ...]:
        return tuple(self._by_case)

    def of(self, case: str, kind: str = "tick") -> tuple[Record, ...]:
        """The records of a case and a kind. Raises `NotTried`."""
        if case not in self._by_case:
            raise NotTried(case)
        return tuple(r for r in self._by_case[case] if r["kind"] == kind)

    @cached_property
    def rounds(self) -> tuple[Data, ...]:
        """The same of each round alone; records that say none are of the first."""
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
    """A number that a seed gives, and the same number here.

    seed: None where the seed gives none, and only ours is told; read: from the records, raises
    `KeyError` or returns None where they do not say; neutral: the number that would say that
    there is no difference, such as 1 for a ratio, from which both are measured; side: on which side
    of it the seed is, where it says so in words alone; ideal: in place of a neutral number the
    perfect one, such as 1 for a share of windows that meet a bound, so that misses are compared;
    better: in which direction ours may leave the seed's behind; within: how far apart effects may
    be, as a share of the seed's; basis: "given" for a number that was put in or follows from what
    was, "varied" for one that was found with other parameters than the seed's, neither of which
    counts as found; given_on: the engine on which a number was put in that is measured on the
    other; why: the reason, told where they do not agree, also where ours is better, and
    on_spark: the same for Spark; only: the engine on which it can be compared, where sizes matter.
    """

    what: str
    seed: float | None
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
        if self.side is not None and (self.seed is not None or self.neutral is None):
            raise ValueError(
                f"'{self.what}': a side is of a neutral number, in place of the seed's"
            )
        if self.ideal is not None and (self.seed is None or self.neutral is not None):
            raise ValueError(
                f"'{self.what}': a number of the seed's has an ideal number or a neutral one"
            )


def simulated(*claims: Claim) -> tuple[Claim, ...]:
    """Claims of which Spark's cases say nothing."""
    return tuple(replace(claim, only="simulator") for claim in claims)


LOCAL = (
    "a local master with more slots than cores, and operators that wait. Dynamic allocation does "
    "not apply, as it asks a cluster for executors, and a local master has one for good; nephele-6 "
    "has it."
)


@dataclass(frozen=True)
class Experiment:
    """An experiment of a seed's.

    cases: from parameters, which are `size`, or `quick` on top of it, to what is carried out on
    the simulator; spark: the same for Spark with `spark_size`, None where it is not shown there,
    for which `no_spark` gives the reason, and `on_spark` what Spark it was; notes: what else a
    reader of the table has to know.
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
        """The cases with these parameters; none on Spark where it cannot be shown there."""
        build = self.cases if engine == "simulator" else self.spark
        return () if build is None else tuple(build(**parameters))
