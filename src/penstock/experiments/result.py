"""What an experiment has found, read back from its directory, for a notebook to show."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock import experiments
from penstock.errors import InvalidInput
from penstock.experiments.experiment import ENGINES, Data, EngineName, Experiment
from penstock.experiments.store import Store
from penstock.experiments.table import Row, number, said, tabulate
from penstock.report.figures import Figure
from penstock.shown import Shown

_HERE: Mapping[EngineName, str] = {"simulator": "simulated", "spark": "on Spark"}


@dataclass(frozen=True)
class Result(Shown):
    """An experiment and its records, by engine: a table beside the seed's numbers, and pictures."""

    experiment: Experiment
    data: Mapping[EngineName, Data]

    @property
    def title(self) -> str:
        return f"{self.experiment.title} ({self.experiment.paper}, {self.experiment.figure})"

    @property
    def rows(self) -> tuple[Row, ...]:
        return tabulate(self.experiment, self.data)

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """What the seed says, what was found here, and why where they differ."""
        engines = [one for one in ENGINES if one in self.data]
        heads = ["", "seed"]
        for engine in engines:
            heads += [_HERE[engine], "here / seed", "verdict"]
        return [*heads, "why"], [_words(row, engines) for row in self.rows]

    def figures(self) -> Sequence[Figure]:
        return [self.experiment.picture(one) for one in self.data.values()]


def read(home: str | Path) -> Result:
    """The result in a directory that `penstock experiment` has written. Raises `InvalidInput`."""
    found = Store(Path(home).expanduser()).data()
    try:
        said = json.loads((Path(home).expanduser() / "manifest.json").read_text())
        name = str(said["experiment"])
    except (OSError, ValueError, KeyError, TypeError):
        raise InvalidInput(f"{home} holds no experiment: its manifest.json is torn") from None
    return Result(experiments.get(name), found)


def _words(row: Row, engines: Sequence[EngineName]) -> list[str]:
    unit = f" ({row.claim.unit})" if row.claim.unit else ""
    words = [f"{row.claim.what}{unit}", said(row.claim)]
    for engine in engines:
        cell = row.cells.get(engine)
        words += (
            ["-"] * 3 if cell is None else [number(cell.value), number(cell.ratio), cell.verdict]
        )
    return [*words, row.why]
