"""Charts as values, independent of their layout.

A `Figure` holds panels; a panel holds lines or groups of bars, reference levels and decisions.
`save` draws a figure; equal figures give identical bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penstock.errors import InvalidInput

Numbers = tuple[float | None, ...]


@dataclass(frozen=True)
class Line:
    """Values over x; None is a gap. style `step`: a value holds until the next x.

    tone: index of the colour, by default the position of the line. faint: in the background.
    """

    label: str
    x: tuple[float, ...]
    y: Numbers
    style: Literal["line", "step", "points"] = "line"
    tone: int | None = None
    faint: bool = False

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise InvalidInput(f"line '{self.label}' has {len(self.x)} x and {len(self.y)} y")


@dataclass(frozen=True)
class Bars:
    """One bar for each category of the panel; None is no bar. spread: error bars."""

    label: str
    values: Numbers
    spread: Numbers = ()
    tone: int | None = None


@dataclass(frozen=True)
class Level:
    """A horizontal reference line: a latency bound, or a number that a paper reports."""

    value: float
    label: str


@dataclass(frozen=True)
class Mark:
    """A decision: time and short label. size: magnitude relative to other decisions."""

    at: float
    label: str = ""
    size: float = 0.0


@dataclass(frozen=True)
class Panel:
    """A pair of axes. x, y: what they show, with the unit: `latency (ms)`.

    categories: names of the groups of bars. log: logarithmic y axis. top: upper end of the y axis,
    where lines are clipped. marked: legend entry of the marks.
    """

    x: str
    y: str
    lines: tuple[Line, ...] = ()
    categories: tuple[str, ...] = ()
    bars: tuple[Bars, ...] = ()
    levels: tuple[Level, ...] = ()
    marks: tuple[Mark, ...] = ()
    title: str = ""
    log: bool = False
    top: float | None = None
    marked: str = ""

    def __post_init__(self) -> None:
        for one in self.bars:
            if len(one.values) != len(self.categories):
                raise InvalidInput(
                    f"bars '{one.label}' have {len(one.values)} values for "
                    f"{len(self.categories)} categories"
                )


@dataclass(frozen=True)
class Figure:
    """Panels below each other or in columns. note: a line below, such as the source."""

    title: str
    panels: tuple[Panel, ...]
    columns: int = 1
    note: str = ""


def save(figure: Figure, path: str | Path) -> tuple[Path, Path]:
    """Draw a figure as PNG and SVG; the suffix of `path` is replaced.

    Raises `PenstockError` if matplotlib, which rasterises the PNG, is missing.
    """
    from penstock.drawing import charts, files

    drawn, base = charts.chart(figure), Path(path)
    return files.save(drawn, base.with_suffix(".png")), files.save(drawn, base.with_suffix(".svg"))
