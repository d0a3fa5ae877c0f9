"""What a benchmark found: rows of a table, and the claims that it checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Claim:
    """A ratio that has to stay on one side of a bound."""

    text: str
    value: float
    least: float | None = None
    most: float | None = None

    @property
    def holds(self) -> bool:
        above = self.least is None or self.value >= self.least
        return above and (self.most is None or self.value <= self.most)

    def __str__(self) -> str:
        bound = f">= {self.least:g}" if self.least is not None else f"<= {self.most:g}"
        return f"{'ok  ' if self.holds else 'MISS'} {self.text}: {self.value:.3f} ({bound})"

    def to_json(self) -> dict[str, Any]:
        return {
            "claim": self.text,
            "value": round(self.value, 4),
            "least": self.least,
            "most": self.most,
            "holds": self.holds,
        }


@dataclass(frozen=True)
class Result:
    """One benchmark's table and claims."""

    name: str
    about: str
    rows: Sequence[Mapping[str, Any]]
    claims: Sequence[Claim] = field(default=())

    def to_json(self) -> dict[str, Any]:
        return {
            "about": self.about,
            "rows": [dict(row) for row in self.rows],
            "claims": [claim.to_json() for claim in self.claims],
        }

    def table(self) -> str:
        """A Markdown table."""
        if not self.rows:
            return "(no rows)"
        names = list(self.rows[0])
        lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
        lines += ["| " + " | ".join(_text(row.get(n)) for n in names) + " |" for row in self.rows]
        return "\n".join(lines)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
