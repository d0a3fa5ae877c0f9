"""Repeats a case with other random seeds and takes the median.

The tenth of ten equal replicas adds a ninth, minus the overhead of parallelism, and Joker's policy
requires 10 %. So near to the threshold a single run says little; the median of several runs is
reported, as the paper reports averages of three.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import median

from penstock_lab.experiments.experiment import Case, Data, Job, Read, Record, Setting

_DRAW = ", draw "


@dataclass(frozen=True)
class Draw:
    """A case with another random seed, which is the same for all cases of a draw."""

    job: Job
    number: int

    def __call__(self, setting: Setting) -> Iterable[Record]:
        return self.job(replace(setting, seed=1000 * setting.seed + self.number))


def repeated(case: Case, draws: int) -> tuple[Case, ...]:
    """Repeat a case; the first run keeps its name and is the one in pictures over time."""
    return tuple(
        Case(f"{case.name}{_DRAW}{n + 1}" if n else case.name, Draw(case.job, n))
        for n in range(draws)
    )


def middle(read: Read) -> Read:
    """The median of a number over the draws, each read as if there were no other.

    What was carried out once is the same in all of them.
    """

    def found(data: Data) -> float | None:
        values = [read(_draw(data, n)) for n in range(int(data.parameters.get("draws", 1)))]
        known = [v for v in values if v is not None]
        return median(known) if len(known) == len(values) else None

    return found


def _draw(data: Data, number: int) -> Data:
    """One of the draws, its cases under the names of the first."""
    if not number:
        return replace(data, records=tuple(r for r in data.records if _DRAW not in r["case"]))
    own = f"{_DRAW}{number + 1}"
    names = {case: case.removesuffix(own) for case in data.cases if case.endswith(own)}
    once = [case for case in data.cases if _DRAW not in case and f"{case}{own}" not in names]
    names |= {case: case for case in once}
    kept = ({**r, "case": names[r["case"]]} for r in data.records if r["case"] in names)
    return replace(data, records=tuple(kept))
