"""Drawing figures with matplotlib, without a screen and without its global state."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.drawing import lettering
from penstock.drawing.figures import Figure, Line, Panel
from penstock.drawing.lettering import GREY, INK, short
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#8E5A9B", "#E69F00", "#56B4E9", "#4D4D4D")
"""Told apart by the colour-blind as well: Okabe and Ito's, the pale ones last."""

_PALE = "#E4E4E4"
_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "svg.hashsalt": "penstock",
    "svg.fonttype": "path",
}


def save(figure: Figure, base: Path) -> tuple[Path, Path]:
    """Draw a figure as PNG and SVG beside each other; any suffix of the path is replaced."""
    matplotlib, drawn, canvas = _library()
    rows = math.ceil(len(figure.panels) / figure.columns)
    with matplotlib.rc_context(_STYLE):
        sheet = drawn(figsize=(_width(figure), _height(figure, rows)), layout="constrained")
        canvas(sheet)
        sheet.get_layout_engine().set(h_pad=0.06, w_pad=0.08, hspace=0.02, wspace=0.04)
        sheet.suptitle(figure.title, x=0.012, ha="left", weight="bold", size=11, color=INK)
        grid = sheet.subplots(rows, figure.columns, squeeze=False)
        for number, panel in enumerate(figure.panels):
            row, column = divmod(number, figure.columns)
            below = number + figure.columns
            last = below >= len(figure.panels) or figure.panels[below].x != panel.x
            _draw(grid[row][column], panel, last)
        for spare in list(grid.flat)[len(figure.panels) :]:
            spare.set_axis_off()
        sheet.align_ylabels()
        if figure.note:
            sheet.supxlabel(figure.note, x=0.012, ha="left", size=7.5, color=GREY)
        _letter(sheet, list(zip(grid.flat, figure.panels, strict=False)), figure.columns)
        png, svg = base.with_suffix(".png"), base.with_suffix(".svg")
        sheet.savefig(png, dpi=150, metadata={"Software": None})
        sheet.savefig(svg, metadata={"Date": None, "Creator": None})
    return png, svg


def _letter(sheet: Any, drawn: list[tuple[Axes, Panel]], columns: int) -> None:
    """Words last, when it is known how wide and how high the panels are."""
    sheet.draw_without_rendering()
    boxes = [axes.get_tightbbox() or axes.bbox for axes, _ in drawn]
    edges = [float(box.x1) for box in boxes]
    right = [max(edges[at::columns]) for at in range(min(columns, len(drawn)))]
    lines = [lettering.head(*one, right[at % columns]) for at, one in enumerate(drawn)]
    more = sum(max(lines[at : at + columns]) for at in range(0, len(lines), columns))
    wide, high = sheet.get_size_inches()
    sheet.set_size_inches(wide, high + lettering.LINE * more)
    sheet.draw_without_rendering()
    for axes, panel in drawn:
        lettering.body(axes, panel)


def _library() -> tuple[Any, Any, Any]:
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Drawn
    except ImportError:
        raise PenstockError("pictures need matplotlib: pip install 'penstock[pictures]'") from None
    return matplotlib, Drawn, FigureCanvasAgg


def _width(figure: Figure) -> float:
    return 7.6 if figure.columns == 1 else min(11.5, 4.6 * figure.columns)


def _height(figure: Figure, rows: int) -> float:
    each = 3.1 if rows == 1 else 2.3
    return each * rows + 0.55 + (0.2 if figure.note else 0.0)


def _draw(axes: Axes, panel: Panel, last: bool) -> None:
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=_PALE, linewidth=0.8)
    axes.set_ylabel(panel.y)
    if last:
        axes.set_xlabel(panel.x)
    if panel.log:
        axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: short(value))
    axes.yaxis.set_minor_formatter(lambda value, _: "")
    few = _few(panel)
    for number in range(len(panel.lines)):
        _line(axes, panel, number, few)
    _bars(axes, panel)
    _limits(axes, panel)
    _ticks(axes, panel)
    lettering.levels(axes, panel.levels)


def _few(panel: Panel) -> bool:
    """Whether all lines have so few points that each is worth a dot."""
    most = max((len(line.x) for line in panel.lines), default=0)
    whole = all(x == round(x) for line in panel.lines for x in line.x)
    return most <= (30 if whole else 12)


def _ticks(axes: Axes, panel: Panel) -> None:
    """What is counted has no halves, and a few places are named themselves."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    if panel.log:
        low, high = axes.get_ylim()
        if low > 0 and high / low < 50:
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    elif all(v == round(v) for v in _values(panel)):
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins="auto"))
    places = sorted({x for line in panel.lines for x in line.x})
    if not places or panel.bars:
        return
    nearest = min((b - a for a, b in pairwise(places)), default=1.0)
    if len(places) <= 8 and nearest > 0.04 * (places[-1] - places[0]):
        axes.set_xticks(places, [f"{x:g}" for x in places])
    elif all(x == round(x) for x in places):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins="auto"))


_DASHES: tuple[Any, ...] = ((0, (5, 5)), (0, (2.5, 7.5)), (0, (1.2, 8.8)))
"""Where a line is over one, two or more others: each leaves something of those below to be seen."""


def _line(axes: Axes, panel: Panel, number: int, few: bool) -> None:
    line = panel.lines[number]
    tone = number if line.tone is None else line.tone
    look: dict[str, Any] = {"color": PALETTE[tone % len(PALETTE)]}
    if line.style == "points":
        look |= {"linestyle": "", "marker": "o", "markersize": 7, "mfc": "none", "mew": 1.3}
        axes.plot(line.x, _known(line.y), label=line.label, clip_on=False, **look)
        return
    look |= {"linewidth": 1.0 if line.faint else 1.7, "alpha": 0.55 if line.faint else 1.0}
    if line.style == "step":
        look["drawstyle"] = "steps-post"
    over = _over(panel, number)
    dot = "o" if few and line.style == "line" and not all(over) else None
    dashes = _DASHES[min(max(over, default=1), len(_DASHES)) - 1] if any(over) else "-"
    free = _stretch(line, [not one for one in over])
    axes.plot(line.x, _known(free), label=line.label, marker=dot, markersize=4, **look)
    if any(over):
        hidden = _stretch(line, [one > 0 for one in over])
        axes.plot(line.x, _known(hidden), linestyle=dashes, **look)


def _known(values: Iterable[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def _stretch(line: Line, parts: list[bool]) -> list[float | None]:
    """A line with only some of the parts between its points, and gaps elsewhere."""
    if not parts:
        return list(line.y)
    ends = zip([False, *parts], [*parts, False], line.y, strict=True)
    return [y if before or after else None for before, after, y in ends]


def _over(panel: Panel, number: int) -> list[int]:
    """For each part of a line, how many others it would hide there for a while."""
    line = panel.lines[number]
    parts = max(0, len(line.x) - 1)
    found = [0] * parts
    if line.faint:
        return found
    for other in panel.lines[:number]:
        if other.faint or other.style == "points":
            continue
        near = 0.012 * _span(panel)
        pairs = ((_at(other, x), y) for x, y in zip(line.x, line.y, strict=True))
        same = [_same(a, b, near, panel.log) for a, b in pairs]
        both = [a and b for a, b in pairwise(same)]
        begin = 0
        for shared, part in groupby(both):
            end = begin + len(list(part))
            if shared and end - begin > parts / 20:
                found[begin:end] = [one + 1 for one in found[begin:end]]
            begin = end
    return found


def _same(one: float | None, other: float | None, near: float, log: bool) -> bool:
    """Whether two values are as good as one in the picture."""
    if one is None or other is None:
        return False
    if log:
        return one > 0 < other and abs(math.log(one / other)) <= near
    return abs(one - other) <= near


def _span(panel: Panel) -> float:
    values = [v for v in _values(panel) if v > 0] or [1.0]
    return math.log(max(values) / min(values)) if panel.log else max(values)


def _at(line: Line, x: float) -> float | None:
    """A line at some place, None where it is not."""
    after = bisect_right(line.x, x)
    if not after or x > line.x[-1]:
        return None
    left = line.y[after - 1]
    if line.style == "step" or after == len(line.x) or line.x[after - 1] == x:
        return left
    right, begin, end = line.y[after], line.x[after - 1], line.x[after]
    if left is None or right is None:
        return None
    return left + (right - left) * (x - begin) / (end - begin)


def _bars(axes: Axes, panel: Panel) -> None:
    if not panel.bars:
        return
    width = lettering.GROUP / len(panel.bars)
    for number, one in enumerate(panel.bars):
        shift = (number - (len(panel.bars) - 1) / 2) * width
        spread = one.spread or (None,) * len(one.values)
        there = [(i + shift, v, s) for i, (v, s) in enumerate(zip(one.values, spread, strict=True))
                 if v is not None]  # fmt: skip
        tone = number if one.tone is None else one.tone
        axes.bar(
            [x for x, _, _ in there],
            [v for _, v, _ in there],
            width * 0.92,
            color=PALETTE[tone % len(PALETTE)],
            hatch="///" if tone >= len(PALETTE) else None,
            edgecolor="white",
            linewidth=0.0,
            label=one.label,
            yerr=[s or 0.0 for _, _, s in there] if one.spread else None,
            error_kw={"ecolor": INK, "elinewidth": 0.9, "capsize": 2},
        )
    axes.set_xticks(range(len(panel.categories)), panel.categories)
    axes.tick_params(axis="x", length=0)


def _limits(axes: Axes, panel: Panel) -> None:
    """From zero, with room for levels; as wide as the lines are."""
    if panel.log:
        values = [v for v in (*_values(panel), *(x.value for x in panel.levels)) if v > 0]
        if values and panel.top is None:
            room = (max(values) / min(values)) ** 0.3 if panel.marks else 1.0
            axes.set_ylim(min(values) / 1.6, max(values) * max(2.0, room))
    else:
        highest = max((*_values(panel), *(level.value for level in panel.levels)), default=1.0)
        lowest = min((0.0, *_values(panel)))
        axes.set_ylim(lowest * 1.08, (highest or 1.0) * (1.3 if panel.marks else 1.1))
    if panel.top is not None:
        axes.set_ylim(top=panel.top)
    ends = [x for line in panel.lines for x in line.x]
    if ends and min(ends) < max(ends):
        room = 0.03 if any(line.style == "points" for line in panel.lines) else 0.01
        wide = max(ends) - min(ends)
        axes.set_xlim(min(ends) - room * wide, max(ends) + room * wide)


def _values(panel: Panel) -> list[float]:
    shown: Iterable[float | None] = (
        *(y for line in panel.lines for y in line.y),
        *(v for one in panel.bars for v in one.values),
    )
    return [v for v in shown if v is not None and math.isfinite(v)]
