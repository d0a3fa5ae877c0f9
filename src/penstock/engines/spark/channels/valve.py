"""The valve of a pipeline: what its sources obey with every batch, changed without a restart.

A pipeline's sources live in processes of their own beside the driver, so the valve is a small
file: the engine writes it, the sources look at it whenever Spark asks them for more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from penstock import files
from penstock.plan.plan import Pipeline


@dataclass(frozen=True)
class Valve:
    """How much a pipeline may take now.

    open: whether it may take anything; parallelism, admission, cadence: as in the plan;
    clocks: when each generator's time began (seconds since 1970); limits: the record at which
    each ends, once it has to; turn: counts the changes, so that a source can say what it saw.
    """

    open: bool = True
    parallelism: int = 1
    admission: int | None = None
    cadence: float = 0.0
    clocks: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    turn: int = 0

    def save(self, path: Path) -> None:
        """Put the valve in force. What sources said of an earlier one does not count any more."""
        with files.replacing(path) as draft:
            draft.write_text(json.dumps(asdict(self)))
            # Turns begin anew with every pipeline, so an old word could be taken for one of now.
            for word in path.parent.glob(f"{path.name}.*.seen"):
                word.unlink(missing_ok=True)


class ValveFile:
    """The reading side. A missing file is a closed valve."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._acknowledged = (-1, 0)

    def acknowledge(self, source: str, turn: int) -> None:
        """Leave word that a source saw the valve closed, and that it did so again.

        Spark asks all sources before each batch. One that has seen the valve closed twice has
        seen a whole round in which nothing could enter, so nothing is in flight.
        """
        seen, times = self._acknowledged
        times = times + 1 if seen == turn else 1
        if times <= 2:
            self._acknowledged = (turn, times)
            _word(self.path, source).write_text(f"{turn} {times}")

    def read(self) -> Valve:
        try:
            return Valve(**json.loads(Path(self.path).read_text()))
        except FileNotFoundError:
            return Valve(open=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"])  # type: ignore[misc]


def acknowledged(path: Path, source: str, turn: int) -> bool:
    """Whether a source has twice seen the valve closed by that turn."""
    try:
        return _word(str(path), source).read_text().split() == [str(turn), "2"]
    except FileNotFoundError:
        return False


def _word(path: str, source: str) -> Path:
    return Path(f"{path}.{source}.seen")


_FEW = 50
"""Rows for each instance of which nobody knows what they take."""


_FASTER = 10
"""So many times as many rows as in the batch before, at most."""


class BatchSize:
    """Remembers what a row took, so that a changed pipeline has the right batches from the first.

    Pipelines that were never measured are taken to need what those need that had their operators.
    Where that is not known either, those with Python operators, whose rows may take any time,
    begin with a few rows, and with ever more as long as batches are short.
    """

    def __init__(self, window: float) -> None:
        self._window = window
        self._services: dict[tuple[str, ...], float] = {}

    def learn(self, operators: tuple[str, ...], service: float) -> None:
        """Seconds of an instance for a row; what was known of other pipelines with these is old."""
        own = set(operators)
        kept = {o: s for o, s in self._services.items() if own.isdisjoint(o)}
        self._services = {**kept, operators: service}

    def admission(self, spec: Pipeline, python: bool = False) -> int | None:
        """Rows for a batch: as asked for, or as many as fit a window; None: as many as there are.

        python: whether it has Python operators.
        """
        if spec.admission is not None:
            return spec.admission
        own = set(spec.operators)
        service = sum(s for o, s in self._services.items() if not own.isdisjoint(o))
        if not service:
            return _FEW * spec.parallelism if python else None
        return max(1, round(spec.parallelism * self._window / service))

    def hastened(self, spec: Pipeline, admission: int | None, rows: int, seconds: float) -> int:
        """Rows for the next batch after one with so many rows; 0: as before.

        For a pipeline that was never measured and has had what it was allowed, or half of it.
        """
        unknown = spec.admission is None and spec.operators not in self._services
        if not unknown or admission is None or rows < admission // 2:
            return 0
        more = round(rows * min(_FASTER, self._window / max(seconds, 0.001)))
        return more if more > admission else 0
