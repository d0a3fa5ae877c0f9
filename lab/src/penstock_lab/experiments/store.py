"""The directory of an experiment: its raw data, table and pictures.

manifest.json    parameters, command, commit, machine and digest of the code, by engine
data-ENGINE.jsonl    all records, one per line
table.md, table.json    made from the data of all engines
picture-ENGINE.png, .svg    drawn from the data of the engine
picture-ENGINE.json    digests of the figure and of these two files
unfinished/    manifest, data and table of an incomplete run

A run writes to `unfinished` and replaces the previous result when it is complete. Files are
replaced atomically.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from penstock.drawing import figures
from penstock.errors import InvalidInput, Refused
from penstock.files import write_text
from penstock_lab.experiments import drawn, provenance
from penstock_lab.experiments.experiment import ENGINES, Data, EngineName, Experiment, Record
from penstock_lab.experiments.table import Row, as_json, markdown, tabulate

_ELSEWHERE = "choose another directory with --out"


@dataclass(frozen=True)
class Store:
    """The directory of an experiment."""

    home: Path

    @property
    def unfinished(self) -> Store:
        """The directory of an incomplete run."""
        return Store(self.home / "unfinished")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the directory. Raises `Refused` if another process holds it; dying releases it."""
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            lock = (self.home / ".lock").open("a")
        except OSError as why:
            raise InvalidInput(f"cannot write results to {self.home}: {why.strerror}") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                what = f"another run is writing to {self.home}"
                raise Refused(f"{what}; wait until it ends, or {_ELSEWHERE}") from None
            yield

    def begin(
        self,
        experiment: Experiment,
        engine: EngineName,
        seed: int,
        parameters: Mapping[str, Any],
        command: str,
        planned: int,
    ) -> Store:
        """Start a new run and return its directory; a complete result stays until this one is.

        planned: cases times rounds.
        """
        if self._exists() and self.name != experiment.name:
            raise InvalidInput(f"{self.home} holds experiment '{self.name}'; {_ELSEWHERE}")
        draft = self.unfinished
        shutil.rmtree(draft.home, ignore_errors=True)
        draft.home.mkdir()
        draft._data(engine).touch()
        told = {"seed": seed, "parameters": dict(parameters), "command": command}
        told |= provenance.of(experiment, engine)
        draft._note(experiment, engine, {**told, "planned": planned, "cases": []})
        return draft

    def add(
        self,
        experiment: Experiment,
        engine: EngineName,
        case: str,
        records: Iterable[Record],
        number: int | None = None,
    ) -> None:
        """Keep the records of a finished case; number: its round, if there are rounds."""
        of = {"case": case} if number is None else {"case": case, "round": number}
        with self._data(engine).open("a", encoding="utf-8") as out:
            for record in records:
                out.write(json.dumps({**of, **record}, separators=(",", ":")) + "\n")
        told = self._engines()[engine]
        told["cases"] = [*dict.fromkeys([*told["cases"], case])]
        if number is not None:
            rounds = told.get("rounds", [])
            rounds += [[] for _ in range(len(rounds), number + 1)]
            rounds[number].append(case)
            told["rounds"] = rounds
        self._note(experiment, engine, told)

    def end(self, experiment: Experiment, engine: EngineName, seconds: float) -> None:
        """Replace the previous result by the complete run in `unfinished`."""
        draft = self.unfinished
        told = {**draft._engines()[engine], "complete": True, "seconds": round(seconds, 1)}
        for made in (*self.home.glob("table.*"), *self.home.glob(f"picture-{engine}.*")):
            made.unlink()
        self._note(experiment, engine, None)  # the manifest never describes the data of another run
        draft._data(engine).replace(self._data(engine))
        self._note(experiment, engine, told)
        shutil.rmtree(draft.home)

    @property
    def name(self) -> str:
        """Name of the experiment. Raises `InvalidInput`."""
        return str(self._read()["experiment"])

    def data(self) -> dict[EngineName, Data]:
        """The data by engine. Raises `InvalidInput`."""
        manifest = self._engines()
        found: dict[EngineName, Data] = {}
        for engine in ENGINES:
            if engine in manifest and self._data(engine).exists():
                told = manifest[engine]
                found[engine] = Data(
                    tuple(_records(self._data(engine))), engine, told["seed"], told["parameters"]
                )
        return {engine: data for engine, data in found.items() if data.records}

    def lacking(self) -> dict[EngineName, str]:
        """For engines that have not run all cases, the number of cases they have: `2 of 9`."""
        found: dict[EngineName, str] = {}
        for engine, told in self._engines().items():
            if not told.get("complete"):
                planned = f" of {told['planned']}" if "planned" in told else ""
                rounds = told.get("rounds", [told.get("cases", ())])
                found[engine] = f"{sum(map(len, rounds))}{planned}"
        return found

    def withdrawn(self) -> dict[EngineName, str]:
        """Engines whose result was withdrawn, with the reason."""
        found: dict[EngineName, str] = self._read().get("withdrawn", {})
        return found

    def make(self, experiment: Experiment, pictures: bool = True) -> tuple[Row, ...]:
        """Write the table and draw the pictures from the data alone.

        A picture shows the first round if there are several.
        """
        found = self.data()
        rows = tabulate(experiment, found)
        text = markdown(experiment, rows, self.lacking(), self.withdrawn())
        write_text(self.home / "table.md", text)
        write_text(self.home / "table.json", _json(as_json(experiment, rows)))
        for engine, data in found.items() if pictures else ():
            figure, base = experiment.picture(data.rounds[0]), self.home / f"picture-{engine}"
            files = figures.save(figure, base)
            write_text(base.with_suffix(".json"), _json(drawn.digests(figure, *files)))
        return rows

    def _data(self, engine: EngineName) -> Path:
        return self.home / f"data-{engine}.jsonl"

    def _exists(self) -> bool:
        return (self.home / "manifest.json").exists()

    def _read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.home / "manifest.json").read_text())
            for told in found["engines"].values():
                told["seed"], told["parameters"], found["experiment"]
        except FileNotFoundError:
            also = self.unfinished
            hint = f"; an incomplete run is in {also.home}" if also._exists() else ""
            raise InvalidInput(f"{self.home} holds no experiment: no manifest.json{hint}") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            what = f"{self.home} holds no experiment: its manifest.json cannot be read"
            raise InvalidInput(f"{what}; remove it, or {_ELSEWHERE}") from None
        return found

    def _engines(self) -> dict[EngineName, dict[str, Any]]:
        found: dict[EngineName, dict[str, Any]] = self._read()["engines"]
        return found

    def _note(
        self, experiment: Experiment, engine: EngineName, told: Mapping[str, Any] | None
    ) -> None:
        """Set the manifest's entry of an engine; None removes it."""
        engines = self._engines() if self._exists() else {}
        engines.pop(engine, None)
        if told is not None:
            engines[engine] = {"complete": False, **told}
        about = {
            "experiment": experiment.name,
            "title": experiment.title,
            "paper": experiment.paper,
            "figure": experiment.figure,
            "penstock": version("penstock"),
        }
        kept = {one: engines[one] for one in ENGINES if one in engines}
        gone = self.withdrawn() if self._exists() else {}
        gone.pop(engine, None)
        also = {"withdrawn": gone} if gone else {}
        write_text(self.home / "manifest.json", _json({**about, "engines": kept, **also}))


def _records(path: Path) -> Iterator[Record]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            yield json.loads(line)
        except ValueError:
            raise InvalidInput(f"{path}: line {number} is no JSON") from None


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"
