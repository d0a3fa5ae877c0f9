"""The result of an experiment, read from its directory, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.drawing.figures import Figure
from penstock.notebook_display import Shown
from penstock_lab import experiments
from penstock_lab.experiments.experiment import ENGINES, Data, EngineName, Experiment
from penstock_lab.experiments.store import Store
from penstock_lab.experiments.table import Row, number, tabulate

_HERE: Mapping[EngineName, str] = {"simulator": "simulated", "spark": "on Spark"}


@dataclass(frozen=True)
class Result(Shown):
    """An experiment and its records by engine: a table and pictures.

    lacking: for engines that have not run all cases, the number they have: `2 of 9`.
    """

    experiment: Experiment
    data: Mapping[EngineName, Data]
    lacking: Mapping[EngineName, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        whole = f"{self.experiment.title} ({self.experiment.paper}, {self.experiment.figure})"
        some = [f"not complete, {done} cases {_HERE[e]}" for e, done in self.lacking.items()]
        return ", ".join([whole, *some])

    @property
    def rows(self) -> tuple[Row, ...]:
        return tabulate(self.experiment, self.data)

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """The paper's numbers, ours, and the reasons for differences."""
        engines = [one for one in ENGINES if one in self.data]
        heads = ["", "paper"]
        for engine in engines:
            heads += [_HERE[engine], "here / paper", "verdict"]
        return [*heads, "why"], [_words(row, engines) for row in self.rows]

    def figures(self) -> Sequence[Figure]:
        return [self.experiment.picture(one.rounds[0]) for one in self.data.values()]


def read(home: str | Path) -> Result:
    """Read the result that `penstock experiment` wrote to a directory. Raises `InvalidInput`."""
    store = Store(Path(home).expanduser())
    return Result(experiments.get(store.name), store.data(), store.lacking())


def _words(row: Row, engines: Sequence[EngineName]) -> list[str]:
    unit = f" ({row.claim.unit})" if row.claim.unit else ""
    words = [f"{row.claim.what}{unit}", row.said]
    for engine in engines:
        cell = row.cells.get(engine)
        words += (
            ["-"] * 3 if cell is None else [row.measured(cell), number(cell.ratio), cell.verdict]
        )
    return [*words, row.why]
