"""Pictures as values: what is to be seen, before it is drawn.

A `Figure` holds panels, a panel holds lines or groups of bars, levels to keep to and decisions
that were taken. `save` draws it; the same figure gives the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penstock.errors import InvalidInput

Numbers = tuple[float | None, ...]


@dataclass(frozen=True)
class Line:
    """Values over x; None is a gap. A step holds its value until the next x.

    tone: which colour of the palette, the next one if not given. faint: in the background.
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
    """One bar for each category of the panel; None is no bar. spread: a deviation of each."""

    label: str
    values: Numbers
    spread: Numbers = ()
    tone: int | None = None


@dataclass(frozen=True)
class Level:
    """A horizontal line to stay below, or to reach: a constraint, or a number of the seed's."""

    value: float
    label: str


@dataclass(frozen=True)
class Mark:
    """A decision: when, and in a word or two what. size: how much it changes, beside others."""

    at: float
    label: str = ""
    size: float = 0.0


@dataclass(frozen=True)
class Panel:
    """A pair of axes. x and y: what they show and its unit, `latency (ms)`.

    categories: names of the groups, where bars are shown; log: the y axis in powers of ten; top:
    where the y axis ends, for lines that leave the picture; marked: whose decisions the marks are,
    for the legend.
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
    """Panels under each other, or in several columns. note: a line below, such as the source."""

    title: str
    panels: tuple[Panel, ...]
    columns: int = 1
    note: str = ""


def save(figure: Figure, path: str | Path) -> tuple[Path, Path]:
    """Draw a figure as PNG and SVG beside each other; any suffix of the path is replaced."""
    from penstock.drawing import matplotlib_figures

    return matplotlib_figures.save(figure, Path(path))
