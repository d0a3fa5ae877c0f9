"""Words in a picture, where they fit: legends, numbers on bars, names of levels and decisions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from typing import TYPE_CHECKING, Any

from penstock.drawing.figures import Level, Mark, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, GREY = "#222222", "#6E6E6E"
LINE = 0.165
"""Inches that a line of words is high."""

MARKED, MANY = 40, 60
"""Decisions that are shown where there are very many, and from how many on there are."""

GROUP = 0.86
"""How much of the room of a category its bars take."""

_LEGEND, _NUMBER, _LEVEL, _MARK = 8.5, 7.5, 8.0, 7.0
_BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}


def head(axes: Axes, panel: Panel, right: float) -> int:
    """The title, the legend and the names of categories: how many lines more than usual.

    right: where the panels end, with the names of levels beside them.
    """
    marks = chosen(panel.marks)
    if panel.marked and marks:
        label = panel.marked
        if len(marks) < len(panel.marks):
            label += f" ({len(marks)} largest of {len(panel.marks)})"
        axes.plot([], [], ls="", marker="|", markersize=9, mew=1.0, color=INK, label=label)
    handles, labels = axes.get_legend_handles_labels()
    rows = 0
    if len(labels) > 1 or (panel.marked and marks):
        each = [_size(axes, label, _LEGEND)[0] for label in labels]
        across = columns(each, 3.9 * _LEGEND / 72 * _dpi(axes), right - axes.bbox.x0)
        rows = math.ceil(len(labels) / across)
        axes.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            borderaxespad=0.1,
            ncols=across,
            handlelength=1.6,
            columnspacing=1.4,
        )
    if panel.title:
        axes.set_title(panel.title, pad=7 + 13 * rows)
    return max(0, rows - 1) + _categories(axes, panel.categories)


def columns(widths: Sequence[float], more: float, room: float) -> int:
    """In how many columns names fit, the first ones as long as the last or by one longer.

    more: what each column takes beside its widest name.
    """
    for across in range(len(widths), 1, -1):
        least, longer = divmod(len(widths), across)
        ends = [0, *accumulate(least + (at < longer) for at in range(across))]
        if sum(max(widths[a:b]) + more for a, b in pairwise(ends)) <= room:
            return across
    return 1


def levels(axes: Axes, levels: Sequence[Level]) -> None:
    """Lines across, named on the right."""
    for level in levels:
        axes.axhline(level.value, color=INK, linewidth=1.1, linestyle=(0, (5, 3)))
        axes.annotate(
            level.label,
            (1.0, level.value),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            size=_LEVEL,
            color=INK,
        )


def body(axes: Axes, panel: Panel) -> None:
    """What is written between the axes, and names of levels apart from each other."""
    if not panel.log:
        _room(axes, panel)
    _spread(axes, panel.levels)
    _numbers(axes, panel)
    _marks(axes, chosen(panel.marks))


def chosen(marks: Sequence[Mark]) -> tuple[Mark, ...]:
    """The decisions that are shown: where there are very many, those that change most."""
    if len(marks) <= MANY:
        return tuple(marks)
    most = sorted(marks, key=lambda mark: -mark.size)[:MARKED]
    return tuple(sorted(most, key=lambda mark: mark.at))


@dataclass(frozen=True)
class Place:
    """Where the words of a decision stand: in which row, from the top, and on which side."""

    mark: Mark
    row: int
    left: bool
    begin: float
    end: float

    def beside(self, other: Place) -> bool:
        """Whether neither the words nor the tick of one are in the way of the other."""
        if self.row == other.row:
            return self.end < other.begin or self.begin > other.end
        low, high = (self, other) if self.row > other.row else (other, self)
        return not high.begin <= low.mark.at <= high.end


def placed(
    marks: Sequence[Mark], widths: Sequence[float], low: float, high: float
) -> tuple[Place, ...]:
    """Places of the words that fit, the largest decisions first; slight ones go without words.

    widths: of the words of each, as wide as the axis is from low to high.
    """
    slight = 0.1 * max((mark.size for mark in marks), default=0.0)
    found: list[Place] = []
    for mark, wide in sorted(zip(marks, widths, strict=True), key=lambda one: -one[0].size):
        if not mark.label or mark.size < slight:
            continue
        for left, row in product((False, True), (0, 1)):
            begin = mark.at - wide if left else mark.at
            place = Place(mark, row, left, begin, begin + wide)
            inside = low <= begin and begin + wide <= high
            if inside and all(place.beside(other) for other in found):
                found.append(place)
                break
    return tuple(found)


def apart(places: Sequence[float], least: float) -> list[float]:
    """Rising places, moved as little as it takes until all are so far from each other."""
    found = list(places)
    for _ in range(100):
        moved = False
        for at, (below, above) in enumerate(pairwise(found)):
            if above - below < least - 1e-6:
                middle = (below + above) / 2
                found[at], found[at + 1] = middle - least / 2, middle + least / 2
                moved = True
        if not moved:
            break
    return found


def short(value: float) -> str:
    """Three digits that count: `0.25`, `36`, `1,650`, `12.5k`, `2M`."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit * 0.99995:
            return short(value / (1e3 if unit == "k" else limit)) + unit
    if value and abs(value) < 0.0005:
        return f"{value:.2g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return _rounded(value, digits)


def alike(values: Sequence[float], digits: int) -> list[str]:
    """Numbers of one picture, each as exact as the largest is with so many digits that count."""
    most = max(map(abs, values), default=0.0)
    after = digits - 1 - math.floor(math.log10(most)) if most else 0
    if most >= 1000 and after < 0:
        return [_rounded(v / 1000, 3 + after) + ("k" if round(v, after) else "") for v in values]
    if most >= 1e4:
        return [short(v) for v in values]
    return [_rounded(v, max(0, after)) for v in values]


def _rounded(value: float, digits: int) -> str:
    shown = f"{value:,.{digits}f}"
    shown = shown.rstrip("0").rstrip(".") if "." in shown else shown
    return "0" if shown == "-0" else shown


def _dpi(axes: Axes) -> float:
    return float(axes.get_figure(root=True).dpi)  # type: ignore[union-attr]


def _size(axes: Axes, words: str, size: float) -> tuple[float, float]:
    """How wide and how high words are, in pixels."""
    text = axes.text(0, 0, words, size=size)
    box = text.get_window_extent()
    text.remove()
    return float(box.width), float(box.height)


def _categories(axes: Axes, names: Sequence[str]) -> int:
    """The names below groups of bars, in several lines where one is too long."""
    if not names:
        return 0
    room = axes.bbox.width / len(names) * 0.96
    if max(_size(axes, name, 9)[0] for name in names) <= room:
        return 0
    broken = [name.replace(" ", "\n") for name in names]
    size = 9 if max(_size(axes, name, 9)[0] for name in broken) <= room else 8
    if max(_size(axes, name, size)[0] for name in broken) > room:
        axes.set_xticks(range(len(names)), names, rotation=30, ha="right", rotation_mode="anchor")
        return 2
    axes.set_xticks(range(len(names)), broken, size=size)
    return max(name.count("\n") for name in broken)


def _bars(panel: Panel) -> list[tuple[float, float]]:
    """Where the bars stand that get a number, and how high they are."""
    each = GROUP / max(1, len(panel.bars))
    return [
        (at + (number - (len(panel.bars) - 1) / 2) * each, value)
        for number, one in enumerate(panel.bars)
        if not one.spread
        for at, value in enumerate(one.values)
        if value is not None
    ]


def _shown(axes: Axes, panel: Panel) -> tuple[list[str], float, bool]:
    """The numbers on bars, their size, and whether they have to stand upright."""
    values = [value for _, value in _bars(panel)]
    low, high = axes.get_xlim()
    room = 0.9 * axes.bbox.width / (high - low) * GROUP / len(panel.bars)
    full = list(map(short, values)) if panel.log else alike(values, 3)
    brief = alike(values, 2) if not panel.log and max(values) >= 1000 else full
    for words, size in product((full, brief), (_NUMBER, _NUMBER - 1)):
        if all(_size(axes, word, size)[0] < room for word in words):
            return words, size, False
    return full, _NUMBER, True


def _room(axes: Axes, panel: Panel) -> None:
    """Above the highest bar for its number, and below one that hangs."""
    there = _bars(panel)
    if not there or panel.top is not None:
        return
    words, size, upright = _shown(axes, panel)
    need = max(_size(axes, word, size)[0 if upright else 1] for word in words)
    share = (need + 0.06 * _dpi(axes)) / axes.bbox.height
    low, high = axes.get_ylim()
    least, most = min(v for _, v in there), max(v for _, v in there)
    high = max(high, most / (1 - share))
    if least < 0:
        low = min(low, (least - share * high) / (1 - share))
    axes.set_ylim(low, high)


def _numbers(axes: Axes, panel: Panel) -> None:
    there = _bars(panel)
    if not there:
        return
    words, size, upright = _shown(axes, panel)
    for (at, value), word in zip(there, words, strict=True):
        up = -2.0 if value < 0 else 2.0
        if value >= 0:
            high = _size(axes, word, size)[0 if upright else 1] * 72 / _dpi(axes)
            up = _above(axes, value, up, high, panel.levels)
        axes.annotate(
            word,
            (at, value),
            xytext=(0, up),
            textcoords="offset points",
            ha="center",
            va="top" if value < 0 else "bottom",
            rotation=90 if upright else 0,
            size=size,
            color=INK,
            bbox=_BOX,
            zorder=5,
        )


def _above(axes: Axes, value: float, up: float, high: float, levels: Sequence[Level]) -> float:
    """Points above a value at which words that are so high keep off the lines of levels."""
    for level in sorted(levels, key=lambda one: one.value):
        ends = axes.transData.transform([(0, value), (0, level.value)])
        line = float(ends[1][1] - ends[0][1]) * 72 / _dpi(axes)
        if up - 2 < line < up + high + 1:
            up = line + 2
    return up


def _spread(axes: Axes, levels: Sequence[Level]) -> None:
    """Names of levels, which are all that is written yet, as far from each other as they need."""
    named = sorted(zip(levels, axes.texts, strict=True), key=lambda one: one[0].value)
    places = [float(axes.transData.transform((0, level.value))[1]) for level, _ in named]
    least = _LEVEL * 1.2 / 72 * _dpi(axes)
    for (_, name), place, free in zip(named, places, apart(places, least), strict=True):
        name.set_position((4, (free - place) * 72 / _dpi(axes)))


def _marks(axes: Axes, marks: Sequence[Mark]) -> None:
    """Ticks hanging from the top, longer where they are named."""
    if not marks:
        return
    low, high = axes.get_xlim()
    unit = (high - low) / axes.bbox.width
    across: Any = axes.get_xaxis_transform()
    axes.vlines([m.at for m in marks], 0.94, 1.0, transform=across, color=INK, linewidth=0.9)
    gap = 0.04 * _dpi(axes) * unit
    widths = [_size(axes, mark.label, _MARK)[0] * unit + 2 * gap for mark in marks]
    places = placed(marks, widths, low, high)
    if any(place.row for place in places):
        _lower(axes)
    for place in places:
        top = 0.92 - 0.08 * place.row
        axes.text(
            place.mark.at - gap if place.left else place.mark.at + gap,
            top,
            place.mark.label,
            transform=across,
            size=_MARK,
            color=INK,
            ha="right" if place.left else "left",
            va="top",
        )
        axes.vlines([place.mark.at], top - 0.07, 1.0, transform=across, color=INK, linewidth=0.9)


def _lower(axes: Axes) -> None:
    """Room for a second row of words above what is drawn."""
    low, high = axes.get_ylim()
    axes.set_ylim(top=high * (high / low) ** 0.1 if axes.get_yscale() == "log" else 1.1 * high)
