"""The table of an experiment: the paper's numbers, ours, and verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from penstock_lab.experiments.experiment import (
    ENGINES,
    Claim,
    Data,
    EngineName,
    Experiment,
    NotTried,
)
from penstock_lab.experiments.verdict import (
    BETTER,
    DIFFERS,
    DIRECTION,
    EFFECT,
    ONE_RUN,
    ROUNDS,
    WEAKER,
    Cell,
    judged,
    meanings,
)


@dataclass(frozen=True)
class Row:
    """A claim and what was found by engine; no cell if it was not tried on an engine."""

    claim: Claim
    cells: Mapping[EngineName, Cell]

    def reason(self, engine: EngineName) -> str:
        """Why an engine's number does not agree; on Spark only the direction has to agree.

        For a single run, the note about it, if there is one.
        """
        cell, claim = self.cells.get(engine), self.claim
        if cell is None or cell.verdict not in (BETTER, DIRECTION, WEAKER, DIFFERS, ONE_RUN):
            return ""
        if cell.verdict == DIRECTION and (engine == "spark" or claim.side):
            return ""
        if cell.verdict == ONE_RUN:
            return claim.on_spark
        return (claim.on_spark if engine == "spark" else claim.why) or UNKNOWN

    @property
    def said(self) -> str:
        """The paper's number, or the number it is said to be above or below."""
        if self.claim.side is None:
            return self.shown(self.claim.paper)
        return f"{'>' if self.claim.side == 'above' else '<'} {number(self.claim.neutral)}"

    def shown(self, value: float | None) -> str:
        """Format one of its numbers; counts have no decimals."""
        return f"{value:,.0f}" if value is not None and self.counts else number(value)

    def measured(self, cell: Cell) -> str:
        """Our number, with the range over several rounds: `1.07 (0.98 to 1.20)`."""
        ends = "" if cell.spread is None else f" ({' to '.join(map(self.shown, cell.spread))})"
        return self.shown(cell.value) + ends

    @property
    def counts(self) -> bool:
        """True if all its numbers are whole and it has no unit and is no ratio."""
        numbers = [n for cell in self.cells.values() for n in (cell.value, *(cell.spread or ()))]
        whole = all(one is None or float(one).is_integer() for one in [*numbers, self.claim.paper])
        return whole and not self.claim.unit and self.claim.neutral is None

    @property
    def why(self) -> str:
        """All reasons for numbers that do not agree."""
        return "; ".join(dict.fromkeys(filter(None, map(self.reason, self.cells))))


UNKNOWN = "no reason known"


def tabulate(experiment: Experiment, found: Mapping[EngineName, Data]) -> tuple[Row, ...]:
    """The rows of the table, one for each claim."""
    return tuple(Row(claim, dict(_cells(claim, found))) for claim in experiment.claims)


def _cells(claim: Claim, found: Mapping[EngineName, Data]) -> Iterator[tuple[EngineName, Cell]]:
    for engine, data in found.items():
        if claim.only in (None, engine):
            try:
                values = [_value(claim, one) for one in data.rounds]
            except NotTried:
                if engine == "simulator":
                    yield engine, judged(claim, None)
                continue
            known = [v for v in values if v is not None and math.isfinite(v)]
            spread = (min(known), max(known)) if len(known) > 1 else None
            value = median(known) if known else None
            yield engine, judged(claim, value, engine, len(known), spread)


def _value(claim: Claim, data: Data) -> float | None:
    """The number that a claim reads; None if the records do not have it. Raises `NotTried`."""
    try:
        return claim.read(data)
    except NotTried:
        raise
    except KeyError:
        return None


def markdown(
    experiment: Experiment,
    rows: tuple[Row, ...],
    lacking: Mapping[EngineName, str] | None = None,
    withdrawn: Mapping[EngineName, str] | None = None,
) -> str:
    """The table as Markdown, with numbered reasons below; other arguments as in `Store`."""
    engines = [e for e in ENGINES if any(e in row.cells for row in rows)]
    names = {"simulator": "here (simulated)", "spark": "here (Spark)"}
    head = ["", "paper"]
    for engine in engines:
        head += [names[engine], "here / paper", "verdict"]
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
                else [row.measured(cell), number(cell.ratio), cell.verdict + note]
            )
        lines.append(_line(words))
    told = [*(f"{n}. {text}" for n, text in enumerate(notes, start=1)), *experiment.notes]
    if experiment.spark is None:
        told.append(f"Not on Spark here: {experiment.no_spark}.")
    elif "spark" in engines:
        told.append(f"On Spark here: {experiment.on_spark} {DIRECTION_ALONE}")
    for engine, reason in (withdrawn or {}).items():
        told.append(f"The result {_ON[engine]} was withdrawn: {reason}.")
    told.append(legend(rows))
    title = f"# {experiment.title}\n\n"
    for engine, done in (lacking or {}).items():
        title += f"**Not complete: {done} cases{' on Spark' if engine == 'spark' else ''}.**\n\n"
    title += f"{experiment.paper}, {experiment.figure}.\n\n"
    return title + "\n".join(lines) + "\n" + "".join(f"\n{text}\n" for text in told)


DIRECTION_ALONE = (
    "Sizes differ from the paper's, so only directions are compared, and only for cases that ran "
    f"in {ROUNDS} rounds or more, in rotated order after a warm-up."
)

_ON = {"simulator": "of the simulator", "spark": "on Spark"}

LEGEND = "How to read it: "
"""Start of the line that explains the words of a table."""


def legend(rows: tuple[Row, ...]) -> str:
    """Explains the words that occur in a table."""
    beside = any("beside" in row.claim.what for row in rows)
    found = {cell.verdict for row in rows for cell in row.cells.values()}
    judged_by = {row.claim.within for row in rows if row.claim.basis == "found"}
    meant = [
        f"*{word}*, {text}"
        for word, text in meanings(sorted(judged_by, reverse=True)).items()
        if word in found
    ]
    first = ["*paper* is what the paper reports", *([BESIDE] if beside else []), EFFECT]
    return LEGEND + "; ".join([*first, *meant]) + "."


BESIDE = "*a beside b* is a divided by b"


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
                "paper": row.claim.paper,
                "said": row.said,
                **{
                    engine: {
                        "value": cell.value,
                        "ratio": cell.ratio,
                        "verdict": cell.verdict,
                        **({} if cell.spread is None else {"spread": list(cell.spread)}),
                    }
                    for engine, cell in row.cells.items()
                },
                "why": row.why,
            }
            for row in rows
        ],
    }


def number(value: float | None) -> str:
    """A number with three significant digits; from 1,000 on, rounded to a whole number."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = 0 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"
