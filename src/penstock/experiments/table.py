"""The table of an experiment: what the seed says, what happened here, and whether they agree."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.experiments.experiment import (
    ENGINES,
    Claim,
    Data,
    EngineName,
    Experiment,
    NotTried,
)

AGREES, BETTER, DIRECTION, DIFFERS = "agrees", "better", "same direction", "differs"
UNMEASURED, GIVEN, VARIED = "not measured", "given", "varied"
VERDICTS = (AGREES, BETTER, DIRECTION, DIFFERS, UNMEASURED)
"""Those of numbers that are compared."""

SLIGHT = 0.1
"""What is no gain: so small a share of the seed's."""

HAIR = 0.01
"""What is on no side, where the seed says a side alone: so small a share of what is between."""


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

    def reason(self, engine: EngineName) -> str:
        """Why an engine's number does not agree; on Spark a direction is all that is asked for."""
        cell, claim = self.cells.get(engine), self.claim
        if cell is None or cell.verdict not in (BETTER, DIRECTION, DIFFERS):
            return ""
        if cell.verdict == DIRECTION and (engine == "spark" or claim.side):
            return ""
        return (claim.on_spark if engine == "spark" else claim.why) or UNKNOWN

    @property
    def said(self) -> str:
        """What the seed says: a number, or that it is above or below one."""
        if self.claim.side is None:
            return self.shown(self.claim.seed)
        return f"{'>' if self.claim.side == 'above' else '<'} {number(self.claim.neutral)}"

    def shown(self, value: float | None) -> str:
        """One of its numbers; a count has no digits behind the point."""
        return f"{value:,.0f}" if value is not None and self.counts else number(value)

    @property
    def counts(self) -> bool:
        """Whether all its numbers are whole, and it is neither of a unit nor a ratio."""
        numbers = [cell.value for cell in self.cells.values()]
        whole = all(one is None or float(one).is_integer() for one in [*numbers, self.claim.seed])
        return whole and not self.claim.unit and self.claim.neutral is None

    @property
    def why(self) -> str:
        """All reasons, where something does not agree."""
        return "; ".join(dict.fromkeys(filter(None, map(self.reason, self.cells))))


UNKNOWN = "no reason known"


def tabulate(experiment: Experiment, found: Mapping[EngineName, Data]) -> tuple[Row, ...]:
    """A row for each claim."""
    return tuple(Row(claim, dict(_cells(claim, found))) for claim in experiment.claims)


def _cells(claim: Claim, found: Mapping[EngineName, Data]) -> Iterator[tuple[EngineName, Cell]]:
    for engine, data in found.items():
        if claim.only in (None, engine):
            try:
                yield engine, judged(claim, claim.read(data), engine)
            except NotTried:
                if engine == "simulator":
                    yield engine, judged(claim, None)
            except KeyError:
                yield engine, judged(claim, None)


def judged(claim: Claim, value: float | None, engine: EngineName = "simulator") -> Cell:
    """Within the tolerance, and on the same side of neutral, they agree.

    On Spark, at another size, it is the side alone that counts wherever there is one.
    """
    seed = claim.seed
    if value is None or not math.isfinite(value):
        return Cell(None, None, UNMEASURED)
    if claim.side is not None and claim.neutral is not None and claim.basis == "found":
        over = value - claim.neutral if claim.side == "above" else claim.neutral - value
        return Cell(value, None, DIRECTION if over > HAIR * abs(claim.neutral) else DIFFERS)
    ratio = value / seed if seed else None
    if claim.basis != "found":
        return Cell(value, ratio, GIVEN if claim.basis == "given" else VARIED)
    if seed is None:
        return Cell(value, None, "")
    close = abs(value - seed) <= claim.within * abs(seed) + 1e-9 * abs(seed)
    neutral = claim.neutral
    directed = neutral is not None and seed != neutral
    same_side = neutral is None or not directed or (value - neutral) / (seed - neutral) > SLIGHT
    if engine == "spark" and directed:
        return Cell(value, ratio, DIRECTION if same_side else DIFFERS)
    if close and same_side:
        return Cell(value, ratio, AGREES)
    if claim.better == ("higher" if value > seed else "lower"):
        return Cell(value, ratio, BETTER)
    return Cell(value, ratio, DIRECTION if directed and same_side else DIFFERS)


def markdown(
    experiment: Experiment, rows: tuple[Row, ...], lacking: Mapping[EngineName, str] | None = None
) -> str:
    """The table for people, with the reasons below; lacking: as `Store.lacking` tells it."""
    engines = [e for e in ENGINES if any(e in row.cells for row in rows)]
    names = {"simulator": "here (simulated)", "spark": "here (Spark)"}
    head = ["", "seed"]
    for engine in engines:
        head += [names[engine], "here / seed", "verdict"]
    lines = [_line(head), _line(["---"] + ["---:"] * (len(head) - 1))]
    notes: list[str] = []
    for row in rows:
        words = [row.claim.what + (f" ({row.claim.unit})" if row.claim.unit else "")]
        words.append(row.said)
        for engine in engines:
            cell, reason = row.cells.get(engine), row.reason(engine)
            if reason and reason not in notes:
                notes.append(reason)
            note = f" [{notes.index(reason) + 1}]" if reason else ""
            words += (
                ["-"] * 3
                if cell is None
                else [row.shown(cell.value), number(cell.ratio), cell.verdict + note]
            )
        lines.append(_line(words))
    told = [*(f"{n}. {text}" for n, text in enumerate(notes, start=1)), *experiment.notes]
    if experiment.spark is None:
        told.append(f"Not on Spark here: {experiment.no_spark}.")
    elif "spark" in engines:
        told.append(f"On Spark here: {experiment.on_spark} {DIRECTION_ALONE}")
    told.append(legend(rows))
    title = f"# {experiment.title}\n\n"
    for engine, done in (lacking or {}).items():
        title += f"**Not complete: {done} cases{' on Spark' if engine == 'spark' else ''}.**\n\n"
    title += f"{experiment.paper}, {experiment.figure}.\n\n"
    return title + "\n".join(lines) + "\n" + "".join(f"\n{text}\n" for text in told)


DIRECTION_ALONE = "What agrees there is the direction, as sizes are others."

LEGEND = "How to read it: "
"""How the line begins that explains the words of a table."""


def legend(rows: tuple[Row, ...]) -> str:
    """What the words of a table mean, of those that are in it."""
    beside = any("beside" in row.claim.what for row in rows)
    found = {cell.verdict for row in rows for cell in row.cells.values()}
    judged_by = {row.claim.within for row in rows if row.claim.basis == "found"}
    meant = [
        f"*{word}*, {text}"
        for word, text in meanings(sorted(judged_by, reverse=True)).items()
        if word in found
    ]
    words = ["*seed* is what the paper reports", *([BESIDE] if beside else []), *meant]
    return LEGEND + "; ".join(words) + "."


BESIDE = "*a beside b* is a divided by b"


def meanings(within: Sequence[float] = (0.25,)) -> Mapping[str, str]:
    """Every verdict, and what it says; within: how far apart numbers that agree may be."""
    wide, *narrow = [f"{share:.0%}".replace("%", " %") for share in within or (0.25,)]
    also = f" ({' or '.join(narrow)} where a claim is narrower)" if narrow else ""
    slight, hair = (f"{share:.0%}".replace("%", " %") for share in (SLIGHT, HAIR))
    return {
        AGREES: f"within {wide} of the seed's number{also} and on the same side of no difference",
        BETTER: "further away, in the direction that everybody wants",
        DIRECTION: f"a gain is a gain, of another size, but more than {slight} of the seed's; or "
        f"the seed has no size, and it is on the seed's side by more than {hair}",
        DIFFERS: "none of these",
        UNMEASURED: "the data do not say, often as the size is too small",
        GIVEN: "put in, or follows from what was, and not counted as found",
        VARIED: "found with other parameters than the seed's, and not counted either",
    }


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
                "said": row.said,
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
