"""The valve of a pipeline: parallelism, admission and cadence, changed without a restart.

A pipeline's sources run in processes beside the driver, so the valve is a small file: the engine
writes it, and the sources read it whenever Spark asks them for rows.
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
    """How much a pipeline may read now.

    open: whether it may read anything; parallelism, admission, cadence: as in the plan;
    clocks: start time of each generator (seconds since 1970); limits: the record at which an input
    ends, once it has to; turn: the number of changes, by which a source says what it has seen.
    """

    open: bool = True
    parallelism: int = 1
    admission: int | None = None
    cadence: float = 0.0
    clocks: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    turn: int = 0

    def save(self, path: Path) -> None:
        """Put the valve in force, and forget acknowledgements of earlier ones."""
        with files.replacing(path) as draft:
            draft.write_text(json.dumps(asdict(self)))
            # Turns begin at 0 for every pipeline, so an old acknowledgement could look current.
            for word in path.parent.glob(f"{path.name}.*.seen"):
                word.unlink(missing_ok=True)


class ValveFile:
    """The reading side. A missing file is a closed valve."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._acknowledged = (-1, 0)

    def acknowledge(self, source: str, turn: int) -> None:
        """Note that a source has seen the valve closed, once or twice.

        Spark asks all sources before each batch. A source that has seen the valve closed twice has
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
    """True if a source has seen the valve closed twice since that turn."""
    try:
        return _word(str(path), source).read_text().split() == [str(turn), "2"]
    except FileNotFoundError:
        return False


def _word(path: str, source: str) -> Path:
    return Path(f"{path}.{source}.seen")


_FEW = 50
"""Rows per instance in the first batch of a pipeline with unknown costs."""


_FASTER = 10
"""Largest growth of a batch over the previous one."""


class BatchSize:
    """Sizes batches to fit the window, by the cost of a row measured so far.

    A pipeline that was never measured is taken to cost as much as earlier ones with its operators.
    If these are unknown too, a pipeline with Python operators begins with a few rows, and with more
    as long as its batches are short.
    """

    def __init__(self, window: float) -> None:
        self._window = window
        self._services: dict[tuple[str, ...], float] = {}

    def learn(self, operators: tuple[str, ...], service: float) -> None:
        """Store an instance's seconds per row, in place of other pipelines with these operators."""
        own = set(operators)
        kept = {o: s for o, s in self._services.items() if own.isdisjoint(o)}
        self._services = {**kept, operators: service}

    def admission(self, spec: Pipeline, python: bool = False) -> int | None:
        """Rows for a batch: as planned, or as many as fit a window; None is no limit.

        python: the pipeline has Python operators.
        """
        if spec.admission is not None:
            return spec.admission
        own = set(spec.operators)
        service = sum(s for o, s in self._services.items() if not own.isdisjoint(o))
        if not service:
            return _FEW * spec.parallelism if python else None
        return max(1, round(spec.parallelism * self._window / service))

    def enlarged_batch(
        self, spec: Pipeline, admission: int | None, rows: int, seconds: float
    ) -> int:
        """Rows for the batch after one with so many rows; 0 for no change.

        Only for a pipeline that was never measured and read at least half of what it might.
        """
        unknown = spec.admission is None and spec.operators not in self._services
        if not unknown or admission is None or rows < admission // 2:
            return 0
        more = round(rows * min(_FASTER, self._window / max(seconds, 0.001)))
        return more if more > admission else 0
