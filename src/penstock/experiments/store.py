"""The directory of an experiment: raw data, and all that is made from it.

manifest.json    what was run with which parameters, and the command to repeat it
data-ENGINE.jsonl    every record, one a line
table.md, table.json    made from the data of all engines there are
picture-ENGINE.png, .svg    drawn from the data of that engine
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from penstock.errors import InvalidInput
from penstock.experiments.experiment import ENGINES, Data, EngineName, Experiment, Record
from penstock.experiments.table import Row, as_json, markdown, tabulate
from penstock.report import figures


@dataclass(frozen=True)
class Store:
    """Where an experiment keeps everything."""

    home: Path

    def begin(
        self,
        experiment: Experiment,
        engine: EngineName,
        seed: int,
        parameters: Mapping[str, Any],
        command: str,
    ) -> None:
        """Forget what was run on this engine before, and what was made from it."""
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            self._data(engine).write_text("")
        except OSError as why:
            raise InvalidInput(f"results cannot go to {self.home}: {why.strerror}") from None
        for made in (*self.home.glob("table.*"), *self.home.glob(f"picture-{engine}.*")):
            made.unlink()
        self._note(
            experiment, engine, seed=seed, parameters=dict(parameters), command=command, cases=[]
        )

    def add(
        self, experiment: Experiment, engine: EngineName, case: str, records: Iterable[Record]
    ) -> None:
        """Keep the records of a case that is done."""
        with self._data(engine).open("a", encoding="utf-8") as out:
            for record in records:
                out.write(json.dumps({"case": case, **record}, separators=(",", ":")) + "\n")
        done = self._read()["engines"][engine]["cases"]
        self._note(experiment, engine, cases=[*done, case])

    def end(self, experiment: Experiment, engine: EngineName, seconds: float) -> None:
        self._note(experiment, engine, complete=True, seconds=round(seconds, 1))

    def data(self) -> dict[EngineName, Data]:
        """What was recorded, by engine."""
        manifest = self._read()["engines"]
        found: dict[EngineName, Data] = {}
        for engine in ENGINES:
            if engine in manifest and self._data(engine).exists():
                said = manifest[engine]
                lines = self._data(engine).read_text(encoding="utf-8").splitlines()
                records = tuple(json.loads(line) for line in lines)
                found[engine] = Data(records, engine, said["seed"], said["parameters"])
        return {engine: data for engine, data in found.items() if data.records}

    def make(self, experiment: Experiment, pictures: bool = True) -> tuple[Row, ...]:
        """Write the table and draw the pictures, from the data and nothing else."""
        found = self.data()
        rows = tabulate(experiment, found)
        (self.home / "table.md").write_text(markdown(experiment, rows), encoding="utf-8")
        _write(self.home / "table.json", as_json(experiment, rows))
        for engine, data in found.items() if pictures else ():
            figures.save(experiment.picture(data), self.home / f"picture-{engine}")
        return rows

    def _data(self, engine: EngineName) -> Path:
        return self.home / f"data-{engine}.jsonl"

    def _read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.home / "manifest.json").read_text())
        except FileNotFoundError:
            raise InvalidInput(f"{self.home} holds no experiment: no manifest.json") from None
        return found

    def _note(self, experiment: Experiment, engine: EngineName, **said: Any) -> None:
        kept = self._read() if (self.home / "manifest.json").exists() else {"engines": {}}
        engines = kept["engines"]
        fresh = {} if "seed" in said else engines.get(engine, {})
        engines[engine] = {"complete": False, **fresh, **said}
        about = {
            "experiment": experiment.name,
            "title": experiment.title,
            "paper": experiment.paper,
            "figure": experiment.figure,
            "penstock": version("penstock"),
        }
        _write(self.home / "manifest.json", {**about, "engines": engines})


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
