"""The table of an experiment: what the seed says, what happened here, and whether they agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.experiments.experiment import ENGINES, Claim, Data, EngineName, Experiment

AGREES, BETTER, DIRECTION, DIFFERS = "agrees", "better", "same direction", "differs"


@dataclass(frozen=True)
class Cell:
    """A number that was read off here, its ratio to the seed's, and what that comes to."""

    value: float | None
    ratio: float | None
    verdict: str


@dataclass(frozen=True)
class Row:
    """A claim beside what was read; no cell for an engine it was not tried on."""

    claim: Claim
    cells: Mapping[EngineName, Cell]

    @property
    def why(self) -> str:
        """The reason, where something does not agree."""
        off = [c for c in self.cells.values() if c.verdict in (DIRECTION, DIFFERS)]
        return (self.claim.why or "no reason known") if off else ""


def tabulate(experiment: Experiment, found: Mapping[EngineName, Data]) -> tuple[Row, ...]:
    """A row for each claim."""
    return tuple(
        Row(claim, {e: _cell(claim, data) for e, data in found.items() if claim.only in (None, e)})
        for claim in experiment.claims
    )


def _cell(claim: Claim, data: Data) -> Cell:
    try:
        value = claim.read(data)
    except KeyError:
        value = None
    return judged(claim, value)


def judged(claim: Claim, value: float | None) -> Cell:
    """Within the tolerance, and on the same side of neutral, they agree."""
    seed = claim.seed
    if value is None or not math.isfinite(value):
        return Cell(None, None, "not measured")
    if seed is None:
        return Cell(value, None, "")
    ratio = value / seed if seed else None
    room = 1 + claim.within
    close = value == seed or (ratio is not None and 1 / room <= ratio <= room)
    neutral = claim.neutral
    same_side = neutral is None or seed == neutral or (value - neutral) * (seed - neutral) > 0
    if close and same_side:
        return Cell(value, ratio, AGREES)
    if claim.better == ("higher" if value > seed else "lower"):
        return Cell(value, ratio, BETTER)
    directed = neutral is not None and seed != neutral
    return Cell(value, ratio, DIRECTION if directed and same_side else DIFFERS)


def markdown(experiment: Experiment, rows: tuple[Row, ...]) -> str:
    """The table for people, with the reasons below."""
    engines = [e for e in ENGINES if any(e in row.cells for row in rows)]
    names = {"simulator": "here (simulated)", "spark": "here (Spark)"}
    head = ["", "seed"]
    for engine in engines:
        head += [names[engine], "here / seed", "verdict"]
    lines = [_line(head), _line(["---"] + ["---:"] * (len(head) - 1))]
    notes: list[str] = []
    for row in rows:
        words = [row.claim.what + (f" ({row.claim.unit})" if row.claim.unit else "")]
        words.append(number(row.claim.seed))
        if row.why and row.why not in notes:
            notes.append(row.why)
        for engine in engines:
            cell = row.cells.get(engine)
            off = cell is not None and cell.verdict in (DIRECTION, DIFFERS)
            note = f" [{notes.index(row.why) + 1}]" if off else ""
            words += (
                ["-"] * 3
                if cell is None
                else [number(cell.value), number(cell.ratio), cell.verdict + note]
            )
        lines.append(_line(words))
    told = [*(f"{n}. {text}" for n, text in enumerate(notes, start=1)), *experiment.notes]
    if "spark" not in engines and experiment.spark is None:
        told.append(f"Not on Spark here: {experiment.no_spark}.")
    title = f"# {experiment.title}\n\n{experiment.paper}, {experiment.figure}.\n\n"
    return title + "\n".join(lines) + "\n" + "".join(f"\n{text}\n" for text in told)


def _line(words: list[str]) -> str:
    return "| " + " | ".join(words) + " |"


def as_json(experiment: Experiment, rows: tuple[Row, ...]) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "paper": experiment.paper,
        "figure": experiment.figure,
        "notes": list(experiment.notes),
        "rows": [
            {
                "what": row.claim.what,
                "unit": row.claim.unit,
                "seed": row.claim.seed,
                **{
                    engine: {"value": cell.value, "ratio": cell.ratio, "verdict": cell.verdict}
                    for engine, cell in row.cells.items()
                },
                "why": row.why,
            }
            for row in rows
        ],
    }


def number(value: float | None) -> str:
    """Three digits that count; whole thousands keep them all."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = 0 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"
