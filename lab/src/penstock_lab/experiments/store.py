"""The directory of an experiment: raw data, and all that is made from it.

manifest.json    what was run with which parameters, commit, machine and code, and the command
data-ENGINE.jsonl    every record, one a line
table.md, table.json    made from the data of all engines there are
picture-ENGINE.png, .svg    drawn from the data of that engine
picture-ENGINE.json    digests of what was drawn, and of these two files
unfinished/    manifest, data and table of a run that is not complete

A run writes into `unfinished` and is put in the place of the one before when it is complete. No
file is seen half written.
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
    """Where an experiment keeps everything."""

    home: Path

    @property
    def unfinished(self) -> Store:
        """Where a run writes until it is complete."""
        return Store(self.home / "unfinished")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else writes here meanwhile, or `Refused`; a process that dies lets go."""
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            lock = (self.home / ".lock").open("a")
        except OSError as why:
            raise InvalidInput(f"results cannot go to {self.home}: {why.strerror}") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                what = f"another run writes to {self.home}"
                raise Refused(f"{what}; wait until it is done, or {_ELSEWHERE}") from None
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
        """Where a new run of so many cases is to write; what is complete stays until it is too.

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
        """Keep the records of a case that is done; number: of its round, where there are some."""
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
        """Put the run in `unfinished`, all of whose cases are done, in the place of the last."""
        draft = self.unfinished
        told = {**draft._engines()[engine], "complete": True, "seconds": round(seconds, 1)}
        for made in (*self.home.glob("table.*"), *self.home.glob(f"picture-{engine}.*")):
            made.unlink()
        self._note(experiment, engine, None)  # at no time do data stand beside what others told
        draft._data(engine).replace(self._data(engine))
        self._note(experiment, engine, told)
        shutil.rmtree(draft.home)

    @property
    def name(self) -> str:
        """Of which experiment it is. Raises `InvalidInput`."""
        return str(self._read()["experiment"])

    def data(self) -> dict[EngineName, Data]:
        """What was recorded, by engine. Raises `InvalidInput`."""
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
        """Of the engines that have not done all cases, how many they have: `2 of 9`."""
        found: dict[EngineName, str] = {}
        for engine, told in self._engines().items():
            if not told.get("complete"):
                planned = f" of {told['planned']}" if "planned" in told else ""
                rounds = told.get("rounds", [told.get("cases", ())])
                found[engine] = f"{sum(map(len, rounds))}{planned}"
        return found

    def withdrawn(self) -> dict[EngineName, str]:
        """Engines whose result was taken away since it was stale, and why."""
        found: dict[EngineName, str] = self._read().get("withdrawn", {})
        return found

    def make(self, experiment: Experiment, pictures: bool = True) -> tuple[Row, ...]:
        """Write the table and draw the pictures, from the data and nothing else.

        A picture is of the first round where there are several.
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
            hint = f"; a run that is not complete is in {also.home}" if also._exists() else ""
            raise InvalidInput(f"{self.home} holds no experiment: no manifest.json{hint}") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            what = f"{self.home} holds no experiment: its manifest.json is torn or something else"
            raise InvalidInput(f"{what}; remove it, or {_ELSEWHERE}") from None
        return found

    def _engines(self) -> dict[EngineName, dict[str, Any]]:
        found: dict[EngineName, dict[str, Any]] = self._read()["engines"]
        return found

    def _note(
        self, experiment: Experiment, engine: EngineName, told: Mapping[str, Any] | None
    ) -> None:
        """Note what is told of an engine; None: nothing any more."""
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
            raise InvalidInput(f"{path}: line {number} is torn") from None


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"
